//! Requests from their clients' side: sent, turned away, given up, sent again, followed by others.

use super::Sim;
use crate::agenda::Event;
use crate::inbox::Asked;
use crate::replica::Withdrawn;
use crate::request::{Fate, Leaving, Request, NOWHERE};
use crate::router::Ask;
use crate::time::NEVER;

impl Sim {
    /// The next request of the inbox arrives.
    pub(super) fn arrive(&mut self, t: u64) {
        let asked = self.inbox.take();
        self.horizon.next_arrival_ns = self.next_arrival_ns();
        self.send(asked, t);
        self.horizon.next_arrival_ns = 0;
    }

    /// A client sends a request: it is offered.
    pub(super) fn send(&mut self, asked: Asked, t: u64) {
        let is_head = self.inbox.sent(asked.row, t);
        let in_span = self.clock.in_span(t);
        let clock = &self.clock;
        let meter = &mut self.classes[usize::from(asked.class)];
        meter.add_offered(clock, t, in_span, asked.input_tokens, asked.output_tokens);
        if is_head && self.is_task(&asked) {
            self.classes[usize::from(asked.class)].add_chain(t, in_span);
        }
        let slot = self.slab.insert(Request::new(&asked, in_span, t));
        if self.has_caches {
            self.slab.set_hashes(slot, self.hashes.of(asked.row));
        }
        self.stamp(slot);
        self.dispatch(slot, t);
    }

    /// The router sends a request to a replica.
    pub(super) fn dispatch(&mut self, slot: u32, t: u64) {
        let request = &self.slab[slot];
        let ask = Ask { asked: request.asked(), attempt: request.attempt, prefix: self.slab.first_hash(slot) };
        let Some(replica) = self.router.choose(&ask, &self.deployments) else {
            self.turn_away(slot, t);
            return;
        };
        if self.replicas.len() >= super::MANY_REPLICAS {
            if let Some(next) = self.router.likely() {
                self.replicas[next as usize].fetch_for_arrival();
            }
        }
        let deployment = &self.deployments[self.deployment_of[replica as usize] as usize];
        let request = &mut self.slab[slot];
        (request.replica, request.sent_ns) = (replica, t);
        let at_end = request.kv_tokens_at_end();
        let takes_over = |&d: &usize| at_end <= self.deployments[d].model.max_sequence_tokens();
        if deployment.tokens_at_end(request) > deployment.model.max_sequence_tokens()
            || !deployment.decode_targets.iter().all(takes_over)
        {
            self.router.ended(replica, request.input_tokens, false);
            self.fail(slot, t, Fate::Rejected);
            return;
        }
        request.window_blocks = deployment.window_blocks(request) as u32;
        if let Some(&away) = self.spec.classes[usize::from(request.class)].round_trip_ns.get(deployment.pool) {
            request.set_round_trip_ns(away);
        }
        if let Some(after) = self.spec.classes[usize::from(request.class)].timeout_ns {
            let event = Event::TimesOut { row: request.row, slot, stamp: request.stamp };
            self.agenda.set(t.saturating_add(after), event);
        }
        if deployment.has_cache {
            self.slab.chain_mut(slot).leave();
        }
        let next = self.at_desk(replica, |replica, desk| replica.arrive(slot, t, desk));
        if next == t && self.is_nothing_else_at(t) {
            self.wake(t, replica); // what would come next anyway
        } else {
            self.queue.set(replica, next);
        }
    }

    /// Before this no request comes, if that is known; requests that follow others are not known before.
    fn next_arrival_ns(&mut self) -> u64 {
        match self.inbox.next_ns() {
            _ if self.inbox.has_chains() => 0,
            Some(next) => next,
            None if self.is_fed => NEVER,
            None => 0,
        }
    }

    fn is_nothing_else_at(&mut self, t: u64) -> bool {
        let arrival = self.inbox.next_ns().unwrap_or(if self.is_fed { NEVER } else { t });
        let agenda = self.agenda.next_ns().unwrap_or(NEVER);
        arrival.min(agenda).min(self.queue.peek().map_or(NEVER, |(due, _)| due)) > t
    }

    /// After a boundary of `replica`: what ended, was handed over, or left there.
    pub(super) fn heed(&mut self, replica: u32, t: u64) {
        for at in 0..self.notes.first_tokens.len() {
            let request = &self.slab[self.notes.first_tokens[at]];
            if request.leaving == Leaving::Stays {
                self.router.first_token(replica, request.input_tokens);
            }
        }
        self.notes.first_tokens.clear();
        for at in 0..self.ended.len() {
            let (slot, end_ns) = self.ended[at];
            if self.slab[slot].leaving != Leaving::Stays {
                self.let_go(slot);
                continue;
            }
            self.router.ended(replica, self.slab[slot].input_tokens, true);
            self.complete(slot, end_ns);
        }
        self.ended.clear();
        for at in 0..self.notes.gone.len() {
            self.let_go(self.notes.gone[at]);
        }
        self.notes.gone.clear();
        self.hand_over(replica, t);
    }

    fn complete(&mut self, slot: u32, end_ns: u64) {
        if self.spec.keep_requests {
            let request = self.slab[slot].clone();
            self.keep_row(&request, Fate::Completed, end_ns);
        }
        let request = &self.slab[slot];
        if !self.inbox.has_chains() {
            self.slab.remove(slot);
            return;
        }
        let (row, class, has_session, replica) =
            (request.row, usize::from(request.class), request.session.is_some(), request.replica);
        let heard_ns = end_ns.saturating_add(request.round_trip_ns());
        self.slab.remove(slot);
        if let Some(begin_ns) = self.inbox.ended(row, true) {
            let is_task = has_session && self.clock.in_span(begin_ns) && !self.spec.classes[class].chains_go_on;
            if is_task {
                let pool = self.deployments[self.deployment_of[replica as usize] as usize].pool;
                self.classes[class].add_task(pool, begin_ns, heard_ns - begin_ns);
            }
        }
        self.follow(row, heard_ns);
    }

    /// The client of a request without its first token gives up, and perhaps tries again.
    pub(super) fn times_out(&mut self, slot: u32, t: u64) {
        let request = &self.slab[slot];
        if request.generated > 0 {
            return;
        }
        match self.wait_ns(request) {
            Some(wait) => {
                let new = self.slab.insert(self.slab[slot].again());
                self.slab.copy_hashes(slot, new);
                self.part(slot, t, Leaving::Again);
                self.try_again(new, t, wait);
            }
            None => self.give_up(slot, t, Fate::TimedOut),
        }
    }

    /// The client of a request goes away.
    pub(super) fn is_cancelled(&mut self, slot: u32, t: u64) {
        self.give_up(slot, t, Fate::Cancelled);
    }

    /// A request ends without having been completed, wherever it is.
    fn give_up(&mut self, slot: u32, t: u64, fate: Fate) {
        if self.slab[slot].replica == NOWHERE {
            self.fail(slot, t, fate);
            return;
        }
        let request = self.slab[slot].clone();
        self.classes[usize::from(request.class)].add_failed(&self.clock, t, request.in_span(), fate);
        self.part(slot, t, Leaving::Ends(fate));
        self.break_chain(request.row, request.class, t);
    }

    /// A request and its replica part; the replica lets go of it at once or at its next boundary.
    pub(super) fn part(&mut self, slot: u32, t: u64, leaving: Leaving) {
        let request = &mut self.slab[slot];
        request.leaving = leaving;
        request.stamp = u64::MAX;
        let replica = request.replica;
        self.router.ended(replica, request.input_tokens, request.generated > 0);
        let (how, next) = self.at_desk(replica, |replica, desk| replica.withdraw(slot, t, desk));
        if let Some(next) = next {
            self.queue.set(replica, next);
        }
        self.release_source(slot, t);
        if how == Withdrawn::Now {
            self.let_go(slot);
        }
    }

    /// A request that left its replica is forgotten.
    pub(super) fn let_go(&mut self, slot: u32) {
        if let Leaving::Ends(fate) = self.slab[slot].leaving {
            let request = self.slab[slot].clone();
            self.keep_row(&request, fate, NEVER);
        }
        self.slab.remove(slot);
    }

    /// A request that is on no replica is refused: its client tries again, or that is its end.
    pub(super) fn turn_away(&mut self, slot: u32, t: u64) {
        match self.wait_ns(&self.slab[slot]) {
            Some(wait) => {
                self.slab[slot] = self.slab[slot].again();
                self.try_again(slot, t, wait);
            }
            None => self.fail(slot, t, Fate::Rejected),
        }
    }

    /// The wait before the next retry, if there is one.
    fn wait_ns(&self, request: &Request) -> Option<u64> {
        let retries = self.spec.classes[usize::from(request.class)].retries?;
        (request.attempt < retries.n).then(|| retries.wait_ns(request.attempt))
    }

    /// A request is sent again after `wait` nanoseconds.
    pub(super) fn try_again(&mut self, slot: u32, t: u64, wait: u64) {
        self.stamp(slot);
        let request = &self.slab[slot];
        let (class, in_span) = (usize::from(request.class), request.in_span());
        let event = Event::IsSentAgain { row: request.row, slot, stamp: request.stamp };
        self.classes[class].add_retried(&self.clock, t, in_span);
        self.agenda.set(t.saturating_add(wait), event);
    }

    /// A request that is on no replica ends without having been completed.
    fn fail(&mut self, slot: u32, t: u64, fate: Fate) {
        let request = self.slab[slot].clone();
        self.slab.remove(slot);
        self.classes[usize::from(request.class)].add_failed(&self.clock, t, request.in_span(), fate);
        self.keep_row(&request, fate, NEVER);
        self.break_chain(request.row, request.class, t);
    }

    /// The run is over and a request is still there.
    pub(super) fn is_left(&mut self, slot: u32) {
        let request = self.slab[slot].clone();
        match request.leaving {
            Leaving::Stays => {
                self.classes[usize::from(request.class)].add_failed(
                    &self.clock,
                    self.now_ns,
                    request.in_span(),
                    Fate::Unfinished,
                );
                self.keep_row(&request, Fate::Unfinished, NEVER);
            }
            Leaving::Ends(fate) => self.keep_row(&request, fate, NEVER),
            Leaving::Again | Leaving::IsGone => {}
        }
    }

    /// What follows `row` is set to be sent, if the run's length is not over by then.
    fn follow(&mut self, row: u64, t: u64) {
        for (next, delay) in self.inbox.after(row) {
            let at = t.saturating_add(delay);
            if at <= self.spec.length_ns {
                self.n_to_send += 1;
                self.agenda.set(at, Event::IsSent { row: next });
            } else {
                self.cut_chain(next);
            }
        }
    }

    /// `row` would be sent after the run's length: its chain is no task.
    fn cut_chain(&mut self, row: u64) {
        let Some((head, sent_ns)) = self.inbox.cut(row) else { return };
        let first = self.inbox.asked(head);
        if self.is_task(&first) {
            self.classes[usize::from(first.class)].cut_chain(sent_ns, self.clock.in_span(sent_ns));
        }
    }

    /// Whether a chain that begins with `first` is a task.
    fn is_task(&self, first: &Asked) -> bool {
        first.session.is_some() && !self.spec.classes[usize::from(first.class)].chains_go_on
    }

    /// `row` failed at `t`: what follows it goes on, or counts as offered and cancelled at once.
    fn break_chain(&mut self, row: u64, class: u16, t: u64) {
        self.inbox.ended(row, false);
        if self.spec.classes[usize::from(class)].chains_go_on {
            self.follow(row, t);
            return;
        }
        if t > self.spec.length_ns {
            return;
        }
        let mut rest: Vec<u64> = self.inbox.after(row).into_iter().map(|(next, _)| next).collect();
        while let Some(next) = rest.pop() {
            let asked = self.inbox.asked(next);
            let in_span = self.clock.in_span(t);
            let request = Request::new(&asked, in_span, t);
            let meter = &mut self.classes[usize::from(asked.class)];
            meter.add_offered(&self.clock, t, in_span, asked.input_tokens, asked.output_tokens);
            meter.add_failed(&self.clock, t, in_span, Fate::Cancelled);
            self.keep_row(&request, Fate::Cancelled, NEVER);
            self.inbox.ended(next, false);
            rest.extend(self.inbox.after(next).into_iter().map(|(after, _)| after));
        }
    }

    /// Number a sending, and set when its client goes away.
    fn stamp(&mut self, slot: u32) {
        self.next_stamp += 1;
        let request = &mut self.slab[slot];
        request.stamp = self.next_stamp;
        if let Some(after) = self.spec.classes[usize::from(request.class)].cancel_after_ns {
            let event = Event::IsCancelled { row: request.row, slot, stamp: request.stamp };
            self.agenda.set(request.arrival_ns.saturating_add(after), event);
        }
    }

    pub(super) fn is_current(&self, slot: u32, stamp: u64) -> bool {
        let request = &self.slab[slot];
        request.stamp == stamp && request.leaving != Leaving::IsGone
    }
}

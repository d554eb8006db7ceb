//! Boundaries that are worked through before their time, where nobody can tell: a prompt's step is counted when it
//! begins, and the steps behind it are formed at once, so that a request costs two events and not four.
//!
//! What such a boundary does shows outside only if a sequence ends there. A request that comes before it is only what the
//! step behind it has not seen yet: that step is then formed once more, at its time, with the same result as if it had
//! been formed only then. Whoever was let in stays in, in the same order, and chunks are dealt out anew.

use super::{Desk, Replica};
use crate::spec::Role;

/// How far a replica may work ahead.
#[derive(Debug, Clone, Copy)]
pub struct Horizon {
    /// It may at all: no client gives up, no replica fails, nothing is handed over, and nobody watches steps.
    pub is_open: bool,
    /// The run is cut off here.
    pub deadline_ns: u64,
    /// No request comes before, to any replica.
    pub next_arrival_ns: u64,
    /// At this instant, replicas with smaller numbers have had their turn.
    pub turns: u32,
}

impl Replica {
    /// Whether the step under way, formed early, has not begun when a request arrives at `now`.
    fn is_unbegun(&self, now: u64, desk: &Desk<'_>) -> bool {
        let is_before = |anchor| now < anchor || (now == anchor && desk.horizon.turns <= desk.number);
        self.running.as_ref().is_some_and(|run| run.is_early && is_before(run.anchor_ns))
    }

    /// When this replica next looks at what has arrived by `now`: at the next boundary, at once with nothing to do.
    pub(super) fn next_look(&self, now: u64, desk: &Desk<'_>) -> u64 {
        match &self.running {
            None => now,
            Some(run) if self.is_unbegun(now, desk) => run.anchor_ns,
            Some(run) => run.end_of(run.next_boundary(now)),
        }
    }

    /// A request that can join has arrived at `now`, and the step under way has not begun: it is formed anew at its time.
    pub(super) fn reopen(&mut self, now: u64, desk: &Desk<'_>) -> Option<u64> {
        if !self.is_unbegun(now, desk) {
            return None;
        }
        self.is_calm = false;
        let run = self.running.as_mut()?;
        run.planned = 0;
        Some(run.anchor_ns)
    }

    /// A step with prompts has been formed, which ends at `end`: work through that boundary now, if it may be. Returns
    /// when this replica next needs attention.
    pub(super) fn run_ahead(&mut self, end: u64, desk: &mut Desk<'_>) -> u64 {
        let horizon = desk.horizon;
        let may = horizon.is_open && end <= horizon.deadline_ns && !desk.deployment.is_ahead;
        let is_prompt = self.running.as_ref().is_some_and(|run| run.is_alone && run.planned == 1);
        if !may || !is_prompt || desk.chunks.is_empty() || self.has_resumed(desk.deployment) {
            return end;
        }
        // Few arrivals came during the last such step, so it is worth it.
        if !std::mem::replace(&mut self.is_calm, true) || self.is_end_ahead(desk) {
            return end;
        }
        self.count_steps(1, end, desk);
        self.pass_kinks(desk.slab);
        self.take_chunks(end, desk);
        let next = if self.next_blocks(desk.slab) > self.blocks.free() {
            // Somebody is driven out there, which has its time.
            if let Some(run) = &mut self.running {
                (run.anchor_ns, run.done, run.done_ns, run.planned) = (end, 0, end, 0);
            }
            Some(end)
        } else {
            self.form_step(end, true, desk)
        };
        if let Some(run) = &mut self.running {
            run.is_early = true;
        }
        next.unwrap_or(end)
    }

    /// Whether anything ends with the step under way.
    fn is_end_ahead(&self, desk: &Desk<'_>) -> bool {
        let to = self.counter + self.pace.tokens(1);
        let is_last = |slot: u32| {
            let request = &desk.slab[slot];
            request.prefilled + request.chunk == request.target
                && (request.generated + 1 == request.output_tokens || desk.deployment.role == Role::Prefill)
        };
        self.decoding.first().is_some_and(|(end, _)| end <= to) || self.prefilling.iter().any(is_last)
    }

    /// A request that can join arrives at `now`, during steps without prompts: if no other can come before the step under
    /// way ends, form the one after it now. Returns when this replica next needs attention.
    pub(super) fn join_early(&mut self, now: u64, desk: &mut Desk<'_>) -> Option<u64> {
        let run = self.running.as_ref()?;
        let horizon = desk.horizon;
        if !horizon.is_open || desk.deployment.is_ahead || run.is_alone || horizon.next_arrival_ns <= now {
            return None;
        }
        let boundary = run.next_boundary(now);
        let end = run.end_of(boundary);
        if boundary >= run.planned || end >= horizon.next_arrival_ns.min(horizon.deadline_ns) {
            return None;
        }
        self.count_steps(boundary, end, desk);
        let next = self.form_step(end, false, desk)?;
        Some(self.run_ahead(next, desk))
    }
}

//! Steps that are formed one ahead: while a step runs, the next one is formed already, as engines do to keep the chip
//! busy. Who arrives or ends is seen at the end of a step, and shows in the step after the next.

use super::{Desk, Replica};
use crate::placed::Deployment;
use crate::prefix::NONE;

/// What a replica knows late.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// When the step that just ended had begun: what arrived later has not been seen.
    seen_ns: u64,
    /// Sequences that ended with the last step, whose places and blocks are not free yet: their own blocks, and what
    /// they hold of the cache.
    ended: Vec<(u64, u32)>,
}

impl Replica {
    /// Places that are not free yet.
    pub(super) fn n_leaving(&self, deployment: &Deployment) -> u64 {
        if deployment.is_ahead {
            self.seldom.ahead.ended.len() as u64
        } else {
            0
        }
    }

    /// A request is at the end of the queue or in its place; see `arrive`.
    pub(super) fn arrive_ahead(&mut self, slot: u32, now: u64, desk: &mut Desk<'_>) -> u64 {
        let is_next = self.waiting.front() == Some(slot);
        let request = &mut desk.slab[slot];
        let Some(run) = &mut self.running else {
            request.seen_ns = now;
            return now;
        };
        let boundary = run.next_boundary(now);
        request.seen_ns = run.end_of(boundary);
        if !run.is_alone && is_next {
            run.planned = run.planned.min(boundary + 1);
        }
        run.end()
    }

    /// A step is done: what was seen when it began is known now, and what had ended by then has gone.
    pub(super) fn look_back(&mut self, is_ahead: bool) {
        if !is_ahead {
            return;
        }
        if let Some(run) = &self.running {
            self.seldom.ahead.seen_ns = run.end_of(run.done.saturating_sub(1));
        }
        self.let_leave();
    }

    /// With nothing left to run, there is nothing to be ahead of.
    pub(super) fn look_up_if_idle(&mut self, now: u64, is_ahead: bool) {
        if is_ahead && self.prefilling.is_empty() && self.decoding.is_empty() {
            self.seldom.ahead.seen_ns = now;
            self.let_leave();
        }
    }

    /// Has the request in `slot` been seen?
    pub(super) fn is_seen(&self, slot: u32, desk: &Desk<'_>) -> bool {
        !desk.deployment.is_ahead || desk.slab[slot].sent_ns <= self.seldom.ahead.seen_ns
    }

    /// Whether the next boundary may change something that this one could not.
    pub(super) fn is_behind(&self, desk: &Desk<'_>) -> bool {
        desk.deployment.is_ahead
            && (!self.seldom.ahead.ended.is_empty()
                || self.waiting.front().is_some_and(|slot| !self.is_seen(slot, desk)))
    }

    /// A sequence of `tokens` tokens has ended: it gives its blocks back, one step late where steps are formed ahead.
    pub(super) fn retire(&mut self, slot: u32, tokens: u64, desk: &mut Desk<'_>) {
        if !desk.deployment.is_ahead {
            self.release(slot, tokens, 0, desk);
            return;
        }
        let request = &desk.slab[slot];
        if desk.policy.has_caps {
            self.seldom.n_running_of[usize::from(request.class)] -= 1;
        }
        let own = self.blocks.blocks_of(tokens) + u64::from(request.window_blocks) - request.shared_blocks;
        let deepest = if self.blocks.cache.is_some() { desk.slab.chain_mut(slot).leave().0 } else { NONE };
        self.seldom.ahead.ended.push((own, deepest));
    }

    /// Sequences that ended give their places and blocks back.
    pub(super) fn let_leave(&mut self) {
        for &(own, deepest) in &self.seldom.ahead.ended {
            self.blocks.give(own);
            self.blocks.let_go(deepest);
        }
        self.seldom.ahead.ended.clear();
    }
}

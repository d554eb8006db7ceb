//! Requests that leave before their end: their client has gone, or the replica fails.

use super::{Desk, Replica};

/// What became of a request that should leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawn {
    /// It had no blocks and is gone.
    Now,
    /// It runs, and leaves at the end of the step under way.
    AtBoundary,
}

impl Replica {
    /// The client of `slot` has gone at `now`; also says when this replica next needs attention, if that changes.
    pub fn withdraw(&mut self, slot: u32, now: u64, desk: &mut Desk<'_>) -> (Withdrawn, Option<u64>) {
        let is_more = if self.waiting.remove(slot) {
            self.abandon(slot, desk);
            self.waiting.len() > 0
        } else if let Some(at) = self.seldom.handover.incoming.iter().position(|&other| other == slot) {
            self.seldom.handover.incoming.remove(at);
            !self.seldom.handover.incoming.is_empty()
        } else {
            self.seldom.parting.push(slot);
            return (Withdrawn::AtBoundary, Some(self.next_boundary(now)));
        };
        // Whoever was held up behind it may be let in.
        (Withdrawn::Now, is_more.then(|| self.next_boundary(now)))
    }

    /// A waiting request was driven out before: nobody asks for what it left behind.
    fn abandon(&mut self, slot: u32, desk: &mut Desk<'_>) {
        let request = &mut desk.slab[slot];
        self.blocks.take_own(request.own_entry, request.row, true);
        if request.is_swapped() {
            let blocks = self.blocks.blocks_of(u64::from(request.target)) + u64::from(request.window_blocks);
            self.blocks.host.swap_in(blocks);
        }
    }

    /// When the step under way ends, which the stretch now ends with; an idle replica has its boundary at once.
    pub(super) fn next_boundary(&mut self, now: u64) -> u64 {
        let Some(run) = &mut self.running else { return now };
        if !run.is_alone {
            run.planned = run.planned.min(run.next_boundary(now));
        }
        run.end()
    }

    /// At a boundary: those whose client has gone leave, unless they have ended; true if one left.
    pub(super) fn let_go(&mut self, desk: &mut Desk<'_>) -> bool {
        let mut is_changed = false;
        while let Some(slot) = self.seldom.parting.pop_first() {
            if desk.ended.iter().any(|&(ended, _)| ended == slot) {
                continue;
            }
            if self.decoding.remove(slot) {
                let held = self.stop_decoding(slot, desk);
                self.release(slot, held, 0, desk);
                is_changed = true;
            } else {
                self.prefilling.retain(|other| other != slot);
                for list in [&mut self.seldom.handover.moving, &mut self.seldom.handover.ready] {
                    list.retain(|&other| other != slot);
                }
                let request = &mut desk.slab[slot];
                request.admission = u64::MAX;
                let target = u64::from(request.target);
                self.reserved_tokens -= target;
                self.release(slot, target, 0, desk);
            }
            desk.notes.gone.push(slot);
        }
        is_changed
    }

    /// The replica fails at `now`: a step that has not ended by then never will. All its requests, as they are lost.
    pub fn fail(&mut self, now: u64, desk: &mut Desk<'_>) -> Vec<u32> {
        if let Some(run) = &self.running {
            if !run.is_alone && now > 0 {
                let done = run.steps_done(run.done, run.planned, now - 1);
                let done_ns = run.end_of(done);
                self.count_steps(done, done_ns, desk);
            }
        }
        self.count_generated(desk);
        if desk.policy.has_gaps {
            for slot in self.decoding.slots() {
                self.keep_longest_gap(&mut desk.slab[slot]);
            }
        }
        let mut lost: Vec<u32> = self.decoding.slots().chain(self.prefilling.iter()).collect();
        lost.append(&mut self.seldom.handover.moving);
        lost.append(&mut self.seldom.handover.ready);
        lost.extend(self.seldom.handover.incoming.drain(..));
        lost.append(&mut self.waiting.drain());
        for &slot in &lost {
            desk.slab[slot].admission = u64::MAX;
        }
        *self = Self::new(desk.deployment, desk.policy);
        lost
    }
}

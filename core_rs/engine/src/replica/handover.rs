//! Handing over between replicas: prompts that a decode replica takes over, and what a prefill replica holds for them.

use std::collections::VecDeque;

use super::{Desk, Replica};

/// Requests on their way from a prefill replica. On a replica of another role all of it stays empty.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// To be let in, in order; no blocks here yet.
    pub incoming: VecDeque<u32>,
    /// Let in, with blocks; their keys and values are on the way.
    pub moving: Vec<u32>,
    /// Arrived; they decode from the next boundary on.
    pub ready: Vec<u32>,
    /// Decode, and have not got a token here yet.
    pub newcomers: Vec<u32>,
    /// Prefill: (blocks, tokens) that have arrived elsewhere and are given back at the next boundary.
    pub releases: Vec<(u64, u64)>,
}

impl Handover {
    /// Requests that have blocks and no step.
    pub fn n_held(&self) -> usize {
        self.moving.len() + self.ready.len()
    }
}

impl Replica {
    /// A prefill replica hands a request over at `now`. Returns when this replica next needs attention.
    pub fn expect(&mut self, slot: u32, now: u64) -> u64 {
        self.handover.incoming.push_back(slot);
        self.next_boundary(now)
    }

    /// The keys and values of a request have arrived at `now`. Returns when this replica next needs attention.
    pub fn deliver(&mut self, slot: u32, now: u64) -> u64 {
        self.handover.moving.retain(|&other| other != slot);
        self.handover.ready.push(slot);
        self.next_boundary(now)
    }

    /// A prompt need not be held any more. Returns when this replica next needs attention.
    pub fn release(&mut self, blocks: u64, tokens: u64, now: u64) -> u64 {
        self.handover.releases.push((blocks, tokens));
        self.next_boundary(now)
    }

    /// At a boundary: give back what was released and decode what has arrived; true if a sequence joined.
    pub(super) fn take_over(&mut self, desk: &mut Desk<'_>) -> bool {
        for (blocks, tokens) in std::mem::take(&mut self.handover.releases) {
            self.blocks.give(blocks);
            self.reserved_tokens -= tokens;
        }
        let ready = std::mem::take(&mut self.handover.ready);
        for &slot in &ready {
            let request = &desk.slab[slot];
            let (class, in_span) = (usize::from(request.class), request.in_span);
            self.reserved_tokens -= u64::from(request.target);
            self.start_decoding(slot, desk);
            // Its first gap is no step: it is counted by itself.
            self.n_decoding_in_span[class] -= u64::from(in_span);
            self.handover.newcomers.push(slot);
        }
        !ready.is_empty()
    }

    /// At a boundary: let handed-over requests in, in order, while there are blocks and places.
    pub(super) fn let_in(&mut self, desk: &mut Desk<'_>) {
        let reserve = self.blocks.needed_at(self.counter);
        while let Some(&slot) = self.handover.incoming.front() {
            let request = &mut desk.slab[slot];
            let blocks = self.blocks.blocks_of(u64::from(request.target)) + request.window_blocks;
            if self.n_running() >= desk.deployment.max_batch || blocks + reserve > self.blocks.free() {
                return;
            }
            self.handover.incoming.pop_front();
            self.blocks.take(blocks);
            self.reserved_tokens += u64::from(request.target);
            request.admission = *desk.next_admission;
            *desk.next_admission += 1;
            self.handover.moving.push(slot);
            desk.notes.moved.push(slot);
        }
    }

    /// The first step of the newcomers has ended at `now`.
    pub(super) fn greet(&mut self, now: u64, desk: &mut Desk<'_>) {
        for slot in std::mem::take(&mut self.handover.newcomers) {
            let request = &mut desk.slab[slot];
            let gap = now - request.last_token_ns;
            request.longest_gap_ns = request.longest_gap_ns.max(gap);
            if request.in_span {
                desk.classes[usize::from(request.class)].add_gap(desk.deployment.pool, gap);
                self.n_decoding_in_span[usize::from(request.class)] += 1;
            }
        }
    }

    /// A newcomer is driven out before its first step; true if it was one.
    pub(super) fn forget_newcomer(&mut self, slot: u32, desk: &Desk<'_>) -> bool {
        let Some(at) = self.handover.newcomers.iter().position(|&other| other == slot) else { return false };
        self.handover.newcomers.remove(at);
        let request = &desk.slab[slot];
        self.n_decoding_in_span[usize::from(request.class)] += u64::from(request.in_span);
        true
    }
}

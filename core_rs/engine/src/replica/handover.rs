//! Handing over between replicas: prompts that a decode replica takes over, and what a prefill replica holds for them.

use std::collections::VecDeque;

use super::{Desk, Replica};
use crate::prefix::NONE;

/// What a prefill replica holds of a request that was handed over.
#[derive(Debug)]
pub(super) struct Held {
    slot: u32,
    tokens: u64,
    own_blocks: u64,
    /// What it holds of its prefix cache.
    deepest: u32,
}

/// Requests on their way from a prefill replica.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// To be let in, in order; no blocks here yet.
    pub incoming: VecDeque<u32>,
    /// Let in, with blocks; their keys and values are on the way.
    pub moving: Vec<u32>,
    /// Arrived; they decode from the next boundary on.
    pub ready: Vec<u32>,
    /// Prefill: what was handed over and has not arrived, and what has and is given back at the next boundary.
    held: Vec<Held>,
    arrived: Vec<Held>,
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
        self.seldom.handover.incoming.push_back(slot);
        self.next_boundary(now)
    }

    /// The keys and values of a request have arrived at `now`. Returns when this replica next needs attention.
    pub fn deliver(&mut self, slot: u32, now: u64) -> u64 {
        self.seldom.handover.moving.retain(|&other| other != slot);
        self.seldom.handover.ready.push(slot);
        self.next_boundary(now)
    }

    /// What was handed over need not be held any more. Returns when this replica next needs attention.
    pub fn let_arrive(&mut self, slot: u32, now: u64) -> u64 {
        if let Some(at) = self.seldom.handover.held.iter().position(|held| held.slot == slot) {
            let held = self.seldom.handover.held.remove(at);
            self.seldom.handover.arrived.push(held);
        }
        self.next_boundary(now)
    }

    /// The prompt in `slot` is done, and its decode replica is still to be found: hold it.
    pub(super) fn hand_over(&mut self, slot: u32, desk: &mut Desk<'_>) {
        let request = &mut desk.slab[slot];
        let tokens = u64::from(request.target);
        self.reserved_tokens += tokens;
        let own_blocks = self.blocks.blocks_of(tokens) + u64::from(request.window_blocks) - request.shared_blocks;
        (request.shared_blocks, request.own_entry, request.admission) = (0, NONE, u64::MAX);
        if desk.policy.has_caps {
            self.seldom.n_running_of[usize::from(request.class)] -= 1;
        }
        let has_cache = self.blocks.cache.is_some();
        let deepest = if has_cache { desk.slab.chain_mut(slot).leave().0 } else { NONE };
        self.seldom.handover.held.push(Held { slot, tokens, own_blocks, deepest });
        desk.notes.handed.push(slot);
    }

    /// At a boundary: give back what has arrived elsewhere and decode what has arrived here; true if a sequence joined.
    pub(super) fn take_over(&mut self, desk: &mut Desk<'_>) -> bool {
        for held in std::mem::take(&mut self.seldom.handover.arrived) {
            self.reserved_tokens -= held.tokens;
            self.blocks.give(held.own_blocks);
            self.blocks.let_go(held.deepest);
        }
        let ready = std::mem::take(&mut self.seldom.handover.ready);
        for &slot in &ready {
            let request = &desk.slab[slot];
            let (class, in_span) = (request.class, request.in_span());
            self.reserved_tokens -= u64::from(request.target);
            self.start_decoding(slot, desk);
            // Its first gap is no step: it is counted by itself.
            self.n_decoding_in_span.take(class, in_span);
            self.seldom.resumed.push(slot);
        }
        !ready.is_empty()
    }

    /// At a boundary: let handed-over requests in, in order, while there are blocks and places.
    pub(super) fn let_in(&mut self, desk: &mut Desk<'_>) {
        while let Some(&slot) = self.seldom.handover.incoming.front() {
            let request = &desk.slab[slot];
            let blocks = self.blocks.blocks_of(u64::from(request.target)) + u64::from(request.window_blocks);
            let spare = if self.n_running(desk.deployment) + self.n_leaving(desk.deployment) > 0 {
                desk.deployment.watermark_blocks
            } else {
                0
            };
            let reserve = self.next_blocks(desk.slab) + spare;
            if !self.has_place(slot, desk) || blocks + reserve > self.blocks.free() {
                return;
            }
            self.seldom.handover.incoming.pop_front();
            self.blocks.take(blocks);
            let request = &mut desk.slab[slot];
            self.reserved_tokens += u64::from(request.target);
            request.admission = *desk.next_admission;
            *desk.next_admission += 1;
            if desk.policy.has_caps {
                self.seldom.n_running_of[usize::from(request.class)] += 1;
            }
            self.seldom.handover.moving.push(slot);
            desk.notes.moved.push(slot);
        }
    }

    /// A sequence is driven out before its first step here; true if it was one of those.
    pub(super) fn forget_newcomer(&mut self, slot: u32, desk: &Desk<'_>) -> bool {
        let Some(at) = self.seldom.resumed.position(slot) else { return false };
        self.seldom.resumed.remove(at);
        let request = &desk.slab[slot];
        self.n_decoding_in_span.add(request.class, request.in_span());
        true
    }
}

//! The account of the decoding sequences: who joins and leaves it, and when a window is full.

use super::{finish, Desk, Ends, Replica};
use crate::blocks::Blocks;
use crate::request::Request;
use crate::slab::Slab;

/// What sequences do not take of the step in which they end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Surplus {
    pub tokens: u64,
    pub blocks: u64,
}

/// Of the tokens from `counter` to `to`, what those do not take that end before `to`: they need no blocks for them.
pub(super) fn surplus(decoding: &Ends, blocks: &Blocks, counter: u64, to: u64, slab: &Slab) -> Surplus {
    let mut found = Surplus::default();
    decoding.before(to, |end, slot| {
        let kv = slab[slot].kv_tokens_at(counter);
        found.tokens += to - end;
        found.blocks += blocks.blocks_of(kv + to - counter) - blocks.blocks_of(kv + end - counter);
    });
    found
}

impl Replica {
    /// Blocks that the next step takes.
    pub(super) fn next_blocks(&self, slab: &Slab) -> u64 {
        if self.pace.is_plain() {
            return self.blocks.needed_at(self.counter);
        }
        let to = self.counter + self.pace.tokens(1);
        let spared = surplus(&self.decoding, &self.blocks, self.counter, to, slab).blocks;
        self.blocks.needed_between(self.counter, to) - spared
    }

    /// The run is cut off: count what the decoding sequences got.
    pub(super) fn count_generated(&self, desk: &mut Desk<'_>) {
        for slot in self.decoding.slots() {
            let request = &mut desk.slab[slot];
            request.take_tokens(self.counter - request.decode_from);
        }
    }

    /// Sequences that have their last token leave, in the order of their admission; true if there was one.
    pub(super) fn end_sequences(&mut self, now: u64, desk: &mut Desk<'_>) -> bool {
        let mut ending = std::mem::take(desk.ending);
        while self.decoding.first().is_some_and(|(end, _)| end <= self.counter) {
            ending.extend(self.decoding.pop().map(|(_, slot)| slot));
        }
        if ending.len() > 1 {
            ending.sort_unstable_by_key(|&slot| desk.slab[slot].admission);
        }
        let is_any = !ending.is_empty();
        for slot in ending.drain(..) {
            let held = self.stop_decoding(slot, desk);
            self.retire(slot, held, desk);
            finish(slot, now, desk);
        }
        *desk.ending = ending;
        is_any
    }

    pub(super) fn start_decoding(&mut self, slot: u32, desk: &mut Desk<'_>) {
        let request = &mut desk.slab[slot];
        request.decode_from = self.counter;
        let kv = u64::from(request.target);
        self.kv_tokens += kv;
        self.blocks.start_decoding(kv, self.counter);
        self.decoding.push(self.counter, request.output_tokens - request.generated, slot);
        self.n_decoding_in_span.add(request.class, request.in_span());
        if let Some(window) = desk.deployment.window_tokens {
            self.window_sum += (kv + 1).min(window);
            if kv + 1 < window {
                self.n_growing += 1;
                self.kinks.push(self.counter + window - kv - 1, slot, request.admission);
            }
        }
    }

    /// Take a sequence (already off the heap) out of the decoding account; its tokens are updated. Returns how many it
    /// holds in blocks, which are still its.
    pub(super) fn stop_decoding(&mut self, slot: u32, desk: &mut Desk<'_>) -> u64 {
        let request = &mut desk.slab[slot];
        let surplus = request.take_tokens(self.counter - request.decode_from);
        let held = u64::from(request.input_tokens) + u64::from(request.generated) - 1;
        // The account has the tokens of the last step whole.
        let kv = held + surplus;
        self.kv_tokens -= kv;
        self.blocks.stop_decoding(kv, self.counter);
        if self.blocks.n_decoding() == 0 {
            self.pace.restart();
        }
        self.n_decoding_in_span.take(request.class, request.in_span());
        if desk.policy.has_gaps {
            self.keep_longest_gap(request);
        }
        if let Some(window) = desk.deployment.window_tokens {
            self.window_sum -= (kv + 1).min(window);
            self.n_growing -= u32::from(kv + 1 < window);
        }
        request.admission = u64::MAX; // makes its kink stale
        held
    }

    /// What a decoding request saw of the steps since it began to decode here.
    pub(super) fn keep_longest_gap(&self, request: &mut Request) {
        request.longest_gap_ns = request.longest_gap_ns.max(self.seldom.gaps.longest_after(request.decode_from));
    }

    /// Sequences whose window is full now stop growing; true if there was one.
    pub(super) fn pass_kinks(&mut self, slab: &Slab) -> bool {
        let mut is_changed = false;
        while let Some((at, is_stale)) = self.kinks.pass(self.counter, slab) {
            if !is_stale {
                self.n_growing -= 1;
                self.window_sum -= self.counter - at;
                is_changed = true;
            }
        }
        is_changed
    }
}

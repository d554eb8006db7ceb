//! The account of the decoding sequences: who joins and leaves it, and when a window is full.

use std::cmp::Reverse;

use super::{finish, Desk, Replica};
use crate::request::Slab;

impl Replica {
    /// Sequences that have their last token leave, in the order of their admission; true if there was one.
    pub(super) fn end_sequences(&mut self, now: u64, desk: &mut Desk<'_>) -> bool {
        let mut ending = std::mem::take(&mut self.ending);
        while let Some(&Reverse((end, slot))) = self.decoding.peek() {
            if end != self.counter {
                break;
            }
            self.decoding.pop();
            ending.push(slot);
        }
        let is_any = !ending.is_empty();
        if ending.len() > 1 {
            ending.sort_unstable_by_key(|&slot| desk.slab[slot].admission);
        }
        for slot in ending.drain(..) {
            let held = self.stop_decoding(slot, desk);
            self.retire(slot, held, desk);
            finish(slot, now, desk);
        }
        self.ending = ending;
        is_any
    }

    pub(super) fn start_decoding(&mut self, slot: u32, desk: &mut Desk<'_>) {
        let request = &mut desk.slab[slot];
        request.decode_from = self.counter;
        let kv = u64::from(request.target);
        self.kv_tokens += kv;
        self.blocks.start_decoding(kv, self.counter);
        let left = u64::from(request.output_tokens - request.generated);
        self.decoding.push(Reverse((self.counter + left, slot)));
        self.n_decoding_in_span[usize::from(request.class)] += u64::from(request.in_span);
        if let Some(window) = desk.deployment.window_tokens {
            self.window_sum += (kv + 1).min(window);
            if kv + 1 < window {
                self.n_growing += 1;
                self.kinks.push(Reverse((self.counter + window - kv - 1, slot, request.admission)));
            }
        }
    }

    /// Take a sequence (already off the heap) out of the decoding account; its tokens are updated. Returns how many it
    /// holds in blocks, which are still its.
    pub(super) fn stop_decoding(&mut self, slot: u32, desk: &mut Desk<'_>) -> u64 {
        let request = &mut desk.slab[slot];
        request.generated += (self.counter - request.decode_from) as u32;
        let kv = u64::from(request.input_tokens) + u64::from(request.generated) - 1;
        self.kv_tokens -= kv;
        self.blocks.stop_decoding(kv, self.counter);
        self.n_decoding_in_span[usize::from(request.class)] -= u64::from(request.in_span);
        if let Some(gaps) = &self.gaps {
            request.longest_gap_ns = request.longest_gap_ns.max(gaps.longest_after(request.decode_from));
        }
        if let Some(window) = desk.deployment.window_tokens {
            self.window_sum -= (kv + 1).min(window);
            self.n_growing -= u64::from(kv + 1 < window);
        }
        request.admission = u64::MAX; // makes its kink stale
        kv
    }

    /// Sequences whose window is full now stop growing; true if there was one.
    pub(super) fn pass_kinks(&mut self, slab: &Slab) -> bool {
        let mut is_changed = false;
        while let Some(&Reverse((at, slot, admission))) = self.kinks.peek() {
            let is_stale = slab[slot].admission != admission;
            if !is_stale && at > self.counter {
                break;
            }
            self.kinks.pop();
            if !is_stale {
                self.n_growing -= 1;
                is_changed = true;
            }
        }
        is_changed
    }
}

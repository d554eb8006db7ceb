//! Who is driven out when blocks run out, and what becomes of its keys and values.

use super::{Desk, Replica};

impl Replica {
    /// Send the running request that goes first back to the queue: the youngest or, with priorities, the last by rank.
    pub(super) fn preempt(&mut self, now: u64, desk: &mut Desk<'_>) {
        let key = |slot: u32| {
            let request = &desk.slab[slot];
            if desk.policy.is_ranked {
                desk.policy.rank(request)
            } else {
                (0, request.admission, 0)
            }
        };
        let running = self.prefilling.iter().chain(self.decoding.slots());
        let Some(slot) = running.max_by_key(|&slot| key(slot)) else { return };
        if let Some(at) = self.prefilling.position(slot) {
            self.prefilling.remove(at);
            let request = &mut desk.slab[slot];
            let (target, prefilled) = (u64::from(request.target), u64::from(request.prefilled));
            self.reserved_tokens -= target;
            request.lose_prefilled();
            self.release(slot, target, prefilled, desk);
        } else {
            self.decoding.remove(slot);
            self.drive_out(slot, now, desk);
        }
        desk.slab[slot].admission = u64::MAX;
        self.waiting.put_back(slot, desk.policy, desk.slab);
        desk.meter.add_preemption(desk.clock, now);
    }

    /// A decoding sequence (already off the heap) is driven out: to host memory where there is room, or it is lost.
    fn drive_out(&mut self, slot: u32, now: u64, desk: &mut Desk<'_>) {
        let is_newcomer = self.forget_newcomer(slot, desk);
        let request = &desk.slab[slot];
        let generated = request.generated + (self.counter - request.decode_from) as u32;
        let held = request.input_tokens + generated - 1;
        let blocks = self.blocks.blocks_of(u64::from(held)) + u64::from(request.window_blocks);
        let is_swapped = desk.deployment.swaps && self.blocks.host.swap_out(blocks);
        let tokens = self.stop_decoding(slot, desk);
        self.release(slot, tokens, if is_swapped { 0 } else { tokens }, desk);
        let request = &mut desk.slab[slot];
        if !is_newcomer {
            request.note_token(now);
        }
        request.set_swapped(is_swapped);
        if is_swapped {
            (request.target, request.prefilled) = (held, held);
            self.seldom.stall_fs += i128::from(blocks) * desk.deployment.host_block_fs;
        } else {
            request.target = held + 1;
            request.lose_prefilled();
        }
    }
}

//! Who is let in: waiting requests in their order, while there is a place, tokens of the step, and blocks.

use super::share::Reuse;
use super::{Desk, Replica};

impl Replica {
    /// Admit waiting requests to the step that begins at `now`, of which `budget` tokens are left.
    pub(super) fn admit(&mut self, now: u64, budget: &mut u64, desk: &mut Desk<'_>) {
        while *budget > 0 {
            let Some(slot) = self.waiting.front() else { return };
            if !self.has_place(slot, desk) || !self.is_seen(slot, desk) {
                return;
            }
            let reuse = self.look_up(slot, desk);
            if !self.is_taken_whole(slot, &reuse, *budget, desk) {
                return;
            }
            let request = &desk.slab[slot];
            let tokens = u64::from(request.target);
            let blocks = self.blocks.blocks_of(tokens) + u64::from(request.window_blocks);
            // One that comes back from host memory decodes in this step: its next token needs room, too.
            let next = if request.is_swapped() {
                let given = self.pace.tokens(1).min(u64::from(request.output_tokens - request.generated));
                self.blocks.blocks_of(tokens + given) - self.blocks.blocks_of(tokens)
            } else {
                0
            };
            let spare = if self.n_running(desk.deployment) + self.n_leaving(desk.deployment) > 0 {
                desk.deployment.watermark_blocks
            } else {
                0
            };
            let reserve = self.next_blocks(desk.slab) + next + spare;
            if blocks - reuse.found.held + reserve > self.blocks.free() {
                return;
            }
            self.waiting.pop_front();
            self.start(slot, blocks, &reuse, now, desk);
            if desk.slab[slot].is_swapped() {
                self.swap_in(slot, blocks, desk);
                *budget = budget.saturating_sub(desk.deployment.verified_tokens);
            } else {
                self.reserved_tokens += tokens;
                self.prefilling.push(slot);
                self.add_chunk(slot, budget, desk);
            }
        }
    }

    /// May one more run, of the class of the request in `slot`?
    pub(super) fn has_place(&self, slot: u32, desk: &Desk<'_>) -> bool {
        let mut most = desk.deployment.max_batch;
        if desk.policy.has_caps {
            let class = usize::from(desk.slab[slot].class);
            for (other, &cap) in desk.policy.batch_cap.iter().enumerate() {
                if other == class || self.seldom.n_running_of[other] > 0 {
                    most = most.min(cap);
                }
            }
        }
        self.n_running(desk.deployment) + self.n_leaving(desk.deployment) < most
    }

    /// The request in `slot` begins to run.
    fn start(&mut self, slot: u32, blocks: u64, reuse: &Reuse, now: u64, desk: &mut Desk<'_>) {
        self.take_blocks(slot, blocks, reuse, now, desk);
        let request = &mut desk.slab[slot];
        request.admission = *desk.next_admission;
        *desk.next_admission += 1;
        let class = usize::from(request.class);
        if desk.policy.has_caps {
            self.seldom.n_running_of[class] += 1;
        }
        if !request.has_started() {
            request.note_start(now, desk.policy.notes_starts);
            if request.in_span() {
                desk.classes[class].add_start(desk.deployment.pool, request, now - request.arrival_ns);
            }
        }
    }

    /// The sequence in `slot` comes back from host memory and decodes on; the step waits for the link.
    fn swap_in(&mut self, slot: u32, blocks: u64, desk: &mut Desk<'_>) {
        self.blocks.host.swap_in(blocks);
        self.seldom.stall_fs += i128::from(blocks) * desk.deployment.host_block_fs;
        self.start_decoding(slot, desk);
        let request = &mut desk.slab[slot];
        request.set_swapped(false);
        self.n_decoding_in_span.take(request.class, request.in_span());
        self.seldom.resumed.push(slot);
    }
}

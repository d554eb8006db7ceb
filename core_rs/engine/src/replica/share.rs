//! What a sequence finds of its tokens when it is admitted, shows to others, and leaves behind.

use super::{Desk, Replica};
use crate::prefix::{Found, NONE};

/// What a waiting request would find in the cache.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reuse {
    pub found: Found,
    /// Blocks of its own that it gave up when it was preempted.
    own: u64,
}

impl Replica {
    /// What the request in `slot` finds now.
    pub(super) fn look_up(&mut self, slot: u32, desk: &Desk<'_>) -> Reuse {
        let Some(cache) = &mut self.blocks.cache else { return Reuse::default() };
        let request = &desk.slab[slot];
        if request.is_swapped() {
            return Reuse::default();
        }
        let size = |at| desk.deployment.stretch_blocks(at, request);
        let found = cache.find(&desk.slab.chain(slot).hashes, size, &self.blocks.host);
        let is_behind = found.n_hashes == request.own_after as usize;
        let own = if is_behind { cache.own_blocks(request.own_entry, request.row) } else { 0 };
        Reuse { found, own }
    }

    /// Whether the next step, which has `budget` tokens left, takes the whole prompt in `slot`, if it has to.
    pub(super) fn is_taken_whole(&self, slot: u32, reuse: &Reuse, budget: u64, desk: &Desk<'_>) -> bool {
        let request = &desk.slab[slot];
        if !desk.deployment.has_whole_prompts || request.is_swapped() {
            return true;
        }
        let reused = self.blocks.tokens_reused(reuse.found.blocks + reuse.own, request.target);
        u64::from(request.target) - reused <= budget.min(desk.deployment.prompt_chunk_tokens)
    }

    /// The request in `slot` is admitted with `blocks` blocks, of which it finds those of `reuse`.
    pub(super) fn take_blocks(&mut self, slot: u32, blocks: u64, reuse: &Reuse, now: u64, desk: &mut Desk<'_>) {
        if self.blocks.cache.is_none() {
            self.blocks.take(blocks);
            return;
        }
        let (entry, row) = (desk.slab[slot].own_entry, desk.slab[slot].row);
        self.blocks.take_own(entry, row, reuse.own == 0);
        if reuse.found.n_hashes > 0 {
            let chain = desk.slab.chain_mut(slot);
            chain.deepest = self.blocks.hold_found(&chain.hashes[..reuse.found.n_hashes]);
            chain.n_held = reuse.found.n_hashes;
        }
        self.blocks.take(blocks - (reuse.found.blocks - reuse.found.fetched) - reuse.own);
        if reuse.found.fetched > 0 {
            self.seldom.stall_fs += i128::from(reuse.found.fetched) * desk.deployment.host_block_fs;
        }
        let request = &mut desk.slab[slot];
        request.own_entry = NONE;
        request.shared_blocks = reuse.found.blocks;
        if request.is_swapped() {
            return;
        }
        let reused = self.blocks.tokens_reused(reuse.found.blocks + reuse.own, request.target);
        let cached = request.reuse(reused);
        let is_first = !request.has_started();
        let hit = (reuse.found.n_hashes as u64 * desk.deployment.hash_tokens).min(u64::from(request.input_tokens));
        let hit = if is_first { hit } else { 0 };
        if hit > 0 || cached > 0 {
            desk.meter.add_found(desk.clock, now, hit, cached);
        }
    }

    /// With `tokens` more in the step under way, show the stretches of the prompt that are complete.
    pub(super) fn publish(&mut self, slot: u32, tokens: u64, desk: &mut Desk<'_>) {
        if self.blocks.cache.is_none() {
            return;
        }
        let request = &desk.slab[slot];
        let reached = u64::from(request.prefilled) + tokens;
        let chain = desk.slab.chain(slot);
        let n_done = if reached < u64::from(request.input_tokens) {
            chain.hashes.len().min((reached / desk.deployment.hash_tokens) as usize)
        } else {
            chain.hashes.len()
        };
        let (mut deepest, mut n_held, mut blocks) = (chain.deepest, chain.n_held, 0);
        while n_held < n_done {
            let size = |at| desk.deployment.stretch_blocks(n_held + at, request);
            let Some(done) = self.blocks.publish(deepest, &chain.hashes[n_held..n_done], size) else { break };
            (deepest, n_held, blocks) = (done.deepest, n_held + done.n, blocks + done.blocks);
        }
        let chain = desk.slab.chain_mut(slot);
        (chain.deepest, chain.n_held) = (deepest, n_held);
        desk.slab[slot].shared_blocks += blocks;
    }

    /// A sequence of `tokens` tokens gives its blocks back, those of its end first; it may find `left_tokens` again.
    pub(super) fn release(&mut self, slot: u32, tokens: u64, left_tokens: u64, desk: &mut Desk<'_>) {
        let request = &mut desk.slab[slot];
        if desk.policy.has_caps {
            self.seldom.n_running_of[usize::from(request.class)] -= 1;
        }
        let all = self.blocks.blocks_of(tokens) + u64::from(request.window_blocks);
        if self.blocks.cache.is_none() {
            self.blocks.give(all);
            return;
        }
        let own = all - request.shared_blocks;
        let left = self.blocks.filled_by(left_tokens).saturating_sub(request.shared_blocks);
        self.blocks.give(own - left);
        request.own_entry = if left > 0 { self.blocks.give_own(request.row, left) } else { NONE };
        request.shared_blocks = 0;
        let (deepest, n_held) = desk.slab.chain_mut(slot).leave();
        self.blocks.let_go(deepest);
        desk.slab[slot].own_after = n_held as u32;
    }
}

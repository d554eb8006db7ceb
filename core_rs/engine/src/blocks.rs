//! Key-value blocks of one replica: who holds how many, and how many decode steps the free ones last.
//!
//! A decoding sequence takes a block each `block_tokens` steps. Sequences are counted by the residue of their length
//! against the replica's decode counter, which a step does not change, so a jump costs nothing here.

use crate::host::HostMemory;
use crate::prefix::PrefixCache;

/// Block account of a replica. `counter` is the replica's decode counter: steps that its decoders have done.
#[derive(Debug, Clone)]
pub struct Blocks {
    block_tokens: u64,
    total: u64,
    used: u64,
    /// residues[r]: decoding sequences whose (kv tokens - counter) mod block_tokens is r.
    residues: Vec<u64>,
    n_decoding: u64,
    /// What can be found in blocks, and in which order free ones are used again; none without a prefix cache.
    pub cache: Option<Box<PrefixCache>>,
    pub host: HostMemory,
}

impl Blocks {
    pub fn new(total: u64, block_tokens: u64) -> Self {
        let residues = vec![0; block_tokens as usize];
        Self { block_tokens, total, used: 0, residues, n_decoding: 0, cache: None, host: HostMemory::default() }
    }

    /// The same with a prefix cache, or with host memory of `host_blocks` blocks.
    pub fn with(mut self, has_cache: bool, host_blocks: u64) -> Self {
        self.cache = has_cache.then(|| Box::new(PrefixCache::new(self.total)));
        self.host = HostMemory::new(host_blocks);
        self
    }

    /// See `Replica::touch`.
    pub fn touch(&self) -> u64 {
        self.used ^ self.residues[0] ^ self.residues[self.residues.len() / 2]
    }

    /// Blocks that hold `tokens`.
    pub fn blocks_of(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.block_tokens)
    }

    pub fn n_decoding(&self) -> u64 {
        self.n_decoding
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn free(&self) -> u64 {
        self.total - self.used
    }

    /// Blocks that `tokens` fill.
    pub fn filled_by(&self, tokens: u64) -> u64 {
        tokens / self.block_tokens
    }

    pub fn block_tokens(&self) -> u64 {
        self.block_tokens
    }

    /// Take the `n` blocks that have been free for longest.
    pub fn take(&mut self, n: u64) {
        self.used += n;
        if let Some(cache) = &mut self.cache {
            cache.take(n, &mut self.host);
        }
    }

    /// Give `n` blocks back, with nothing to be found in them.
    pub fn give(&mut self, n: u64) {
        self.used -= n;
        if let Some(cache) = &mut self.cache {
            cache.give(n);
        }
    }

    /// Hold the `at`-th stretch of the chain found last, `hash`. What is in host memory only is yet to be taken.
    pub fn hold_found(&mut self, at: usize, hash: u64) -> Option<u32> {
        let (entry, taken) = self.cache.as_mut()?.hold_found(at, hash, &mut self.host);
        self.used += taken;
        Some(entry)
    }

    /// Hold an entry of the cache.
    pub fn hold(&mut self, at: u32) {
        self.used += self.cache.as_mut().map_or(0, |cache| cache.hold(at));
    }

    /// Let go of an entry of the cache.
    pub fn let_go(&mut self, at: u32) {
        self.used -= self.cache.as_mut().map_or(0, |cache| cache.let_go(at));
    }

    /// Give up `n` blocks in which the request of `row` may find its tokens again.
    pub fn give_own(&mut self, row: u64, n: u64) -> u32 {
        self.used -= n;
        self.cache.as_mut().map_or(crate::prefix::NONE, |cache| cache.give_own(row, n))
    }

    /// Take what is left of them back, or leave it if it `is_lost`.
    pub fn take_own(&mut self, at: u32, row: u64, is_lost: bool) {
        self.used += self.cache.as_mut().map_or(0, |cache| cache.take_own(at, row, is_lost));
    }

    fn residue(&self, kv_tokens: u64, counter: u64) -> usize {
        let (kv, counter) = (kv_tokens % self.block_tokens, counter % self.block_tokens);
        ((kv + self.block_tokens - counter) % self.block_tokens) as usize
    }

    /// A sequence with `kv_tokens` stored begins to decode.
    pub fn start_decoding(&mut self, kv_tokens: u64, counter: u64) {
        let residue = self.residue(kv_tokens, counter);
        self.residues[residue] += 1;
        self.n_decoding += 1;
    }

    /// A decoding sequence that now stores `kv_tokens` leaves; its blocks are given back by the caller.
    pub fn stop_decoding(&mut self, kv_tokens: u64, counter: u64) {
        let residue = self.residue(kv_tokens, counter);
        self.residues[residue] -= 1;
        self.n_decoding -= 1;
    }

    /// Blocks that the decode step at `counter` takes: one for each sequence whose last block is full.
    pub fn needed_at(&self, counter: u64) -> u64 {
        let phase = counter % self.block_tokens;
        self.residues[((self.block_tokens - phase) % self.block_tokens) as usize]
    }

    /// How many of the next `want` tokens of every decoding sequence, from `counter` on, the free blocks allow.
    pub fn tokens_allowed(&self, counter: u64, want: u64) -> u64 {
        let free = self.free();
        if self.n_decoding.saturating_mul(want.div_ceil(self.block_tokens)) <= free {
            return want;
        }
        let cycles = free / self.n_decoding;
        let mut left = free - cycles * self.n_decoding;
        let mut steps = cycles * self.block_tokens;
        while steps < want {
            let need = self.needed_at(counter + steps);
            if need > left {
                return steps;
            }
            left -= need;
            steps += 1;
        }
        want
    }

    /// Blocks that the tokens from `counter` to `to` take, of every decoding sequence.
    pub fn needed_between(&self, counter: u64, to: u64) -> u64 {
        let cycles = (to - counter) / self.block_tokens;
        let rest = counter + cycles * self.block_tokens..to;
        cycles * self.n_decoding + rest.map(|at| self.needed_at(at)).sum::<u64>()
    }

    /// Do the decode steps from `counter` to `to`: take the blocks they need, but `spared` that endings do not.
    pub fn advance(&mut self, counter: u64, to: u64, spared: u64) {
        self.take(self.needed_between(counter, to) - spared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn a_jump_takes_the_blocks_of_its_steps() {
        let mut dice = Stream::new(2, Purpose::RouterChoice, 0, 0);
        for _ in 0..500 {
            let counter = dice.below(100);
            let lengths: Vec<u64> = (0..=dice.below(20)).map(|_| 1 + dice.below(90)).collect();
            let mut blocks = Blocks::new(40 + dice.below(200), 16);
            for &kv in &lengths {
                blocks.take(blocks.blocks_of(kv));
                blocks.start_decoding(kv, counter);
            }
            if blocks.used() > blocks.total() {
                continue;
            }
            let want = dice.below(200);
            let fits = |steps: u64| lengths.iter().map(|kv| (kv + steps).div_ceil(16)).sum::<u64>() <= blocks.total();
            let allowed = blocks.tokens_allowed(counter, want);
            assert!(fits(allowed));
            assert!(allowed == want || !fits(allowed + 1));
            blocks.advance(counter, counter + allowed, 0);
            assert_eq!(blocks.used(), lengths.iter().map(|kv| (kv + allowed).div_ceil(16)).sum::<u64>());
            for &kv in &lengths {
                blocks.stop_decoding(kv + allowed, counter + allowed);
                blocks.give(blocks.blocks_of(kv + allowed));
            }
            assert_eq!(blocks.used(), 0);
        }
    }
}

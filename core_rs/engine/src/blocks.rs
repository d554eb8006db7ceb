//! Key-value blocks of one replica: who holds how many, and how many decode steps the free ones last.
//!
//! A decoding sequence takes a block each `block_tokens` steps. Sequences are counted by the residue of their length
//! against the replica's decode counter, which a step does not change, so a jump costs nothing here.

use crate::host::HostMemory;
use crate::prefix::{PrefixCache, Published};

/// Block account of a replica. `counter` is the replica's decode counter: steps that its decoders have done.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Blocks {
    total: u64,
    used: u64,
    n_decoding: u64,
    block_tokens: u32,
    /// `block_tokens` is a power of two: this one. A division costs as much as all else that is done with blocks.
    shift: Option<u8>,
    residues: Residues,
    /// What can be found in blocks, and in which order free ones are used again; none without a prefix cache.
    pub cache: Option<Box<PrefixCache>>,
    pub host: Box<HostMemory>,
}

/// Blocks of so many tokens have their residues in place.
const IN_PLACE: usize = 16;

/// At r: decoding sequences whose (kv tokens - counter) mod block_tokens is r.
#[derive(Debug, Clone)]
struct Residues {
    here: [u32; IN_PLACE],
    /// Where blocks have more tokens, all of them.
    #[expect(clippy::box_collection, reason = "it is seldom there, and should take little room then")]
    apart: Option<Box<Vec<u32>>>,
}

impl Residues {
    fn new(n: usize) -> Self {
        Self { here: [0; IN_PLACE], apart: (n > IN_PLACE).then(|| Box::new(vec![0; n])) }
    }

    fn all(&self) -> &[u32] {
        self.apart.as_ref().map_or(&self.here, |apart| &apart[..])
    }

    fn of(&mut self, residue: usize) -> &mut u32 {
        &mut self.apart.as_mut().map_or(&mut self.here[..], |apart| &mut apart[..])[residue]
    }
}

impl Blocks {
    pub fn new(total: u64, block_tokens: u64) -> Self {
        let residues = Residues::new(block_tokens as usize);
        let shift = block_tokens.is_power_of_two().then(|| block_tokens.trailing_zeros() as u8);
        let host = Box::default();
        Self { block_tokens: block_tokens as u32, shift, total, used: 0, n_decoding: 0, residues, cache: None, host }
    }

    /// The same with a prefix cache, or with host memory of `host_blocks` blocks.
    pub fn with(mut self, has_cache: bool, host_blocks: u64) -> Self {
        self.cache = has_cache.then(|| Box::new(PrefixCache::new(self.total)));
        *self.host = HostMemory::new(host_blocks);
        self
    }

    /// Blocks that hold `tokens`.
    pub fn blocks_of(&self, tokens: u64) -> u64 {
        match self.shift {
            Some(shift) => (tokens >> shift) + u64::from(tokens & (self.block_tokens() - 1) > 0),
            None => tokens.div_ceil(self.block_tokens()),
        }
    }

    /// Tokens beyond whole blocks.
    fn beyond(&self, tokens: u64) -> u64 {
        match self.shift {
            Some(_) => tokens & (self.block_tokens() - 1),
            None => tokens % self.block_tokens(),
        }
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
        match self.shift {
            Some(shift) => tokens >> shift,
            None => tokens / self.block_tokens(),
        }
    }

    /// Tokens of a prompt of `target` that `found` blocks spare: whole blocks, with one token left to compute.
    pub fn tokens_reused(&self, found: u64, target: u32) -> u64 {
        found.min(self.filled_by(u64::from(target) - 1)) * self.block_tokens()
    }

    pub fn block_tokens(&self) -> u64 {
        u64::from(self.block_tokens)
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

    /// Hold the chain found last, which is `hashes`; returns its end. What is in host memory only is yet to be taken.
    pub fn hold_found(&mut self, hashes: &[u64]) -> u32 {
        let Some(cache) = &mut self.cache else { return crate::prefix::NONE };
        let (deepest, taken) = cache.hold_found(hashes, &mut self.host);
        self.used += taken;
        deepest
    }

    /// Make stretches findable (`PrefixCache::publish`); own blocks of those that are here already are given back.
    pub fn publish(&mut self, deepest: u32, hashes: &[u64], blocks_of: impl Fn(usize) -> u64) -> Option<Published> {
        let done = self.cache.as_mut()?.publish(deepest, hashes, blocks_of)?;
        if let Some(taken) = done.taken {
            self.used += taken;
            self.give(done.blocks);
        }
        Some(done)
    }

    /// Let go of a chain of the cache.
    pub fn let_go(&mut self, deepest: u32) {
        self.used -= self.cache.as_mut().map_or(0, |cache| cache.let_go(deepest));
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
        let (kv, counter) = (self.beyond(kv_tokens), self.beyond(counter));
        (if kv < counter { kv + self.block_tokens() - counter } else { kv - counter }) as usize
    }

    /// A sequence with `kv_tokens` stored begins to decode.
    pub fn start_decoding(&mut self, kv_tokens: u64, counter: u64) {
        let residue = self.residue(kv_tokens, counter);
        *self.residues.of(residue) += 1;
        self.n_decoding += 1;
    }

    /// A decoding sequence that now stores `kv_tokens` leaves; its blocks are given back by the caller.
    pub fn stop_decoding(&mut self, kv_tokens: u64, counter: u64) {
        let residue = self.residue(kv_tokens, counter);
        *self.residues.of(residue) -= 1;
        self.n_decoding -= 1;
    }

    /// Blocks that the decode step at `counter` takes: one for each sequence whose last block is full.
    pub fn needed_at(&self, counter: u64) -> u64 {
        u64::from(self.residues.all()[self.residue(0, counter)])
    }

    /// How many of the next `want` tokens of every decoding sequence, from `counter` on, the free blocks allow.
    pub fn tokens_allowed(&self, counter: u64, want: u64) -> u64 {
        let free = self.free();
        if self.n_decoding.saturating_mul(self.blocks_of(want)) <= free {
            return want;
        }
        let cycles = free / self.n_decoding;
        let mut left = free - cycles * self.n_decoding;
        let mut steps = cycles * self.block_tokens();
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
        let cycles = self.filled_by(to - counter);
        let rest = (to - counter - cycles * self.block_tokens()) as usize;
        // From one token to the next it is the residue before.
        let first = self.residue(0, counter);
        let needed = match &self.residues.apart {
            None => {
                // Each of them or nothing: without a branch, and several at a time.
                let here = self.residues.here.iter().enumerate();
                let (first, rest, end) = (first as u32, rest as u32, self.block_tokens);
                here.map(|(at, &n)| {
                    let at = at as u32;
                    let behind = first.wrapping_sub(at).wrapping_add(if at > first { end } else { 0 });
                    if behind < rest {
                        n
                    } else {
                        0
                    }
                })
                .sum::<u32>()
                .into()
            }
            Some(all) => {
                let sum = |part: &[u32]| part.iter().map(|&n| u64::from(n)).sum::<u64>();
                let end = self.block_tokens() as usize;
                if rest <= first + 1 {
                    sum(&all[first + 1 - rest..=first])
                } else {
                    sum(&all[..=first]) + sum(&all[end + first + 1 - rest..end])
                }
            }
        };
        cycles * self.n_decoding + needed
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

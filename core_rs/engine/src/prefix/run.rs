//! Stretches of prompts that stand together in a cache.

use super::NONE;

/// Stretches of prompts that follow each other; of an entry that is `Shared`.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// The run before it; `NONE` at the begin of prompts.
    pub parent: u32,
    /// Runs that follow its last stretch.
    pub n_children: u32,
    /// Blocks of each stretch, and of the last one, which may be shorter.
    pub each: u32,
    pub last: u32,
    pub hashes: Vec<u64>,
}

impl Run {
    pub const NOTHING: Self = Self { parent: NONE, n_children: 0, each: 0, last: 0, hashes: Vec::new() };

    pub fn blocks_of(&self, at: usize) -> u64 {
        u64::from(if at + 1 == self.hashes.len() { self.last } else { self.each })
    }

    /// How many of `hashes`, of which each has `blocks_of` blocks, this begins with, and their blocks.
    pub fn alike(&self, hashes: &[u64], blocks_of: impl Fn(usize) -> u64) -> (usize, u64) {
        let (mut n, mut blocks) = (0, 0);
        while n < hashes.len().min(self.hashes.len()) && hashes[n] == self.hashes[n] {
            let its = self.blocks_of(n);
            if blocks_of(n) != its {
                break;
            }
            (n, blocks) = (n + 1, blocks + its);
        }
        (n, blocks)
    }
}

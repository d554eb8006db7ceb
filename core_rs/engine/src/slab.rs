//! The requests in the system, and the hashes of their prompts.

use crate::near;
use crate::prefix::NONE;
use crate::request::{Leaving, Request};

/// A prompt's hashes, and what it holds in its replica's cache: the first of them, and the run that ends with these.
#[derive(Debug, Clone)]
pub struct Chain {
    pub hashes: Vec<u64>,
    pub n_held: usize,
    pub deepest: u32,
}

impl Chain {
    /// It holds nothing any more; returns what it held.
    pub fn leave(&mut self) -> (u32, usize) {
        (std::mem::replace(&mut self.deepest, NONE), std::mem::take(&mut self.n_held))
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self { hashes: Vec::new(), n_held: 0, deepest: NONE }
    }
}

/// Requests that stand together.
const CHUNK: usize = 1 << 14;

/// The requests in the system, in slots that are used again.
#[derive(Debug, Default)]
pub struct Slab {
    /// So many in each, so that more of them move none.
    chunks: Vec<Vec<Request>>,
    free: Vec<u32>,
    /// By slot, where a prefix cache has asked for it.
    chains: Vec<Chain>,
}

impl Slab {
    pub fn insert(&mut self, request: Request) -> u32 {
        if let Some(slot) = self.free.pop() {
            self[slot] = request;
            if let Some(&next) = self.free.last() {
                self.fetch_all(next);
            }
            return slot;
        }
        let slot = self.n_slots();
        if slot.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[slot / CHUNK].push(request);
        slot as u32
    }

    pub fn remove(&mut self, slot: u32) {
        self[slot].leaving = Leaving::IsGone;
        self.free.push(slot);
    }

    /// Set the hashes of the prompt in `slot`.
    pub fn set_hashes(&mut self, slot: u32, hashes: impl Iterator<Item = u64>) {
        if self.chains.len() <= slot as usize {
            self.chains.resize_with(slot as usize + 1, Chain::default);
        }
        let chain = &mut self.chains[slot as usize];
        chain.leave();
        chain.hashes.clear();
        chain.hashes.extend(hashes);
    }

    /// Give the hashes in one slot to another, if they were set.
    pub fn copy_hashes(&mut self, from: u32, to: u32) {
        if let Some(chain) = self.chains.get(from as usize) {
            let hashes = chain.hashes.clone();
            self.set_hashes(to, hashes.into_iter());
        }
    }

    /// The first hash in `slot`, if any were set.
    pub fn first_hash(&self, slot: u32) -> Option<u64> {
        self.chains.get(slot as usize)?.hashes.first().copied()
    }

    /// The hashes in `slot`; it must have been set.
    pub fn chain(&self, slot: u32) -> &Chain {
        &self.chains[slot as usize]
    }

    pub fn chain_mut(&mut self, slot: u32) -> &mut Chain {
        &mut self.chains[slot as usize]
    }

    /// Ask for the memory of a slot.
    fn fetch_all(&self, slot: u32) {
        near::fetch_lines(&self[slot].arrival_ns, size_of::<Request>() / near::LINE_BYTES);
    }

    /// Ask for the memory that each event needs of a request.
    pub fn fetch(&self, slot: u32) {
        near::fetch_at(&self.chunks[slot as usize / CHUNK], slot as usize % CHUNK);
    }

    fn n_slots(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub fn len(&self) -> usize {
        self.n_slots() - self.free.len()
    }

    /// Slots in use, ascending.
    pub fn live(&self) -> Vec<u32> {
        let mut is_free = vec![false; self.n_slots()];
        for &slot in &self.free {
            is_free[slot as usize] = true;
        }
        (0..self.n_slots() as u32).filter(|&slot| !is_free[slot as usize]).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Request;
    fn index(&self, slot: u32) -> &Request {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

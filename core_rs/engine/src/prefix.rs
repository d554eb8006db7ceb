//! The prefix cache of one replica: blocks that stay findable by their hash after their sequences have gone.
//!
//! All free blocks stand in one queue, the one freed longest ago first, whether anything can be found in them or not;
//! whoever takes blocks takes the oldest, and what was cached in them is lost. A hash names a stretch of
//! `hash_block_tokens` prompt tokens and all before it, so it is one entry here, of several blocks. Entries in use are
//! counted by reference and are not in the queue.

mod feed;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

pub use feed::HashFeed;

use crate::host::HostMemory;

/// No entry.
pub const NONE: u32 = u32::MAX;

/// Hashes are spread already, or numbers that follow each other in a prompt. Those stay neighbours in the table: their
/// low halves are kept in order, moved by the high half, and only the top bits (which tell entries apart) are mixed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread(u64);

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
const TOP: u64 = 0xFFFF_0000_0000_0000;

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, hash: u64) {
        let place = (hash & 0xFFFF_FFFF).wrapping_add((hash >> 32).wrapping_mul(ODD));
        self.0 = self.0.rotate_left(8) ^ ((place & !TOP) | (hash.wrapping_mul(ODD) & TOP));
    }
}

/// A table by hash; never iterated, so its order does not matter.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Spread>>;

/// What stands in some blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing that could be found again.
    Dead,
    /// The stretch of a prompt with this hash.
    Shared(u64),
    /// What a preempted request had of its own behind its shared stretches; the request is named by its row.
    Own(u64),
    /// Not an entry: its place waits to be used again.
    Vacant,
}

#[derive(Debug, Clone)]
struct Entry {
    kind: Kind,
    blocks: u32,
    refs: u32,
    /// Its place in the queue of free blocks; `NOWHERE` while it is not in it.
    place: u64,
}

const NOWHERE: u64 = u64::MAX;

/// The longest chain of a prompt's hashes that is cached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Hashes of the chain.
    pub n_hashes: usize,
    /// Their blocks, those of them that running sequences hold, and those that are in host memory only.
    pub blocks: u64,
    pub held: u64,
    pub fetched: u64,
}

/// The free blocks of a replica in the order of their freeing, and what can be found in its blocks.
#[derive(Debug, Clone)]
pub struct PrefixCache {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    /// By hash: the entry, and which of its lives. Evicting leaves a stretch in it: the life tells, and costs nothing.
    table: ByHash<(u32, u32)>,
    /// How many stretches were lost in each entry.
    lives: Vec<u32>,
    n_stretches: usize,
    /// Entries of free blocks, the one freed longest ago first, at places that count on. One that left the queue, or
    /// has a later place, is passed over when its turn comes.
    queue: VecDeque<u32>,
    first_place: u64,
    n_queued: usize,
    /// The entries of the chain found last; `NONE` for those in host memory.
    found: Vec<u32>,
}

impl PrefixCache {
    /// A cache of `total` blocks, all free.
    pub fn new(total: u64) -> Self {
        let mut cache = Self {
            entries: Vec::new(),
            vacant: Vec::new(),
            table: ByHash::default(),
            lives: Vec::new(),
            n_stretches: 0,
            queue: VecDeque::new(),
            first_place: 0,
            n_queued: 0,
            found: Vec::new(),
        };
        cache.give(total);
        cache
    }

    /// The longest chain of `hashes` that is cached here or in host memory; `blocks_of` says how many blocks each has.
    pub fn find(&mut self, hashes: &[u64], blocks_of: impl Fn(usize) -> u64, host: &HostMemory) -> Found {
        let mut found = Found::default();
        self.found.clear();
        for (at, hash) in hashes.iter().enumerate() {
            let blocks = blocks_of(at);
            match self.entry(*hash) {
                Some((entry, its)) if its == blocks => {
                    found.held += if self.entries[entry as usize].refs > 0 { blocks } else { 0 };
                    self.found.push(entry);
                }
                None if host.find(*hash).map(u64::from) == Some(blocks) => {
                    found.fetched += blocks;
                    self.found.push(NONE);
                }
                _ => break,
            }
            found.blocks += blocks;
            found.n_hashes += 1;
        }
        found
    }

    /// Hold the `at`-th stretch of the chain found last, which is `hash`. Returns its entry and the blocks that this
    /// takes from the queue; one that was in host memory takes none: its blocks are yet to be taken.
    pub fn hold_found(&mut self, at: usize, hash: u64, host: &mut HostMemory) -> (u32, u64) {
        if self.found[at] == NONE {
            let blocks = host.remove(hash).unwrap_or(0);
            return (self.publish(hash, blocks).unwrap_or_else(|(other, _)| other), 0);
        }
        (self.found[at], self.hold(self.found[at]))
    }

    /// Hold an entry; returns the blocks that this takes from the queue.
    pub fn hold(&mut self, at: u32) -> u64 {
        let is_free = self.entries[at as usize].refs == 0;
        if is_free {
            self.unlink(at);
        }
        let entry = &mut self.entries[at as usize];
        entry.refs += 1;
        if is_free {
            u64::from(entry.blocks)
        } else {
            0
        }
    }

    /// Make `blocks` blocks of a running sequence findable as `hash`, held once, unless it is here already: then the
    /// entry that is, and its blocks.
    pub fn publish(&mut self, hash: u64, blocks: u32) -> Result<u32, (u32, u64)> {
        let known = self.table.entry(hash).or_insert((NONE, 0));
        if self.lives.get(known.0 as usize) == Some(&known.1) {
            return Err((known.0, u64::from(self.entries[known.0 as usize].blocks)));
        }
        let entry = Entry { kind: Kind::Shared(hash), blocks, refs: 1, place: NOWHERE };
        let at = if let Some(at) = self.vacant.pop() {
            self.entries[at as usize] = entry;
            at
        } else {
            self.entries.push(entry);
            self.lives.push(0);
            (self.entries.len() - 1) as u32
        };
        *known = (at, self.lives[at as usize]);
        self.n_stretches += 1;
        if self.table.len() > 2 * self.n_stretches + 1024 {
            let lives = &self.lives;
            self.table.retain(|_, &mut (at, life)| lives[at as usize] == life);
        }
        Ok(at)
    }

    /// The entry of `hash` and its blocks, if it is here.
    pub fn entry(&self, hash: u64) -> Option<(u32, u64)> {
        let &(at, life) = self.table.get(&hash)?;
        (self.lives[at as usize] == life).then(|| (at, u64::from(self.entries[at as usize].blocks)))
    }

    /// Let go of an entry; returns the blocks that become free.
    pub fn let_go(&mut self, at: u32) -> u64 {
        let entry = &mut self.entries[at as usize];
        entry.refs -= 1;
        if entry.refs > 0 {
            return 0;
        }
        let blocks = u64::from(entry.blocks);
        self.link(at);
        blocks
    }

    /// `blocks` blocks with nothing to find in them become free.
    pub fn give(&mut self, blocks: u64) {
        let mut left = blocks;
        let last_place = self.first_place + self.queue.len() as u64;
        let last = self.queue.back().map(|&at| &mut self.entries[at as usize]);
        if let Some(last) = last.filter(|last| last.kind == Kind::Dead && last.place + 1 == last_place) {
            let more = left.min(u64::from(u32::MAX - last.blocks));
            last.blocks += more as u32;
            left -= more;
        }
        while left > 0 {
            let blocks = left.min(u64::from(u32::MAX)) as u32;
            let at = self.insert(Entry { kind: Kind::Dead, blocks, refs: 0, place: NOWHERE });
            self.link(at);
            left -= u64::from(blocks);
        }
    }

    /// The request of `row` gives up `blocks` blocks of its own in which it may find its tokens again.
    pub fn give_own(&mut self, row: u64, blocks: u64) -> u32 {
        let at = self.insert(Entry { kind: Kind::Own(row), blocks: blocks as u32, refs: 0, place: NOWHERE });
        self.link(at);
        at
    }

    /// How many blocks are left of what the request of `row` gave up as `at`; they go from the end of the sequence.
    pub fn own_blocks(&self, at: u32, row: u64) -> u64 {
        match self.entries.get(at as usize) {
            Some(entry) if entry.kind == Kind::Own(row) => u64::from(entry.blocks),
            _ => 0,
        }
    }

    /// The request of `row` takes what is left of `at` back (or, if it `is_lost` to it, leaves it to be overwritten).
    pub fn take_own(&mut self, at: u32, row: u64, is_lost: bool) -> u64 {
        let blocks = self.own_blocks(at, row);
        if blocks == 0 {
            return 0;
        }
        if is_lost {
            self.entries[at as usize].kind = Kind::Dead;
            return 0;
        }
        self.unlink(at);
        self.vacate(at);
        blocks
    }

    /// Take the `n` oldest free blocks (the caller knows that there are as many); what was cached in them goes to `host`.
    pub fn take(&mut self, n: u64, host: &mut HostMemory) {
        let mut left = n;
        while left > 0 {
            let Some(&at) = self.queue.front() else { return };
            let entry = &mut self.entries[at as usize];
            if entry.place == self.first_place {
                let blocks = u64::from(entry.blocks);
                if let Kind::Shared(hash) = entry.kind {
                    self.n_stretches -= 1;
                    self.lives[at as usize] += 1;
                    entry.kind = Kind::Dead;
                    host.keep(hash, entry.blocks);
                }
                if blocks > left {
                    entry.blocks -= left as u32;
                    return;
                }
                left -= blocks;
                self.n_queued -= 1;
                entry.place = NOWHERE;
                self.vacate(at);
            }
            self.queue.pop_front();
            self.first_place += 1;
        }
    }

    fn insert(&mut self, entry: Entry) -> u32 {
        if let Some(at) = self.vacant.pop() {
            self.entries[at as usize] = entry;
            return at;
        }
        self.entries.push(entry);
        self.lives.push(0);
        (self.entries.len() - 1) as u32
    }

    fn vacate(&mut self, at: u32) {
        self.entries[at as usize].kind = Kind::Vacant;
        self.vacant.push(at);
    }

    /// Put an entry at the young end of the queue.
    fn link(&mut self, at: u32) {
        self.entries[at as usize].place = self.first_place + self.queue.len() as u64;
        self.queue.push_back(at);
        self.n_queued += 1;
    }

    /// Take an entry out of the queue.
    fn unlink(&mut self, at: u32) {
        self.entries[at as usize].place = NOWHERE;
        self.n_queued -= 1;
        if self.queue.len() > 2 * self.n_queued + 1024 {
            self.close_ranks();
        }
    }

    /// Leave out of the queue what has left it.
    fn close_ranks(&mut self) {
        let (mut place, mut next) = (self.first_place, self.first_place);
        let entries = &mut self.entries;
        self.queue.retain(|&at| {
            let entry = &mut entries[at as usize];
            let is_here = entry.place == place;
            place += 1;
            if is_here {
                entry.place = next;
                next += 1;
            }
            is_here
        });
    }
}

#[cfg(test)]
mod tests;

//! The prefix cache of one replica: blocks that stay findable by their hash after their sequences have gone.
//!
//! All free blocks stand in one queue, the one freed longest ago first, whether anything can be found in them or not;
//! whoever takes blocks takes the oldest, and what was cached in them is lost. A hash names a stretch of
//! `hash_block_tokens` prompt tokens and all before it, so chains of them form a tree. Stretches that follow each other
//! and have had the same holders are one entry, a run: found by its first hash, held, freed and queued as one, lost
//! stretch by stretch from its end. That is exact: who holds a stretch holds all before it, and frees them from the end
//! on, so a run stands together in the queue, end first, and never before what follows it in the tree. A run of which
//! only the begin is held by another is split in two. Runs in use are counted by reference and are not in the queue.

mod chain;
mod feed;
mod run;
mod table;

use std::collections::VecDeque;

pub use chain::{Found, Published};
pub use feed::HashFeed;
pub(crate) use table::ByHash;

use crate::host::HostMemory;

use run::Run;

/// No entry.
pub const NONE: u32 = u32::MAX;

/// What stands in some blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing that could be found again.
    Dead,
    /// A run of stretches (`Run`).
    Shared,
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

/// The free blocks of a replica in the order of their freeing, and what can be found in its blocks.
#[derive(Debug, Clone)]
pub struct PrefixCache {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    /// Beside the entries.
    runs: Vec<Run>,
    /// By first hash: the run, and which of its lives. Evicting leaves a run in it: the life tells, and costs nothing.
    table: ByHash<(u32, u32)>,
    /// How many runs were lost in each entry.
    lives: Vec<u32>,
    n_runs: usize,
    /// Blocks at the head of the queue, before its entries, of a stretch that was lost.
    n_begun: u64,
    /// Entries of free blocks, the one freed longest ago first, at places that count on. One that left the queue, or
    /// has a later place, is passed over when its turn comes.
    queue: VecDeque<u32>,
    first_place: u64,
    n_queued: usize,
    /// The runs of the chain found last, and how many stretches of each.
    found: Vec<(u32, usize)>,
}

impl PrefixCache {
    /// A cache of `total` blocks, all free.
    pub fn new(total: u64) -> Self {
        let mut cache = Self {
            entries: Vec::new(),
            vacant: Vec::new(),
            runs: Vec::new(),
            table: ByHash::default(),
            lives: Vec::new(),
            n_runs: 0,
            n_begun: 0,
            queue: VecDeque::new(),
            first_place: 0,
            n_queued: 0,
            found: Vec::new(),
        };
        cache.give(total);
        cache
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
        let begun = n.min(self.n_begun);
        self.n_begun -= begun;
        let mut left = n - begun;
        while left > 0 {
            let Some(&at) = self.queue.front() else { return };
            if self.entries[at as usize].place == self.first_place {
                if self.entries[at as usize].kind == Kind::Shared {
                    if !self.lose(at, &mut left, host) {
                        return;
                    }
                } else {
                    let entry = &mut self.entries[at as usize];
                    let blocks = u64::from(entry.blocks);
                    if blocks > left {
                        entry.blocks -= left as u32;
                        return;
                    }
                    left -= blocks;
                }
                self.n_queued -= 1;
                self.entries[at as usize].place = NOWHERE;
                self.vacate(at);
            }
            self.queue.pop_front();
            self.first_place += 1;
        }
    }

    /// Take up to `left` blocks of the run at the head of the queue, from its end on; true if nothing is left of it.
    fn lose(&mut self, at: u32, left: &mut u64, host: &mut HostMemory) -> bool {
        let run = &mut self.runs[at as usize];
        while *left > 0 {
            let Some(hash) = run.hashes.pop() else { break };
            host.keep(hash, run.last);
            let blocks = u64::from(run.last);
            self.entries[at as usize].blocks -= run.last;
            run.last = run.each;
            // The rest of a stretch that was begun has nothing to find in it.
            self.n_begun = blocks.saturating_sub(*left);
            *left -= blocks.min(*left);
        }
        if !run.hashes.is_empty() {
            return false;
        }
        let parent = run.parent;
        if parent != NONE {
            self.runs[parent as usize].n_children -= 1;
        }
        self.n_runs -= 1;
        self.lives[at as usize] += 1;
        true
    }

    fn insert(&mut self, entry: Entry) -> u32 {
        if let Some(at) = self.vacant.pop() {
            self.entries[at as usize] = entry;
            return at;
        }
        self.entries.push(entry);
        self.lives.push(0);
        self.runs.push(Run::NOTHING);
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

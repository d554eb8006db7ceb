//! Chains of stretches in a cache: finding, holding, adding and leaving them.

use super::run::Run;
use super::{Entry, Kind, PrefixCache, NONE, NOWHERE};
use crate::host::HostMemory;

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

/// What became of stretches that were made findable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The run that ends with them.
    pub deepest: u32,
    pub n: usize,
    pub blocks: u64,
    /// They were here already: how many of these blocks that took from the queue.
    pub taken: Option<u64>,
}

impl PrefixCache {
    /// The longest chain of `hashes` that is cached here or in host memory; `blocks_of` says how many blocks each has.
    pub fn find(&mut self, hashes: &[u64], blocks_of: impl Fn(usize) -> u64, host: &HostMemory) -> Found {
        let mut found = Found::default();
        let mut parent = NONE;
        self.found.clear();
        while let Some(at) = hashes.get(found.n_hashes).and_then(|&hash| self.begins_with(hash, parent)) {
            let from = found.n_hashes;
            let run = &self.runs[at as usize];
            let (n, blocks) = run.alike(&hashes[from..], |k| blocks_of(from + k));
            if n == 0 {
                break;
            }
            self.found.push((at, n));
            found.held += if self.entries[at as usize].refs > 0 { blocks } else { 0 };
            found.blocks += blocks;
            found.n_hashes += n;
            if n < run.hashes.len() {
                break;
            }
            parent = at;
        }
        for (at, hash) in hashes.iter().enumerate().skip(found.n_hashes) {
            let blocks = blocks_of(at);
            if host.find(*hash).map(u64::from) != Some(blocks) {
                break;
            }
            found.fetched += blocks;
            found.blocks += blocks;
            found.n_hashes += 1;
        }
        found
    }

    /// The run behind `parent` that begins with `hash`.
    fn begins_with(&self, hash: u64, parent: u32) -> Option<u32> {
        let &(at, life) = self.table.get(&hash)?;
        (self.lives[at as usize] == life && self.runs[at as usize].parent == parent).then_some(at)
    }

    /// Hold the chain found last, which is `hashes`. Returns its last run and the blocks that this takes from the queue;
    /// those of what was in host memory are yet to be taken.
    pub fn hold_found(&mut self, hashes: &[u64], host: &mut HostMemory) -> (u32, u64) {
        let (mut deepest, mut taken, mut n_here) = (NONE, 0, 0);
        for place in 0..self.found.len() {
            let (at, n) = self.found[place];
            taken += self.hold(at, n, &mut deepest);
            n_here += n;
        }
        for &hash in &hashes[n_here..] {
            let blocks = host.remove(hash).unwrap_or(0);
            deepest = self.add(deepest, &[hash], |_| u64::from(blocks)).deepest;
        }
        (deepest, taken)
    }

    /// Hold the first `n` stretches of a run, which becomes `deepest`; returns the blocks that this takes from the queue.
    fn hold(&mut self, at: u32, n: usize, deepest: &mut u32) -> u64 {
        let at = if n < self.runs[at as usize].hashes.len() { self.split(at, n) } else { at };
        *deepest = at;
        let is_free = self.entries[at as usize].refs == 0;
        self.entries[at as usize].refs += 1;
        if !is_free {
            return 0;
        }
        if self.entries[at as usize].place != NOWHERE {
            self.unlink(at);
        }
        u64::from(self.entries[at as usize].blocks)
    }

    /// Make the first `n` stretches of a run one of their own, with the same holders, and return it. The rest keeps its
    /// place in the queue; the new one is about to be held.
    fn split(&mut self, at: u32, n: usize) -> u32 {
        let rest = self.runs[at as usize].hashes.split_off(n);
        let head = std::mem::replace(&mut self.runs[at as usize].hashes, rest);
        let (parent, each) = (self.runs[at as usize].parent, self.runs[at as usize].each);
        let blocks = each * n as u32;
        let refs = self.entries[at as usize].refs;
        self.entries[at as usize].blocks -= blocks;
        let before = self.insert(Entry { kind: Kind::Shared, blocks, refs, place: NOWHERE });
        self.note(head[0], before);
        self.note(self.runs[at as usize].hashes[0], at);
        self.runs[at as usize].parent = before;
        self.runs[before as usize] = Run { parent, n_children: 1, each, last: each, hashes: head };
        self.n_runs += 1;
        before
    }

    /// Make stretches of a running sequence findable, which holds the chain that ends with `deepest`: at least one of
    /// `hashes`, unless another of its name is in the way. Those that are here already are held instead.
    pub fn publish(&mut self, deepest: u32, hashes: &[u64], blocks_of: impl Fn(usize) -> u64) -> Option<Published> {
        let first = *hashes.first()?;
        match self.table.get(&first) {
            Some(&(at, life)) if self.lives[at as usize] == life => {
                let run = &self.runs[at as usize];
                if run.parent != deepest {
                    return None;
                }
                let (n, blocks) = run.alike(hashes, blocks_of);
                let mut held = deepest;
                let taken = if n > 0 { self.hold(at, n, &mut held) } else { return None };
                Some(Published { deepest: held, n, blocks, taken: Some(taken) })
            }
            _ => Some(self.add(deepest, hashes, blocks_of)),
        }
    }

    /// Put stretches that are not here behind `deepest`, held once: at its end if nobody else holds it.
    fn add(&mut self, deepest: u32, hashes: &[u64], blocks_of: impl Fn(usize) -> u64) -> Published {
        let (mut at, mut n, mut blocks) = (deepest, 0, 0);
        let may_grow = deepest != NONE && {
            let run = &self.runs[deepest as usize];
            self.entries[deepest as usize].refs == 1 && run.n_children == 0 && run.last == run.each
        };
        if !may_grow {
            let its = blocks_of(0) as u32;
            at = self.insert(Entry { kind: Kind::Shared, blocks: its, refs: 1, place: NOWHERE });
            let mut own = std::mem::take(&mut self.runs[at as usize].hashes);
            own.push(hashes[0]);
            self.runs[at as usize] = Run { parent: deepest, n_children: 0, each: its, last: its, hashes: own };
            if deepest != NONE {
                self.runs[deepest as usize].n_children += 1;
            }
            self.n_runs += 1;
            self.note(hashes[0], at);
            (n, blocks) = (1, u64::from(its));
        }
        let run = &mut self.runs[at as usize];
        let before = blocks;
        while n < hashes.len() && run.last == run.each {
            run.last = blocks_of(n) as u32;
            run.hashes.push(hashes[n]);
            (n, blocks) = (n + 1, blocks + u64::from(run.last));
        }
        self.entries[at as usize].blocks += (blocks - before) as u32;
        Published { deepest: at, n, blocks, taken: None }
    }

    /// Note by which hash a run is found.
    fn note(&mut self, hash: u64, at: u32) {
        self.table.insert(hash, (at, self.lives[at as usize]));
        if self.table.len() > 2 * self.n_runs + 1024 {
            let lives = &self.lives;
            self.table.retain(|_, &mut (at, life)| lives[at as usize] == life);
        }
    }

    /// Let go of the chain that ends with `deepest`, from its end on; returns the blocks that become free.
    pub fn let_go(&mut self, deepest: u32) -> u64 {
        let (mut at, mut freed) = (deepest, 0);
        while at != NONE {
            let entry = &mut self.entries[at as usize];
            entry.refs -= 1;
            if entry.refs == 0 {
                freed += u64::from(entry.blocks);
                self.link(at);
            }
            at = self.runs[at as usize].parent;
        }
        freed
    }
}

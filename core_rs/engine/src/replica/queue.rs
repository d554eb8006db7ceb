//! The requests that wait at a replica: first come, first served, or by priority and then by arrival.

use std::collections::VecDeque;

use crate::policy::Policy;
use crate::request::Slab;

/// A queue for each level of priority; one where all are equal.
#[derive(Debug)]
pub(super) struct Waiting {
    levels: Vec<VecDeque<u32>>,
    len: usize,
}

impl Waiting {
    pub fn new(n_levels: usize) -> Self {
        Self { levels: vec![VecDeque::new(); n_levels], len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The request that is next.
    pub fn front(&self) -> Option<u32> {
        self.levels.iter().find_map(|level| level.front().copied())
    }

    /// Take a request out, if it waits here.
    pub fn remove(&mut self, slot: u32) -> bool {
        for level in &mut self.levels {
            if let Some(at) = level.iter().position(|&other| other == slot) {
                level.remove(at);
                self.len -= 1;
                return true;
            }
        }
        false
    }

    /// Take all requests out, in order.
    pub fn drain(&mut self) -> Vec<u32> {
        self.len = 0;
        self.levels.iter_mut().flat_map(|level| level.drain(..)).collect()
    }

    /// Take the request that is next.
    pub fn pop_front(&mut self) -> Option<u32> {
        let slot = self.levels.iter_mut().find_map(VecDeque::pop_front)?;
        self.len -= 1;
        Some(slot)
    }

    /// A request that arrives.
    pub fn push(&mut self, slot: u32, policy: &Policy, slab: &Slab) {
        self.len += 1;
        if !policy.is_ranked {
            return self.levels[0].push_back(slot);
        }
        let level = &mut self.levels[policy.level[usize::from(slab[slot].class)]];
        let rank = policy.rank(&slab[slot]);
        let behind = level.iter().rev().take_while(|&&other| policy.rank(&slab[other]) > rank).count();
        level.insert(level.len() - behind, slot);
    }

    /// A request that was preempted: it goes to the head of the queue or, with priorities, to its place by arrival.
    pub fn put_back(&mut self, slot: u32, policy: &Policy, slab: &Slab) {
        self.len += 1;
        if !policy.is_ranked {
            return self.levels[0].push_front(slot);
        }
        let level = &mut self.levels[policy.level[usize::from(slab[slot].class)]];
        let rank = policy.rank(&slab[slot]);
        let before = level.iter().take_while(|&&other| policy.rank(&slab[other]) < rank).count();
        level.insert(before, slot);
    }
}

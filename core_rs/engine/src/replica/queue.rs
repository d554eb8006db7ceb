//! The requests that wait at a replica: first come, first served, or by priority and then by arrival.

use crate::few::Few;
use crate::policy::Policy;
use crate::slab::Slab;

/// A queue for each level of priority; one where all are equal.
#[derive(Debug)]
pub(super) struct Waiting {
    first: Few,
    /// Of the lower levels.
    #[expect(clippy::box_collection, reason = "it is seldom there, and should take little room then")]
    others: Option<Box<Vec<Few>>>,
}

impl Waiting {
    pub fn new(n_levels: usize) -> Self {
        let others = (n_levels > 1).then(|| Box::new(vec![Few::default(); n_levels - 1]));
        Self { first: Few::default(), others }
    }

    pub fn len(&self) -> usize {
        self.first.len() + self.others.iter().flat_map(|others| others.iter()).map(Few::len).sum::<usize>()
    }

    fn levels(&mut self) -> impl Iterator<Item = &mut Few> {
        std::iter::once(&mut self.first).chain(self.others.iter_mut().flat_map(|others| others.iter_mut()))
    }

    fn level(&mut self, at: usize) -> &mut Few {
        match (at.checked_sub(1), &mut self.others) {
            (Some(at), Some(others)) => &mut others[at],
            _ => &mut self.first,
        }
    }

    /// The request that is next.
    pub fn front(&self) -> Option<u32> {
        self.first.first().or_else(|| self.others.iter().flat_map(|others| others.iter()).find_map(Few::first))
    }

    /// The first few of the first level.
    pub fn here(&self) -> impl Iterator<Item = u32> + '_ {
        self.first.here()
    }

    /// Take a request out, if it waits here.
    pub fn remove(&mut self, slot: u32) -> bool {
        self.levels().any(|level| level.position(slot).is_some_and(|at| level.remove(at).is_some()))
    }

    /// Take all requests out, in order.
    pub fn drain(&mut self) -> Vec<u32> {
        self.levels().flat_map(Few::drain).collect()
    }

    /// Take the request that is next.
    pub fn pop_front(&mut self) -> Option<u32> {
        self.levels().find_map(Few::pop_first)
    }

    /// A request that arrives.
    pub fn push(&mut self, slot: u32, policy: &Policy, slab: &Slab) {
        if !policy.is_ranked {
            return self.first.push(slot);
        }
        let level = self.level(policy.level[usize::from(slab[slot].class)]);
        let rank = policy.rank(&slab[slot]);
        let behind = level.iter().rev().take_while(|&other| policy.rank(&slab[other]) > rank).count();
        level.insert(level.len() - behind, slot);
    }

    /// A request that was preempted: it goes to the head of the queue or, with priorities, to its place by arrival.
    pub fn put_back(&mut self, slot: u32, policy: &Policy, slab: &Slab) {
        if !policy.is_ranked {
            return self.first.insert(0, slot);
        }
        let level = self.level(policy.level[usize::from(slab[slot].class)]);
        let rank = policy.rank(&slab[slot]);
        let before = level.iter().take_while(|&other| policy.rank(&slab[other]) < rank).count();
        level.insert(before, slot);
    }
}

//! The queue of what happens next: a heap over small integers with a key each, whose keys can be changed. A node has
//! four children, side by side in one cache line: half as many levels as with two, and a line for each.
//!
//! Ties are broken by the smaller index, so the order of events never depends on the order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;

const ABSENT: u32 = u32::MAX;
/// Children of a node.
const CHILDREN: usize = 4;
/// No member.
const NONE: u128 = u128::MAX;

/// The children of a node; where there are fewer, none behind those.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Siblings([u128; CHILDREN]);

impl Siblings {
    /// The place of the least, without a branch that cannot be foretold.
    #[inline]
    fn least(&self) -> usize {
        let all = &self.0;
        let (a, b) = (usize::from(all[1] < all[0]), 2 + usize::from(all[3] < all[2]));
        a + (b - a) * usize::from(all[b] < all[a])
    }
}

/// What a heap orders its members by: whole numbers of at most 96 bits.
pub trait Key: Copy {
    fn bits(self) -> u128;
    fn of(bits: u128) -> Self;
}

impl Key for u64 {
    #[inline]
    fn bits(self) -> u128 {
        u128::from(self)
    }

    #[inline]
    fn of(bits: u128) -> Self {
        bits as Self
    }
}

/// Members are `0..n`; each is in the heap at most once. All operations are O(log n).
#[derive(Debug, Clone)]
pub struct IndexedHeap<K> {
    /// Key and, in the lowest 32 bits, member: one comparison for both. The top is the last of the first four, and the
    /// children of the node at n are those of the n-th four behind.
    heap: Vec<Siblings>,
    len: usize,
    place: Vec<u32>,
    /// Who came up last to the second, third and fourth level below the top.
    risen: [u32; 3],
    key: PhantomData<K>,
}

impl<K: Key> IndexedHeap<K> {
    /// An empty heap for members `0..n`.
    pub fn new(n: usize) -> Self {
        let heap = vec![Siblings([NONE; CHILDREN]); n.saturating_sub(1).div_ceil(CHILDREN) + 1];
        Self { heap, len: 0, place: vec![ABSENT; n], risen: [ABSENT; 3], key: PhantomData }
    }

    fn item(packed: u128) -> (K, u32) {
        (K::of(packed >> 32), packed as u32)
    }

    #[inline]
    fn at(&mut self, at: usize) -> &mut u128 {
        let place = at + CHILDREN - 1;
        &mut self.heap[place / CHILDREN].0[place % CHILDREN]
    }

    fn get(&self, at: usize) -> Option<u128> {
        let place = at + CHILDREN - 1;
        (at < self.len).then(|| self.heap[place / CHILDREN].0[place % CHILDREN])
    }

    /// The smallest key and its member.
    #[inline]
    pub fn peek(&self) -> Option<(K, u32)> {
        self.get(0).map(Self::item)
    }

    /// Who came up to the second, third and fourth level below the top since this was asked last: their turn is near.
    pub fn risen(&mut self) -> [Option<u32>; 3] {
        std::mem::replace(&mut self.risen, [ABSENT; 3]).map(|member| (member != ABSENT).then_some(member))
    }

    /// The `n` smallest keys and their members, ascending, into `found`; O(n log n) and more only for n above a few.
    pub fn least(&self, n: usize, found: &mut Vec<(K, u32)>) {
        found.clear();
        let mut frontier: BinaryHeap<Reverse<(u128, usize)>> =
            self.get(0).map(|packed| Reverse((packed, 0))).into_iter().collect();
        while let Some(Reverse((packed, at))) = frontier.pop() {
            found.push(Self::item(packed));
            if found.len() == n {
                return;
            }
            for child in CHILDREN * at + 1..=CHILDREN * at + CHILDREN {
                if let Some(packed) = self.get(child) {
                    frontier.push(Reverse((packed, child)));
                }
            }
        }
    }

    /// Put `member` in with `key`, or change its key.
    pub fn set(&mut self, member: u32, key: K) {
        let at = self.place[member as usize];
        let packed = key.bits() << 32 | u128::from(member);
        if at == ABSENT {
            self.len += 1;
            self.rise(self.len - 1, packed);
        } else {
            let at = at as usize;
            if packed < *self.at(at) {
                self.rise(at, packed);
            } else {
                self.sink(at, packed);
            }
        }
    }

    /// Change the key of `member`, if it is in.
    pub fn change(&mut self, member: u32, key: K) {
        if self.place[member as usize] != ABSENT {
            self.set(member, key);
        }
    }

    /// Take `member` out, if it is in.
    pub fn remove(&mut self, member: u32) {
        let at = self.place[member as usize];
        if at == ABSENT {
            return;
        }
        let at = at as usize;
        self.place[member as usize] = ABSENT;
        self.len -= 1;
        let last = std::mem::replace(self.at(self.len), NONE);
        if at == self.len {
            return;
        }
        if at > 0 && last < *self.at((at - 1) / CHILDREN) {
            self.rise(at, last);
        } else {
            self.sink(at, last);
        }
    }

    /// Put `item` where it belongs, at `at` or above.
    fn rise(&mut self, mut at: usize, item: u128) {
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            let above = *self.at(parent);
            if above <= item {
                break;
            }
            *self.at(at) = above;
            self.place[above as u32 as usize] = at as u32;
            at = parent;
        }
        *self.at(at) = item;
        self.place[item as u32 as usize] = at as u32;
    }

    /// Put `item` where it belongs, at `at` or below.
    fn sink(&mut self, mut at: usize, item: u128) {
        while let Some(below) = self.heap.get(at + 1) {
            let child = below.least();
            let least = below.0[child];
            if item <= least {
                break;
            }
            *self.at(at) = least;
            self.place[least as u32 as usize] = at as u32;
            match at {
                5..21 => self.risen[0] = least as u32,
                21..85 => self.risen[1] = least as u32,
                85..341 => self.risen[2] = least as u32,
                _ => {}
            }
            at = CHILDREN * at + 1 + child;
        }
        *self.at(at) = item;
        self.place[item as u32 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn agrees_with_a_sorted_list() {
        let mut heap = IndexedHeap::new(50);
        let mut plain: Vec<Option<u64>> = vec![None; 50];
        let mut dice = Stream::new(1, Purpose::RouterChoice, 0, 0);
        for _ in 0..20_000 {
            let member = dice.below(50) as usize;
            if dice.below(4) == 0 {
                heap.remove(member as u32);
                plain[member] = None;
            } else {
                let key = dice.below(30);
                heap.set(member as u32, key);
                plain[member] = Some(key);
            }
            let least = plain.iter().enumerate().filter_map(|(i, k)| k.map(|k| (k, i as u32))).min();
            assert_eq!(heap.peek(), least);
            if member == 0 {
                let mut all: Vec<_> = plain.iter().enumerate().filter_map(|(i, k)| k.map(|k| (k, i as u32))).collect();
                all.sort_unstable();
                all.truncate(4);
                let mut found = Vec::new();
                heap.least(4, &mut found);
                assert_eq!(found, all);
            }
        }
    }
}

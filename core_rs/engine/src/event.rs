//! The queue of what happens next: a heap over small integers with a key each, whose keys can be changed. A node has
//! four children, side by side: half as many levels as with two, and fewer cache lines on the way through them.
//!
//! Ties are broken by the smaller index, so the order of events never depends on the order of insertion.

const ABSENT: u32 = u32::MAX;
/// Children of a node in the heaps of the simulator.
pub const CHILDREN: usize = 4;

/// Where the least child of the node at `at` stands; none below a leaf.
#[inline]
pub fn least_child<T: Ord + Copy>(heap: &[T], at: usize) -> Option<usize> {
    let first = CHILDREN * at + 1;
    match heap.get(first..first + CHILDREN) {
        Some(all) => {
            let (a, b) = (usize::from(all[1] < all[0]), 2 + usize::from(all[3] < all[2]));
            Some(first + if all[b] < all[a] { b } else { a })
        }
        None => (first..heap.len()).min_by_key(|&at| heap[at]),
    }
}

/// Members are `0..n`; each is in the heap at most once. All operations are O(log n).
#[derive(Debug, Clone)]
pub struct IndexedHeap<K> {
    heap: Vec<(K, u32)>,
    place: Vec<u32>,
}

impl<K: Ord + Copy> IndexedHeap<K> {
    /// An empty heap for members `0..n`.
    pub fn new(n: usize) -> Self {
        Self { heap: Vec::with_capacity(n), place: vec![ABSENT; n] }
    }

    /// The smallest key and its member.
    pub fn peek(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// Members that are likely to be the smallest soon: the next, and its brothers.
    pub fn soon(&self) -> impl Iterator<Item = u32> + '_ {
        let brothers = self.heap.get(1..self.heap.len().min(1 + CHILDREN)).unwrap_or_default();
        let next = brothers.iter().enumerate().min_by_key(|(_, &item)| item).map_or(0, |(at, _)| at);
        brothers[next..].iter().chain(&brothers[..next]).map(|&(_, member)| member)
    }

    /// The `n` smallest keys and their members, ascending, into `found`; O(n log n) and more only for n above a few.
    pub fn least(&self, n: usize, found: &mut Vec<(K, u32)>) {
        found.clear();
        let mut frontier: std::collections::BinaryHeap<std::cmp::Reverse<(K, u32, usize)>> =
            self.heap.first().map(|&(key, member)| std::cmp::Reverse((key, member, 0))).into_iter().collect();
        while let Some(std::cmp::Reverse((key, member, at))) = frontier.pop() {
            found.push((key, member));
            if found.len() == n {
                return;
            }
            for child in CHILDREN * at + 1..=CHILDREN * at + CHILDREN {
                if let Some(&(key, member)) = self.heap.get(child) {
                    frontier.push(std::cmp::Reverse((key, member, child)));
                }
            }
        }
    }

    /// Put `member` in with `key`, or change its key.
    pub fn set(&mut self, member: u32, key: K) {
        let at = self.place[member as usize];
        if at == ABSENT {
            self.heap.push((key, member));
            self.rise(self.heap.len() - 1);
        } else {
            let at = at as usize;
            let old = self.heap[at].0;
            self.heap[at].0 = key;
            if key < old {
                self.rise(at);
            } else {
                self.sink(at);
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
        let last = self.heap.len() - 1;
        if at == last {
            self.heap.truncate(last);
            return;
        }
        self.heap.swap_remove(at);
        let moved = self.heap[at].1;
        self.rise(at);
        self.sink(self.place[moved as usize] as usize);
    }

    fn rise(&mut self, mut at: usize) {
        let item = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent] <= item {
                break;
            }
            self.heap[at] = self.heap[parent];
            self.place[self.heap[at].1 as usize] = at as u32;
            at = parent;
        }
        self.heap[at] = item;
        self.place[item.1 as usize] = at as u32;
    }

    fn sink(&mut self, mut at: usize) {
        let item = self.heap[at];
        while let Some(child) = least_child(&self.heap, at) {
            let least = self.heap[child];
            if item <= least {
                break;
            }
            self.heap[at] = least;
            self.place[least.1 as usize] = at as u32;
            at = child;
        }
        self.heap[at] = item;
        self.place[item.1 as usize] = at as u32;
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

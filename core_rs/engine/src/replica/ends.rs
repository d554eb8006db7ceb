//! When decoding sequences end: a heap of eight bytes a sequence and four children a node, so that its top and a way
//! through it touch few cache lines.

use crate::event::{least_child, CHILDREN};
use crate::near;

/// Slots by the decode counter at which they end, the first first; of equals the lower slot.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    /// No end is before it, and none so far behind that 32 bits do not hold the distance.
    base: u64,
    /// Distance of the end in the upper half, the slot in the lower.
    heap: Vec<u64>,
}

impl Ends {
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Ask for the memory of the upper levels, and of the last place.
    pub fn fetch(&self) {
        for at in [0, 8, 16, self.heap.len()] {
            near::fetch_at(&self.heap, at);
        }
    }

    fn item(&self, key: u64) -> (u64, u32) {
        (self.base + (key >> 32), key as u32)
    }

    /// The first end, and whose it is.
    pub fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().map(|&key| self.item(key))
    }

    /// A sequence ends `left` tokens from `counter` on; none ends before `counter`.
    pub fn push(&mut self, counter: u64, left: u32, slot: u32) {
        if self.heap.is_empty() {
            self.base = counter;
        } else if counter - self.base + u64::from(left) > u64::from(u32::MAX) {
            let passed = (counter - self.base) << 32;
            self.heap.iter_mut().for_each(|key| *key -= passed);
            self.base = counter;
        }
        self.heap.push(((counter - self.base + u64::from(left)) << 32) | u64::from(slot));
        self.rise(self.heap.len() - 1);
    }

    pub fn pop(&mut self) -> Option<(u64, u32)> {
        let first = self.first()?;
        self.heap.swap_remove(0);
        if !self.heap.is_empty() {
            self.sink(0);
        }
        Some(first)
    }

    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.heap.iter().map(|&key| key as u32)
    }

    /// Take `slot` out; true if it was in.
    pub fn remove(&mut self, slot: u32) -> bool {
        let Some(at) = self.slots().position(|other| other == slot) else { return false };
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.rise(at);
            self.sink(at);
        }
        true
    }

    /// Ends before `to`, and whose they are, in any order.
    pub fn before(&self, to: u64, mut each: impl FnMut(u64, u32)) {
        if self.first().is_none_or(|(end, _)| end >= to) {
            return;
        }
        // Below a node that ends later, all do.
        let mut places = vec![0];
        while let Some(at) = places.pop() {
            let (end, slot) = self.item(self.heap[at]);
            each(end, slot);
            let children = CHILDREN * at + 1..self.heap.len().min(CHILDREN * at + 1 + CHILDREN);
            places.extend(children.filter(|&at| self.item(self.heap[at]).0 < to));
        }
    }

    fn rise(&mut self, mut at: usize) {
        let key = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = key;
    }

    fn sink(&mut self, mut at: usize) {
        let key = self.heap[at];
        while let Some(child) = least_child(&self.heap, at) {
            let least = self.heap[child];
            if key <= least {
                break;
            }
            self.heap[at] = least;
            at = child;
        }
        self.heap[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn agrees_with_a_sorted_list() {
        let mut dice = Stream::new(8, Purpose::RouterChoice, 0, 0);
        for longest in [3, 1_000, u64::from(u32::MAX)] {
            let (mut ends, mut plain, mut counter) = (Ends::default(), Vec::new(), 7);
            for slot in 0..5_000 {
                match dice.below(5) {
                    0..=1 => {
                        let left = 1 + dice.below(longest) as u32;
                        ends.push(counter, left, slot);
                        plain.push((counter + u64::from(left), slot));
                    }
                    2 => {
                        plain.sort_unstable();
                        let first = (!plain.is_empty()).then(|| plain.remove(0));
                        assert_eq!(ends.pop(), first);
                    }
                    3 if !plain.is_empty() => {
                        let (_, slot) = plain.remove(dice.below(plain.len() as u64) as usize);
                        assert!(ends.remove(slot) && !ends.remove(slot));
                    }
                    _ => {
                        counter = plain.iter().map(|&(end, _)| end).min().unwrap_or(counter).min(counter + longest / 9);
                    }
                }
                let to = counter + dice.below(longest);
                let mut found = Vec::new();
                ends.before(to, |end, slot| found.push((end, slot)));
                found.sort_unstable();
                plain.sort_unstable();
                assert!(found.iter().eq(plain.iter().filter(|&&(end, _)| end < to)));
                assert_eq!((ends.len(), ends.first()), (plain.len(), plain.first().copied()));
                assert_eq!(ends.is_empty(), ends.slots().count() == 0);
            }
        }
    }
}

//! When decoding sequences end. The next few are in order; those behind them are not, so that with many sequences neither
//! a new one nor an end touches more than a cache line or two, and putting the next few in order goes straight through.

use crate::near;

/// Slots by the decode counter at which they end, the first first; of equals the lower slot.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    /// No end is before it, and none so far behind that 32 bits do not hold the distance.
    base: u64,
    /// Distance of the end in the upper half, the slot in the lower. The first ends, the first last; of all where there
    /// are any.
    soon: Vec<u64>,
    /// All that are behind those, in no order.
    later: Vec<u64>,
}

/// So many are put in order at a time, or this share of all.
const FEW: usize = 16;
const SHARE: usize = 8;

impl Ends {
    pub fn len(&self) -> usize {
        self.soon.len() + self.later.len()
    }

    pub fn is_empty(&self) -> bool {
        self.soon.is_empty()
    }

    /// Ask for the memory of the first ends, and of where new ones go.
    pub fn fetch(&self) {
        near::fetch_at(&self.soon, self.soon.len().saturating_sub(1));
        near::fetch_at(&self.later, self.later.len());
    }

    fn item(&self, key: u64) -> (u64, u32) {
        (self.base + (key >> 32), key as u32)
    }

    /// The first end, and whose it is.
    pub fn first(&self) -> Option<(u64, u32)> {
        self.soon.last().map(|&key| self.item(key))
    }

    /// Slots of the next `n` ends.
    pub fn next(&self, n: usize) -> impl Iterator<Item = u32> + '_ {
        self.soon.iter().rev().take(n).map(|&key| key as u32)
    }

    /// A sequence ends `left` tokens from `counter` on; none ends before `counter`.
    pub fn push(&mut self, counter: u64, left: u32, slot: u32) {
        if self.is_empty() {
            self.base = counter;
        } else if counter - self.base + u64::from(left) > u64::from(u32::MAX) {
            let passed = (counter - self.base) << 32;
            self.soon.iter_mut().chain(&mut self.later).for_each(|key| *key -= passed);
            self.base = counter;
        }
        let key = ((counter - self.base + u64::from(left)) << 32) | u64::from(slot);
        let is_later = match self.soon.first() {
            Some(&last) => key > last && (self.soon.len() >= FEW || !self.later.is_empty()),
            None => false,
        };
        if is_later {
            self.later.push(key);
            return;
        }
        let at = self.soon.partition_point(|&other| other > key);
        self.soon.insert(at, key);
        let many = self.n_few() * 4;
        if self.soon.len() > many {
            self.later.extend(self.soon.drain(..many / 2));
        }
    }

    fn n_few(&self) -> usize {
        FEW.max(self.len() / SHARE)
    }

    pub fn pop(&mut self) -> Option<(u64, u32)> {
        let first = self.soon.pop().map(|key| self.item(key));
        if self.soon.is_empty() && !self.later.is_empty() {
            self.sort_few();
        }
        first
    }

    /// Put the first of those behind in order.
    fn sort_few(&mut self) {
        let n = self.n_few().min(self.later.len());
        let begin = self.later.len() - n;
        if begin > 0 {
            self.later.select_nth_unstable_by(begin, |a, b| b.cmp(a));
        }
        self.soon.extend(self.later.drain(begin..));
        self.soon.sort_unstable_by(|a, b| b.cmp(a));
    }

    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.soon.iter().chain(&self.later).map(|&key| key as u32)
    }

    /// Take `slot` out; true if it was in.
    pub fn remove(&mut self, slot: u32) -> bool {
        if let Some(at) = self.soon.iter().position(|&key| key as u32 == slot) {
            self.soon.remove(at);
            if self.soon.is_empty() {
                self.sort_few();
            }
            return true;
        }
        let at = self.later.iter().position(|&key| key as u32 == slot);
        at.map(|at| self.later.swap_remove(at)).is_some()
    }

    /// Ends before `to`, and whose they are, in any order.
    pub fn before(&self, to: u64, mut each: impl FnMut(u64, u32)) {
        let mut is_done = false;
        for &key in self.soon.iter().rev() {
            let (end, slot) = self.item(key);
            is_done = end >= to;
            if is_done {
                break;
            }
            each(end, slot);
        }
        if !is_done {
            self.later
                .iter()
                .map(|&key| self.item(key))
                .filter(|&(end, _)| end < to)
                .for_each(|(end, slot)| each(end, slot));
        }
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

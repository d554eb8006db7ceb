//! Lists of slots that are nearly always short: the first few stand in place, so that a look at them goes nowhere else.

use std::collections::VecDeque;

const IN_PLACE: usize = 5;

/// A queue of slots; those beyond the first few are apart.
#[derive(Debug, Clone, Default)]
pub struct Few {
    here: [u32; IN_PLACE],
    n_here: u32,
    /// Behind those in place, which are full then.
    #[expect(clippy::box_collection, reason = "it is nearly never there, and should take little room then")]
    apart: Option<Box<VecDeque<u32>>>,
}

impl Few {
    pub fn len(&self) -> usize {
        if self.is_all_here() {
            return self.n_here as usize;
        }
        IN_PLACE + self.apart.as_ref().map_or(0, |apart| apart.len())
    }

    /// Nothing is apart, without a look at it.
    fn is_all_here(&self) -> bool {
        (self.n_here as usize) < IN_PLACE
    }

    pub fn is_empty(&self) -> bool {
        self.n_here == 0
    }

    pub fn first(&self) -> Option<u32> {
        (self.n_here > 0).then_some(self.here[0])
    }

    /// Those in place.
    pub fn here(&self) -> impl Iterator<Item = u32> + '_ {
        self.here[..self.n_here as usize].iter().copied()
    }

    pub fn get(&self, at: usize) -> Option<u32> {
        if at < self.n_here as usize {
            return self.here.get(at).copied();
        }
        if self.is_all_here() {
            return None;
        }
        self.apart.as_ref()?.get(at - self.n_here as usize).copied()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let apart = self.apart.as_ref().filter(|_| !self.is_all_here());
        let apart = apart.map_or((&[][..], &[][..]), |apart| apart.as_slices());
        self.here[..self.n_here as usize].iter().chain(apart.0).chain(apart.1).copied()
    }

    #[inline]
    pub fn push(&mut self, slot: u32) {
        if let Some(place) = self.here.get_mut(self.n_here as usize) {
            *place = slot;
            self.n_here += 1;
        } else {
            self.apart.get_or_insert_default().push_back(slot);
        }
    }

    pub fn pop_first(&mut self) -> Option<u32> {
        let slot = self.first()?;
        let [_, rest @ ..] = self.here;
        self.here[..IN_PLACE - 1].copy_from_slice(&rest);
        self.fill_up();
        Some(slot)
    }

    /// The last place is free: the first of those apart takes it.
    fn fill_up(&mut self) {
        let next = if self.is_all_here() { None } else { self.apart.as_mut().and_then(|apart| apart.pop_front()) };
        match next {
            Some(next) => self.here[IN_PLACE - 1] = next,
            None => self.n_here -= 1,
        }
    }

    /// Take out the slot at `at`.
    pub fn remove(&mut self, at: usize) -> Option<u32> {
        let n = self.n_here as usize;
        if at == 0 {
            return self.pop_first();
        }
        if at >= n {
            return self.apart.as_mut()?.remove(at - n);
        }
        let slot = self.here[at];
        self.here.copy_within(at + 1..n, at);
        self.fill_up();
        Some(slot)
    }

    /// Put a slot in before the one that is at `at`.
    pub fn insert(&mut self, at: usize, slot: u32) {
        let n = self.n_here as usize;
        if at >= n && n == IN_PLACE {
            self.apart.get_or_insert_default().insert(at - n, slot);
            return;
        }
        if n == IN_PLACE {
            self.apart.get_or_insert_default().push_front(self.here[n - 1]);
        } else {
            self.n_here += 1;
        }
        self.here.copy_within(at..self.n_here as usize - 1, at + 1);
        self.here[at] = slot;
    }

    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let mut at = 0;
        while let Some(slot) = self.get(at) {
            if keep(slot) {
                at += 1;
            } else {
                self.remove(at);
            }
        }
    }

    pub fn position(&self, slot: u32) -> Option<usize> {
        self.iter().position(|other| other == slot)
    }

    /// Take all out, in order.
    pub fn drain(&mut self) -> Vec<u32> {
        let all = self.iter().collect();
        *self = Self::default();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn agrees_with_a_plain_list() {
        let mut dice = Stream::new(3, Purpose::RouterChoice, 0, 0);
        let (mut few, mut plain) = (Few::default(), Vec::new());
        for slot in 0..20_000 {
            let at = dice.below(plain.len() as u64 + 1) as usize;
            match dice.below(7) {
                0..=2 => {
                    few.push(slot);
                    plain.push(slot);
                }
                3 => {
                    few.insert(at, slot);
                    plain.insert(at, slot);
                }
                4 => assert_eq!(few.remove(at), (at < plain.len()).then(|| plain.remove(at))),
                5 => assert_eq!(few.pop_first(), (!plain.is_empty()).then(|| plain.remove(0))),
                _ if plain.len() > 30 => {
                    few.retain(|slot| slot % 3 > 0);
                    plain.retain(|slot| slot % 3 > 0);
                    assert_eq!(few.position(plain[0]), Some(0));
                }
                _ => {}
            }
            assert_eq!(few.iter().collect::<Vec<_>>(), plain);
            assert_eq!(
                (few.len(), few.is_empty(), few.first()),
                (plain.len(), plain.is_empty(), plain.first().copied())
            );
            assert_eq!(few.get(at), plain.get(at).copied());
        }
        assert_eq!(few.drain(), plain);
        assert!(few.is_empty());
    }
}

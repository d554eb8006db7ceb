//! When attention windows of decoding sequences are full: until then, what their steps read grows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::slab::Slab;
use crate::time::NEVER;

/// The decode counter at which the window of a sequence is full, and whose it is: its slot, and its admission, which
/// differs once it has left.
type Kink = Reverse<(u64, u32, u64)>;

/// The kinks to come, the first first. Those of sequences that have left go when it is their turn.
#[derive(Debug)]
pub(super) struct Kinks {
    /// The first, so that a look at it goes nowhere else.
    first: u64,
    #[expect(clippy::box_collection, reason = "with long prompts it is never there, and should take little room then")]
    heap: Option<Box<BinaryHeap<Kink>>>,
}

impl Default for Kinks {
    fn default() -> Self {
        Self { first: NEVER, heap: None }
    }
}

impl Kinks {
    pub fn push(&mut self, at: u64, slot: u32, admission: u64) {
        self.heap.get_or_insert_default().push(Reverse((at, slot, admission)));
        self.first = self.first.min(at);
    }

    fn pop(&mut self) {
        if let Some(heap) = &mut self.heap {
            heap.pop();
            self.first = heap.peek().map_or(NEVER, |&Reverse((at, ..))| at);
        }
    }

    fn is_first_stale(&self, slab: &Slab) -> bool {
        let first = self.heap.as_ref().and_then(|heap| heap.peek());
        first.is_none_or(|&Reverse((_, slot, admission))| slab[slot].admission != admission)
    }

    /// Take out the first if it is at `counter` or before; whether its sequence has left.
    pub fn pass(&mut self, counter: u64, slab: &Slab) -> Option<(u64, bool)> {
        if self.first > counter {
            return None;
        }
        let passed = (self.first, self.is_first_stale(slab));
        self.pop();
        Some(passed)
    }

    /// The first of a sequence that is still there, if `is_near`.
    #[inline]
    pub fn first_near(&mut self, slab: &Slab, is_near: impl Fn(u64) -> bool) -> Option<u64> {
        while self.first < NEVER && is_near(self.first) {
            if !self.is_first_stale(slab) {
                return Some(self.first);
            }
            self.pop();
        }
        None
    }
}

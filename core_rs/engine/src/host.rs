//! Host memory behind a replica's cache: prompt stretches evicted from the chip, and sequences swapped out.

use std::collections::BTreeMap;

use crate::prefix::ByHash;

/// Blocks of host memory. Stretches make room, the one that came first going first; swapped sequences do not.
#[derive(Debug, Clone, Default)]
pub struct HostMemory {
    total: u64,
    swapped: u64,
    cached: u64,
    /// By hash: blocks, and the place in the order of coming.
    table: ByHash<(u32, u64)>,
    order: BTreeMap<u64, u64>,
    n_come: u64,
}

impl HostMemory {
    /// Room for `total` blocks.
    pub fn new(total: u64) -> Self {
        Self { total, ..Self::default() }
    }

    /// Blocks of the stretch `hash`, if it is here.
    pub fn find(&self, hash: u64) -> Option<u32> {
        self.table.get(&hash).map(|&(blocks, _)| blocks)
    }

    /// Keep the stretch `hash`, unless there is no room even with all others gone.
    pub fn keep(&mut self, hash: u64, blocks: u32) {
        if self.total == 0 {
            return;
        }
        self.remove(hash);
        if !self.make_room(u64::from(blocks)) {
            return;
        }
        self.table.insert(hash, (blocks, self.n_come));
        self.order.insert(self.n_come, hash);
        self.n_come += 1;
        self.cached += u64::from(blocks);
    }

    /// Take the stretch `hash` out.
    pub fn remove(&mut self, hash: u64) -> Option<u32> {
        let (blocks, place) = self.table.remove(&hash)?;
        self.order.remove(&place);
        self.cached -= u64::from(blocks);
        Some(blocks)
    }

    /// Take `blocks` blocks for a sequence; false if swapped sequences leave less.
    pub fn swap_out(&mut self, blocks: u64) -> bool {
        let fits = self.make_room(blocks);
        self.swapped += if fits { blocks } else { 0 };
        fits
    }

    /// A sequence of `blocks` blocks has left.
    pub fn swap_in(&mut self, blocks: u64) {
        self.swapped -= blocks;
    }

    fn make_room(&mut self, blocks: u64) -> bool {
        if self.total == 0 || self.total - self.swapped < blocks {
            return false;
        }
        while self.total - self.swapped - self.cached < blocks {
            let Some((_, hash)) = self.order.pop_first() else { return false };
            if let Some((freed, _)) = self.table.remove(&hash) {
                self.cached -= u64::from(freed);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_make_room_and_sequences_do_not() {
        let mut host = HostMemory::new(10);
        host.keep(1, 4);
        host.keep(2, 4);
        host.keep(3, 4);
        assert_eq!((host.find(1), host.find(2), host.find(3)), (None, Some(4), Some(4)));
        assert!(host.swap_out(5));
        assert_eq!((host.find(2), host.find(3)), (None, Some(4)));
        assert!(!host.swap_out(6));
        assert_eq!(host.find(3), Some(4));
        host.keep(4, 6);
        assert_eq!(host.find(4), None);
        host.swap_in(5);
        host.keep(4, 6);
        assert_eq!((host.remove(4), host.remove(4)), (Some(6), None));
    }
}

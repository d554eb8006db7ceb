//! A table by hashes of prompts.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes are spread already, or numbers that follow each other in a prompt. Those stay neighbours in the table: their
/// low halves are kept in order, moved by the high half, and only the top bits (which tell entries apart) are mixed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread(u64);

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
const TOP: u64 = 0xFFFF_0000_0000_0000;

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, hash: u64) {
        let place = (hash & 0xFFFF_FFFF).wrapping_add((hash >> 32).wrapping_mul(ODD));
        self.0 = self.0.rotate_left(8) ^ ((place & !TOP) | (hash.wrapping_mul(ODD) & TOP));
    }
}

/// A table by hash; never iterated, so its order does not matter.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Spread>>;

//! Asking for memory ahead of its use, so that it is near the processor by then. Changes nothing.

use prefetch_index::prefetch_index;

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Ask for the cache lines behind that of `first`, `n` in all.
#[inline]
pub fn fetch_lines(first: &u64, n: usize) {
    for line in 0..n {
        prefetch_index(std::slice::from_ref(first), line * (LINE_BYTES / size_of::<u64>()));
    }
}

/// Ask for the cache line in which the element at `at` begins.
#[inline]
pub fn fetch_at<T>(values: &[T], at: usize) {
    prefetch_index(values, at);
}

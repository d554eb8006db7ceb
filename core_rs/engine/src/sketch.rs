//! Mergeable quantile sketches of non-negative integers (nanoseconds).
//!
//! The sum beside them is in femtoseconds, so that the mean of what a jump adds in one go is exact.
//! Up to `EXACT_MAX` values are kept as they are; beyond, counts in buckets that are 1/128 of a power of two wide, so a
//! value read back from its bucket's middle is at most 1/256 = 0.39 % off. Merging in any order gives the same sketch.

use crate::step::Line;
use crate::sums::Range;
use crate::time::{ns_from_fs, FS_PER_NS};

/// How many values a sketch keeps exactly.
pub const EXACT_MAX: u64 = 1_000;
const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

/// The bucket of a value: values below 128 have one each, above it is (exponent, seven bits of mantissa).
pub fn bucket(value: u64) -> u32 {
    if value < SUB {
        return value as u32;
    }
    let exponent = value.ilog2() - SUB_BITS;
    ((exponent + 1) << SUB_BITS) + ((value >> exponent) - SUB) as u32
}

/// The smallest value of a bucket and how many values it spans.
pub fn bucket_range(bucket: u32) -> (u64, u64) {
    let octave = bucket >> SUB_BITS;
    let low = u64::from(bucket) & (SUB - 1);
    if octave == 0 {
        return (low, 1);
    }
    ((SUB + low) << (octave - 1), 1 << (octave - 1))
}

/// What stands for a bucket: its middle.
pub fn bucket_value(bucket: u32) -> f64 {
    let (low, width) = bucket_range(bucket);
    low as f64 + (width - 1) as f64 / 2.0
}

/// A sketch: count, exact sum, and values or buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sketch {
    count: u64,
    sum_fs: i128,
    values: Vec<u64>,
    counts: Vec<u64>,
}

impl Sketch {
    /// So many zeros.
    pub fn of_zeros(n: u64) -> Self {
        let mut made = Self::default();
        made.insert(0, n);
        made
    }

    /// Add one value.
    pub fn add(&mut self, value: u64) {
        self.sum_fs += i128::from(value) * FS_PER_NS;
        self.insert(value, 1);
    }

    /// Add the durations of steps `from..to` of a time line, each `weight` times, rounded to nanoseconds one by one.
    pub fn add_run(&mut self, line: Line, from: u64, to: u64, weight: u64) {
        if weight == 0 || from >= to {
            return;
        }
        self.sum_fs += Range::new(from, to).sum(line) * i128::from(weight);
        let mut step = from;
        while step < to {
            let value = ns_from_fs(line.base + line.slope * i128::from(step));
            let mut next = to;
            if line.slope > 0 {
                // Every step before `next` rounds into the same bucket (or, kept exactly, to the same value).
                let end = if self.count + (to - step) * weight <= EXACT_MAX {
                    value + 1
                } else {
                    let (low, width) = bucket_range(bucket(value));
                    low.saturating_add(width)
                };
                let room = i128::from(end) * FS_PER_NS - FS_PER_NS / 2 - line.base;
                next = ceil_div(room, line.slope).clamp(step + 1, to);
            }
            self.insert(value, (next - step) * weight);
            step = next;
        }
    }

    fn insert(&mut self, value: u64, n: u64) {
        self.count += n;
        if self.count <= EXACT_MAX {
            self.values.extend(std::iter::repeat_n(value, n as usize));
            return;
        }
        self.spill();
        self.tally(bucket(value), n);
    }

    /// Take in another sketch.
    pub fn merge(&mut self, other: &Self) {
        if self.count + other.count <= EXACT_MAX {
            self.values.extend_from_slice(&other.values);
        } else {
            self.spill();
            for &value in &other.values {
                self.tally(bucket(value), 1);
            }
            for (bucket, &n) in other.counts.iter().enumerate() {
                self.tally(bucket as u32, n);
            }
        }
        self.count += other.count;
        self.sum_fs += other.sum_fs;
    }

    fn spill(&mut self) {
        for value in std::mem::take(&mut self.values) {
            self.tally(bucket(value), 1);
        }
    }

    fn tally(&mut self, bucket: u32, n: u64) {
        if n == 0 {
            return;
        }
        let at = bucket as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += n;
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of the values, in femtoseconds.
    pub fn sum_fs(&self) -> i128 {
        self.sum_fs
    }

    /// Rows (value or bucket, count), ascending; `true` if the keys are buckets.
    pub fn rows(&self) -> (bool, Vec<(u64, u64)>) {
        if self.counts.is_empty() {
            let mut values = self.values.clone();
            values.sort_unstable();
            let mut rows: Vec<(u64, u64)> = Vec::new();
            for value in values {
                match rows.last_mut() {
                    Some((last, n)) if *last == value => *n += 1,
                    _ => rows.push((value, 1)),
                }
            }
            return (false, rows);
        }
        (true, self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(b, n)| (b as u64, *n)).collect())
    }
}

/// The smallest n with n * by >= of, for by > 0; never negative.
fn ceil_div(of: i128, by: i128) -> u64 {
    match (i64::try_from(of), i64::try_from(by)) {
        (Ok(of), Ok(by)) => of.saturating_add(by - 1).div_euclid(by).max(0) as u64,
        _ => u64::try_from((of + by - 1).div_euclid(by)).unwrap_or(0),
    }
}

/// The quantile by linear interpolation between ranks (rank = q (n - 1), as numpy and polars 'linear'), over a
/// population of `n_low` members below every value, the rows, and members beyond every value up to `n_total`.
///
/// `None` when a rank that counts falls on a member without a value.
pub fn quantile(is_buckets: bool, rows: &[(u64, u64)], n_low: u64, n_total: u64, q: f64) -> Option<f64> {
    if n_total == 0 {
        return None;
    }
    let rank = q.clamp(0.0, 1.0) * (n_total - 1) as f64;
    let below = rank as u64;
    let share = rank - below as f64;
    let low = value_at(is_buckets, rows, n_low, below)?;
    if share == 0.0 {
        return Some(low);
    }
    let high = value_at(is_buckets, rows, n_low, below + 1)?;
    Some(low + (high - low) * share)
}

fn value_at(is_buckets: bool, rows: &[(u64, u64)], n_low: u64, rank: u64) -> Option<f64> {
    let mut left = rank.checked_sub(n_low)?;
    for &(key, n) in rows {
        if left < n {
            return Some(if is_buckets { bucket_value(key as u32) } else { key as f64 });
        }
        left -= n;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn buckets_tile_the_integers() {
        let mut next = 0;
        for b in 0..7_000 {
            let (low, width) = bucket_range(b);
            assert_eq!(low, next);
            assert_eq!(bucket(low), b);
            assert_eq!(bucket(low + (width - 1)), b);
            assert!((bucket_value(b) - low as f64).abs() <= low as f64 * 0.0040);
            next = low + width;
        }
        assert_eq!(bucket_range(bucket(u64::MAX)).0, 0xFF00_0000_0000_0000);
    }

    #[test]
    fn merging_in_any_order_gives_the_same_sketch() {
        let mut dice = Stream::new(5, Purpose::RouterChoice, 0, 0);
        for size in [10, 400, 5_000] {
            let parts: Vec<Sketch> = (0..4)
                .map(|_| {
                    let mut part = Sketch::default();
                    (0..size).for_each(|_| part.add(dice.below(1 << 40)));
                    part
                })
                .collect();
            let join = |order: [usize; 4]| {
                let mut all = Sketch::default();
                for i in order {
                    all.merge(&parts[i]);
                }
                (all.rows(), all.count(), all.sum_fs())
            };
            assert_eq!(join([0, 1, 2, 3]), join([3, 1, 0, 2]));
        }
    }

    #[test]
    fn a_run_equals_its_steps() {
        for (base, slope, from, to, weight) in
            [(7_123_456, 0, 0, 5, 3), (9_000_000, 1_234, 3, 90, 2), (123_456_789_012, 9_876_543, 5, 9_000, 7)]
        {
            let line = Line { base, slope };
            let (mut run, mut steps) = (Sketch::default(), Sketch::default());
            run.add_run(line, from, to, weight);
            for i in from..to {
                (0..weight).for_each(|_| steps.add(ns_from_fs(base + slope * i128::from(i))));
            }
            assert_eq!(run.rows(), steps.rows());
            assert_eq!(run.count(), steps.count());
            assert!((run.sum_fs() - steps.sum_fs()).abs() <= FS_PER_NS / 2 * i128::from(run.count()));
        }
    }

    #[test]
    fn p99_by_linear_interpolation() {
        // DESIGN 11: n = 1, 2, 10, 99, 100 of the values 1..=n: rank 0.99 (n-1), so value 1 + 0.99 (n-1).
        for n in [1u64, 2, 10, 99, 100] {
            let mut s = Sketch::default();
            (1..=n).for_each(|v| s.add(v));
            let (is_buckets, rows) = s.rows();
            let got = quantile(is_buckets, &rows, 0, n, 0.99).unwrap();
            assert!((got - (1.0 + 0.99 * (n - 1) as f64)).abs() < 1e-9, "{n}: {got}");
        }
        // C41: 108 values of 100 ms, one 200, one 5000: rank 107.91 is 100 + 0.91 x 100 = 191.
        let rows = [(100, 108), (200, 1), (5000, 1)];
        assert!((quantile(false, &rows, 0, 110, 0.99).unwrap() - 191.0).abs() < 1e-9);
        // Ten of a hundred never got a value: p89 exists (rank 88.11, between values 89 and 90), p95 does not.
        let rows: Vec<(u64, u64)> = (1..=90).map(|v| (v, 1)).collect();
        assert!((quantile(false, &rows, 0, 100, 0.89).unwrap() - 89.11).abs() < 1e-9);
        assert_eq!(quantile(false, &rows, 0, 100, 0.95), None);
    }
}

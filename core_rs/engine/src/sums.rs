//! Closed-form sums over steps whose cost grows linearly: the arithmetic that lets a replica jump.
//!
//! With step i lasting `a + b i`, the first n steps last S(n) = n a + b n(n-1)/2, exact in 128-bit integers.

use crate::step::Line;

/// Steps `from..to`, as sums over them need them.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    n: i128,
    /// Sums of i, and of i^2, over the steps.
    first: i128,
    second: i128,
}

impl Range {
    #[inline]
    pub fn new(from: u64, to: u64) -> Self {
        if to < 1 << 20 {
            // All of it in 64 bits, and known to be.
            let (of, up) = (from as i64, to as i64);
            let pairs = |n: i64| n * (n - 1) / 2;
            let squares = |n: i64| (n - 1) * n * (2 * n - 1) / 6;
            return Self {
                n: i128::from(up - of),
                first: i128::from(pairs(up) - pairs(of)),
                second: i128::from(squares(up) - squares(of)),
            };
        }
        Self {
            n: i128::from(to) - i128::from(from),
            first: triangle(to) - triangle(from),
            second: pyramid(to) - pyramid(from),
        }
    }

    /// Sum of a line.
    #[inline]
    pub fn sum(&self, line: Line) -> i128 {
        line.base * self.n + line.slope * self.first
    }

    /// Sum of i times a line.
    #[inline]
    pub fn moment(&self, line: Line) -> i128 {
        line.base * self.first + line.slope * self.second
    }
}

/// Sum of a line over steps `0..n`.
#[inline]
pub fn prefix(line: Line, n: u64) -> i128 {
    if n < 1 << 32 {
        // Factors that are known to have a sign in 64 bits are one multiplication.
        return line.base * i128::from(n as u32) + line.slope * i128::from((n * n.saturating_sub(1) / 2) as i64);
    }
    line.base * i128::from(n) + if line.slope == 0 { 0 } else { line.slope * triangle(n) }
}

/// Sum over steps `0..n` of i times a line.
#[inline]
pub fn moment(line: Line, n: u64) -> i128 {
    line.base * triangle(n) + line.slope * pyramid(n)
}

/// Sum of i over 0..n.
#[inline]
fn triangle(n: u64) -> i128 {
    if n < 1 << 32 {
        return i128::from(n * n.saturating_sub(1) / 2);
    }
    let n = i128::from(n);
    n * (n - 1) / 2
}

/// Sum of i^2 over 0..n. Jumps are short: a division in 64 bits does for nearly all.
#[inline]
fn pyramid(n: u64) -> i128 {
    if n < 1 << 20 {
        return i128::from(n.saturating_sub(1) * n * (2 * n).saturating_sub(1) / 6);
    }
    let n = i128::from(n);
    (n - 1) * n * (2 * n - 1) / 6
}

/// The smallest n in `lo..=hi` whose `rises(n)` holds; `hi` where none below it does. `rises` must be monotone.
///
/// Starts from `guess`, so that a good one makes it two or three calls.
pub fn first_step(lo: u64, hi: u64, guess: u64, rises: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (lo, hi.max(lo));
    let (mut at, mut reach) = (guess, 1u64);
    let (mut held, mut failed) = (false, false);
    // Below `low` it fails and from `high` on it holds; stride from the guess until both were seen, then halve.
    while low < high {
        at = at.clamp(low, high - 1);
        if rises(at) {
            (high, held) = (at, true);
        } else {
            (low, failed) = (at + 1, true);
        }
        at = match (held, failed) {
            (true, true) => low + (high - low) / 2,
            (true, false) => at.saturating_sub(reach),
            _ => at.saturating_add(reach),
        };
        reach = reach.saturating_mul(2);
    }
    high
}

/// The nearest float, without a call where 64 bits do.
pub fn float(value: i128) -> f64 {
    match i64::try_from(value) {
        Ok(value) => value as f64,
        Err(_) => wide(value),
    }
}

#[cold]
#[inline(never)]
fn wide(value: i128) -> f64 {
    value as f64
}

/// A float estimate of how many steps of a time line fit in `fs`: the root of the quadratic, exact enough to start from.
pub fn steps_guess(line: Line, fs: i128) -> u64 {
    let (a, b, t) = (float(line.base), float(line.slope), float(fs));
    if t <= 0.0 {
        return 0;
    }
    let n = if b <= 0.0 {
        t / a.max(1.0)
    } else {
        let half = a - 0.5 * b;
        let root = libm::sqrt(half * half + 2.0 * b * t);
        2.0 * t / (half + root).max(1.0)
    };
    n as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_the_loop() {
        let x = Line { base: 7, slope: 3 };
        for n in 0..40u64 {
            let each = |i: u64| x.base + x.slope * i128::from(i);
            assert_eq!(prefix(x, n), (0..n).map(each).sum::<i128>());
            let moment_of = |from: u64| (from..n).map(|i| i128::from(i) * each(i)).sum::<i128>();
            assert_eq!(moment(x, n), moment_of(0));
            let range = Range::new(n / 3, n);
            assert_eq!((range.sum(x), range.moment(x)), ((n / 3..n).map(each).sum(), moment_of(n / 3)));
        }
    }

    #[test]
    fn short_and_long_sums_agree() {
        for n in [0, 1, 2, (1 << 20) - 1, 1 << 20, (1 << 32) - 1, 1 << 32, (1 << 32) + 1] {
            let wide = i128::from(n);
            assert_eq!(triangle(n), wide * (wide - 1) / 2);
            assert_eq!(pyramid(n), (wide - 1) * wide * (2 * wide - 1) / 6);
            let (from, line) = (n / 3, Line { base: 5, slope: 7 });
            assert_eq!(Range::new(from, n).sum(line), prefix(line, n) - prefix(line, from));
            assert_eq!(Range::new(from, n).moment(line), moment(line, n) - moment(line, from));
        }
    }

    #[test]
    fn first_step_from_any_guess() {
        for target in 0..30u64 {
            for guess in 0..40u64 {
                assert_eq!(first_step(2, 25, guess, |n| n >= target), target.clamp(2, 25));
            }
        }
    }
}

//! Quantities that grow by the same amount every step, in whole femtoseconds or femtojoules.

use std::ops::{Add, Sub};

use crate::sums;

/// Whole numbers that lines are made of: 128 bits, or 64 where those are known to hold all of a step.
pub trait Whole: Copy + Ord + Default + Add<Output = Self> + Sub<Output = Self> {
    /// The nearest, half away from zero.
    fn rounded(value: f64) -> Self;
    fn of(value: i128) -> Self;
    fn float(self) -> f64;
    /// `room / closing + 1`, both above 0.
    fn steps(room: Self, closing: Self) -> u64;
}

impl Whole for i128 {
    #[inline]
    fn rounded(value: f64) -> Self {
        round(value)
    }

    #[inline]
    fn of(value: i128) -> Self {
        value
    }

    #[inline]
    fn float(self) -> f64 {
        sums::float(self)
    }

    #[inline]
    fn steps(room: Self, closing: Self) -> u64 {
        match (u64::try_from(room), u64::try_from(closing)) {
            (Ok(room), Ok(closing)) => (room / closing).saturating_add(1),
            _ => u64::try_from(room / closing + 1).unwrap_or(u64::MAX),
        }
    }
}

impl Whole for i64 {
    #[inline]
    fn rounded(value: f64) -> Self {
        near(value)
    }

    #[inline]
    fn of(value: i128) -> Self {
        value as Self
    }

    #[inline]
    fn float(self) -> f64 {
        self as f64
    }

    #[inline]
    fn steps(room: Self, closing: Self) -> u64 {
        (room as u64 / closing as u64).saturating_add(1)
    }
}

/// A quantity over the steps of one composition: `base + slope * i` at step i, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Line<T = i128> {
    pub base: T,
    pub slope: T,
}

impl Line {
    /// The value at step `i`.
    pub fn at(&self, i: u64) -> i128 {
        self.base + self.slope * i128::from(i)
    }
}

impl<T: Whole> Line<T> {
    /// How many steps from 0 this line stays at or above `other`, given that it starts so.
    pub fn steps_above(&self, other: &Self) -> u64 {
        let closing = other.slope - self.slope;
        if closing <= T::default() {
            return u64::MAX;
        }
        T::steps(self.base - other.base, closing)
    }

    #[inline]
    pub(super) fn of(base: f64, slope: f64) -> Self {
        Self { base: T::rounded(base), slope: T::rounded(slope) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { base: self.base + other.base, slope: self.slope + other.slope }
    }
}

/// Nearest integer, half away from zero; saturates where sums of a few of them still hold (1e36 fs are 3e13 years).
#[inline]
pub(super) fn round(value: f64) -> i128 {
    if value.abs() < NEAR {
        return i128::from(near(value));
    }
    value.clamp(-1e36, 1e36).round() as i128
}

/// Below this, 64 bits do.
pub(super) const NEAR: f64 = 9e18;

/// The same in 64 bits, without a call: the largest float below a half carries over what a half and more would.
#[inline]
fn near(value: f64) -> i64 {
    (value + BELOW_HALF.copysign(value)) as i64
}

const BELOW_HALF: f64 = 0.499_999_999_999_999_94;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn rounds_halves_away_from_zero_at_any_size() {
        assert_eq!(f64::to_bits(BELOW_HALF), f64::to_bits(0.5) - 1);
        let mut dice = Stream::new(9, Purpose::RouterChoice, 0, 0);
        for exponent in 0..64 {
            for _ in 0..200 {
                let near = (dice.below(1 << exponent.min(62)) as f64) + [0.0, 0.5][dice.below(2) as usize];
                for bits in [near.to_bits(), near.to_bits() + 1, near.to_bits().saturating_sub(1)] {
                    let value = f64::from_bits(bits);
                    assert_eq!((round(value), round(-value)), (value.round() as i128, (-value).round() as i128));
                }
            }
        }
        assert_eq!(round(1e30), 1e30 as i128);
    }
}

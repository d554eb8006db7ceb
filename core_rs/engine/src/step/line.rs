//! Quantities that grow by the same amount every step, in whole femtoseconds or femtojoules.

/// A quantity over the steps of one composition: `base + slope * i` at step i, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Line {
    pub base: i128,
    pub slope: i128,
}

impl Line {
    /// The value at step `i`.
    pub fn at(&self, i: u64) -> i128 {
        self.base + self.slope * i128::from(i)
    }

    /// How many steps from 0 this line stays at or above `other`, given that it starts so.
    pub fn steps_above(&self, other: &Self) -> u64 {
        let closing = other.slope - self.slope;
        if closing <= 0 {
            return u64::MAX;
        }
        let room = self.base - other.base;
        match (u64::try_from(room), u64::try_from(closing)) {
            (Ok(room), Ok(closing)) => (room / closing).saturating_add(1),
            _ => u64::try_from(room / closing + 1).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn of(base: f64, slope: f64) -> Self {
        Self { base: round(base), slope: round(slope) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { base: self.base + other.base, slope: self.slope + other.slope }
    }
}

/// Nearest integer, half away from zero; saturates where sums of a few of them still hold (1e36 fs are 3e13 years).
pub(super) fn round(value: f64) -> i128 {
    if value.abs() < 9e18 {
        // In 64 bits, without a call: what is left of the whole part is exact.
        let whole = value as i64;
        let left = value - whole as f64;
        return i128::from(whole + i64::from(left >= 0.5) - i64::from(left <= -0.5));
    }
    value.clamp(-1e36, 1e36).round() as i128
}

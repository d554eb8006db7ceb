//! Integer time. Events stand on a nanosecond clock (`u64`, 584 years); what a step lasts is summed in femtoseconds.
//!
//! The conversions live here and nowhere else.

use crate::sums::float;

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// Femtoseconds in a nanosecond.
pub const FS_PER_NS: i128 = 1_000_000;
/// The end of time: no event stands later.
pub const NEVER: u64 = u64::MAX;

/// Femtoseconds to the nearest nanosecond, halves up; negative input gives 0.
pub fn ns_from_fs(fs: i128) -> u64 {
    if let Ok(small) = u64::try_from(fs) {
        return small / 1_000_000 + u64::from(small % 1_000_000 >= 500_000);
    }
    if fs <= 0 {
        return 0;
    }
    u64::try_from(fs.saturating_add(FS_PER_NS / 2) / FS_PER_NS).unwrap_or(NEVER)
}

/// Seconds as a float, for what leaves the engine.
pub fn s_from_ns(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

/// Seconds as a float from a sum of nanoseconds over many replicas.
pub fn s_from_wide_ns(ns: i128) -> f64 {
    ns as f64 / NS_PER_S as f64
}

/// Seconds as a float from femtoseconds.
pub fn s_from_fs(fs: i128) -> f64 {
    float(fs) / 1e15
}

/// Joules as a float from femtojoules.
pub fn j_from_fj(fj: i128) -> f64 {
    float(fj) / 1e15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_the_nearest() {
        assert_eq!(ns_from_fs(499_999), 0);
        assert_eq!(ns_from_fs(500_000), 1);
        assert_eq!(ns_from_fs(-5), 0);
        assert_eq!(ns_from_fs(i128::from(u64::MAX) * 1_000), 18_446_744_073_709_552);
        assert_eq!(ns_from_fs(i128::MAX), NEVER);
    }
}

//! Replicas drawn by lot: any one, or the better of two.

use super::signals::Signals;
use crate::rng::Stream;

/// Any replica that takes requests.
pub fn any(signals: &Signals, among: &[usize], dice: &mut Stream) -> Option<u32> {
    let n = signals.n_up(among);
    if n == 0 {
        return None;
    }
    signals.nth_up(among, dice.below(n))
}

/// Of two different ones the one with less to do; of equals the one chosen longest ago, then the lower number.
pub fn better_of_two(signals: &Signals, among: &[usize], dice: &mut Stream) -> Option<u32> {
    let n = signals.n_up(among);
    if n < 2 {
        return any(signals, among, dice);
    }
    let first = dice.below(n);
    let second = (first + 1 + dice.below(n - 1)) % n;
    [first, second]
        .into_iter()
        .filter_map(|at| signals.nth_up(among, at))
        .min_by_key(|&replica| (signals.load(replica), replica))
}

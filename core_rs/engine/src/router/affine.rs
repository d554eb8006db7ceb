//! The replica that a session or the head of a prompt names, so that what it has cached is found again.

use super::signals::Signals;
use crate::rng::{Purpose, Stream};

/// The replica that `key` names (the next one while it is down), unless with this request it would have more than
/// `most_percent` of the mean outstanding tokens; then, and without a key, the one with the least to do.
pub fn named(
    signals: &Signals,
    among: &[usize],
    key: Option<u64>,
    seed: u64,
    input_tokens: u64,
    most_percent: u64,
) -> Option<u32> {
    let home = key
        .and_then(|key| signals.next_up(among, |n| Stream::new(seed, Purpose::RouterChoice, u64::MAX, key).below(n)));
    let is_bearable = |replica: &u32| {
        let mine = u128::from(signals.load(*replica).outstanding_tokens + input_tokens);
        let all = u128::from(signals.outstanding_tokens(among) + input_tokens);
        mine == u128::from(input_tokens)
            || mine * u128::from(signals.n_up(among)) * 100 <= all * u128::from(most_percent)
    };
    home.filter(is_bearable).or_else(|| signals.least(among))
}

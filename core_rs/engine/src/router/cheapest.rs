//! The deployments of a target in their order, cheapest first: the next one is for what the one before has no room for.

use super::signals::Signals;

/// The least loaded replica of the first deployment where it stays within its `full_tokens`; else the least loaded.
pub fn first_with_room(signals: &Signals, among: &[usize], full_tokens: &[u64], input_tokens: u64) -> Option<u32> {
    let has_room = among.iter().find_map(|&d| {
        let (load, replica) = signals.least_of(d)?;
        (load.outstanding_tokens + input_tokens <= full_tokens[d]).then_some(replica)
    });
    has_room.or_else(|| signals.least(among))
}

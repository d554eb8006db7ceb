//! Prompts that repeat the beginning of earlier ones, in groups: documents, system prompts, templates.
//!
//! A group has a trunk of blocks. A member repeats the trunk's first blocks; what comes after them is its own, unless
//! it repeats the whole trunk, which it then continues. How much each repeats follows from the share that is asked
//! for: as much as keeps the repeated tokens of the class at that share of all of them.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::table::{Column, Table};

/// A member joins one of this many groups, the newest ones.
const LIVE_GROUPS: u64 = 256;
/// A prompt starts a group with this chance, times the square of the share that is new: the more repeats, the larger
/// the groups have to be.
const FOUNDERS: f64 = 0.25;

/// The prompts of a class in order of arrival, and how much of them repeats.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixSpec {
    pub seed: u64,
    pub key: u64,
    /// Share of the input tokens that repeat an earlier prompt's beginning: 0..1.
    pub reuse_frac: f64,
    pub block_tokens: u32,
    pub input_tokens: Vec<u32>,
}

/// What each prompt repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefixes {
    pub group: Vec<u64>,
    /// Blocks from the trunk of its group that earlier prompts have had already.
    pub repeated_blocks: Vec<u32>,
    /// Blocks of the trunk that it holds, the new ones included; its further full blocks are its own.
    pub trunk_blocks: Vec<u32>,
}

impl Prefixes {
    pub(super) fn table(self) -> Table {
        Table::of([
            ("group", Column::U64(self.group)),
            ("repeated_blocks", Column::U32(self.repeated_blocks)),
            ("trunk_blocks", Column::U32(self.trunk_blocks)),
        ])
    }
}

/// The prefixes of a class's prompts; those of prompt k depend on (seed, key) and the prompts 0..=k.
pub fn prefixes(spec: &PrefixSpec) -> Result<Prefixes> {
    if !(0.0..=1.0).contains(&spec.reuse_frac) {
        return Err(Error::input("reuse_frac", format!("a share in 0..1 is meant, got {}", spec.reuse_frac)));
    }
    if spec.block_tokens == 0 {
        return Err(Error::input("block_tokens", "at least 1 token"));
    }
    let block = f64::from(spec.block_tokens);
    let founding = FOUNDERS * (1.0 - spec.reuse_frac) * (1.0 - spec.reuse_frac);
    let mut trunks: Vec<u32> = Vec::new();
    let mut all = Prefixes::default();
    let (mut offered, mut repeated) = (0_u64, 0_u64);
    for (k, tokens) in (0_u64..).zip(&spec.input_tokens) {
        let mut stream = Stream::new(spec.seed, Purpose::Prefix, spec.key, k);
        let is_founder = stream.uniform() < founding;
        let newest = stream.below((trunks.len() as u64).clamp(1, LIVE_GROUPS)) as usize;
        if is_founder || trunks.is_empty() {
            trunks.push(0);
        }
        let group = if is_founder { trunks.len() - 1 } else { trunks.len() - 1 - newest };
        let full = tokens / spec.block_tokens;
        offered += u64::from(*tokens);
        let wanted = (spec.reuse_frac * offered as f64 - repeated as f64) / block;
        let take = (libm::round(wanted.max(0.0)) as u32).min(trunks[group]).min(full);
        repeated += u64::from(take) * u64::from(spec.block_tokens);
        let trunk = if take == trunks[group] { full } else { take };
        trunks[group] = trunks[group].max(trunk);
        all.group.push(group as u64);
        all.repeated_blocks.push(take);
        all.trunk_blocks.push(trunk);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(reuse_frac: f64, n: u32) -> (PrefixSpec, Prefixes) {
        let input_tokens = (0..n).map(|k| 100 + k.wrapping_mul(2_654_435_761) % 8_000).collect();
        let spec = PrefixSpec { seed: 3, key: 4, reuse_frac, block_tokens: 64, input_tokens };
        let found = prefixes(&spec).unwrap();
        (spec, found)
    }

    #[test]
    fn the_share_asked_for_repeats() {
        for share in [0.0, 0.2, 0.5, 0.8] {
            let (spec, found) = drawn(share, 20_000);
            let all: u64 = spec.input_tokens.iter().map(|t| u64::from(*t)).sum();
            let repeated: u64 = found.repeated_blocks.iter().map(|b| 64 * u64::from(*b)).sum();
            assert!((repeated as f64 / all as f64 - share).abs() < 0.001, "{share}: {repeated} of {all}");
        }
    }

    #[test]
    fn what_repeats_was_there_before() {
        let (spec, found) = drawn(0.5, 5_000);
        let mut trunks = std::collections::BTreeMap::new();
        for (k, tokens) in spec.input_tokens.iter().enumerate() {
            let trunk = trunks.entry(found.group[k]).or_insert(0);
            assert!(found.repeated_blocks[k] <= *trunk);
            assert!(found.repeated_blocks[k] <= found.trunk_blocks[k] && found.trunk_blocks[k] <= tokens / 64);
            assert!(found.trunk_blocks[k] == found.repeated_blocks[k] || found.repeated_blocks[k] == *trunk);
            *trunk = found.trunk_blocks[k].max(*trunk);
        }
        assert!(trunks.len() > 250, "{}", trunks.len()); // a sixteenth of 5,000 start a group
    }

    #[test]
    fn a_prompt_does_not_depend_on_later_ones() {
        let (few, many) = (drawn(0.5, 100).1, drawn(0.5, 5_000).1);
        assert_eq!(few.repeated_blocks, many.repeated_blocks[..100]);
        assert_eq!(few.group, many.group[..100]);
    }

    #[test]
    fn wrong_shares_are_refused() {
        let (spec, _) = drawn(0.5, 1);
        assert!(prefixes(&PrefixSpec { reuse_frac: 1.1, ..spec.clone() }).is_err());
        assert!(prefixes(&PrefixSpec { block_tokens: 0, ..spec }).is_err());
    }
}

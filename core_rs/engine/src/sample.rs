//! Sampling of traffic: arrivals, lengths, sessions, shared prefixes, seeded copies of a trace, realisations of a
//! profile.
//!
//! One door, [`run`]: a spec in, named integer columns out. Every draw is keyed (seed, class, request or copy), so
//! no value depends on how many others were drawn, on threads or on the machine.

mod arrivals;
mod clock;
mod lengths;
mod pauses;
mod prefixes;
mod profile;
mod sessions;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::table::{Column, Table};

pub use arrivals::{arrivals, ArrivalSpec, Arrivals, Burst, Law};
pub use clock::ShapeSpec;
pub(crate) use lengths::LengthDrawer;
pub use lengths::{lengths, Dist, LengthSpec, Lengths};
pub use pauses::{pauses, Pause, PauseSpec};
pub use prefixes::{prefixes, PrefixSpec, Prefixes};
pub(crate) use profile::{check as check_profile, realised, Row};
pub use profile::{profile, LengthRun, OrderSpec, ProfileSpec};
pub use sessions::{sessions, SessionSpec, Sessions, Turns, NO_ROW};

/// More requests than this in one answer are refused: the caller has mistaken a unit.
pub const MAX_REQUESTS: u64 = 1 << 31;
/// How often one request's lengths are drawn again before they are kept although they do not fit.
pub const MAX_REDRAWS: u32 = 1_000;

/// What is to be sampled.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SampleSpec {
    /// Column `arrival_ns`.
    Arrivals(ArrivalSpec),
    /// Columns `input_tokens output_tokens redraws`.
    Lengths(LengthSpec),
    /// Columns `arrival_ns input_tokens output_tokens after_row delay_ns session redraws lost_turns`.
    Sessions(SessionSpec),
    /// Column `delay_ns`.
    Pauses(PauseSpec),
    /// Columns `group repeated_blocks trunk_blocks`.
    Prefixes(PrefixSpec),
    /// Column `shift_ns`, one row a copy.
    Rotations(RotationSpec),
    /// Column `row`: the rows that stay.
    Thinning(ThinningSpec),
    /// Columns `arrival_ns input_tokens output_tokens redraws`, in order of arrival.
    Profile(ProfileSpec),
    /// Column `value`: standard normals, row by row.
    Normals(NormalSpec),
}

/// The table that `spec` asks for.
pub fn run(spec: &SampleSpec) -> Result<Table> {
    Ok(match spec {
        SampleSpec::Arrivals(spec) => Table::of([("arrival_ns", Column::U64(arrivals(spec)?))]),
        SampleSpec::Lengths(spec) => lengths(spec)?.table(),
        SampleSpec::Sessions(spec) => sessions(spec)?.table(),
        SampleSpec::Pauses(spec) => Table::of([("delay_ns", Column::U64(pauses(spec)?))]),
        SampleSpec::Prefixes(spec) => prefixes(spec)?.table(),
        SampleSpec::Rotations(spec) => Table::of([("shift_ns", Column::U64(rotations(spec)?))]),
        SampleSpec::Thinning(spec) => Table::of([("row", Column::U32(thinning(spec)?))]),
        SampleSpec::Profile(spec) => profile(spec)?.table(),
        SampleSpec::Normals(spec) => Table::of([("value", Column::F64(normals(spec)?))]),
    })
}

/// By how much each copy of a trace is turned round its span.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotationSpec {
    pub seed: u64,
    pub key: u64,
    pub n_copies: u32,
    /// The span, its last arrival included: shifts are below it.
    pub modulus_ns: u64,
}

/// Shifts in nanoseconds; copy 0 stays as recorded.
pub fn rotations(spec: &RotationSpec) -> Result<Vec<u64>> {
    if spec.modulus_ns == 0 {
        return Err(Error::input("modulus_ns", "a span above 0 is meant"));
    }
    let shift = |copy: u32| match copy {
        0 => 0,
        _ => Stream::new(spec.seed, Purpose::Rotation, spec.key, u64::from(copy)).below(spec.modulus_ns),
    };
    Ok((0..spec.n_copies).map(shift).collect())
}

/// Which of `n` rows stay when a copy is thinned.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThinningSpec {
    pub seed: u64,
    pub key: u64,
    pub copy: u64,
    pub n: u32,
    pub keep_frac: f64,
}

/// Rows that stay, each with probability `keep_frac`; row k's fate depends on (seed, key, copy, k) only.
pub fn thinning(spec: &ThinningSpec) -> Result<Vec<u32>> {
    if !(0.0..=1.0).contains(&spec.keep_frac) {
        return Err(Error::input("keep_frac", format!("a share in 0..1 is meant, got {}", spec.keep_frac)));
    }
    let mut stream = Stream::new(spec.seed, Purpose::Thinning, spec.key, spec.copy);
    Ok((0..spec.n).filter(|_| stream.uniform() < spec.keep_frac).collect())
}

/// Points of a parameter space.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalSpec {
    pub seed: u64,
    pub key: u64,
    pub n_rows: u64,
    pub n_columns: u64,
}

/// Standard normals, row by row; those of row k depend on (seed, key, k) only.
pub fn normals(spec: &NormalSpec) -> Result<Vec<f64>> {
    let n = spec.n_rows.saturating_mul(spec.n_columns);
    if n > MAX_REQUESTS {
        return Err(Error::input("n_rows", format!("{n} numbers are more than {MAX_REQUESTS}")));
    }
    let row = |k| {
        let mut stream = Stream::new(spec.seed, Purpose::Posterior, spec.key, k);
        (0..spec.n_columns).map(move |_| stream.normal())
    };
    Ok((0..spec.n_rows).flat_map(row).collect())
}

#[cfg(test)]
mod tests;

//! Pauses between an answer and the next request: thinking people, working tools.

use serde::Deserialize;

use super::lengths::Z95;
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};

/// How pauses are spread, in nanoseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "dist", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pause {
    Fixed { ns: f64 },
    Exponential { mean_ns: f64 },
    Lognormal { median_ns: f64, p95_ns: f64 },
    Uniform { low_ns: f64, high_ns: f64 },
}

/// The longest pause: 100 years, so that sums of pauses stay on the clock.
const MAX_NS: f64 = 100.0 * 366.0 * 86_400e9;

impl Pause {
    pub(super) fn check(&self) -> Result<()> {
        let is_fine = match self {
            Self::Fixed { ns } => (0.0..=MAX_NS).contains(ns),
            Self::Exponential { mean_ns } => (0.0..=MAX_NS).contains(mean_ns),
            Self::Lognormal { median_ns, p95_ns } => *median_ns >= 1.0 && p95_ns > median_ns && *p95_ns <= MAX_NS,
            Self::Uniform { low_ns, high_ns } => *low_ns >= 0.0 && low_ns <= high_ns && *high_ns <= MAX_NS,
        };
        if is_fine {
            Ok(())
        } else {
            Err(Error::input("pause", format!("no such pause: {self:?}")))
        }
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> u64 {
        let ns = match self {
            Self::Fixed { ns } => *ns,
            Self::Exponential { mean_ns } => stream.exponential() * mean_ns,
            Self::Lognormal { median_ns, p95_ns } => {
                median_ns * libm::exp(libm::log(p95_ns / median_ns) / Z95 * stream.normal())
            }
            Self::Uniform { low_ns, high_ns } => low_ns + (high_ns - low_ns) * stream.uniform(),
        };
        libm::round(ns.min(MAX_NS)) as u64
    }
}

/// Pauses 0..n; pause k depends on (seed, key, k) only.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseSpec {
    pub seed: u64,
    pub key: u64,
    pub n: u64,
    pub pause: Pause,
}

/// The pauses in nanoseconds.
pub fn pauses(spec: &PauseSpec) -> Result<Vec<u64>> {
    spec.pause.check()?;
    if spec.n > super::MAX_REQUESTS {
        return Err(Error::input("n", "too many requests in one run"));
    }
    let draw = |k| spec.pause.draw(&mut Stream::new(spec.seed, Purpose::Pause, spec.key, k));
    Ok((0..spec.n).map(draw).collect())
}

//! Sampling of traffic: arrivals, lengths, seeded copies of a trace, realisations of a profile.
//!
//! One door, [`run`]: a spec in, named integer columns out. Every draw is keyed (seed, class, request or copy), so
//! no value depends on how many others were drawn, on threads or on the machine.

mod profile;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::table::{Column, Table};

pub use profile::{profile, LengthRun, OrderSpec, ProfileSpec};

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
    /// Column `shift_ns`, one row a copy.
    Rotations(RotationSpec),
    /// Column `row`: the rows that stay.
    Thinning(ThinningSpec),
    /// Columns `arrival_ns input_tokens output_tokens redraws`, in order of arrival.
    Profile(ProfileSpec),
}

/// The table that `spec` asks for.
pub fn run(spec: &SampleSpec) -> Result<Table> {
    Ok(match spec {
        SampleSpec::Arrivals(spec) => Table::of([("arrival_ns", Column::U64(arrivals(spec)?))]),
        SampleSpec::Lengths(spec) => lengths(spec)?.table(),
        SampleSpec::Rotations(spec) => Table::of([("shift_ns", Column::U64(rotations(spec)?))]),
        SampleSpec::Thinning(spec) => Table::of([("row", Column::U32(thinning(spec)?))]),
        SampleSpec::Profile(spec) => profile(spec)?.table(),
    })
}

/// How gaps between arrivals are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps whose coefficient of variation is the burstiness; 0 is a metronome.
    Gamma,
}

/// Arrivals from time 0 on, up to and including `length_ns`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalSpec {
    pub seed: u64,
    /// The class, as a number that does not change when other classes come or go.
    pub key: u64,
    pub law: Law,
    pub rate_req_per_s: f64,
    /// Coefficient of variation of the gaps; gamma only.
    pub burstiness: Option<f64>,
    pub length_ns: u64,
}

/// Arrival times in nanoseconds, not decreasing. The k-th gap depends on (seed, key, k) only.
pub fn arrivals(spec: &ArrivalSpec) -> Result<Vec<u64>> {
    let rate = spec.rate_req_per_s;
    if !(rate.is_finite() && rate > 0.0) {
        return Err(Error::input("rate_req_per_s", format!("a rate above 0 is meant, got {rate}")));
    }
    let cv = match (spec.law, spec.burstiness) {
        (Law::Poisson, None) => 1.0,
        (Law::Gamma, Some(cv)) if cv.is_finite() && cv >= 0.0 => cv,
        (Law::Poisson, Some(_)) => return Err(Error::input("burstiness", "it belongs to gamma arrivals")),
        (Law::Gamma, _) => return Err(Error::input("burstiness", "gamma arrivals need one that is 0 or more")),
    };
    let expected = rate * spec.length_ns as f64 / 1e9;
    if expected > MAX_REQUESTS as f64 {
        return Err(Error::input("rate_req_per_s", format!("{expected:.3e} requests in one run are too many")));
    }
    let mean_ns = 1e9 / rate;
    let shape = 1.0 / (cv * cv);
    let mut times = Vec::with_capacity((expected * 1.1) as usize + 16);
    let mut now: u64 = 0;
    for k in 0.. {
        let mut stream = Stream::new(spec.seed, Purpose::Arrivals, spec.key, k);
        let gap = match spec.law {
            Law::Poisson => stream.exponential() * mean_ns,
            // A shape beyond this is a metronome to the nanosecond scale of any real rate.
            Law::Gamma if shape > 1e12 => mean_ns,
            Law::Gamma => stream.gamma(shape) * (mean_ns / shape),
        };
        now = now.saturating_add(libm::round(gap) as u64);
        if now > spec.length_ns {
            break;
        }
        if times.len() as u64 >= MAX_REQUESTS {
            return Err(Error::input("rate_req_per_s", "too many requests in one run"));
        }
        times.push(now);
    }
    Ok(times)
}

/// How a length in tokens is spread.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "dist", rename_all = "snake_case", deny_unknown_fields)]
pub enum Dist {
    Lognormal {
        median: f64,
        p95: f64,
    },
    /// Both ends are drawn too.
    Uniform {
        low: u32,
        high: u32,
    },
    Fixed {
        tokens: u32,
    },
    /// Weights are relative; absent, all the same.
    Empirical {
        tokens: Vec<u32>,
        weights: Option<Vec<f64>>,
    },
}

/// The standard normal's 95 % point, to the last bit.
const Z95: f64 = 1.644_853_626_951_472_7;

/// A `Dist` made ready to draw from.
enum Drawer {
    Lognormal { mu: f64, sigma: f64 },
    Uniform { low: u32, n: u64 },
    Fixed(u32),
    Empirical { tokens: Vec<u32>, upto: Vec<f64> },
}

impl Drawer {
    fn new(dist: &Dist, field: &str) -> Result<Self> {
        let bad = |what: String| Err(Error::input(field, what));
        match dist {
            Dist::Lognormal { median, p95 } => {
                if !(median.is_finite() && p95.is_finite() && *median >= 1.0 && p95 > median) {
                    return bad(format!("lognormal needs 1 <= median < p95, got {median} and {p95}"));
                }
                let mu = libm::log(*median);
                Ok(Self::Lognormal { mu, sigma: (libm::log(*p95) - mu) / Z95 })
            }
            Dist::Uniform { low, high } => {
                if *low < 1 || high < low {
                    return bad(format!("uniform needs 1 <= low <= high, got {low} and {high}"));
                }
                Ok(Self::Uniform { low: *low, n: u64::from(high - low) + 1 })
            }
            Dist::Fixed { tokens } if *tokens < 1 => bad("a length is at least 1 token".into()),
            Dist::Fixed { tokens } => Ok(Self::Fixed(*tokens)),
            Dist::Empirical { tokens, weights } => {
                let weights = weights.clone().unwrap_or_else(|| vec![1.0; tokens.len()]);
                if tokens.is_empty() || weights.len() != tokens.len() {
                    return bad(format!("{} lengths with {} weights", tokens.len(), weights.len()));
                }
                if tokens.contains(&0) || weights.iter().any(|w| !w.is_finite() || *w < 0.0) {
                    return bad("lengths are at least 1 token and weights at least 0".into());
                }
                let mut sum = 0.0;
                let upto: Vec<f64> = weights
                    .iter()
                    .map(|w| {
                        sum += w;
                        sum
                    })
                    .collect();
                if !(sum.is_finite() && sum > 0.0) {
                    return bad("the weights sum to nothing".into());
                }
                Ok(Self::Empirical { tokens: tokens.clone(), upto })
            }
        }
    }

    /// One length, at least 1. Takes the same number of draws each time, so a redraw is the next of the stream.
    fn draw(&self, stream: &mut Stream) -> u32 {
        match self {
            // The cast saturates: a length beyond u32 is beyond any context too.
            Self::Lognormal { mu, sigma } => (libm::round(libm::exp(mu + sigma * stream.normal())) as u32).max(1),
            Self::Uniform { low, n } => low + stream.below(*n) as u32,
            Self::Fixed(tokens) => *tokens,
            Self::Empirical { tokens, upto } => {
                let point = stream.uniform() * upto[upto.len() - 1];
                tokens[upto.partition_point(|u| *u <= point).min(tokens.len() - 1)]
            }
        }
    }
}

/// Prompt and answer lengths of `n` requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthSpec {
    pub seed: u64,
    pub key: u64,
    pub n: u64,
    pub input: Dist,
    pub output: Dist,
    /// The model's context: a request whose prompt and answer are longer together is drawn again.
    pub context_tokens: Option<u64>,
}

/// Lengths by request, and how often each was drawn again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lengths {
    pub input_tokens: Vec<u32>,
    pub output_tokens: Vec<u32>,
    pub redraws: Vec<u32>,
}

impl Lengths {
    fn table(self) -> Table {
        Table::of([
            ("input_tokens", Column::U32(self.input_tokens)),
            ("output_tokens", Column::U32(self.output_tokens)),
            ("redraws", Column::U32(self.redraws)),
        ])
    }
}

fn fits(input: u32, output: u32, context: Option<u64>) -> bool {
    context.is_none_or(|limit| u64::from(input) + u64::from(output) <= limit)
}

/// Lengths of requests 0..n; request k's depend on (seed, key, k) only.
///
/// A pair that the context cannot hold is drawn again, at most `MAX_REDRAWS` times; the last one is then kept, for
/// the engine to refuse.
pub fn lengths(spec: &LengthSpec) -> Result<Lengths> {
    if spec.n > MAX_REQUESTS {
        return Err(Error::input("n", "too many requests in one run"));
    }
    let (input, output) = (Drawer::new(&spec.input, "input")?, Drawer::new(&spec.output, "output")?);
    let is_fixed = matches!((&input, &output), (Drawer::Fixed(_), Drawer::Fixed(_)));
    let n = spec.n as usize;
    let mut all = Lengths {
        input_tokens: Vec::with_capacity(n),
        output_tokens: Vec::with_capacity(n),
        redraws: Vec::with_capacity(n),
    };
    for k in 0..spec.n {
        let mut of_input = Stream::new(spec.seed, Purpose::InputLength, spec.key, k);
        let mut of_output = Stream::new(spec.seed, Purpose::OutputLength, spec.key, k);
        let mut pair = (input.draw(&mut of_input), output.draw(&mut of_output));
        let mut redraws = 0;
        while !fits(pair.0, pair.1, spec.context_tokens) && redraws < MAX_REDRAWS && !is_fixed {
            pair = (input.draw(&mut of_input), output.draw(&mut of_output));
            redraws += 1;
        }
        all.input_tokens.push(pair.0);
        all.output_tokens.push(pair.1);
        all.redraws.push(redraws);
    }
    Ok(all)
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

#[cfg(test)]
mod tests;

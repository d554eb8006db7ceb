//! Lengths of prompts and answers, drawn by law.

use serde::Deserialize;

use super::{MAX_REDRAWS, MAX_REQUESTS};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream, Streams};
use crate::table::{Column, Table};

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
pub(super) const Z95: f64 = 1.644_853_626_951_472_7;

/// A `Dist` made ready to draw from.
pub(super) enum Drawer {
    Lognormal { mu: f64, sigma: f64 },
    Uniform { low: u32, n: u64 },
    Fixed(u32),
    Empirical { tokens: Vec<u32>, upto: Vec<f64> },
}

impl Drawer {
    pub(super) fn new(dist: &Dist, field: &str) -> Result<Self> {
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
    pub(super) fn draw(&self, stream: &mut Stream) -> u32 {
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

/// Prompt and answer lengths of `n` requests, from the `first` on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthSpec {
    pub seed: u64,
    pub key: u64,
    #[serde(default)]
    pub first: u64,
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
    pub(super) fn table(self) -> Table {
        Table::of([
            ("input_tokens", Column::U32(self.input_tokens)),
            ("output_tokens", Column::U32(self.output_tokens)),
            ("redraws", Column::U32(self.redraws)),
        ])
    }
}

pub(super) fn fits(input: u64, output: u32, context: Option<u64>) -> bool {
    context.is_none_or(|limit| input + u64::from(output) <= limit)
}

/// Lengths of requests `first..first + n`; request k's depend on (seed, key, k) only.
///
/// A pair that the context cannot hold is drawn again, at most `MAX_REDRAWS` times; the last one is then kept, for
/// the engine to refuse.
pub fn lengths(spec: &LengthSpec) -> Result<Lengths> {
    if spec.first.saturating_add(spec.n) > MAX_REQUESTS {
        return Err(Error::input("n", "too many requests in one run"));
    }
    let lengths = LengthDrawer::new(spec)?;
    let n = spec.n as usize;
    let mut all = Lengths {
        input_tokens: Vec::with_capacity(n),
        output_tokens: Vec::with_capacity(n),
        redraws: Vec::with_capacity(n),
    };
    for k in spec.first..spec.first + spec.n {
        let (input, output, redraws) = lengths.of(k);
        all.input_tokens.push(input);
        all.output_tokens.push(output);
        all.redraws.push(redraws);
    }
    Ok(all)
}

/// Draws the lengths of single requests.
pub(crate) struct LengthDrawer {
    of_input: Streams,
    of_output: Streams,
    input: Drawer,
    output: Drawer,
    context_tokens: Option<u64>,
    is_fixed: bool,
}

impl LengthDrawer {
    pub(crate) fn new(spec: &LengthSpec) -> Result<Self> {
        let (input, output) = (Drawer::new(&spec.input, "input")?, Drawer::new(&spec.output, "output")?);
        let is_fixed = matches!((&input, &output), (Drawer::Fixed(_), Drawer::Fixed(_)));
        let streams = |purpose| Streams::new(spec.seed, purpose, spec.key);
        let (of_input, of_output) = (streams(Purpose::InputLength), streams(Purpose::OutputLength));
        Ok(Self { of_input, of_output, input, output, context_tokens: spec.context_tokens, is_fixed })
    }

    /// Prompt and answer of request `k`, and how often they were drawn again.
    pub(crate) fn of(&self, k: u64) -> (u32, u32, u32) {
        let (mut of_input, mut of_output) = (self.of_input.of(k), self.of_output.of(k));
        let mut pair = (self.input.draw(&mut of_input), self.output.draw(&mut of_output));
        let mut redraws = 0;
        while !fits(pair.0.into(), pair.1, self.context_tokens) && redraws < MAX_REDRAWS && !self.is_fixed {
            pair = (self.input.draw(&mut of_input), self.output.draw(&mut of_output));
            redraws += 1;
        }
        (pair.0, pair.1, redraws)
    }
}

//! Arrival times by law: renewal processes (Poisson, gamma, Weibull), a self-exciting one, each over any shape of the
//! day and week.

use serde::Deserialize;

use super::clock::{Clock, ShapeSpec};
use super::MAX_REQUESTS;
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream, Streams};

/// How arrivals are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps whose coefficient of variation is the burstiness; 0 is a metronome.
    Gamma,
    /// Weibull gaps whose coefficient of variation is the burstiness; 0 is a metronome.
    Weibull,
    /// Each request brings others on, with exponentially fading strength: bursts, as Hawkes (1971) describes them.
    Hawkes,
}

/// Bursts of a self-exciting process.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Mean number of requests in a burst, the one that starts it included: at least 1.
    pub size: f64,
    /// Mean time from a request to one that it brings on directly.
    pub decay_ns: f64,
}

/// Arrivals from time 0 on, up to and including `length_ns`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalSpec {
    pub seed: u64,
    /// The class, as a number that does not change when other classes come or go.
    pub key: u64,
    pub law: Law,
    /// The mean rate over the shape.
    pub rate_req_per_s: f64,
    /// Coefficient of variation of the gaps; gamma and Weibull only.
    pub burstiness: Option<f64>,
    /// Hawkes only.
    pub burst: Option<Burst>,
    /// How the rate goes up and down; the law then holds on a clock that runs as fast as the rate is high.
    pub shape: Option<ShapeSpec>,
    pub length_ns: u64,
}

/// Arrival times in nanoseconds, not decreasing. The k-th gap depends on (seed, key, k) only, in a self-exciting
/// process on the gaps before it too; a longer run begins with the shorter one.
pub fn arrivals(spec: &ArrivalSpec) -> Result<Vec<u64>> {
    Arrivals::new(spec)?.next(usize::MAX)
}

/// The same, some at a time.
pub struct Arrivals {
    streams: Streams,
    gaps: Gaps,
    clock: Option<Clock>,
    /// Where the process starts and ends, on the law's clock.
    start_ns: u64,
    end_ns: u64,
    now_ns: u64,
    /// Gaps drawn, and arrivals given.
    k: u64,
    n: u64,
    mean: f64,
}

impl Arrivals {
    pub fn new(spec: &ArrivalSpec) -> Result<Self> {
        let rate = spec.rate_req_per_s;
        if !(rate.is_finite() && rate > 0.0) {
            return Err(Error::input("rate_req_per_s", format!("a rate above 0 is meant, got {rate}")));
        }
        let clock = spec.shape.as_ref().map(|shape| Clock::new(shape, spec.length_ns)).transpose()?;
        let length_ns = clock.as_ref().map_or(Ok(spec.length_ns), Clock::law_length_ns)?;
        let gaps = Gaps::new(spec)?;
        let start_ns = gaps.start_ns();
        let expected = rate * (length_ns as f64 + start_ns as f64) / 1e9;
        if expected > MAX_REQUESTS as f64 {
            return Err(Error::input("rate_req_per_s", format!("{expected:.3e} requests in one run are too many")));
        }
        let end_ns = length_ns.saturating_add(start_ns);
        let mean = rate * length_ns as f64 / 1e9;
        let streams = Streams::new(spec.seed, Purpose::Arrivals, spec.key);
        Ok(Self { streams, gaps, clock, start_ns, end_ns, now_ns: 0, k: 0, n: 0, mean })
    }

    /// How many there are on average.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The next arrivals, at most `most`; fewer are the last.
    pub fn next(&mut self, most: usize) -> Result<Vec<u64>> {
        let left = ((self.mean * 1.1) as u64 + 16).saturating_sub(self.n).max(16);
        let mut times = Vec::with_capacity(most.min(left as usize));
        while times.len() < most && self.now_ns <= self.end_ns {
            let mut stream = self.streams.of(self.k);
            self.k += 1;
            self.now_ns = self.now_ns.saturating_add(libm::round(self.gaps.next(&mut stream)) as u64);
            if self.now_ns > self.end_ns {
                break;
            }
            if self.n >= MAX_REQUESTS {
                return Err(Error::input("rate_req_per_s", "too many requests in one run"));
            }
            if let Some(law_ns) = self.now_ns.checked_sub(self.start_ns) {
                self.n += 1;
                times.push(self.clock.as_mut().map_or(law_ns, |clock| clock.real_ns(law_ns)));
            }
        }
        Ok(times)
    }
}

/// Gaps between arrivals in nanoseconds, one after the other.
enum Gaps {
    Poisson { mean_ns: f64 },
    Metronome { mean_ns: f64 },
    Gamma { shape: f64, scale_ns: f64 },
    Weibull { power: f64, scale_ns: f64 },
    Hawkes { spontaneous: f64, kick: f64, decay_ns: f64, excited: f64, start_ns: u64 },
}

/// A self-exciting process starts this many relaxation times (burst size x decay) before the run, at its mean.
const RELAXATIONS: f64 = 8.0;
/// Below this coefficient of variation gaps are all alike to the nanosecond scale of any real rate.
const METRONOME: f64 = 1e-6;

impl Gaps {
    fn new(spec: &ArrivalSpec) -> Result<Self> {
        let mean_ns = 1e9 / spec.rate_req_per_s;
        let cv = match (spec.law, spec.burstiness) {
            (Law::Gamma | Law::Weibull, Some(cv)) if cv.is_finite() && cv >= 0.0 => cv,
            (Law::Gamma | Law::Weibull, _) => {
                return Err(Error::input("burstiness", "gamma and weibull arrivals need one that is 0 or more"))
            }
            (_, None) => 1.0,
            (_, Some(_)) => return Err(Error::input("burstiness", "it belongs to gamma and weibull arrivals")),
        };
        let burst = match (spec.law, spec.burst) {
            (Law::Hawkes, Some(burst)) => burst,
            (Law::Hawkes, None) => return Err(Error::input("burst", "hawkes arrivals need a size and a decay")),
            (_, None) => Burst { size: 1.0, decay_ns: 1.0 },
            (_, Some(_)) => return Err(Error::input("burst", "it belongs to hawkes arrivals")),
        };
        Ok(match spec.law {
            Law::Poisson => Self::Poisson { mean_ns },
            Law::Gamma | Law::Weibull if cv < METRONOME => Self::Metronome { mean_ns },
            Law::Gamma => {
                let shape = 1.0 / (cv * cv);
                Self::Gamma { shape, scale_ns: mean_ns / shape }
            }
            Law::Weibull => {
                let power = weibull_power(cv)?;
                Self::Weibull { power, scale_ns: mean_ns / libm::tgamma(1.0 + 1.0 / power) }
            }
            Law::Hawkes => {
                let Burst { size, decay_ns } = burst;
                if !(size.is_finite() && size >= 1.0 && decay_ns.is_finite() && decay_ns >= 1.0) {
                    return Err(Error::input("burst", format!("size {size} and decay {decay_ns} ns: at least 1 each")));
                }
                let branching = 1.0 - 1.0 / size;
                Self::Hawkes {
                    spontaneous: 1.0 / (mean_ns * size),
                    kick: branching / decay_ns,
                    decay_ns,
                    excited: branching / mean_ns, // its mean, so that the mean rate is exact from the first instant
                    start_ns: (RELAXATIONS * size * decay_ns) as u64,
                }
            }
        })
    }

    /// How long before the run the process starts.
    fn start_ns(&self) -> u64 {
        match self {
            Self::Hawkes { start_ns, .. } => *start_ns,
            _ => 0,
        }
    }

    fn next(&mut self, stream: &mut Stream) -> f64 {
        match self {
            Self::Poisson { mean_ns } => stream.exponential() * *mean_ns,
            Self::Metronome { mean_ns } => *mean_ns,
            Self::Gamma { shape, scale_ns } => stream.gamma(*shape) * *scale_ns,
            Self::Weibull { power, scale_ns } => libm::pow(stream.exponential(), 1.0 / *power) * *scale_ns,
            Self::Hawkes { spontaneous, kick, decay_ns, excited, .. } => {
                // Exact, without thinning (Dassios and Zhao, 2013): the sooner of a request that comes by itself and
                // one that the fading excitement brings on, if it brings on another at all.
                let by_itself = stream.exponential() / *spontaneous;
                let left = 1.0 - stream.exponential() / (*excited * *decay_ns);
                let brought_on = if left > 0.0 { -*decay_ns * libm::log(left) } else { f64::INFINITY };
                let gap = by_itself.min(brought_on);
                *excited = *excited * libm::exp(-gap / *decay_ns) + *kick;
                gap
            }
        }
    }
}

/// The Weibull shape whose coefficient of variation is `cv`, by bisection: it falls as the shape rises.
fn weibull_power(cv: f64) -> Result<f64> {
    let wanted = libm::log1p(cv * cv);
    let found = |log_power: f64| {
        let inverse = libm::exp(-log_power);
        libm::lgamma(1.0 + 2.0 * inverse) - 2.0 * libm::lgamma(1.0 + inverse)
    };
    let (mut low, mut high) = (libm::log(0.05), libm::log(1e7));
    if found(low) < wanted {
        return Err(Error::input("burstiness", format!("{cv} is more than weibull arrivals can have")));
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if found(middle) > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(libm::exp(0.5 * (low + high)))
}

#[cfg(test)]
mod tests;

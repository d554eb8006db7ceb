//! A clock that runs as fast as the rate is high: arrivals drawn at an even rate on it have the shape of the day.
//!
//! The rate is piecewise constant over a period (a day by hours, two weeks by ten minutes), mixed over regions that
//! live the same shape at other times, and grows exponentially. Its integral and the inverse are closed forms.

use serde::Deserialize;

use crate::error::{Error, Result};

/// A year of growth: 365 days.
const YEAR_NS: f64 = 365.0 * 86_400e9;
/// More stretches of constant rate than this in one run are refused.
const MAX_STRETCHES: u64 = 10_000_000;

/// How a rate goes up and down.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeSpec {
    /// How long each factor holds.
    pub step_ns: u64,
    /// Relative rates, repeated for ever; they are divided by their mean.
    pub factors: Vec<f64>,
    /// Where in the period the run begins.
    pub start_ns: u64,
    /// Shares of the load, and by how much each region's shape comes later; empty for one region.
    pub regions: Vec<(f64, u64)>,
    /// Growth in a year from the begin of the run on, as a share: 0.4 is 40 % more.
    pub growth_frac: f64,
}

/// One stretch of constant rate inside the period.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    end_ns: u64,
    rate: f64,
}

/// The walk over a shape, forwards only.
#[derive(Debug, Clone)]
pub struct Clock {
    stretches: Vec<Stretch>,
    /// Growth per nanosecond, as an exponent.
    growth: f64,
    length_ns: u64,
    ix: usize,
    /// Real time at which the current stretch began, how long it lasts from there, and the law's time then.
    from_ns: u64,
    lasts_ns: u64,
    law_ns: f64,
}

impl Clock {
    /// The clock at the begin of a run of `length_ns`.
    pub fn new(spec: &ShapeSpec, length_ns: u64) -> Result<Self> {
        if !(spec.growth_frac.is_finite() && spec.growth_frac > -1.0) {
            return Err(Error::input("growth_frac", "growth is above -1: nothing is left below"));
        }
        let stretches = mixed(spec)?;
        let period_ns = stretches[stretches.len() - 1].end_ns;
        if (length_ns / period_ns + 1).saturating_mul(stretches.len() as u64) > MAX_STRETCHES {
            return Err(Error::input("step_ns", "the run has too many changes of rate: lengthen the step"));
        }
        let phase_ns = spec.start_ns % period_ns;
        let ix = stretches.partition_point(|stretch| stretch.end_ns <= phase_ns);
        let lasts_ns = stretches[ix].end_ns - phase_ns;
        let growth = libm::log1p(spec.growth_frac) / YEAR_NS;
        Ok(Self { stretches, growth, length_ns, ix, from_ns: 0, lasts_ns, law_ns: 0.0 })
    }

    /// The law's time at the end of the run.
    pub fn law_length_ns(&self) -> Result<u64> {
        let mut walk = self.clone();
        while walk.from_ns + walk.lasts_ns <= self.length_ns {
            walk.advance();
        }
        let end = walk.law_ns + walk.area(self.length_ns - walk.from_ns);
        if end > 9e18 {
            return Err(Error::input("growth_frac", "the load grows beyond all bounds in this run"));
        }
        Ok(end as u64)
    }

    /// The real time at which the law's clock shows `law_ns`, which must not fall from call to call.
    pub fn real_ns(&mut self, law_ns: u64) -> u64 {
        let asked = law_ns as f64;
        while self.law_ns + self.area(self.lasts_ns) < asked && self.from_ns + self.lasts_ns <= self.length_ns {
            self.advance();
        }
        let rate = self.stretches[self.ix].rate;
        if rate <= 0.0 || asked <= self.law_ns {
            return self.from_ns.min(self.length_ns);
        }
        let even = (asked - self.law_ns) / rate;
        let since = if self.growth == 0.0 {
            even
        } else {
            libm::log1p(self.growth * even * libm::exp(-self.growth * self.from_ns as f64)) / self.growth
        };
        (self.from_ns + (libm::round(since) as u64).min(self.lasts_ns)).min(self.length_ns)
    }

    /// The law's time that passes in the first `ns` of the current stretch.
    fn area(&self, ns: u64) -> f64 {
        let rate = self.stretches[self.ix].rate;
        if self.growth == 0.0 {
            return rate * ns as f64;
        }
        let from = libm::exp(self.growth * self.from_ns as f64);
        rate * from * libm::expm1(self.growth * ns as f64) / self.growth
    }

    fn advance(&mut self) {
        self.law_ns += self.area(self.lasts_ns);
        self.from_ns += self.lasts_ns;
        let begin_ns = if self.ix + 1 == self.stretches.len() { 0 } else { self.stretches[self.ix].end_ns };
        self.ix = (self.ix + 1) % self.stretches.len();
        self.lasts_ns = self.stretches[self.ix].end_ns - begin_ns;
    }
}

/// The stretches of one period over all regions, with a mean rate of 1.
fn mixed(spec: &ShapeSpec) -> Result<Vec<Stretch>> {
    let n = spec.factors.len() as u64;
    let period_ns = spec.step_ns.checked_mul(n).filter(|ns| *ns > 0 && *ns < 1 << 62);
    let Some(period_ns) = period_ns else {
        return Err(Error::input("factors", "a period above 0 and below 100 years is meant"));
    };
    let sum: f64 = spec.factors.iter().sum();
    if spec.factors.iter().any(|factor| !factor.is_finite() || *factor < 0.0) || !(sum.is_finite() && sum > 0.0) {
        return Err(Error::input("factors", "factors are 0 or more, and not all 0"));
    }
    let one = [(1.0, 0)];
    let regions = if spec.regions.is_empty() { &one[..] } else { &spec.regions };
    let shares: f64 = regions.iter().map(|region| region.0).sum();
    if regions.iter().any(|region| !(0.0..=1.0).contains(&region.0)) || (shares - 1.0).abs() > 1e-6 {
        return Err(Error::input("regions", "shares are in 0..1 and sum to 1"));
    }
    let mean = sum / n as f64 * shares;
    let shifts: Vec<u64> = regions.iter().map(|region| region.1 % period_ns).collect();
    let mut ends: Vec<u64> =
        shifts.iter().flat_map(|shift| (0..n).map(move |k| (k * spec.step_ns + shift) % period_ns)).collect();
    ends.push(period_ns);
    ends.sort_unstable();
    ends.dedup();
    let mut begin_ns = 0;
    let mut stretches = Vec::with_capacity(ends.len());
    for end_ns in ends.into_iter().filter(|end| *end > 0) {
        let rate = regions.iter().zip(&shifts).map(|((share, _), shift)| {
            let own_ns = (begin_ns + period_ns - shift) % period_ns;
            share * spec.factors[(own_ns / spec.step_ns) as usize] / mean
        });
        stretches.push(Stretch { end_ns, rate: rate.sum() });
        begin_ns = end_ns;
    }
    Ok(stretches)
}

#[cfg(test)]
mod tests;

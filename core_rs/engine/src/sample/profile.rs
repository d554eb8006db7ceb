//! Realisations of a recorded service from compact statistics.
//!
//! A profile keeps marginals exactly and draws the rest: each realisation has the recorded number of requests over
//! the recorded span, its gaps are a stratified draw from the recorded gap quantiles, its batch sizes and lengths
//! fill the recorded tables. What the seed decides is their order. Order in time follows a latent Gaussian series
//! (a trend over the span, white noise, a few first-order autoregressions): the largest latent value gets the
//! largest gap. Inputs and outputs are joined by a contingency table of their ranks.

use serde::Deserialize;

use super::lengths::fits;
use super::{Column, Table, MAX_REDRAWS, MAX_REQUESTS};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};

/// `n` values spread evenly over the whole numbers `low..=high`, as `[low, high, n]`.
pub type LengthRun = (u32, u32, u64);

/// How a sorted table is laid out in time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderSpec {
    /// Latent mean at equal steps from the first to the last item; empty for none.
    pub trend: Vec<f64>,
    /// Standard deviation of the independent part.
    pub white: f64,
    /// Autoregressions as (standard deviation, correlation length in items).
    pub ar: Vec<(f64, f64)>,
}

/// A recorded service, and how many realisations of it to superpose.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    pub seed: u64,
    pub key: u64,
    /// The first realisation's number; a second stretch of time takes others.
    pub first_copy: u64,
    pub n_copies: u64,
    /// Above 0: one more realisation, thinned to this share.
    pub part_frac: f64,
    pub context_tokens: Option<u64>,
    pub span_ns: u64,
    /// Quantiles of the gaps between batches as (share below, nanoseconds), rising, from 0 to 1.
    pub gap_quantiles: Vec<(f64, f64)>,
    pub gap_order: OrderSpec,
    /// `batch_sizes[s]` batches have s requests that arrive at one instant.
    pub batch_sizes: Vec<u64>,
    pub size_order: OrderSpec,
    pub input_runs: Vec<LengthRun>,
    pub output_runs: Vec<LengthRun>,
    /// Requests whose input falls in one cell of rank and whose output in another, inputs down, outputs across.
    pub joint: Vec<Vec<u64>>,
}

/// Requests of all realisations in order of arrival (ties: by realisation, then by its own order).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    pub arrival_ns: Vec<u64>,
    pub input_tokens: Vec<u32>,
    pub output_tokens: Vec<u32>,
    pub redraws: Vec<u32>,
}

impl Requests {
    pub(super) fn table(self) -> Table {
        Table::of([
            ("arrival_ns", Column::U64(self.arrival_ns)),
            ("input_tokens", Column::U32(self.input_tokens)),
            ("output_tokens", Column::U32(self.output_tokens)),
            ("redraws", Column::U32(self.redraws)),
        ])
    }
}

/// One request of one realisation: arrival, input, output, redraws.
pub(crate) type Row = (u64, u32, u32, u32);

/// Superposed realisations of a profile; each depends on (seed, key, its number) only.
pub fn profile(spec: &ProfileSpec) -> Result<Requests> {
    let n_requests = check(spec)?;
    let n_copies = spec.n_copies + u64::from(spec.part_frac > 0.0);
    if n_copies.saturating_mul(n_requests) > MAX_REQUESTS {
        return Err(Error::input("n_copies", "too many requests in one run"));
    }
    let rows = realised(spec, 0..n_copies, n_requests);
    Ok(Requests {
        arrival_ns: rows.iter().map(|row| row.0).collect(),
        input_tokens: rows.iter().map(|row| row.1).collect(),
        output_tokens: rows.iter().map(|row| row.2).collect(),
        redraws: rows.iter().map(|row| row.3).collect(),
    })
}

/// The requests of some realisations of `n_requests` each, in order of arrival, then by realisation.
pub(crate) fn realised(spec: &ProfileSpec, copies: std::ops::Range<u64>, n_requests: u64) -> Vec<Row> {
    let numbers: Vec<u64> = copies.collect();
    let n_threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(numbers.len().max(1));
    let share = numbers.len().div_ceil(n_threads).max(1);
    let mut rows: Vec<Row> = Vec::with_capacity(numbers.len() * n_requests as usize);
    std::thread::scope(|scope| {
        let workers: Vec<_> = numbers
            .chunks(share)
            .map(|mine| scope.spawn(move || mine.iter().flat_map(|copy| one(spec, *copy)).collect::<Vec<Row>>()))
            .collect();
        for worker in workers {
            // A worker has no way to panic but a bug, which is then raised here too.
            match worker.join() {
                Ok(part) => rows.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    rows.sort_by_key(|row| row.0);
    rows
}

/// The number of requests of one realisation, once the tables agree with each other.
pub(crate) fn check(spec: &ProfileSpec) -> Result<u64> {
    let n_batches: u64 = spec.batch_sizes.iter().sum();
    let n: u64 = spec.batch_sizes.iter().zip(0..).map(|(count, size): (&u64, u64)| count * size).sum();
    if n == 0 || n > MAX_REQUESTS || spec.batch_sizes.first().is_some_and(|c| *c > 0) {
        return Err(Error::input("batch_sizes", format!("{n} requests in {n_batches} batches, none of them empty")));
    }
    if spec.span_ns == 0 {
        return Err(Error::input("span_ns", "a span above 0 is meant"));
    }
    if !(0.0..1.0).contains(&spec.part_frac) {
        return Err(Error::input("part_frac", "a share in 0..1 is meant"));
    }
    let quantiles = &spec.gap_quantiles;
    let rises = quantiles.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1);
    let is_whole = quantiles.len() > 1 && quantiles[0].0 == 0.0 && quantiles[quantiles.len() - 1].0 == 1.0;
    if !(rises && is_whole && quantiles.iter().all(|q| q.1.is_finite() && q.1 > 0.0)) {
        return Err(Error::input("gap_quantiles", "shares rise from 0 to 1 with gaps above 0 that do not fall"));
    }
    for (field, order) in [("gap_order", &spec.gap_order), ("size_order", &spec.size_order)] {
        let finite = order.trend.iter().all(|v| v.is_finite()) && order.white.is_finite() && order.white >= 0.0;
        if !finite || order.ar.iter().any(|(sd, length)| !(sd.is_finite() && length.is_finite() && *length > 0.0)) {
            return Err(Error::input(field, "finite numbers and correlation lengths above 0 are meant"));
        }
    }
    for (field, runs) in [("input_runs", &spec.input_runs), ("output_runs", &spec.output_runs)] {
        let sum: u64 = runs.iter().map(|run| run.2).sum();
        if sum != n || runs.iter().any(|(low, high, _)| *low < 1 || high < low) {
            return Err(Error::input(field, format!("{sum} lengths of at least 1 token for {n} requests")));
        }
    }
    let joint: u64 = spec.joint.iter().flatten().sum();
    if joint != n || spec.joint.iter().any(|row| row.len() != spec.joint[0].len()) {
        return Err(Error::input("joint", format!("{joint} pairs in a table of even rows for {n} requests")));
    }
    Ok(n)
}

/// One realisation, in order of arrival.
fn one(spec: &ProfileSpec, copy: u64) -> Vec<Row> {
    let number = spec.first_copy.wrapping_add(copy);
    // Each part has a stream of its own, so that a finer table of one part leaves the others as they are.
    let stream = |part: u64| Stream::new(spec.seed, Purpose::Profile, spec.key, number.wrapping_mul(16) + part);
    let sizes = sizes(spec, &mut stream(0));
    let times = batch_times(spec, sizes.len(), &mut stream(1), &mut stream(2));
    let pairs = pairs(spec, &mut stream(3));
    let mut redrawing = stream(4);
    let mut thinning = stream(5);
    let mut rows = Vec::with_capacity(pairs.len());
    let arrivals = times.iter().zip(&sizes).flat_map(|(time, size)| std::iter::repeat_n(*time, *size as usize));
    for (arrival, mut pair) in arrivals.zip(pairs.iter().copied()) {
        let mut redraws = 0;
        while !fits(pair.0.into(), pair.1, spec.context_tokens) && redraws < MAX_REDRAWS {
            pair = pairs[redrawing.below(pairs.len() as u64) as usize];
            redraws += 1;
        }
        if copy < spec.n_copies || thinning.uniform() < spec.part_frac {
            rows.push((arrival, pair.0, pair.1, redraws));
        }
    }
    rows
}

/// The order in which items 0..n of a sorted table come: position of the k-th smallest latent value, for each k.
fn order(spec: &OrderSpec, n: usize, stream: &mut Stream) -> Vec<u32> {
    let mut states: Vec<f64> = spec.ar.iter().map(|_| stream.normal()).collect();
    let steps: Vec<(f64, f64, f64)> = spec
        .ar
        .iter()
        .map(|(sd, length)| {
            let rho = libm::exp(-1.0 / length);
            (*sd, rho, libm::sqrt(1.0 - rho * rho))
        })
        .collect();
    let latent: Vec<f64> = (0..n)
        .map(|k| {
            let mut y = trend(&spec.trend, k, n) + spec.white * stream.normal();
            for (x, (sd, rho, noise)) in states.iter_mut().zip(&steps) {
                y += sd * *x;
                *x = rho * *x + noise * stream.normal();
            }
            y
        })
        .collect();
    let mut positions: Vec<u32> = (0..n as u32).collect();
    positions.sort_unstable_by(|a, b| latent[*a as usize].total_cmp(&latent[*b as usize]).then(a.cmp(b)));
    positions
}

/// The trend at item k of n, linear between its values.
fn trend(values: &[f64], k: usize, n: usize) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let x = k as f64 / (n.max(2) - 1) as f64 * last as f64;
    let low = (x as usize).min(last);
    let high = (low + 1).min(last);
    values[low] + (x - low as f64) * (values[high] - values[low])
}

/// Sizes of the batches, in order of time.
fn sizes(spec: &ProfileSpec, ordering: &mut Stream) -> Vec<u32> {
    let sorted: Vec<u32> = spec
        .batch_sizes
        .iter()
        .zip(0..)
        .flat_map(|(count, size): (&u64, u32)| std::iter::repeat_n(size, *count as usize))
        .collect();
    if sorted.first() == sorted.last() {
        return sorted; // all alike: no order to draw
    }
    let mut sizes = vec![0; sorted.len()];
    for (position, size) in order(&spec.size_order, sorted.len(), ordering).into_iter().zip(sorted) {
        sizes[position as usize] = size;
    }
    sizes
}

/// Arrival times of `n` batches inside the span: stratified gaps, ordered, scaled to fill the span as a circle.
fn batch_times(spec: &ProfileSpec, n: usize, ordering: &mut Stream, values: &mut Stream) -> Vec<u64> {
    let mut gaps = vec![0.0; n];
    let mut knot = 0;
    let mut sum = 0.0;
    for (k, position) in order(&spec.gap_order, n, ordering).into_iter().enumerate() {
        let p = (k as f64 + values.uniform()) / n as f64;
        while knot + 2 < spec.gap_quantiles.len() && spec.gap_quantiles[knot + 1].0 <= p {
            knot += 1;
        }
        let ((p0, v0), (p1, v1)) = (spec.gap_quantiles[knot], spec.gap_quantiles[knot + 1]);
        let gap = v0 * libm::pow(v1 / v0, (p - p0) / (p1 - p0));
        gaps[position as usize] = gap;
        sum += gap;
    }
    // The circle is opened inside a gap of ordinary size, so that a long silence is never cut.
    if let Some(k) = gaps.iter().position(|gap| *gap <= sum / n as f64) {
        gaps.swap(0, k);
    }
    let scale = spec.span_ns as f64 / sum;
    let mut now = -values.uniform() * gaps[0];
    gaps.iter()
        .map(|gap| {
            now += gap;
            (libm::round(now * scale) as u64).min(spec.span_ns)
        })
        .collect()
}

/// Lengths of all requests of one realisation as (input, output), in the drawn order.
fn pairs(spec: &ProfileSpec, stream: &mut Stream) -> Vec<(u32, u32)> {
    let across = spec.joint.first().map_or(0, Vec::len);
    let down: Vec<u64> = spec.joint.iter().map(|row| row.iter().sum()).collect();
    let over: Vec<u64> = (0..across).map(|c| spec.joint.iter().map(|row| row[c]).sum()).collect();
    let mut inputs = cells(&spec.input_runs, &down, stream);
    let mut outputs = cells(&spec.output_runs, &over, stream);
    let mut pairs = Vec::new();
    for (row, from) in spec.joint.iter().zip(&mut inputs) {
        for (count, to) in row.iter().zip(&mut outputs) {
            for _ in 0..*count {
                pairs.extend(from.pop().zip(to.pop()));
            }
        }
    }
    shuffle(&mut pairs, stream);
    pairs
}

/// The stratified values of `runs` in order of size, cut into cells of the given sizes, each cell shuffled.
fn cells(runs: &[LengthRun], sizes: &[u64], stream: &mut Stream) -> Vec<Vec<u32>> {
    let mut values = runs.iter().flat_map(|(low, high, count)| (0..*count).map(move |k| (*low, *high, *count, k)));
    sizes
        .iter()
        .map(|size| {
            let mut cell: Vec<u32> = Vec::with_capacity(*size as usize);
            for (low, high, count, k) in values.by_ref().take(*size as usize) {
                let width = f64::from(high - low) + 1.0;
                let x = (k as f64 + stream.uniform()) / count as f64;
                cell.push((low + (width * x) as u32).min(high));
            }
            shuffle(&mut cell, stream);
            cell
        })
        .collect()
}

/// Fisher and Yates's shuffle.
fn shuffle<T>(items: &mut [T], stream: &mut Stream) {
    for k in (1..items.len()).rev() {
        items.swap(k, stream.below(k as u64 + 1) as usize);
    }
}

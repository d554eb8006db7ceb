//! Latencies of a class by batch: equal stretches of the measured span that one long run is cut into, so that what it
//! says has an interval.
//!
//! A request's latencies and a chain's are of the batch in which it came, a gap between tokens of that in which it
//! ended. Every value is kept once: the sketch of the whole span is that of its batches merged, with what lies in none.

use std::ops::Range;

use serde::Deserialize;

use crate::class_meter::{Metric, N_METRICS};
use crate::leg::Leg;
use crate::sketch::Sketch;

/// The batches of a run: `n` in a row from `first_ns` on, each so long.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batches {
    pub first_ns: u64,
    pub each_ns: u64,
    pub n: u32,
}

/// What a class counted in a batch: requests offered, those done with one output token, chains that began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchCount {
    pub offered: u64,
    pub single_token: u64,
    pub tasks: u64,
}

/// How many counts there are.
pub const N_COUNTS: usize = 3;

impl BatchCount {
    /// In the order in which they leave.
    pub fn all(&self) -> [u64; N_COUNTS] {
        [self.offered, self.single_token, self.tasks]
    }
}

/// What is counted in one batch, or in none.
#[derive(Debug, Clone, Default)]
struct Place {
    /// By pool and metric.
    sketches: Vec<[Sketch; N_METRICS]>,
    count: BatchCount,
}

/// Where the last instant lay: times from `first_ns` to `last_ns` are all of `place`.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    first_ns: u64,
    last_ns: u64,
    place: usize,
}

impl Cursor {
    fn holds(&self, t_ns: u64) -> bool {
        self.first_ns <= t_ns && t_ns <= self.last_ns
    }
}

/// The latencies of one class in the measured span.
#[derive(Debug, Clone)]
pub struct Latencies {
    batches: Option<Batches>,
    /// What lies in no batch, then each batch.
    places: Vec<Place>,
    came: Cursor,
    ended: Cursor,
}

impl Latencies {
    pub fn new(n_pools: usize, batches: Option<Batches>) -> Self {
        let n = 1 + batches.map_or(0, |batches| batches.n as usize);
        let place = Place { sketches: vec![Default::default(); n_pools], count: BatchCount::default() };
        let (first_ns, last_ns) = if batches.is_some() { (1, 0) } else { (0, u64::MAX) };
        let cursor = Cursor { first_ns, last_ns, place: 0 };
        Self { batches, places: vec![place; n], came: cursor, ended: cursor }
    }

    /// A latency of what came at `came_ns`.
    pub fn add(&mut self, pool: usize, metric: Metric, came_ns: u64, value_ns: u64) {
        let place = self.place_of(came_ns);
        place.sketches[pool][metric as usize].add(value_ns);
    }

    /// Count what came at `came_ns`.
    pub fn count(&mut self, came_ns: u64, each: impl Fn(&mut BatchCount)) {
        each(&mut self.place_of(came_ns).count);
    }

    /// A gap that ended at `end_ns`.
    pub fn add_gap(&mut self, pool: usize, end_ns: u64, gap_ns: u64) {
        if !self.ended.holds(end_ns) {
            self.ended = self.around(end_ns);
        }
        self.places[self.ended.place].sketches[pool][Metric::Itl as usize].add(gap_ns);
    }

    /// Steps of a leg, `between_ns` the end of the one before them and that of their last, each a gap of `weight`
    /// sequences.
    pub fn add_gaps(&mut self, pool: usize, leg: &Leg, steps: Range<u64>, between_ns: (u64, u64), weight: u64) {
        if self.ended.holds(between_ns.0) && self.ended.holds(between_ns.1) {
            let sketches = &mut self.places[self.ended.place].sketches;
            sketches[pool][Metric::Itl as usize].add_run(leg.time(), steps.start, steps.end, weight);
            return;
        }
        self.add_gaps_apart(pool, leg, steps, weight);
    }

    /// The same across the edges of batches.
    #[cold]
    fn add_gaps_apart(&mut self, pool: usize, leg: &Leg, steps: Range<u64>, weight: u64) {
        let mut from = steps.start;
        while from < steps.end {
            self.ended = self.around(leg.end_of(from + 1));
            let to = leg.steps_done(from + 1, steps.end, self.ended.last_ns);
            let sketches = &mut self.places[self.ended.place].sketches;
            sketches[pool][Metric::Itl as usize].add_run(leg.time(), from, to, weight);
            from = to;
        }
    }

    fn place_of(&mut self, t_ns: u64) -> &mut Place {
        if !self.came.holds(t_ns) {
            self.came = self.around(t_ns);
        }
        &mut self.places[self.came.place]
    }

    #[cold]
    fn around(&self, t_ns: u64) -> Cursor {
        let Some(Batches { first_ns, each_ns, n }) = self.batches else {
            return Cursor { first_ns: 0, last_ns: u64::MAX, place: 0 };
        };
        if t_ns < first_ns {
            return Cursor { first_ns: 0, last_ns: first_ns - 1, place: 0 };
        }
        let ix = (t_ns - first_ns) / each_ns;
        if ix >= u64::from(n) {
            return Cursor { first_ns: first_ns + u64::from(n) * each_ns, last_ns: u64::MAX, place: 0 };
        }
        let first_ns = first_ns + ix * each_ns;
        Cursor { first_ns, last_ns: first_ns + each_ns - 1, place: 1 + ix as usize }
    }

    /// By pool and metric, of the whole span.
    pub fn of_span(&self) -> Vec<[Sketch; N_METRICS]> {
        let mut all = self.places[0].sketches.clone();
        for place in &self.places[1..] {
            for (pool, by_metric) in all.iter_mut().zip(&place.sketches) {
                for (sketch, other) in pool.iter_mut().zip(by_metric) {
                    sketch.merge(other);
                }
            }
        }
        all
    }

    /// By batch: its sketches by metric, of all pools, and what it counted.
    pub fn of_batches(&self) -> impl Iterator<Item = ([Sketch; N_METRICS], BatchCount)> + '_ {
        self.places[1..].iter().map(|place| {
            let mut all: [Sketch; N_METRICS] = Default::default();
            for by_metric in &place.sketches {
                for (sketch, other) in all.iter_mut().zip(by_metric) {
                    sketch.merge(other);
                }
            }
            (all, place.count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::tests::line;
    use crate::speculation::Pace;

    #[test]
    fn a_run_of_gaps_is_cut_where_its_steps_end() {
        let leg = Leg::new(1_000, &line(7_300_000, 12_345), None, 0, Pace::default());
        let batches = Batches { first_ns: 1_500, each_ns: 777, n: 5 };
        let mut run = Latencies::new(1, Some(batches));
        run.add_gaps(0, &leg, 2..900, (leg.end_of(2), leg.end_of(900)), 3);
        let mut one_by_one = Latencies::new(1, Some(batches));
        for step in 2..900 {
            one_by_one.add_gaps(0, &leg, step..step + 1, (leg.end_of(step), leg.end_of(step + 1)), 3);
        }
        let mut whole = Latencies::new(1, None);
        whole.add_gaps(0, &leg, 2..900, (leg.end_of(2), leg.end_of(900)), 3);
        assert_eq!(run.of_span(), whole.of_span());
        let itl = |each: &Latencies| each.of_batches().map(|(all, _)| all[Metric::Itl as usize].clone()).collect();
        let (mine, other): (Vec<Sketch>, Vec<Sketch>) = (itl(&run), itl(&one_by_one));
        assert_eq!(mine, other);
        let ends = |ix: u64| {
            let first = batches.first_ns + ix * batches.each_ns;
            (3..=900).filter(|&n| (first..first + batches.each_ns).contains(&leg.end_of(n))).count() as u64
        };
        for (ix, sketch) in mine.iter().enumerate() {
            assert_eq!(sketch.count(), 3 * ends(ix as u64));
        }
        assert!(mine.iter().any(|sketch| sketch.count() > 3));
    }

    #[test]
    fn what_came_in_no_batch_is_of_the_span_alone() {
        let mut found = Latencies::new(2, Some(Batches { first_ns: 10, each_ns: 5, n: 2 }));
        for t in 0..30 {
            found.add(1, Metric::Ttft, t, t);
            found.count(t, |count| count.offered += 1);
        }
        assert_eq!(found.of_span()[1][Metric::Ttft as usize].count(), 30);
        let batches: Vec<_> = found.of_batches().collect();
        assert_eq!(batches.iter().map(|(_, count)| count.all()).collect::<Vec<_>>(), [[5, 0, 0]; 2]);
        assert_eq!(batches[1].0[Metric::Ttft as usize].sum_fs(), (15 + 16 + 17 + 18 + 19) * 1_000_000);
    }
}

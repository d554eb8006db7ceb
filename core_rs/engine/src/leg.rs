//! Equal steps of a replica as they are kept while they run: what `step.rs` says of them, in half the bytes.

use crate::speculation::Pace;
use crate::step::{Bound, Line, StepLine};
use crate::sums;
use crate::time::{ns_from_fs, FS_PER_NS};

/// The line in 64 bits, if they hold it and no power cap is in it.
fn narrow(line: &StepLine) -> Option<StepLine<i64>> {
    let one = |line: Line| Some(Line { base: i64::try_from(line.base).ok()?, slope: line.slope.try_into().ok()? });
    Some(StepLine {
        time_fs: one(line.time_fs)?,
        energy_fj: one(line.energy_fj)?,
        bytes: one(line.bytes)?,
        flops: one(line.flops)?,
        bound: line.bound,
        launch_fs: line.launch_fs.try_into().ok()?,
        memory_fs: 0,
        compute_fs: 0,
        network_fs: line.network_fs.try_into().ok()?,
        capped_fs: (line.capped_fs == Line::default()).then(Line::default)?,
        valid_steps: line.valid_steps,
    })
}

/// What stands in 64 bits of a line that they do not hold.
fn none(line: &StepLine) -> StepLine<i64> {
    let none = Line::default();
    StepLine {
        time_fs: none,
        energy_fj: none,
        bytes: none,
        flops: none,
        bound: line.bound,
        launch_fs: 0,
        memory_fs: 0,
        compute_fs: 0,
        network_fs: 0,
        capped_fs: none,
        valid_steps: line.valid_steps,
    }
}

/// A line of 64 bits in 128.
#[inline]
fn widened(line: Line<i64>) -> Line {
    Line { base: i128::from(line.base), slope: i128::from(line.slope) }
}

#[derive(Debug)]
struct Wide {
    line: StepLine,
    alone: Alone,
}

/// Time and energy of a step without its chunks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone {
    pub time_fs: i128,
    pub energy_fj: i128,
}

impl Alone {
    pub fn of(time_fs: i128, energy_fj: i128) -> Self {
        Self { time_fs, energy_fj }
    }

    fn is_narrow(&self) -> bool {
        i64::try_from(self.time_fs).is_ok() && i64::try_from(self.energy_fj).is_ok()
    }
}

/// What steps take, by step.
#[derive(Debug, Clone, Copy, Default)]
pub struct Costs {
    pub time_fs: Line,
    pub energy_fj: Line,
    pub bytes: Line,
    pub flops: Line,
    /// Of the time, what a power cap adds.
    pub capped_fs: Line,
    pub network_fs: i128,
    pub launch_fs: i128,
}

/// Steps on one line, anchored where the composition last changed.
#[derive(Debug)]
#[repr(C)]
pub struct Leg {
    pub anchor_ns: u64,
    /// Steps of the line that are done and counted, and where the stretch under way ends.
    pub done: u64,
    pub planned: u64,
    time_fs: Line<i64>,
    /// All of it, where 64 bits do not hold it, or where a power cap is in it.
    wide: Option<Box<Wide>>,
    pub n_chunks: u32,
    /// The clock of tokens at the anchor.
    phase: u32,
    pub bound: Bound,
    /// A step with prefill chunks, or one that waits for the host link: it runs alone.
    pub is_alone: bool,
    /// Both chunks and decoding sequences are in it.
    pub is_mixed: bool,
    /// It was formed before its anchor.
    pub is_early: bool,
    /// When the steps that are counted were done.
    pub done_ns: u64,
    /// The line holds for so many steps.
    pub valid_steps: u64,
    energy_fj: Line<i64>,
    bytes: Line<i64>,
    flops: Line<i64>,
    network_fs: i64,
    launch_fs: i64,
    /// KV tokens held during step 0; those of the decoding sequences grow by the mean.
    pub kv_tokens: u64,
    /// Of a step with both chunks and decoding sequences: time and energy without its chunks.
    alone_fs: i64,
    alone_fj: i64,
}

impl Leg {
    /// Steps that follow `line` from `anchor_ns` on; `alone` where both chunks and decoding sequences are in the first.
    pub fn new(anchor_ns: u64, line: &StepLine, alone: Option<Alone>, kv_tokens: u64, pace: Pace) -> Self {
        let narrow = narrow(line).filter(|_| alone.is_none_or(|alone| alone.is_narrow()));
        let mut leg = Self::of(anchor_ns, &narrow.unwrap_or_else(|| none(line)), alone, kv_tokens, pace);
        if narrow.is_none() {
            leg.wide = Some(Box::new(Wide { line: *line, alone: alone.unwrap_or_default() }));
        }
        leg
    }

    /// The same of a line in 64 bits.
    #[expect(clippy::inline_always, reason = "what a leg does not keep is not computed")]
    #[inline(always)]
    pub fn of(anchor_ns: u64, line: &StepLine<i64>, alone: Option<Alone>, kv_tokens: u64, pace: Pace) -> Self {
        let without = alone.unwrap_or_default();
        Self {
            anchor_ns,
            done: 0,
            done_ns: anchor_ns,
            planned: 0,
            valid_steps: line.valid_steps,
            time_fs: line.time_fs,
            energy_fj: line.energy_fj,
            bytes: line.bytes,
            flops: line.flops,
            network_fs: line.network_fs,
            launch_fs: line.launch_fs,
            kv_tokens,
            alone_fs: without.time_fs as i64,
            alone_fj: without.energy_fj as i64,
            wide: None,
            n_chunks: 0,
            phase: pace.phase(),
            bound: line.bound,
            is_alone: false,
            is_mixed: alone.is_some(),
            is_early: false,
        }
    }

    /// What the steps take, where 64 bits hold it: whoever computes with these on a way of its own spares the rest.
    #[expect(clippy::inline_always, reason = "64 bits are known to do only where this stands")]
    #[inline(always)]
    pub fn costs(&self) -> Option<(Costs, Alone)> {
        if self.wide.is_some() {
            return None;
        }
        let costs = Costs {
            time_fs: widened(self.time_fs),
            energy_fj: widened(self.energy_fj),
            bytes: widened(self.bytes),
            flops: widened(self.flops),
            capped_fs: Line::default(),
            network_fs: i128::from(self.network_fs),
            launch_fs: i128::from(self.launch_fs),
        };
        Some((costs, Alone { time_fs: i128::from(self.alone_fs), energy_fj: i128::from(self.alone_fj) }))
    }

    /// The same where they do not.
    #[cold]
    pub fn wide_costs(&self) -> (Costs, Alone) {
        let Some(wide) = &self.wide else { return self.costs().unwrap_or_default() };
        let line = &wide.line;
        let costs = Costs {
            time_fs: line.time_fs,
            energy_fj: line.energy_fj,
            bytes: line.bytes,
            flops: line.flops,
            capped_fs: line.capped_fs,
            network_fs: line.network_fs,
            launch_fs: line.launch_fs,
        };
        (costs, wide.alone)
    }

    /// The clock of tokens at the anchor, of a replica whose own is `pace`.
    pub fn pace(&self, pace: Pace) -> Pace {
        pace.at(self.phase)
    }

    /// How long the steps last, by step.
    pub fn time(&self) -> Line {
        self.wide.as_ref().map_or_else(|| widened(self.time_fs), |wide| wide.line.time_fs)
    }

    /// When the first `n` steps are done.
    pub fn end_of(&self, n: u64) -> u64 {
        let fs = match &self.wide {
            None => sums::prefix(widened(self.time_fs), n),
            Some(wide) => sums::prefix(wide.line.time_fs, n),
        };
        self.anchor_ns.saturating_add(ns_from_fs(fs))
    }

    /// When the stretch under way ends.
    pub fn end(&self) -> u64 {
        self.end_of(self.planned)
    }

    /// How many steps of `from..=to` are done by `until_ns`: the largest such n (`from` itself is taken as done).
    pub fn steps_done(&self, from: u64, to: u64, until_ns: u64) -> u64 {
        let fs = i128::from(until_ns.saturating_sub(self.anchor_ns)) * FS_PER_NS;
        let guess = sums::steps_guess(self.time(), fs).saturating_add(1);
        sums::first_step(from + 1, to + 1, guess, |n| self.end_of(n) > until_ns) - 1
    }

    /// The end of the step that is under way at `now`, as a number of steps.
    pub fn next_boundary(&self, now: u64) -> u64 {
        self.steps_done(self.done, self.planned, now.saturating_sub(1)) + 1
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A step of `a` femtoseconds, each later one `b` longer.
    pub(crate) fn line(a: i128, b: i128) -> StepLine {
        StepLine {
            time_fs: Line { base: a, slope: b },
            energy_fj: Line { base: 3 * a, slope: b },
            bytes: Line { base: 10, slope: 1 },
            flops: Line { base: 20, slope: 2 },
            bound: Bound::Memory,
            memory_fs: a / 2,
            compute_fs: 0,
            network_fs: a / 4,
            launch_fs: a / 4,
            capped_fs: Line::default(),
            valid_steps: u64::MAX,
        }
    }

    #[test]
    fn steps_done_is_the_last_that_ended() {
        let leg = Leg::new(100, &line(1_500_000, 700_000), None, 0, Pace::default());
        for until in 100..400 {
            let got = leg.steps_done(2, 20, until);
            let plain = (2..=20).rev().find(|&n| n == 2 || leg.end_of(n) <= until).unwrap();
            assert_eq!(got, plain);
        }
    }

    #[test]
    fn what_64_bits_do_not_hold_is_kept_whole() {
        let alone = Alone { time_fs: 5, energy_fj: 1 << 70 };
        for (line, alone, is_wide) in [
            (line(1 << 60, 3), None, false),
            (line(1 << 62, 3), None, true),
            (StepLine { capped_fs: Line { base: 1, slope: 0 }, ..line(9, 1) }, None, true),
            (line(9, 1), Some(alone), true),
            (line(9, 1), None, false),
        ] {
            let leg = Leg::new(7, &line, alone, 0, Pace::default());
            assert_eq!(leg.wide.is_some(), is_wide);
            assert_eq!(leg.costs().is_none(), is_wide);
            let (costs, found) = leg.wide_costs();
            assert_eq!((costs.time_fs, costs.energy_fj, costs.flops), (line.time_fs, line.energy_fj, line.flops));
            assert_eq!((costs.capped_fs, costs.network_fs), (line.capped_fs, line.network_fs));
            let alone = alone.unwrap_or_default();
            assert_eq!((found.time_fs, found.energy_fj), (alone.time_fs, alone.energy_fj));
            assert_eq!(leg.time(), line.time_fs);
        }
    }
}

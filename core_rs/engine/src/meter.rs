//! What the simulation counts of its work: integrals by deployment and window.
//!
//! All sums are integers, so they do not depend on windows, slices or threads.

use std::collections::BTreeMap;

use crate::speculation::Pace;
use crate::step::{Bound, Line, StepLine};
use crate::sums;
use crate::time::ns_from_fs;

/// Integrals over the work of one deployment: in one window, or over the whole measured span.
#[derive(Debug, Clone, Default)]
pub struct Work {
    /// Replica time with a step running, on the event clock.
    pub busy_ns: i128,
    /// Step time by cause; a mixed step is decode for as long as it would last without its prefill chunks.
    pub prefill_fs: i128,
    pub decode_fs: i128,
    pub prefill_fj: i128,
    pub decode_fj: i128,
    pub bytes: i128,
    pub flops: i128,
    /// Step time by what held it up.
    pub memory_fs: i128,
    pub compute_fs: i128,
    pub network_fs: i128,
    pub launch_fs: i128,
    pub power_fs: i128,
    /// Integral of the tokens held in the KV cache.
    pub kv_token_fs: i128,
    pub steps: u64,
    /// Prompt tokens computed for the first time; recomputed ones are apart.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub recomputed_tokens: u64,
    /// Tokens of the prompt stretches that requests found cached when first admitted, and the prompt tokens that need
    /// not be computed for it.
    pub prefix_hit_tokens: u64,
    pub cached_input_tokens: u64,
    pub preemptions: u64,
    /// Replica time without taking requests: failed, in maintenance, switched off or starting.
    pub down_ns: i128,
    /// Of that, without a step under way.
    pub off_ns: i128,
}

/// Whose time a step is.
#[derive(Debug, Clone, Copy)]
pub enum Split {
    Decode,
    Prefill,
    /// Both: decode is what the step would be without its prefill chunks.
    Mixed {
        time_fs: i128,
        energy_fj: i128,
    },
}

/// A stretch of equal steps of one replica, `from..to` of a line anchored at `anchor_ns`.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    pub anchor_ns: u64,
    pub line: &'a StepLine,
    pub split: Split,
    pub from: u64,
    pub to: u64,
    pub n_decoding: u64,
    /// The clock of their tokens at step 0 of the line.
    pub pace: Pace,
    /// KV tokens held during step 0 of the line; those of the decoding sequences grow by the mean.
    pub kv_tokens: u64,
    pub input_tokens: u64,
    pub recomputed_tokens: u64,
    /// First tokens that prefills of this stretch give at its end.
    pub first_tokens: u64,
    /// Tokens of its last step that sequences which end with it do not take.
    pub surplus_tokens: u64,
}

/// When, after its anchor, the first `n` steps of a line are done.
pub fn end_of_step(anchor_ns: u64, line: &StepLine, n: u64) -> u64 {
    anchor_ns.saturating_add(ns_from_fs(sums::prefix(line.time_fs, n)))
}

/// How many steps of `from..=to` are done by `until_ns`: the largest such n (`from` itself is taken as done).
pub fn steps_done(anchor_ns: u64, line: &StepLine, from: u64, to: u64, until_ns: u64) -> u64 {
    let fs = i128::from(until_ns.saturating_sub(anchor_ns)) * crate::time::FS_PER_NS;
    let guess = sums::steps_guess(line.time_fs, fs).saturating_add(1);
    sums::first_step(from + 1, to + 1, guess, |n| end_of_step(anchor_ns, line, n) > until_ns) - 1
}

/// The clock's cuts: windows of equal width, and the measured span [warmup, length).
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub window_ns: u64,
    pub warmup_ns: u64,
    pub length_ns: u64,
}

impl Clock {
    pub fn in_span(&self, t_ns: u64) -> bool {
        t_ns >= self.warmup_ns && t_ns < self.length_ns
    }

    fn next_cut(&self, t_ns: u64) -> u64 {
        self.stretch_around(t_ns).until_ns
    }

    /// What lies between two cuts around `t_ns`.
    pub fn stretch_around(&self, t_ns: u64) -> Between {
        let window = t_ns / self.window_ns;
        let (mut from_ns, mut until_ns) = (window * self.window_ns, (window + 1).saturating_mul(self.window_ns));
        for edge in [self.warmup_ns, self.length_ns] {
            if edge <= t_ns {
                from_ns = from_ns.max(edge);
            } else {
                until_ns = until_ns.min(edge);
            }
        }
        Between { from_ns, until_ns, window, in_span: self.in_span(t_ns) }
    }
}

/// A window, or the part of one that is in the measured span or out of it; empty by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Between {
    pub from_ns: u64,
    pub until_ns: u64,
    pub window: u64,
    pub in_span: bool,
}

impl Between {
    pub fn contains(&self, t_ns: u64) -> bool {
        self.from_ns <= t_ns && t_ns < self.until_ns
    }
}

/// The account of one deployment. What is counted is in it once it is settled.
#[derive(Debug, Clone, Default)]
pub struct DeploymentMeter {
    pub span: Work,
    pub windows: BTreeMap<u64, Work>,
    /// What was counted last, all of it between the same two cuts.
    open: Between,
    work: Work,
}

impl DeploymentMeter {
    /// Count a stretch of steps, cut at window edges; a step belongs to where it ends, busy time to where it passes.
    pub fn add_stretch(&mut self, clock: &Clock, stretch: &Stretch<'_>) {
        let end = end_of_step(stretch.anchor_ns, stretch.line, stretch.to);
        let mut at = end_of_step(stretch.anchor_ns, stretch.line, stretch.from);
        let mut step = stretch.from;
        loop {
            let cut = if self.open.contains(at) { self.open.until_ns } else { clock.next_cut(at) };
            let is_last = end <= cut;
            let (until, to) = if is_last {
                (end, stretch.to)
            } else {
                (cut, steps_done(stretch.anchor_ns, stretch.line, step, stretch.to, cut))
            };
            let part = part_of(stretch, step, to, i128::from(until - at), is_last);
            self.add(clock, at, &part);
            if is_last {
                return;
            }
            (at, step) = (cut, to);
        }
    }

    /// Count a preemption.
    pub fn add_preemption(&mut self, clock: &Clock, t_ns: u64) {
        self.add(clock, t_ns, &Work { preemptions: 1, ..Work::default() });
    }

    /// Count what a request found in the prefix cache.
    pub fn add_found(&mut self, clock: &Clock, t_ns: u64, prefix_hit_tokens: u64, cached_input_tokens: u64) {
        self.add(clock, t_ns, &Work { prefix_hit_tokens, cached_input_tokens, ..Work::default() });
    }

    /// `n` replicas took no requests from `from_ns` to `to_ns`.
    pub fn add_down(&mut self, clock: &Clock, from_ns: u64, to_ns: u64, n: u64) {
        let mut at = from_ns;
        while n > 0 && at < to_ns {
            let end = clock.next_cut(at).min(to_ns);
            self.add(clock, at, &Work { down_ns: i128::from(n) * i128::from(end - at), ..Work::default() });
            at = end;
        }
    }

    /// A replica that takes no requests had no step under way from `from_ns` to `to_ns`.
    pub fn add_off(&mut self, clock: &Clock, from_ns: u64, to_ns: u64) {
        let mut at = from_ns;
        while at < to_ns {
            let end = clock.next_cut(at).min(to_ns);
            self.add(clock, at, &Work { off_ns: i128::from(end - at), ..Work::default() });
            at = end;
        }
    }

    fn add(&mut self, clock: &Clock, t_ns: u64, part: &Work) {
        if !self.open.contains(t_ns) {
            self.settle();
            self.open = clock.stretch_around(t_ns);
        }
        self.work.add(part);
    }

    /// Put what was counted where it belongs.
    pub fn settle(&mut self) {
        let Between { window, in_span, .. } = self.open;
        if !self.open.contains(self.open.from_ns) {
            return;
        }
        self.open = Between::default();
        let work = std::mem::take(&mut self.work);
        self.windows.entry(window).or_default().add(&work);
        if in_span {
            self.span.add(&work);
        }
    }
}

/// Step i of a line.
const STEP: Line = Line { base: 0, slope: 1 };

/// Steps `from..to` of a stretch, and what falls due at its end if this is its last part.
fn part_of(stretch: &Stretch<'_>, from: u64, to: u64, busy_ns: i128, is_last: bool) -> Work {
    let steps = to - from;
    if steps == 0 {
        return Work { busy_ns, ..Work::default() };
    }
    let line = stretch.line;
    let time_fs = sums::sum(line.time_fs, from, to);
    let energy_fj = sums::sum(line.energy_fj, from, to);
    let (decode_fs, decode_fj) = match stretch.split {
        Split::Decode => (time_fs, energy_fj),
        Split::Prefill => (0, 0),
        Split::Mixed { time_fs: alone_fs, energy_fj: alone_fj } => (alone_fs.min(time_fs), alone_fj.min(energy_fj)),
    };
    let n = i128::from(steps);
    let (network_fs, launch_fs) = (line.network_fs * n, line.launch_fs * n);
    let power_fs = sums::sum(line.capped_fs, from, to);
    let ruling_fs = time_fs - network_fs - launch_fs - power_fs;
    let (memory_fs, compute_fs) = match line.bound {
        Bound::Memory => (ruling_fs, 0),
        Bound::Compute => (0, ruling_fs),
    };
    let held = |n| {
        let grown = stretch.pace.grown(stretch.n_decoding, sums::prefix_product(STEP, line.time_fs, n));
        i128::from(stretch.kv_tokens) * sums::prefix(line.time_fs, n) + grown
    };
    let tokens = stretch.pace.tokens(to) - stretch.pace.tokens(from);
    let at_end = u64::from(is_last);
    Work {
        busy_ns,
        prefill_fs: time_fs - decode_fs,
        decode_fs,
        prefill_fj: energy_fj - decode_fj,
        decode_fj,
        bytes: sums::sum(line.bytes, from, to),
        flops: sums::sum(line.flops, from, to),
        memory_fs,
        compute_fs,
        network_fs,
        launch_fs,
        power_fs,
        kv_token_fs: held(to) - if from == 0 { 0 } else { held(from) },
        steps,
        input_tokens: at_end * stretch.input_tokens,
        output_tokens: stretch.n_decoding * tokens + at_end * stretch.first_tokens - at_end * stretch.surplus_tokens,
        recomputed_tokens: at_end * stretch.recomputed_tokens,
        ..Work::default()
    }
}

impl Work {
    /// Take in other work.
    pub fn add(&mut self, other: &Self) {
        self.busy_ns += other.busy_ns;
        self.prefill_fs += other.prefill_fs;
        self.decode_fs += other.decode_fs;
        self.prefill_fj += other.prefill_fj;
        self.decode_fj += other.decode_fj;
        self.bytes += other.bytes;
        self.flops += other.flops;
        self.memory_fs += other.memory_fs;
        self.compute_fs += other.compute_fs;
        self.network_fs += other.network_fs;
        self.launch_fs += other.launch_fs;
        self.power_fs += other.power_fs;
        self.kv_token_fs += other.kv_token_fs;
        self.steps += other.steps;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.recomputed_tokens += other.recomputed_tokens;
        self.prefix_hit_tokens += other.prefix_hit_tokens;
        self.cached_input_tokens += other.cached_input_tokens;
        self.preemptions += other.preemptions;
        self.down_ns += other.down_ns;
        self.off_ns += other.off_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(a: i128, b: i128) -> StepLine {
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
    fn totals_do_not_depend_on_windows() {
        let step = line(7_300_000_000, 12_345_678);
        let stretch = Stretch {
            anchor_ns: 123_456,
            line: &step,
            split: Split::Decode,
            from: 3,
            to: 2_000,
            n_decoding: 17,
            pace: Pace::default(),
            kv_tokens: 900,
            input_tokens: 0,
            recomputed_tokens: 0,
            first_tokens: 0,
            surplus_tokens: 0,
        };
        let sum_of = |meter: &DeploymentMeter| {
            let mut sum = Work::default();
            meter.windows.values().for_each(|work| sum.add(work));
            format!("{sum:?}")
        };
        let mut whole = DeploymentMeter::default();
        whole.add_stretch(&Clock { window_ns: u64::MAX, warmup_ns: 0, length_ns: u64::MAX }, &stretch);
        whole.settle();
        assert_eq!((whole.span.steps, whole.span.output_tokens), (1_997, 17 * 1_997));
        for window_ns in [50_000, 1_000_003, 77_000_000, 4_000_000_000] {
            let mut cut = DeploymentMeter::default();
            cut.add_stretch(&Clock { window_ns, warmup_ns: 5_000_000, length_ns: 12_345_000_000 }, &stretch);
            cut.settle();
            assert_eq!(sum_of(&cut), format!("{:?}", whole.span));
        }
    }

    #[test]
    fn steps_done_is_the_last_that_ended() {
        let step = line(1_500_000, 700_000);
        for until in 100..400 {
            let got = steps_done(100, &step, 2, 20, until);
            let plain = (2..=20).rev().find(|&n| n == 2 || end_of_step(100, &step, n) <= until).unwrap();
            assert_eq!(got, plain);
        }
    }
}

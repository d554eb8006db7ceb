//! What the simulation counts of its work: integrals by deployment and window.
//!
//! All sums are integers, so they do not depend on windows, slices or threads.

use std::collections::BTreeMap;

use crate::leg::{Alone, Costs, Leg};
use crate::speculation::Pace;
use crate::step::{Bound, Line};
use crate::sums;

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

/// Steps `from..to` of one replica, of a leg.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    pub leg: &'a Leg,
    pub from: u64,
    pub to: u64,
    /// When the first of them begins, and the last ends.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub n_decoding: u64,
    /// The clock of their tokens at step 0 of the leg.
    pub pace: Pace,
    pub input_tokens: u64,
    pub recomputed_tokens: u64,
    /// First tokens that prefills of this stretch give at its end.
    pub first_tokens: u64,
    /// Tokens of its last step that sequences which end with it do not take.
    pub surplus_tokens: u64,
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
        let leg = stretch.leg;
        let end = stretch.end_ns;
        let mut at = stretch.begin_ns;
        let mut step = stretch.from;
        loop {
            if !self.open.contains(at) {
                self.settle();
                self.open = clock.stretch_around(at);
            }
            let cut = self.open.until_ns;
            let is_last = end <= cut;
            let (until, to) = if is_last { (end, stretch.to) } else { (cut, leg.steps_done(step, stretch.to, cut)) };
            self.work.busy_ns += i128::from(until - at);
            if to > step {
                match leg.costs() {
                    Some((costs, alone)) => part_of(stretch, &costs, alone, step, to),
                    None => wide_part_of(stretch, step, to),
                }
                .put_in(&mut self.work, stretch, is_last);
            }
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

/// What a part of a stretch comes to.
struct Part {
    time_fs: i128,
    energy_fj: i128,
    decode_fs: i128,
    decode_fj: i128,
    bytes: i128,
    flops: i128,
    network_fs: i128,
    launch_fs: i128,
    power_fs: i128,
    kv_token_fs: i128,
    steps: u64,
    tokens: u64,
}

/// Steps `from..to` of a stretch, at least one.
#[expect(clippy::inline_always, reason = "so that it is made for 64 bits and for 128")]
#[inline(always)]
fn part_of(stretch: &Stretch<'_>, costs: &Costs, alone: Alone, from: u64, to: u64) -> Part {
    let kv_tokens = i128::from(stretch.leg.kv_tokens);
    if from == 0 && to == 1 {
        // Half of all stretches are a single step with a prompt: the first of its line, without any sum.
        let held = kv_tokens * costs.time_fs.base;
        return part_by(stretch, costs, alone, (from, to), held, |line| line.base);
    }
    let range = sums::Range::new(from, to);
    let time_fs = range.sum(costs.time_fs);
    let grown = if stretch.pace.is_plain() {
        i128::from(stretch.n_decoding) * range.moment(costs.time_fs)
    } else {
        let grown = |n| stretch.pace.grown(stretch.n_decoding, sums::moment(costs.time_fs, n));
        grown(to) - grown(from)
    };
    // Products of what 64 bits hold are one multiplication.
    let held = match i64::try_from(time_fs) {
        Ok(time_fs) => i128::from(stretch.leg.kv_tokens as i64) * i128::from(time_fs),
        Err(_) => kv_tokens * time_fs,
    };
    part_by(stretch, costs, alone, (from, to), held + grown, |line| range.sum(line))
}

/// The same with its sums and what is held in it.
#[expect(clippy::inline_always, reason = "so that it is made for one step and for many")]
#[inline(always)]
fn part_by(
    stretch: &Stretch<'_>,
    costs: &Costs,
    alone: Alone,
    (from, to): (u64, u64),
    kv_token_fs: i128,
    sum: impl Fn(Line) -> i128,
) -> Part {
    let leg = stretch.leg;
    let time_fs = sum(costs.time_fs);
    let energy_fj = sum(costs.energy_fj);
    let (decode_fs, decode_fj) = if !leg.is_alone || leg.n_chunks == 0 {
        (time_fs, energy_fj)
    } else if leg.is_mixed {
        (alone.time_fs.min(time_fs), alone.energy_fj.min(energy_fj))
    } else {
        (0, 0)
    };
    let n = i128::from((to - from) as i64);
    Part {
        time_fs,
        energy_fj,
        decode_fs,
        decode_fj,
        bytes: sum(costs.bytes),
        flops: sum(costs.flops),
        network_fs: costs.network_fs * n,
        launch_fs: costs.launch_fs * n,
        power_fs: sum(costs.capped_fs),
        kv_token_fs,
        steps: to - from,
        tokens: stretch.pace.tokens(to) - stretch.pace.tokens(from),
    }
}

#[cold]
#[inline(never)]
fn wide_part_of(stretch: &Stretch<'_>, from: u64, to: u64) -> Part {
    let (costs, alone) = stretch.leg.wide_costs();
    part_of(stretch, &costs, alone, from, to)
}

impl Part {
    /// Count it, and what falls due at the end of its stretch if this is the last of it.
    #[inline]
    fn put_in(&self, work: &mut Work, stretch: &Stretch<'_>, is_last: bool) {
        work.prefill_fs += self.time_fs - self.decode_fs;
        work.decode_fs += self.decode_fs;
        work.prefill_fj += self.energy_fj - self.decode_fj;
        work.decode_fj += self.decode_fj;
        work.bytes += self.bytes;
        work.flops += self.flops;
        let ruling_fs = self.time_fs - self.network_fs - self.launch_fs - self.power_fs;
        match stretch.leg.bound {
            Bound::Memory => work.memory_fs += ruling_fs,
            Bound::Compute => work.compute_fs += ruling_fs,
        }
        work.network_fs += self.network_fs;
        work.launch_fs += self.launch_fs;
        work.power_fs += self.power_fs;
        work.kv_token_fs += self.kv_token_fs;
        work.steps += self.steps;
        work.output_tokens += stretch.n_decoding * self.tokens;
        if is_last {
            work.input_tokens += stretch.input_tokens;
            work.output_tokens += stretch.first_tokens;
            work.output_tokens -= stretch.surplus_tokens;
            work.recomputed_tokens += stretch.recomputed_tokens;
        }
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
    use crate::leg::tests::line;

    #[test]
    fn totals_do_not_depend_on_windows() {
        let (a, b) = (7_300_000_000, 12_345_678);
        let leg = Leg::new(123_456, &line(a, b), None, 900, Pace::default());
        let stretch = Stretch {
            leg: &leg,
            from: 3,
            to: 2_000,
            begin_ns: leg.end_of(3),
            end_ns: leg.end_of(2_000),
            n_decoding: 17,
            pace: Pace::default(),
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
}

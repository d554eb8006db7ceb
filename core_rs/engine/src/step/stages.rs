//! Steps of a replica in pipeline stages.
//!
//! A stage holds a run of the model's layers on tp x dp chips; the last one has the output head and the host's work. A
//! step gives every decoding sequence its token: the sequences go round in `pp` micro-batches as equal as they can be
//! (fewer where there are fewer sequences and chunks), which the stages work on one after the other. It lasts as long as
//! one micro-batch takes through all stages and hand-overs, or as the slowest stage takes for all micro-batches:
//!
//! ```text
//! step = max(sum of stages + hand-overs, micro-batches x slowest stage)
//! ```
//! Each stage is linear in the context on both sides of its own max(memory, compute), so the whole is piecewise linear.
//! Time is that of the busiest micro-batch, as it is that of the busiest attention group inside of one; every
//! micro-batch reads the weights again.

use super::{round, Bound, ChunkSums, Decoders, Draft, Line, Load, Part, PartLine, StepLine, StepModel, Work, FEMTO};
use crate::collective::NetworkCost;
use crate::deployment::DeploymentSpec;

/// The stages of a replica that has several.
#[derive(Debug, Clone)]
pub(super) struct Stages {
    /// Stages that are alike: how many, and what one costs.
    kinds: Vec<(i128, Part)>,
    hand_over: NetworkCost,
}

/// A micro-batch: its sequences, the share of the experts that it touches, its chunks in all and in the busiest group.
#[derive(Debug, Clone, Copy)]
struct MicroBatch {
    decoders: Decoders,
    touched: f64,
    all: ChunkSums,
    group: ChunkSums,
    /// How many there are of it.
    count: i128,
}

impl Stages {
    /// None where one stage holds all layers.
    pub fn new(spec: &DeploymentSpec, whole: &Part) -> Option<Self> {
        if spec.layout.pp == 1 {
            return None;
        }
        let stages = spec.layout.stages(spec.model.n_layers);
        let kinds = stages.iter().map(|stage| (i128::from(stage.count), whole.of_stage(spec, stage))).collect();
        let hand_over = NetworkCost::between_stages(spec).slowed(spec.engine.stack_factor);
        Some(Self { kinds, hand_over })
    }

    /// Seconds between the stages that a micro-batch waits for.
    fn handed_s(&self, batch: &MicroBatch) -> f64 {
        let tokens = batch.decoders.group_seqs * batch.decoders.verified;
        self.hand_over.latency_s + self.hand_over.token_s * tokens + self.hand_over.prompt_token_s * batch.group.tokens
    }

    /// Seconds of a prompt token between the stages.
    pub fn prompt_token_s(&self) -> f64 {
        self.hand_over.prompt_token_s
    }

    /// Seconds of the messages between the stages.
    pub fn latency_s(&self) -> f64 {
        self.hand_over.latency_s
    }
}

impl StepModel {
    pub(super) fn cost_in_stages(&self, stages: &Stages, load: &Load, draft: Draft) -> StepLine {
        let (all, largest) = ChunkSums::of(&self.kv, load.chunks);
        let whole = self.decoders(load, draft);
        let (pp, lanes) = (self.pp, self.lanes());
        let n = load.n_seqs.div_ceil(pp);
        let share = if load.n_seqs == 0 { 0.0 } else { n as f64 / load.n_seqs as f64 };
        let batch_all = largest.or_share(&all, pp as f64);
        let routed = n.saturating_mul(whole.verified as u64);
        let batch = MicroBatch {
            decoders: Decoders {
                n_seqs: n as f64,
                group_seqs: load.n_seqs.div_ceil(lanes) as f64,
                routed,
                pairs: whole.pairs * share,
                query_pairs: whole.query_pairs * share,
                pairs_slope: whole.pairs_slope * share,
                ..whole
            },
            touched: self.touched.frac(routed.saturating_add(batch_all.tokens as u64)),
            all: batch_all,
            group: largest.or_share(&all, lanes as f64),
            count: i128::from(pp.min(load.n_seqs + load.chunks.len() as u64).max(1)),
        };
        let line = self.through(stages, &batch);
        let work = self.amounts(&whole, &batch, &all);
        let bytes_slope = self.whole.memory.kv_bytes * whole.pairs_slope;
        let flops_slope = self.whole.compute.decode_pair_flops * (whole.verified * whole.pairs_slope);
        self.powered(line, &work, bytes_slope, flops_slope)
    }

    /// The time of all micro-batches: of one through all stages, or of all through the slowest.
    fn through(&self, stages: &Stages, batch: &MicroBatch) -> PartLine {
        let handed_fs = round(stages.handed_s(batch) * FEMTO);
        let (mut one, mut slowest, mut valid_steps) = (PartLine::NONE, PartLine::NONE, u64::MAX);
        for (count, part) in &stages.kinds {
            let work = part.work(&self.kv, &batch.decoders, batch.touched, &batch.all, &batch.group);
            let line = part.line(&batch.decoders, batch.decoders.group_share(), &work, self.attention_apart);
            valid_steps = valid_steps.min(line.valid_steps);
            one = one.plus(&line.times(*count));
            slowest = line.times(batch.count).or_longer(slowest, &mut valid_steps);
        }
        one.time_fs.base += handed_fs;
        one.network_fs += handed_fs;
        let ruling = one.or_longer(slowest, &mut valid_steps);
        PartLine { valid_steps, ..ruling }
    }

    /// What all micro-batches move and compute: the weights are read for each.
    fn amounts(&self, whole: &Decoders, batch: &MicroBatch, all: &ChunkSums) -> Work {
        let m = &self.whole.memory;
        let mut work = self.whole.work(&self.kv, whole, batch.touched, all, all);
        work.bytes += (batch.count - 1) as f64 * (m.rest_bytes + m.expert_bytes * batch.touched);
        work
    }

    /// The mean of what `n_seqs` sequences (not whole) take in stages, in seconds, and the amounts of it.
    pub(super) fn mean_in_stages(&self, stages: &Stages, whole: &Decoders) -> (f64, Work) {
        let n_seqs = (whole.n_seqs / self.pp as f64).max(1.0);
        let share = n_seqs / whole.n_seqs;
        let none = ChunkSums::default();
        let batch = MicroBatch {
            decoders: Decoders {
                n_seqs,
                group_seqs: (whole.n_seqs / self.lanes() as f64).max(1.0),
                pairs: whole.pairs * share,
                query_pairs: whole.query_pairs * share,
                ..*whole
            },
            touched: self.touched.between(n_seqs * whole.verified),
            all: none,
            group: none,
            count: 1,
        };
        let n_batches = whole.n_seqs.min(self.pp as f64);
        let (mut one_s, mut slowest_s) = (stages.handed_s(&batch), 0.0_f64);
        for (count, part) in &stages.kinds {
            let work = part.work(&self.kv, &batch.decoders, batch.touched, &none, &none);
            let stage_s = part.seconds(&batch.decoders, &work);
            one_s += *count as f64 * stage_s;
            slowest_s = slowest_s.max(n_batches * stage_s);
        }
        let m = &self.whole.memory;
        let mut work = self.whole.work(&self.kv, whole, batch.touched, &none, &none);
        work.bytes += (n_batches - 1.0) * (m.rest_bytes + m.expert_bytes * batch.touched);
        (one_s.max(slowest_s), work)
    }
}

impl PartLine {
    const NONE: Self = Self {
        time_fs: Line { base: 0, slope: 0 },
        bound: Bound::Memory,
        launch_fs: 0,
        memory_fs: 0,
        compute_fs: 0,
        network_fs: 0,
        valid_steps: u64::MAX,
    };

    fn times(self, n: i128) -> Self {
        Self {
            time_fs: Line { base: n * self.time_fs.base, slope: n * self.time_fs.slope },
            launch_fs: n * self.launch_fs,
            memory_fs: n * self.memory_fs,
            compute_fs: n * self.compute_fs,
            network_fs: n * self.network_fs,
            ..self
        }
    }

    /// One after the other; what rules the longer one is said to rule both.
    fn plus(self, other: &Self) -> Self {
        let bound = if self.time_fs.base >= other.time_fs.base { self.bound } else { other.bound };
        Self {
            time_fs: self.time_fs.plus(other.time_fs),
            bound,
            launch_fs: self.launch_fs + other.launch_fs,
            memory_fs: self.memory_fs + other.memory_fs,
            compute_fs: self.compute_fs + other.compute_fs,
            network_fs: self.network_fs + other.network_fs,
            valid_steps: self.valid_steps.min(other.valid_steps),
        }
    }

    /// The longer of the two, and how long it stays so.
    fn or_longer(self, other: Self, valid_steps: &mut u64) -> Self {
        let (longer, shorter) = if self.time_fs.base >= other.time_fs.base { (self, other) } else { (other, self) };
        *valid_steps = (*valid_steps).min(longer.time_fs.steps_above(&shorter.time_fs));
        longer
    }
}

#[cfg(test)]
mod tests;

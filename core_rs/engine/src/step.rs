//! What one step of a replica costs: time, energy, bytes and operations, as lines in the step index.
//!
//! ```text
//! time = launch + max(memory, compute) + network
//! ```
//! With the composition fixed, context grows by one token a sequence and step, so every term is linear in the step
//! index; `max()` makes the whole piecewise linear, and `valid_steps` says how far a piece reaches.

use crate::collective::NetworkCost;
use crate::cost::{launch_s, ComputeCost, MemoryCost, Touched};
use crate::deployment::DeploymentSpec;
use crate::error::Result;
use crate::kv::KvModel;
use crate::memory::MemoryPlan;
use crate::power::PowerModel;

/// Femtoseconds in a second, femtojoules in a joule.
const FEMTO: f64 = 1e15;

/// A quantity over the steps of one composition: `base + slope * i` at step i, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Line {
    pub base: i128,
    pub slope: i128,
}

impl Line {
    /// The value at step `i`.
    pub fn at(&self, i: u64) -> i128 {
        self.base + self.slope * i128::from(i)
    }

    /// How many steps from 0 this line stays at or above `other`, given that it starts so.
    pub fn steps_above(&self, other: &Self) -> u64 {
        let closing = other.slope - self.slope;
        if closing <= 0 {
            return u64::MAX;
        }
        let room = self.base - other.base;
        match (u64::try_from(room), u64::try_from(closing)) {
            (Ok(room), Ok(closing)) => (room / closing).saturating_add(1),
            _ => u64::try_from(room / closing + 1).unwrap_or(u64::MAX),
        }
    }

    fn of(base: f64, slope: f64) -> Self {
        Self { base: round(base), slope: round(slope) }
    }
}

/// One request's part of its prompt in this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    pub tokens: u64,
    /// Tokens of the request already in the cache.
    pub past_tokens: u64,
}

/// What a step has to do.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// Decoding sequences.
    pub n_seqs: u64,
    /// Sum over them of the tokens attended, the one being processed included.
    pub context_tokens: u64,
    /// Sum of min(context, window); 0 when the model has no window.
    pub window_tokens: u64,
    /// How many of them still have context < window.
    pub n_growing_in_window: u64,
    pub chunks: &'a [Chunk],
}

/// Which side of max(memory, compute) rules a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Memory,
    Compute,
}

/// The cost of a step of the whole replica, and of the steps after it while the composition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLine {
    pub time_fs: Line,
    pub energy_fj: Line,
    pub bytes: Line,
    pub flops: Line,
    pub bound: Bound,
    /// Parts of the time of step 0: launch + max(memory, compute) + network.
    pub launch_fs: i128,
    pub memory_fs: i128,
    pub compute_fs: i128,
    pub network_fs: i128,
    /// The lines hold for steps 0..`valid_steps`; `u64::MAX` if for ever.
    pub valid_steps: u64,
}

/// The coefficients of a deployment, ready to cost steps.
#[derive(Debug, Clone)]
pub struct StepModel {
    n_chips: u64,
    dp: u64,
    skew: f64,
    launch_fs: i128,
    touched: Touched,
    memory: MemoryCost,
    compute: ComputeCost,
    network: NetworkCost,
    power: PowerModel,
    kv: KvModel,
    plan: MemoryPlan,
}

/// What the prompt chunks of a step add.
#[derive(Debug, Clone, Copy, Default)]
struct ChunkSums {
    tokens: f64,
    pairs: f64,
    kv_moves: f64,
    /// One row of logits each: an engine computes the head for the last token of every chunk.
    count: f64,
}

impl StepModel {
    /// The coefficients of `spec`; an error if it is wrong or does not fit.
    pub fn new(spec: &DeploymentSpec) -> Result<Self> {
        spec.validate()?;
        let plan = MemoryPlan::new(spec)?;
        let kv = KvModel::new(&spec.model, &spec.layout, &spec.precision, &spec.serving);
        let skew = if spec.layout.expert_degree(&spec.model) > 1 { spec.engine.expert_skew } else { 1.0 };
        Ok(Self {
            n_chips: spec.layout.n_chips(),
            dp: spec.layout.dp,
            skew,
            launch_fs: round(launch_s(spec) * FEMTO),
            touched: Touched::new(spec),
            memory: MemoryCost::new(spec, &kv),
            compute: ComputeCost::new(spec, skew)?,
            network: NetworkCost::new(spec),
            power: PowerModel::new(spec)?,
            kv,
            plan,
        })
    }

    /// The cost of the step of `load`, and of the steps that follow it.
    ///
    /// An attention group serves whole sequences and prompts: time is that of the busiest group, which has
    /// ceil(sequences / dp) of them at the mean context, and the largest chunk or its even share of all chunks.
    pub fn step(&self, load: &Load) -> StepLine {
        let (m, c, p, kv) = (&self.memory, &self.compute, &self.power, &self.kv);
        let n_seqs = load.n_seqs as f64;
        let group_seqs = load.n_seqs.div_ceil(self.dp) as f64;
        let group_share = if load.n_seqs == 0 { 0.0 } else { group_seqs / n_seqs };
        let (all, group) = self.chunk_sums(load.chunks);

        // Pairs of (token, token attended) over all layers; the new tokens' keys and values are written, too.
        let pairs = kv.full_layers * load.context_tokens as f64 + kv.sliding_layers * load.window_tokens as f64;
        let pairs_slope = kv.full_layers * n_seqs + kv.sliding_layers * load.n_growing_in_window as f64;
        let moves = pairs + (kv.full_layers + kv.sliding_layers) * n_seqs;
        let routed = n_seqs + all.tokens;
        let touched = self.touched.frac(load.n_seqs.saturating_add(all.tokens as u64));

        let bytes = m.rest_bytes
            + m.expert_bytes * touched
            + m.kv_bytes * (moves + all.kv_moves)
            + m.state_bytes * (n_seqs + all.count);
        let bytes_slope = m.kv_bytes * pairs_slope;
        let memory_s = m.rest_s
            + m.expert_s * (touched * self.skew).min(1.0)
            + m.kv_s * (moves * group_share + group.kv_moves)
            + m.state_s * (group_seqs + group.count);
        let memory_slope_s = m.kv_s * pairs_slope * group_share;

        let rest_flops = c.rest_flops * routed + c.lm_head_flops * (n_seqs + all.count);
        let expert_flops = c.expert_flops * routed;
        let attention_flops = c.decode_pair_flops * pairs + c.prefill_pair_flops * all.pairs;
        let attention_flops_slope = c.decode_pair_flops * pairs_slope;
        let compute_s = (c.decode.rest + c.decode.lm_head) * group_seqs
            + c.decode.experts * n_seqs
            + c.decode.pair * pairs * group_share
            + c.prefill.rest * group.tokens
            + c.prefill.lm_head * group.count
            + c.prefill.experts * all.tokens
            + c.prefill.pair * group.pairs;
        let compute_slope_s = c.decode.pair * pairs_slope * group_share;

        let network_fs = round((self.network.latency_s + self.network.token_s * (group_seqs + group.tokens)) * FEMTO);
        let memory_fs = Line::of(memory_s * FEMTO, memory_slope_s * FEMTO);
        let compute_fs = Line::of(compute_s * FEMTO, compute_slope_s * FEMTO);
        let (bound, ruling, other) = if memory_fs.base >= compute_fs.base {
            (Bound::Memory, memory_fs, compute_fs)
        } else {
            (Bound::Compute, compute_fs, memory_fs)
        };
        let time_fs = Line { base: self.launch_fs + ruling.base + network_fs, slope: ruling.slope };

        let work_j = p.j_per_byte * bytes
            + p.j_per_flop_rest * rest_flops
            + p.j_per_flop_experts * expert_flops
            + p.j_per_flop_attention * attention_flops;
        let work_slope_j = p.j_per_byte * bytes_slope + p.j_per_flop_attention * attention_flops_slope;
        let (energy_fj, energy_steps) = self.energy(time_fs, work_j, work_slope_j);
        StepLine {
            time_fs,
            energy_fj,
            bytes: Line::of(bytes, bytes_slope),
            flops: Line::of(rest_flops + expert_flops + attention_flops, attention_flops_slope),
            bound,
            launch_fs: self.launch_fs,
            memory_fs: memory_fs.base,
            compute_fs: compute_fs.base,
            network_fs,
            valid_steps: ruling.steps_above(&other).min(energy_steps),
        }
    }

    /// Energy as a line, and the steps it holds for: parked draw for the time plus the work done, or the sustained
    /// maximum for the time where that is less.
    fn energy(&self, time_fs: Line, work_j: f64, work_slope_j: f64) -> (Line, u64) {
        let n = self.n_chips as f64;
        let (base_fs, slope_fs) = (time_fs.base as f64, time_fs.slope as f64);
        let parked_w = self.power.parked_w * n;
        let max_w = self.power.max_w * n;
        let drawn = Line::of(parked_w * base_fs + work_j * FEMTO, parked_w * slope_fs + work_slope_j * FEMTO);
        let most = Line::of(max_w * base_fs, max_w * slope_fs);
        if drawn.base <= most.base {
            (drawn, most.steps_above(&drawn))
        } else {
            (most, drawn.steps_above(&most))
        }
    }

    /// Sums over the chunks: of all, and of the busiest attention group.
    fn chunk_sums(&self, chunks: &[Chunk]) -> (ChunkSums, ChunkSums) {
        let (mut all, mut largest) = (ChunkSums::default(), ChunkSums::default());
        for chunk in chunks {
            let one = ChunkSums {
                tokens: chunk.tokens as f64,
                pairs: self.kv.chunk_pairs(chunk.tokens, chunk.past_tokens),
                kv_moves: self.kv.chunk_moves(chunk.tokens, chunk.past_tokens),
                count: 1.0,
            };
            all = all.zip(one, |sum, x| sum + x);
            largest = largest.zip(one, f64::max);
        }
        let dp = self.dp as f64;
        (all, largest.zip(all, |x, sum| x.max(sum / dp)))
    }

    /// Tokens of context that the caches of all attention groups hold.
    pub fn kv_capacity_tokens(&self) -> u64 {
        self.plan.kv_capacity_tokens
    }

    /// Blocks in the caches of all attention groups.
    pub fn kv_blocks(&self) -> u64 {
        self.plan.kv_blocks
    }

    /// Longest sequence that can be served.
    pub fn max_sequence_tokens(&self) -> u64 {
        self.plan.max_sequence_tokens
    }

    /// Blocks that a sequence of `context_tokens` occupies, those of its windows included.
    pub fn blocks_for(&self, context_tokens: u64) -> u64 {
        self.kv.blocks_for(context_tokens)
    }

    /// The attention window; 0 when every layer attends to everything.
    pub fn window_tokens(&self) -> u64 {
        self.kv.window_tokens
    }

    /// Memory of one chip by part.
    pub fn memory(&self) -> &MemoryPlan {
        &self.plan
    }

    /// Chips of the replica.
    pub fn n_chips(&self) -> u64 {
        self.n_chips
    }

    /// Draw of the replica with no request, in microwatts, which are femtojoules a nanosecond.
    pub fn parked_uw(&self) -> u64 {
        self.power.parked_uw(self.n_chips)
    }
}

impl ChunkSums {
    fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            tokens: f(self.tokens, other.tokens),
            pairs: f(self.pairs, other.pairs),
            kv_moves: f(self.kv_moves, other.kv_moves),
            count: f(self.count, other.count),
        }
    }
}

/// Nearest integer, half away from zero; saturates where sums of a few of them still hold (1e36 fs are 3e13 years).
fn round(value: f64) -> i128 {
    if value.abs() < 9e18 {
        // In 64 bits, without a call: what is left of the whole part is exact.
        let whole = value as i64;
        let left = value - whole as f64;
        return i128::from(whole + i64::from(left >= 0.5) - i64::from(left <= -0.5));
    }
    value.clamp(-1e36, 1e36).round() as i128
}

/// One row of a batch table: a load with at most one chunk, or one more chunk of the load before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Neighbours of the same number are one load, whose figures but the chunk are those of its first row.
    pub load_ix: u64,
    pub n_seqs: u64,
    pub context_tokens: u64,
    pub window_tokens: u64,
    pub n_growing_in_window: u64,
    pub chunk_tokens: u64,
    pub chunk_past_tokens: u64,
}

/// The step of each load.
pub fn table(model: &StepModel, rows: &[Row]) -> Vec<StepLine> {
    let cost = |rows: &[Row]| {
        let row = &rows[0];
        let of = |row: &Row| Chunk { tokens: row.chunk_tokens, past_tokens: row.chunk_past_tokens };
        let chunks: Vec<Chunk> = rows.iter().filter(|row| row.chunk_tokens > 0).map(of).collect();
        model.step(&Load {
            n_seqs: row.n_seqs,
            context_tokens: row.context_tokens,
            window_tokens: row.window_tokens,
            n_growing_in_window: row.n_growing_in_window,
            chunks: &chunks,
        })
    };
    rows.chunk_by(|a, b| a.load_ix == b.load_ix).map(cost).collect()
}

#[cfg(test)]
mod tests;

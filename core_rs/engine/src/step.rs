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
use crate::speculation::{Pace, SpeculationSpec};
use crate::sums;

mod line;
mod mean;
mod table;
#[cfg(test)]
mod tests;

use line::round;
pub use line::Line;
pub use mean::{DecodeCost, PromptCost};
pub use table::{table, Row};

/// Femtoseconds in a second, femtojoules in a joule.
const FEMTO: f64 = 1e15;

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
    /// Of the time, what a power cap adds.
    pub capped_fs: Line,
    /// The lines hold for steps 0..`valid_steps`; `u64::MAX` if for ever.
    pub valid_steps: u64,
}

impl StepLine {
    /// The step waits `fs` for a link, drawing `parked_uw` all the while.
    pub fn wait(&mut self, fs: i128, parked_uw: u64) {
        self.time_fs.base += fs;
        self.network_fs += fs;
        self.energy_fj.base += fs * i128::from(parked_uw) / 1_000_000;
    }

    /// This step follows on `share` of another.
    fn after(&mut self, other: &Self, share: f64) {
        let part = |line: Line| Line::of(line.base as f64 * share, line.slope as f64 * share);
        let of = |fs: i128| round(fs as f64 * share);
        self.time_fs = self.time_fs.plus(part(other.time_fs));
        self.energy_fj = self.energy_fj.plus(part(other.energy_fj));
        self.bytes = self.bytes.plus(part(other.bytes));
        self.flops = self.flops.plus(part(other.flops));
        self.launch_fs += of(other.launch_fs);
        self.memory_fs += of(other.memory_fs);
        self.compute_fs += of(other.compute_fs);
        self.network_fs += of(other.network_fs);
        self.capped_fs = self.capped_fs.plus(part(other.capped_fs));
        self.valid_steps = self.valid_steps.min(other.valid_steps);
    }
}

/// The coefficients of a deployment, ready to cost steps.
#[derive(Debug, Clone)]
pub struct StepModel {
    n_chips: u64,
    n_layers: f64,
    dp: u64,
    skew: f64,
    launch_fs: i128,
    host_sequence_s: f64,
    touched: Touched,
    memory: MemoryCost,
    compute: ComputeCost,
    network: NetworkCost,
    power: PowerModel,
    kv: KvModel,
    plan: MemoryPlan,
    chunk_tokens: f64,
    attention_apart: bool,
    speculation: Option<SpeculationSpec>,
}

/// What a step does for each decoding sequence.
#[derive(Debug, Clone, Copy)]
struct Draft {
    /// Tokens that it works on: the next one and those drafted.
    verified: f64,
    /// Tokens that it gives on average, by which contexts grow.
    kept: f64,
}

impl Draft {
    const NONE: Self = Self { verified: 1.0, kept: 1.0 };
}

/// The decoding sequences of a step.
#[derive(Debug, Clone, Copy)]
struct Decoders {
    n_seqs: f64,
    /// In the busiest attention group.
    group_seqs: f64,
    /// Tokens worked on for each.
    verified: f64,
    /// Pairs of (sequence, token attended) over all layers, without drafts.
    pairs: f64,
    /// Pairs of (token worked on, token attended).
    query_pairs: f64,
}

/// Amounts of a step: over the replica, and the seconds they take on its busiest chip.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Work {
    bytes: f64,
    rest_flops: f64,
    expert_flops: f64,
    attention_flops: f64,
    memory_s: f64,
    compute_s: f64,
    /// Of these, what attention takes.
    attention_memory_s: f64,
    attention_compute_s: f64,
    network_s: f64,
}

impl Work {
    /// The same with attention after the rest, and each the longer of its memory and its arithmetic: what rules the
    /// longer part, the whole as a line, and what the whole would be if the other side ruled attention.
    fn apart(&self, memory_slope_s: f64, compute_slope_s: f64) -> (Bound, Line, Line) {
        let (memory_s, compute_s) =
            (self.memory_s - self.attention_memory_s, self.compute_s - self.attention_compute_s);
        let rest_s = memory_s.max(compute_s);
        let of = |base: f64, slope: f64| Line::of((rest_s + base) * FEMTO, slope * FEMTO);
        let by_memory = of(self.attention_memory_s, memory_slope_s);
        let by_compute = of(self.attention_compute_s, compute_slope_s);
        let is_memory = by_memory.base >= by_compute.base;
        let (ruling, other) = if is_memory { (by_memory, by_compute) } else { (by_compute, by_memory) };
        let attention_s = self.attention_memory_s.max(self.attention_compute_s);
        let rules = if rest_s >= attention_s { memory_s >= compute_s } else { is_memory };
        (if rules { Bound::Memory } else { Bound::Compute }, ruling, other)
    }

    /// Energy above what a step draws before any work.
    fn joules(&self, p: &PowerModel) -> f64 {
        p.j_per_byte * self.bytes
            + p.j_per_flop_rest * self.rest_flops
            + p.j_per_flop_experts * self.expert_flops
            + p.j_per_flop_attention * self.attention_flops
    }
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
        Self::with_plan(spec, MemoryPlan::new(spec)?)
    }

    /// The same where a measured run shows that it fits: reserves give way to the cache, as long as the weights and one
    /// chunk of prompt fit.
    pub fn squeezed(spec: &DeploymentSpec) -> Result<Self> {
        spec.validate()?;
        let plan = MemoryPlan::new(spec).or_else(|_| {
            let mut tight = spec.clone();
            tight.serving.runtime_reserve_bytes = 0.0;
            tight.serving.collective_buffer_bytes = 0.0;
            tight.serving.collective_buffer_pair_bytes = None;
            tight.serving.activation_bytes = Some(0.0);
            tight.serving.max_batch = tight.serving.max_batch.min(64 * tight.layout.dp);
            MemoryPlan::new(&tight)
        })?;
        Self::with_plan(spec, plan)
    }

    fn with_plan(spec: &DeploymentSpec, plan: MemoryPlan) -> Result<Self> {
        let kv = KvModel::new(&spec.model, &spec.layout, &spec.precision, &spec.serving);
        let skew = if spec.layout.expert_degree(&spec.model) > 1 { spec.engine.expert_skew } else { 1.0 };
        let stack = spec.engine.stack_factor;
        Ok(Self {
            n_chips: spec.layout.n_chips(),
            n_layers: spec.model.n_layers as f64,
            dp: spec.layout.dp,
            skew,
            launch_fs: round(launch_s(spec) * stack * FEMTO),
            host_sequence_s: spec.engine.host_sequence_s * stack,
            touched: Touched::new(spec),
            memory: MemoryCost::new(spec, &kv).slowed(stack),
            compute: ComputeCost::new(spec, skew)?.slowed(stack),
            network: NetworkCost::new(spec).slowed(stack),
            power: PowerModel::new(spec)?,
            kv,
            plan,
            chunk_tokens: spec.serving.chunk_tokens as f64,
            attention_apart: spec.engine.attention_apart,
            speculation: spec.serving.speculation,
        })
    }

    /// The cost of the step of `load`, and of the steps that follow it.
    ///
    /// An attention group serves whole sequences and prompts: time is that of the busiest group, which has
    /// ceil(sequences / dp) of them at the mean context, and the largest chunk or its even share of all chunks.
    ///
    /// With drafts, each sequence has 1 + draft tokens verified, which attend to each other too; its keys and values are
    /// read once. Contexts grow by the mean of what is kept. Where drafting costs, it goes before, a token at a time.
    pub fn step(&self, load: &Load) -> StepLine {
        let Some(spec) = &self.speculation else { return self.cost(load, Draft::NONE) };
        let kept = Pace::new(Some(spec)).mean();
        let mut line = self.cost(load, Draft { verified: spec.verified_tokens() as f64, kept });
        if spec.draft_cost_frac > 0.0 && load.n_seqs > 0 {
            let one = self.cost(&Load { chunks: &[], ..*load }, Draft { verified: 1.0, kept });
            line.after(&one, spec.draft_tokens as f64 * spec.draft_cost_frac);
        }
        line
    }

    fn cost(&self, load: &Load, draft: Draft) -> StepLine {
        let (m, c, p, kv) = (&self.memory, &self.compute, &self.power, &self.kv);
        let n_seqs = load.n_seqs as f64;
        let group_seqs = load.n_seqs.div_ceil(self.dp) as f64;
        let group_share = if load.n_seqs == 0 { 0.0 } else { group_seqs / n_seqs };
        let (all, group) = self.chunk_sums(load.chunks);

        // Pairs of (token, token attended) over all layers; the new tokens' keys and values are written, too.
        let pairs = kv.full_layers * load.context_tokens as f64 + kv.sliding_layers * load.window_tokens as f64;
        let growing = kv.full_layers * n_seqs + kv.sliding_layers * load.n_growing_in_window as f64;
        let pairs_slope = growing * draft.kept;
        let verified = draft.verified;
        let query_pairs = verified * pairs + growing * (0.5 * verified * (verified - 1.0));
        let routed = load.n_seqs.saturating_mul(verified as u64);
        let touched = self.touched.frac(routed.saturating_add(all.tokens as u64));
        let decoders = Decoders { n_seqs, group_seqs, verified, pairs, query_pairs };
        let work = self.work(&decoders, touched, &all, &group);
        let memory_slope_s = m.kv_s * pairs_slope * group_share;
        let compute_slope_s = c.decode.pair * (verified * pairs_slope) * group_share;
        let bytes_slope = m.kv_bytes * pairs_slope;
        let attention_flops_slope = c.decode_pair_flops * (verified * pairs_slope);

        let network_fs = round(work.network_s * FEMTO);
        let memory_fs = Line::of(work.memory_s * FEMTO, memory_slope_s * FEMTO);
        let compute_fs = Line::of(work.compute_s * FEMTO, compute_slope_s * FEMTO);
        let (bound, ruling, other) = if self.attention_apart {
            work.apart(memory_slope_s, compute_slope_s)
        } else if memory_fs.base >= compute_fs.base {
            (Bound::Memory, memory_fs, compute_fs)
        } else {
            (Bound::Compute, compute_fs, memory_fs)
        };
        let launch_fs = self.launch_fs + round(self.host_sequence_s * group_seqs * FEMTO);
        let time_fs = Line { base: launch_fs + ruling.base + network_fs, slope: ruling.slope };

        let work_j = work.joules(p);
        let work_slope_j = p.j_per_byte * bytes_slope + p.j_per_flop_attention * attention_flops_slope;
        let own_fs = time_fs;
        let (time_fs, power_steps) = self.throttle(own_fs, work_j, work_slope_j);
        let capped_fs = Line { base: time_fs.base - own_fs.base, slope: time_fs.slope - own_fs.slope };
        let (energy_fj, energy_steps) = self.energy(time_fs, work_j, work_slope_j);
        StepLine {
            time_fs,
            energy_fj,
            bytes: Line::of(work.bytes, bytes_slope),
            flops: Line::of(work.rest_flops + work.expert_flops + work.attention_flops, attention_flops_slope),
            bound,
            launch_fs,
            memory_fs: memory_fs.base,
            compute_fs: compute_fs.base,
            network_fs,
            capped_fs,
            valid_steps: ruling.steps_above(&other).min(energy_steps).min(power_steps),
        }
    }

    /// What the decoding sequences and the chunks move, compute and wait for; a share `touched` of the experts is read.
    fn work(&self, decoders: &Decoders, touched: f64, all: &ChunkSums, group: &ChunkSums) -> Work {
        let (m, c, kv) = (&self.memory, &self.compute, &self.kv);
        let &Decoders { n_seqs, group_seqs, verified, pairs, query_pairs } = decoders;
        let (n_tokens, group_tokens) = (n_seqs * verified, group_seqs * verified);
        let group_share = if n_seqs == 0.0 { 0.0 } else { group_seqs / n_seqs };
        // Read with what was drafted; written for every token worked on.
        let moves = pairs + (kv.full_layers + kv.sliding_layers) * (n_seqs * (verified - 1.0) + n_tokens);
        let routed = n_tokens + all.tokens;
        let attention_memory_s = m.kv_s * (moves * group_share + group.kv_moves);
        let attention_compute_s = c.decode.pair * query_pairs * group_share + c.prefill.pair * group.pairs;
        Work {
            attention_memory_s,
            attention_compute_s,
            bytes: m.rest_bytes
                + m.expert_bytes * touched
                + m.kv_bytes * (moves + all.kv_moves)
                + m.state_bytes * (n_seqs + all.count),
            memory_s: m.rest_s
                + m.expert_s * (touched * self.skew).min(1.0)
                + attention_memory_s
                + m.state_s * (group_seqs + group.count),
            rest_flops: c.rest_flops * routed + c.lm_head_flops * (n_tokens + all.count),
            expert_flops: c.expert_flops * routed,
            attention_flops: c.decode_pair_flops * query_pairs + c.prefill_pair_flops * all.pairs,
            compute_s: (c.decode.rest + c.decode.lm_head) * group_tokens
                + c.decode.experts * n_tokens
                + c.prefill.rest * group.tokens
                + c.prefill.lm_head * group.count
                + c.prefill.experts * all.tokens
                + attention_compute_s,
            network_s: self.network.latency_s
                + self.network.token_s * group_tokens
                + self.network.prompt_token_s * group.tokens,
        }
    }

    /// Tokens of one step.
    pub fn chunk_tokens(&self) -> u64 {
        self.chunk_tokens as u64
    }

    /// Layers of the model.
    pub fn n_layers(&self) -> f64 {
        self.n_layers
    }

    /// Attention groups.
    pub fn dp(&self) -> u64 {
        self.dp
    }

    /// The time of a step under the power cap, and the steps that this holds for: long enough that active draw and work
    /// come to no more than the cap.
    fn throttle(&self, time_fs: Line, work_j: f64, work_slope_j: f64) -> (Line, u64) {
        let Some(cap_w) = self.power.cap_w else { return (time_fs, u64::MAX) };
        let room_w = (cap_w - self.power.active_w) * self.n_chips as f64;
        let least = Line::of(work_j / room_w * FEMTO, work_slope_j / room_w * FEMTO);
        if time_fs.base >= least.base {
            (time_fs, time_fs.steps_above(&least))
        } else {
            (least, least.steps_above(&time_fs))
        }
    }

    /// Energy as a line, and the steps it holds for: active draw for the time plus the work done, or the sustained
    /// maximum for the time where that is less.
    fn energy(&self, time_fs: Line, work_j: f64, work_slope_j: f64) -> (Line, u64) {
        let n = self.n_chips as f64;
        let (base_fs, slope_fs) = (sums::float(time_fs.base), sums::float(time_fs.slope));
        let active_w = self.power.active_w * n;
        let max_w = self.power.max_w * n;
        let drawn = Line::of(active_w * base_fs + work_j * FEMTO, active_w * slope_fs + work_slope_j * FEMTO);
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

    /// Bytes of a token in the full layers, one copy.
    pub fn kv_bytes_per_token(&self) -> f64 {
        self.kv.bytes_per_token()
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

//! What one step of a replica costs: time, energy, bytes and operations, as lines in the step index.
//!
//! ```text
//! time = host + layers x launch + max(memory, compute) + network
//! ```
//! With the composition fixed, context grows by one token a sequence and step, so every term is linear in the step
//! index; `max()` is what makes the whole piecewise linear, and `valid_steps` says how far a piece reaches.

use crate::deployment::DeploymentSpec;
use crate::error::Result;
use crate::kv::KvModel;
use crate::memory::MemoryPlan;
use crate::model::Attention;
use crate::power::PowerModel;

/// Femtoseconds in a second, femtojoules in a joule.
const FEMTO: f64 = 1e15;
/// Bytes of one activation that crosses a link.
const LINK_BYTES: f64 = 2.0;
/// A table of touched experts ends where the share is 1 in double precision, or here.
const TOUCHED_TABLE_MOST: usize = 65_536;

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
    window_tokens: u64,
    full_layers: f64,
    sliding_layers: f64,
    launch_s: f64,
    touched: Vec<f64>,
    skew: f64,
    memory: MemoryCost,
    compute: ComputeCost,
    network: NetworkCost,
    power: PowerModel,
    plan: MemoryPlan,
    kv: KvModel,
}

/// Bytes over the replica, and seconds on the busiest chip.
#[derive(Debug, Clone)]
struct MemoryCost {
    rest_bytes: f64,
    expert_bytes: f64,
    /// One layer, one token, all copies.
    kv_bytes: f64,
    state_bytes: f64,
    rest_s: f64,
    expert_s: f64,
    kv_s: f64,
    state_s: f64,
}

/// Operations over the replica, and seconds on the busiest chip.
#[derive(Debug, Clone)]
struct ComputeCost {
    rest_flops: f64,
    lm_head_flops: f64,
    expert_flops: f64,
    decode_pair_flops: f64,
    prefill_pair_flops: f64,
    decode: PartSeconds,
    prefill: PartSeconds,
}

/// Seconds on one chip for one token of an attention group, one token of the replica, one pair of tokens and layer.
#[derive(Debug, Clone)]
struct PartSeconds {
    rest: f64,
    lm_head: f64,
    experts: f64,
    pair: f64,
}

#[derive(Debug, Clone)]
struct NetworkCost {
    latency_s: f64,
    token_s: f64,
}

/// What the chunks of a step add, over the replica and in its busiest attention group.
#[derive(Debug, Clone, Copy, Default)]
struct ChunkSums {
    tokens: f64,
    pairs: f64,
    kv_tokens: f64,
    count: f64,
}

impl StepModel {
    /// The coefficients of `spec`; an error if it is wrong or does not fit.
    pub fn new(spec: &DeploymentSpec) -> Result<Self> {
        spec.validate()?;
        let plan = MemoryPlan::new(spec)?;
        let (model, chip, engine, precision) = (&spec.model, &spec.chip, &spec.engine, &spec.precision);
        let n_chips = spec.layout.n_chips();
        let (n, tp, dp) = (n_chips as f64, spec.layout.tp as f64, spec.layout.dp as f64);
        let kv = KvModel::new(model, &spec.layout, precision.kv_bytes_per_element, spec.serving.block_tokens);
        let (full_layers, sliding_layers) = model.full_and_sliding_layers();
        let skew = if spec.layout.ep > 1 { engine.expert_skew } else { 1.0 };
        let is_latent = matches!(model.attention, Attention::Mla { .. });
        let moe_layers = model.moe.as_ref().map_or(0.0, |m| m.moe_layers as f64);
        let launch_s = engine.host_s
            + model.n_layers as f64 * engine.launch_layer_s
            + moe_layers * engine.launch_moe_s
            + if is_latent { model.attention_layers as f64 * engine.launch_mla_s } else { 0.0 };

        let params = &model.params;
        let weight_rate = chip.memory_bytes_per_s * engine.memory_eff_frac;
        let kv_rate = chip.memory_bytes_per_s * engine.kv_read_eff_frac;
        let rest_bytes = params.non_expert_active * precision.rest_bytes_per_param;
        let expert_bytes = params.routed_expert_total * precision.expert_bytes_per_param;
        let memory = MemoryCost {
            rest_bytes: rest_bytes * dp,
            expert_bytes,
            kv_bytes: kv.layer_token_bytes * tp / kv.shards,
            state_bytes: 2.0 * model.state_bytes_per_sequence,
            rest_s: rest_bytes / tp / weight_rate,
            expert_s: expert_bytes / n / weight_rate,
            kv_s: kv.layer_token_bytes / kv.shards / kv_rate,
            state_s: 2.0 * model.state_bytes_per_sequence / tp / kv_rate,
        };

        let lm_head = model.lm_head_params();
        let compute = ComputeCost {
            rest_flops: 2.0 * (params.non_expert_active - lm_head),
            lm_head_flops: 2.0 * lm_head,
            expert_flops: 2.0 * params.routed_expert_active,
            decode_pair_flops: model.decode_flops_per_pair(),
            prefill_pair_flops: model.prefill_flops_per_pair(),
            decode: PartSeconds { rest: 0.0, lm_head: 0.0, experts: 0.0, pair: 0.0 },
            prefill: PartSeconds { rest: 0.0, lm_head: 0.0, experts: 0.0, pair: 0.0 },
        };
        let rest_rate = chip.flop_per_s_at(precision.rest_rate, "precision.rest_rate")?;
        let expert_rate = chip.flop_per_s_at(precision.experts_rate, "precision.experts_rate")?;
        let attention_rate = chip.flop_per_s_at(precision.attention_rate, "precision.attention_rate")?;
        let seconds = |pair_flops: f64, eff: f64| PartSeconds {
            rest: compute.rest_flops / tp / (rest_rate * eff),
            lm_head: compute.lm_head_flops / tp / (rest_rate * eff),
            experts: compute.expert_flops * skew / n / (expert_rate * eff),
            pair: pair_flops / tp / (attention_rate * eff),
        };
        let decode = seconds(compute.decode_pair_flops, engine.compute_eff_frac);
        let prefill = seconds(compute.prefill_pair_flops, engine.prefill_eff_frac);

        Ok(Self {
            n_chips,
            dp: spec.layout.dp,
            window_tokens: kv.window_tokens,
            full_layers,
            sliding_layers,
            launch_s,
            touched: touched_table(spec),
            skew,
            memory,
            compute: ComputeCost { decode, prefill, ..compute },
            network: NetworkCost::new(spec),
            power: PowerModel::new(spec)?,
            plan,
            kv,
        })
    }

    /// The cost of the step of `load`, and of the steps that follow it.
    pub fn step(&self, load: &Load) -> StepLine {
        let n_seqs = load.n_seqs as f64;
        let (all, busiest) = self.chunk_sums(load.chunks);
        // An attention group serves whole sequences: the busiest one has ceil(n / dp) of them, at the mean context.
        let group_seqs = load.n_seqs.div_ceil(self.dp) as f64;
        let group_share = if load.n_seqs == 0 { 0.0 } else { group_seqs / n_seqs };
        let pairs = self.full_layers * load.context_tokens as f64 + self.sliding_layers * load.window_tokens as f64;
        let pairs_slope = self.full_layers * n_seqs + self.sliding_layers * load.n_growing_in_window as f64;
        let written = (self.full_layers + self.sliding_layers) * n_seqs;

        let routed = n_seqs + all.tokens;
        let touched = self.touched_frac(load.n_seqs.saturating_add(all.tokens as u64));
        let (m, c, p) = (&self.memory, &self.compute, &self.power);

        let kv_tokens = pairs + written + all.kv_tokens;
        let bytes =
            m.rest_bytes + m.expert_bytes * touched + m.kv_bytes * kv_tokens + m.state_bytes * (n_seqs + all.count);
        let bytes_slope = m.kv_bytes * pairs_slope;
        let memory_s = m.rest_s
            + m.expert_s * (touched * self.skew).min(1.0)
            + m.kv_s * ((pairs + written) * group_share + busiest.kv_tokens)
            + m.state_s * (group_seqs + busiest.count);
        let memory_slope_s = m.kv_s * pairs_slope * group_share;

        let rest_flops = c.rest_flops * routed + c.lm_head_flops * (n_seqs + all.count);
        let expert_flops = c.expert_flops * routed;
        let attention_flops = c.decode_pair_flops * pairs + c.prefill_pair_flops * all.pairs;
        let attention_flops_slope = c.decode_pair_flops * pairs_slope;
        let compute_s = (c.decode.rest + c.decode.lm_head) * group_seqs
            + c.decode.experts * n_seqs
            + c.decode.pair * pairs * group_share
            + c.prefill.rest * busiest.tokens
            + c.prefill.lm_head * busiest.count
            + c.prefill.experts * all.tokens
            + c.prefill.pair * busiest.pairs;
        let compute_slope_s = c.decode.pair * pairs_slope * group_share;
        let network_s = self.network.latency_s + self.network.token_s * (group_seqs + busiest.tokens);

        let launch_fs = round(self.launch_s * FEMTO);
        let network_fs = round(network_s * FEMTO);
        let memory_fs = Line { base: round(memory_s * FEMTO), slope: round(memory_slope_s * FEMTO) };
        let compute_fs = Line { base: round(compute_s * FEMTO), slope: round(compute_slope_s * FEMTO) };
        let (bound, ruling, other) = if memory_fs.base >= compute_fs.base {
            (Bound::Memory, memory_fs, compute_fs)
        } else {
            (Bound::Compute, compute_fs, memory_fs)
        };
        let time_fs = Line { base: launch_fs + ruling.base + network_fs, slope: ruling.slope };

        let work_j = p.j_per_byte * bytes
            + p.j_per_flop_rest * rest_flops
            + p.j_per_flop_experts * expert_flops
            + p.j_per_flop_attention * attention_flops;
        let work_slope_j = p.j_per_byte * bytes_slope + p.j_per_flop_attention * attention_flops_slope;
        let (energy_fj, energy_steps) = self.energy(time_fs, work_j, work_slope_j);
        StepLine {
            time_fs,
            energy_fj,
            bytes: Line { base: round(bytes), slope: round(bytes_slope) },
            flops: Line {
                base: round(rest_flops + expert_flops + attention_flops),
                slope: round(attention_flops_slope),
            },
            bound,
            launch_fs,
            memory_fs: memory_fs.base,
            compute_fs: compute_fs.base,
            network_fs,
            valid_steps: steps_above(ruling, other).min(energy_steps),
        }
    }

    /// Energy as a line: parked draw for the time plus the work, or the sustained maximum where that is less.
    fn energy(&self, time_fs: Line, work_j: f64, work_slope_j: f64) -> (Line, u64) {
        let n = self.n_chips as f64;
        let over = |watts: f64, extra_j: f64, extra_slope_j: f64| Line {
            base: round(watts * n * time_fs.base as f64 + extra_j * FEMTO),
            slope: round(watts * n * time_fs.slope as f64 + extra_slope_j * FEMTO),
        };
        let drawn = over(self.power.parked_w, work_j, work_slope_j);
        let most = over(self.power.max_w, 0.0, 0.0);
        if drawn.base <= most.base {
            (drawn, steps_above(most, drawn))
        } else {
            (most, steps_above(drawn, most))
        }
    }

    /// Share of the experts that `tokens` routed tokens touch.
    fn touched_frac(&self, tokens: u64) -> f64 {
        usize::try_from(tokens).ok().and_then(|t| self.touched.get(t)).copied().unwrap_or(1.0)
    }

    fn chunk_sums(&self, chunks: &[Chunk]) -> (ChunkSums, ChunkSums) {
        let (mut all, mut most) = (ChunkSums::default(), ChunkSums::default());
        for chunk in chunks {
            let (tokens, past) = (chunk.tokens as f64, chunk.past_tokens as f64);
            let end = past + tokens;
            let windowed =
                if self.sliding_layers == 0.0 { 0.0 } else { self.window_pairs(end) - self.window_pairs(past) };
            let window_read = end.min(self.window_tokens as f64 + tokens);
            let one = ChunkSums {
                tokens,
                pairs: self.full_layers * tokens * (past + 0.5 * (tokens + 1.0)) + self.sliding_layers * windowed,
                kv_tokens: self.full_layers * (end + tokens) + self.sliding_layers * (window_read + tokens),
                count: 1.0,
            };
            all = all.zip(one, |a, b| a + b);
            most = most.zip(one, f64::max);
        }
        // A prompt stays in one attention group: the busiest has the largest chunk, or its even share of all.
        let dp = self.dp as f64;
        (all, most.zip(all, |largest, sum| largest.max(sum / dp)))
    }

    /// Sum over positions 1..=`tokens` of min(position, window).
    fn window_pairs(&self, tokens: f64) -> f64 {
        let window = self.window_tokens as f64;
        let inside = tokens.min(window);
        inside * (inside + 1.0) / 2.0 + (tokens - inside) * window
    }

    /// Tokens of context that the caches of all attention groups hold, past every window.
    pub fn kv_capacity_tokens(&self) -> u64 {
        self.plan.kv_capacity_tokens
    }

    /// Blocks of `block_tokens` in the caches of all attention groups.
    pub fn kv_blocks(&self) -> u64 {
        self.plan.kv_blocks
    }

    /// Blocks that a sequence of `context_tokens` occupies.
    pub fn blocks_for(&self, context_tokens: u64) -> u64 {
        self.kv.blocks_for(context_tokens)
    }

    /// Longest sequence that can be served.
    pub fn max_sequence_tokens(&self) -> u64 {
        self.plan.max_sequence_tokens
    }

    /// The sliding window; 0 when the model has none.
    pub fn window_tokens(&self) -> u64 {
        self.window_tokens
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
            kv_tokens: f(self.kv_tokens, other.kv_tokens),
            count: f(self.count, other.count),
        }
    }
}

impl NetworkCost {
    /// Per layer: an all-reduce after attention and one after the feed-forward part, over the tensor-parallel group. A
    /// mixture layer whose tokens live in several attention groups has, instead of the second, a dispatch and a
    /// combine over all chips; with one group every chip already holds every token and the second all-reduce sums the
    /// experts. Ring bounds: an all-reduce moves 2 (n-1)/n of the tokens past each chip, an all-to-all (n-1)/n of the
    /// routed copies.
    fn new(spec: &DeploymentSpec) -> Self {
        let (model, layout, engine, chip) = (&spec.model, &spec.layout, &spec.engine, &spec.chip);
        let n = layout.n_chips();
        let latency = |n: u64| {
            let rounds = libm::log2(n as f64);
            engine.collective_base_s + chip.scale_up_latency_s.max(engine.collective_log_s * rounds)
        };
        let link_rate = chip.scale_up_bytes_per_s * engine.link_eff_frac;
        let token_bytes = model.hidden as f64 * LINK_BYTES;
        let past = |n: u64| (n - 1) as f64 / n as f64;
        let tp = layout.tp;
        let mut cost = Self { latency_s: 0.0, token_s: 0.0 };
        let mut add = |times: f64, chips: u64, bytes: f64| {
            if chips > 1 && times > 0.0 {
                cost.latency_s += times * latency(chips);
                cost.token_s += times * bytes / link_rate;
            }
        };
        let layers = model.n_layers as f64;
        let exchanging = match &model.moe {
            Some(moe) if layout.dp > 1 => {
                let copies = moe.top_k.min(n) as f64 / tp as f64;
                add(2.0 * moe.moe_layers as f64, n, copies * past(n) * token_bytes);
                moe.moe_layers as f64
            }
            _ => 0.0,
        };
        add(2.0 * layers - exchanging, tp, 2.0 * past(tp) * token_bytes);
        cost
    }
}

/// Touched share by routed tokens, up to where it is 1 in double precision; empty for a dense model.
fn touched_table(spec: &DeploymentSpec) -> Vec<f64> {
    let Some(moe) = &spec.model.moe else { return Vec::new() };
    let mut table = Vec::new();
    for tokens in 0..TOUCHED_TABLE_MOST as u64 {
        let share = moe.touched_frac(tokens);
        table.push(share);
        if share == 1.0 {
            break;
        }
    }
    table
}

/// How many steps from 0 keep `upper` at or above `lower`.
fn steps_above(upper: Line, lower: Line) -> u64 {
    let closing = lower.slope - upper.slope;
    if closing <= 0 {
        return u64::MAX;
    }
    let gap = upper.base - lower.base;
    u64::try_from(gap / closing + 1).unwrap_or(u64::MAX)
}

/// Nearest integer, half away from zero; saturates.
fn round(value: f64) -> i128 {
    value.round() as i128
}

/// One row of a batch table: a load with at most one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub n_seqs: u64,
    pub context_tokens: u64,
    pub window_tokens: u64,
    pub n_growing_in_window: u64,
    pub chunk_tokens: u64,
    pub chunk_past_tokens: u64,
}

/// The step lines of many rows.
pub fn table(model: &StepModel, rows: &[Row]) -> Vec<StepLine> {
    rows.iter()
        .map(|r| {
            let chunk = [Chunk { tokens: r.chunk_tokens, past_tokens: r.chunk_past_tokens }];
            model.step(&Load {
                n_seqs: r.n_seqs,
                context_tokens: r.context_tokens,
                window_tokens: r.window_tokens,
                n_growing_in_window: r.n_growing_in_window,
                chunks: if r.chunk_tokens == 0 { &[] } else { &chunk },
            })
        })
        .collect()
}

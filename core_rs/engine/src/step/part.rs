//! What a run of layers costs on the chips that hold it: the whole model, or one pipeline stage.

use super::{round, Bound, Chunk, Line, Whole, FEMTO};
use crate::collective::NetworkCost;
use crate::cost::{launch_s, ComputeCost, MemoryCost};
use crate::deployment::DeploymentSpec;
use crate::error::Result;
use crate::kv::KvModel;
use crate::layout::Stage;
use crate::power::PowerModel;

/// The coefficients of a run of layers.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub launch_fs: i128,
    pub host_sequence_s: f64,
    pub memory: MemoryCost,
    pub compute: ComputeCost,
    pub network: NetworkCost,
    skew: f64,
}

/// The decoding sequences of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoders {
    pub n_seqs: f64,
    /// In the busiest attention group.
    pub group_seqs: f64,
    /// Tokens worked on for each.
    pub verified: f64,
    /// Tokens of all of them that are routed to experts.
    pub routed: u64,
    /// Pairs of (sequence, token attended) over all layers, without drafts.
    pub pairs: f64,
    /// Pairs of (token worked on, token attended).
    pub query_pairs: f64,
    /// By how much `pairs` grows a step.
    pub pairs_slope: f64,
}

impl Decoders {
    /// What of all sequences is in the busiest group.
    pub fn group_share(&self) -> f64 {
        if self.n_seqs == 0.0 {
            0.0
        } else {
            self.group_seqs / self.n_seqs
        }
    }
}

/// Amounts of a step: over the replica, and the seconds they take on its busiest chip.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Work {
    pub bytes: f64,
    pub rest_flops: f64,
    pub expert_flops: f64,
    pub attention_flops: f64,
    pub memory_s: f64,
    pub compute_s: f64,
    /// Of these, what attention takes.
    pub attention_memory_s: f64,
    pub attention_compute_s: f64,
    /// And what the routed experts take.
    pub expert_memory_s: f64,
    pub expert_compute_s: f64,
    pub network_s: f64,
}

impl Work {
    /// The same with attention and the routed experts after the rest, and each of the three the longer of its memory and
    /// its arithmetic: what rules the longer part, attention or not, the whole as a line, and what the whole would be if
    /// the other side ruled attention.
    fn apart<T: Whole>(&self, memory_slope_s: f64, compute_slope_s: f64) -> (Bound, Line<T>, Line<T>) {
        let (memory_s, compute_s) =
            (self.memory_s - self.attention_memory_s, self.compute_s - self.attention_compute_s);
        let experts_s = self.expert_memory_s.max(self.expert_compute_s);
        let rest_s = (memory_s - self.expert_memory_s).max(compute_s - self.expert_compute_s) + experts_s;
        let of = |base: f64, slope: f64| Line::<T>::of((rest_s + base) * FEMTO, slope * FEMTO);
        let by_memory = of(self.attention_memory_s, memory_slope_s);
        let by_compute = of(self.attention_compute_s, compute_slope_s);
        let is_memory = by_memory.base >= by_compute.base;
        let (ruling, other) = if is_memory { (by_memory, by_compute) } else { (by_compute, by_memory) };
        let attention_s = self.attention_memory_s.max(self.attention_compute_s);
        let rules = if rest_s >= attention_s { memory_s >= compute_s } else { is_memory };
        (if rules { Bound::Memory } else { Bound::Compute }, ruling, other)
    }

    /// This, and `share` of the amounts of another; seconds stay.
    pub fn and(mut self, other: &Self, share: f64) -> Self {
        self.bytes += share * other.bytes;
        self.rest_flops += share * other.rest_flops;
        self.expert_flops += share * other.expert_flops;
        self.attention_flops += share * other.attention_flops;
        self
    }

    /// Energy above what a step draws before any work.
    pub fn joules(&self, p: &PowerModel) -> f64 {
        p.j_per_byte * self.bytes
            + p.j_per_flop_rest * self.rest_flops
            + p.j_per_flop_experts * self.expert_flops
            + p.j_per_flop_attention * self.attention_flops
    }
}

/// What the prompt chunks of a step add.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChunkSums {
    pub tokens: f64,
    pub pairs: f64,
    pub kv_moves: f64,
    /// One row of logits each: an engine computes the head for the last token of every chunk.
    pub count: f64,
}

impl ChunkSums {
    /// Of all chunks, and of the largest in each respect.
    pub fn of(kv: &KvModel, chunks: &[Chunk]) -> (Self, Self) {
        let (mut all, mut largest) = (Self::default(), Self::default());
        for chunk in chunks {
            let one = Self {
                tokens: chunk.tokens as f64,
                pairs: kv.chunk_pairs(chunk.tokens, chunk.past_tokens),
                kv_moves: kv.chunk_moves(chunk.tokens, chunk.past_tokens),
                count: 1.0,
            };
            all = all.zip(one, |sum, x| sum + x);
            largest = largest.zip(one, f64::max);
        }
        (all, largest)
    }

    /// The busiest of `n` that share `all`, where this is the largest chunk: it, or an even share.
    pub fn or_share(self, all: &Self, n: f64) -> Self {
        self.zip(*all, |x, sum| x.max(sum / n))
    }

    fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            tokens: f(self.tokens, other.tokens),
            pairs: f(self.pairs, other.pairs),
            kv_moves: f(self.kv_moves, other.kv_moves),
            count: f(self.count, other.count),
        }
    }
}

/// The time of a part over the steps of one composition.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartLine<T = i128> {
    pub time_fs: Line<T>,
    pub bound: Bound,
    /// Parts of the time of step 0: launch + max(memory, compute) + network.
    pub launch_fs: T,
    pub memory_fs: T,
    pub compute_fs: T,
    pub network_fs: T,
    pub valid_steps: u64,
}

impl Part {
    /// All layers of `spec`.
    pub fn new(spec: &DeploymentSpec, kv: &KvModel) -> Result<Self> {
        let skew = if spec.layout.expert_degree(&spec.model) > 1 { spec.engine.expert_skew } else { 1.0 };
        let stack = spec.engine.stack_factor;
        Ok(Self {
            launch_fs: round(launch_s(spec) * stack * FEMTO),
            host_sequence_s: spec.engine.host_sequence_s * stack,
            memory: MemoryCost::new(spec, kv).slowed(stack),
            compute: ComputeCost::new(spec, skew)?.slowed(stack),
            network: NetworkCost::new(spec).slowed(stack),
            skew,
        })
    }

    /// The layers of one stage, layers of each kind spread evenly; the last stage has the head and the host's work.
    pub fn of_stage(&self, spec: &DeploymentSpec, stage: &Stage) -> Self {
        let (model, engine) = (&spec.model, &spec.engine);
        let share = stage.layers as f64 / model.n_layers as f64;
        let last = if stage.is_last { 1.0 } else { 0.0 };
        let head = model.lm_head_params();
        let rest = (model.params.non_expert_active - head) * share + head * last;
        let launch = (launch_s(spec) - engine.host_s) * share + engine.host_s * last;
        Self {
            launch_fs: round(launch * engine.stack_factor * FEMTO),
            host_sequence_s: self.host_sequence_s * last,
            memory: self.memory.of_stage(share, rest / model.params.non_expert_active),
            compute: self.compute.of_stage(share, last),
            network: self.network.clone().slowed(share),
            skew: self.skew,
        }
    }

    /// Seconds to read the weights once, a share `touched` of the experts.
    pub fn read_s(&self, touched: f64) -> f64 {
        self.memory.rest_s + self.memory.expert_s * (touched * self.skew).min(1.0)
    }

    /// What the decoding sequences and the chunks move, compute and wait for; a share `touched` of the experts is read.
    pub fn work(&self, kv: &KvModel, decoders: &Decoders, touched: f64, all: &ChunkSums, group: &ChunkSums) -> Work {
        self.work_of::<true>(kv, decoders, decoders.group_share(), touched, all, group)
    }

    /// The same where the busiest group is known to have `group_share` of the sequences; without `CHUNKS` there are none.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    pub fn work_of<const CHUNKS: bool>(
        &self,
        kv: &KvModel,
        decoders: &Decoders,
        group_share: f64,
        touched: f64,
        all: &ChunkSums,
        group: &ChunkSums,
    ) -> Work {
        let (m, c) = (&self.memory, &self.compute);
        let &Decoders { n_seqs, group_seqs, verified, pairs, query_pairs, .. } = decoders;
        let (n_tokens, group_tokens) = (n_seqs * verified, group_seqs * verified);
        // Nothing is below 0, so adding none of them is the same as not adding them.
        let and = |amount: f64, of_chunks: f64| if CHUNKS { amount + of_chunks } else { amount };
        // Read with what was drafted; written for every token worked on.
        let moves = pairs + (kv.full_layers + kv.sliding_layers) * (n_seqs * (verified - 1.0) + n_tokens);
        let routed = and(n_tokens, all.tokens);
        let attention_memory_s = m.kv_s * and(moves * group_share, group.kv_moves);
        let attention_compute_s = and(c.decode.pair * query_pairs * group_share, c.prefill.pair * group.pairs);
        let expert_memory_s = m.expert_s * (touched * self.skew).min(1.0);
        let compute_s = (c.decode.rest + c.decode.lm_head) * group_tokens + c.decode.experts * n_tokens;
        let compute_s = and(compute_s, c.prefill.rest * group.tokens);
        let compute_s = and(compute_s, c.prefill.lm_head * group.count);
        let compute_s = and(compute_s, c.prefill.experts * all.tokens);
        Work {
            attention_memory_s,
            attention_compute_s,
            expert_memory_s,
            expert_compute_s: and(c.decode.experts * n_tokens, c.prefill.experts * all.tokens),
            bytes: m.rest_bytes
                + m.expert_bytes * touched
                + m.kv_bytes * and(moves, all.kv_moves)
                + m.state_bytes * and(n_seqs, all.count),
            memory_s: m.rest_s + expert_memory_s + attention_memory_s + m.state_s * and(group_seqs, group.count),
            rest_flops: c.rest_flops * routed + c.lm_head_flops * and(n_tokens, all.count),
            expert_flops: c.expert_flops * routed,
            attention_flops: and(c.decode_pair_flops * query_pairs, c.prefill_pair_flops * all.pairs),
            compute_s: compute_s + attention_compute_s,
            network_s: and(
                self.network.latency_s + self.network.token_s * group_tokens,
                self.network.prompt_token_s * group.tokens,
            ),
        }
    }

    /// Seconds of a mean step's work.
    pub fn seconds(&self, decoders: &Decoders, work: &Work) -> f64 {
        let launch_s = self.launch_fs as f64 / FEMTO + self.host_sequence_s * decoders.group_seqs;
        launch_s + work.memory_s.max(work.compute_s) + work.network_s
    }

    /// The time of that work and of the steps that follow.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    pub fn line<T: Whole>(
        &self,
        decoders: &Decoders,
        group_share: f64,
        work: &Work,
        attention_apart: bool,
    ) -> PartLine<T> {
        let memory_slope_s = self.memory.kv_s * decoders.pairs_slope * group_share;
        let compute_slope_s = self.compute.decode.pair * (decoders.verified * decoders.pairs_slope) * group_share;
        let network_fs = T::rounded(work.network_s * FEMTO);
        let memory_fs = Line::of(work.memory_s * FEMTO, memory_slope_s * FEMTO);
        let compute_fs = Line::of(work.compute_s * FEMTO, compute_slope_s * FEMTO);
        let (bound, ruling, other) = if attention_apart {
            work.apart(memory_slope_s, compute_slope_s)
        } else if work.memory_s >= work.compute_s && memory_slope_s >= compute_slope_s {
            (Bound::Memory, memory_fs, memory_fs) // rounding keeps the order, so it rules for ever
        } else if memory_fs.base >= compute_fs.base {
            (Bound::Memory, memory_fs, compute_fs)
        } else {
            (Bound::Compute, compute_fs, memory_fs)
        };
        let launch_fs = T::of(self.launch_fs) + T::rounded(self.host_sequence_s * decoders.group_seqs * FEMTO);
        PartLine {
            time_fs: Line { base: launch_fs + ruling.base + network_fs, slope: ruling.slope },
            bound,
            launch_fs,
            memory_fs: memory_fs.base,
            compute_fs: compute_fs.base,
            network_fs,
            valid_steps: ruling.steps_above(&other),
        }
    }
}

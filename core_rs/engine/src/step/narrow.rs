//! Which steps 64 bits hold, and what of a step hangs only on how many sequences decode: worked out once, so that a step
//! is costed in a few dozen operations.

use super::{ChunkSums, Decoders, Draft, Load, StepModel, Work, FEMTO, NEAR};

/// What hangs on the number of decoding sequences alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    n_seqs: f64,
    /// In the busiest attention group, and what share of all that is.
    group_seqs: f64,
    pub group_share: f64,
    /// Share of the experts that they touch.
    pub touched: f64,
}

/// Loads that 64 bits hold, without prompts.
#[derive(Debug, Clone)]
pub(super) struct Narrow {
    /// By number of sequences.
    counts: Vec<Count>,
    context_tokens: u64,
}

/// As many sequences are told apart at the most.
const MOST_SEQS: u64 = 1 << 14;
/// Bits of the largest context that is tried, and of the smallest.
const CONTEXT_BITS: std::ops::RangeInclusive<u32> = 16..=44;

impl Narrow {
    /// None where 64 bits may not do: with drafts, stages or a power cap, or where figures are out of all proportion.
    pub fn new(model: &StepModel, max_batch: u64) -> Option<Self> {
        if model.stages.is_some() || model.speculation.is_some() || model.power.cap_w.is_some() {
            return None;
        }
        let n_seqs = max_batch.min(MOST_SEQS);
        let bits = CONTEXT_BITS.rev().find(|&bits| holds(model, n_seqs, 1 << bits))?;
        let counts = (0..=n_seqs).map(|n| {
            let group_seqs = n.div_ceil(model.dp) as f64;
            let group_share = if n == 0 { 0.0 } else { group_seqs / n as f64 };
            Count { n_seqs: n as f64, group_seqs, group_share, touched: model.touched.frac(n) }
        });
        Some(Self { counts: counts.collect(), context_tokens: 1 << bits })
    }

    /// What the number of sequences of `load` comes to, if 64 bits hold the step without its prompts.
    #[inline]
    pub fn count(&self, load: &Load) -> Option<&Count> {
        let is_held = load.context_tokens.max(load.window_tokens) <= self.context_tokens
            && load.n_growing_in_window <= load.n_seqs;
        self.counts.get(usize::try_from(load.n_seqs).ok()?).filter(|_| is_held)
    }
}

impl Count {
    /// The decoding sequences of a load of this number, without drafts.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    pub fn decoders(&self, model: &StepModel, load: &Load) -> Decoders {
        Decoders { n_seqs: self.n_seqs, group_seqs: self.group_seqs, ..model.decoders(load, Draft::NONE) }
    }
}

/// Whether 64 bits hold all that `StepModel::line` computes of `n_seqs` sequences with `tokens` of context, and so of
/// any less.
fn holds(model: &StepModel, n_seqs: u64, tokens: u64) -> bool {
    let load = Load { n_seqs, context_tokens: tokens, window_tokens: tokens, n_growing_in_window: n_seqs, chunks: &[] };
    let (decoders, none) = (model.decoders(&load, Draft::NONE), ChunkSums::default());
    model.is_narrow(&decoders, &model.whole.work_of::<false>(&model.kv, &decoders, 1.0, 1.0, &none, &none))
}

impl StepModel {
    /// Whether 64 bits hold all that `line` computes: of a time, whose parts are added up, three times as much; of what is
    /// only rounded, itself.
    #[expect(clippy::inline_always, reason = "it is a part of `step_narrow`")]
    #[inline(always)]
    pub(super) fn is_narrow(&self, decoders: &Decoders, work: &Work) -> bool {
        let (p, whole) = (&self.power, &self.whole);
        let host_s = whole.host_sequence_s * decoders.group_seqs;
        let step_s = work.memory_s + work.compute_s + work.network_s + host_s + self.launch_s;
        let active_w = p.active_w.max(p.max_w) * self.n_chips as f64;
        let pairs_slope = decoders.verified * decoders.pairs_slope;
        let slope_s = (whole.memory.kv_s + whole.compute.decode.pair) * pairs_slope;
        let slope_bytes = whole.memory.kv_bytes * pairs_slope;
        let slope_flops = whole.compute.decode_pair_flops * pairs_slope;
        let drawn_fj = (active_w * step_s + work.joules(p)) * FEMTO;
        let slope_fj = (active_w * slope_s + p.j_per_byte * slope_bytes + p.j_per_flop_attention * slope_flops) * FEMTO;
        let flops = work.rest_flops + work.expert_flops + work.attention_flops;
        (step_s + slope_s) * (3.0 * FEMTO) < NEAR
            && drawn_fj < NEAR
            && slope_fj < NEAR
            && work.bytes + slope_bytes + flops + slope_flops < NEAR
    }
}

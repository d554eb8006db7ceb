//! The memory of one chip, part by part: weights, runtime, collective buffers, states, keys and values, activations.

use serde::Serialize;

use crate::deployment::DeploymentSpec;
use crate::error::{Error, Result};
use crate::kv::KvModel;
use crate::layout::{divides_heads, infeasible, widest_ep, Layout};
use crate::model::Attention;

/// Bytes of activations and of anything computed in 16 bits.
const ACTIVATION_BYTES: f64 = 2.0;
/// Logits are sampled in 32 bits.
const LOGIT_BYTES: f64 = 4.0;

/// Bytes on one chip by part, and what the rest holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryPlan {
    pub capacity_bytes: f64,
    pub weights_bytes: f64,
    pub runtime_bytes: f64,
    pub collective_bytes: f64,
    /// Recurrent states of a full batch; 0 for models without.
    pub states_bytes: f64,
    pub activations_bytes: f64,
    /// Left for keys and values.
    pub kv_bytes: f64,
    pub kv_bytes_per_token: f64,
    /// Over the whole replica.
    pub kv_capacity_tokens: u64,
    pub kv_blocks: u64,
    pub max_sequence_tokens: u64,
}

/// What must fit beside the weights, in the order in which it is placed; the first that overflows is named.
struct Parts {
    weights: f64,
    runtime: f64,
    collective: f64,
    states: f64,
    kv_least: f64,
    activations: f64,
}

impl Parts {
    fn new(spec: &DeploymentSpec, layout: &Layout) -> Self {
        let n = layout.n_chips() as f64;
        let (tp, dp) = (layout.tp as f64, layout.dp as f64);
        let p = &spec.model.params;
        let kv = KvModel::new(&spec.model, layout, spec.precision.kv_bytes_per_element, spec.serving.block_tokens);
        let least_tokens = spec.serving.chunk_tokens.min(spec.model.context_tokens);
        let per_group = (spec.serving.max_batch as f64 / dp).ceil();
        Self {
            weights: p.routed_expert_total * spec.precision.expert_bytes_per_param / n
                + p.non_expert_total * spec.precision.rest_bytes_per_param / tp,
            runtime: spec.serving.runtime_reserve_bytes,
            collective: if n > 1.0 { spec.serving.collective_buffer_bytes } else { 0.0 },
            states: per_group * spec.model.state_bytes_per_sequence / tp,
            kv_least: kv.bytes_at(least_tokens) / kv.shards,
            activations: spec.serving.activation_bytes.unwrap_or_else(|| activations(spec, layout)),
        }
    }

    fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("weights", self.weights),
            ("runtime", self.runtime),
            ("collective buffers", self.collective),
            ("states", self.states),
            ("kv", self.kv_least),
            ("activations", self.activations),
        ]
    }

    fn total(&self) -> f64 {
        self.named().iter().map(|(_, bytes)| bytes).sum()
    }
}

impl MemoryPlan {
    /// Places the parts; `Infeasible` names the first that does not fit, by how much, and the smallest layout that does.
    pub fn new(spec: &DeploymentSpec) -> Result<Self> {
        let layout = &spec.layout;
        let parts = Parts::new(spec, layout);
        let capacity = spec.chip.memory_bytes;
        if parts.total() > capacity {
            return Err(does_not_fit(spec, &parts));
        }
        let kv = KvModel::new(&spec.model, layout, spec.precision.kv_bytes_per_element, spec.serving.block_tokens);
        let kv_bytes = capacity - (parts.total() - parts.kv_least);
        let group_tokens = (kv_bytes / kv.chip_bytes_per_token()).floor() as u64;
        let group_blocks = group_tokens / kv.block_tokens;
        Ok(Self {
            capacity_bytes: capacity,
            weights_bytes: parts.weights,
            runtime_bytes: parts.runtime,
            collective_bytes: parts.collective,
            states_bytes: parts.states,
            activations_bytes: parts.activations,
            kv_bytes,
            kv_bytes_per_token: kv.chip_bytes_per_token(),
            kv_capacity_tokens: group_tokens * layout.dp,
            kv_blocks: group_blocks * layout.dp,
            max_sequence_tokens: kv.longest_in(group_blocks).min(spec.model.context_tokens),
        })
    }
}

/// Peak activations of a chip in a step of `chunk_tokens` tokens.
///
/// The tokens of the step pass layer by layer, so one layer's intermediates are alive at a time, beside the residual
/// stream and its normed copy (2 x hidden). The widest of these counts: attention (query, output, and the new keys and
/// values), a dense feed-forward layer (gate, up and their product), a mixture layer (the same for `top_k` experts and
/// the shared ones, with the routed copies in and out), or the logits of a full batch in 32 bits. Heads and inner
/// widths are split over tp; routed work over the chips. All tokens of a step may belong to one attention group.
/// The form follows what an engine's memory profiling run does (one forward pass of `max_num_batched_tokens`).
fn activations(spec: &DeploymentSpec, layout: &Layout) -> f64 {
    let m = &spec.model;
    let tokens = spec.serving.chunk_tokens as f64;
    let tp = layout.tp as f64;
    let hidden = m.hidden as f64;
    let heads = m.n_heads as f64;
    let attention = match m.attention {
        Attention::Gqa { n_kv_heads, head_dim } => {
            (2.0 * heads / tp + 2.0 * n_kv_heads as f64 / layout.kv_shards(m) as f64) * head_dim as f64
        }
        Attention::Mla { kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim } => {
            let per_head = 2 * (qk_nope_head_dim + qk_rope_head_dim) + 2 * v_head_dim;
            heads / tp * per_head as f64 + (kv_lora_rank + qk_rope_head_dim) as f64
        }
    };
    let dense = 3.0 * m.ffn_intermediate as f64 / tp;
    let mixture = m.moe.as_ref().map_or(0.0, |e| {
        let inner = 3.0 * e.expert_intermediate as f64;
        let routed = e.top_k as f64 * (inner + 2.0 * hidden) / layout.n_chips() as f64 * spec.engine.expert_skew;
        routed + e.n_shared_experts as f64 * inner / tp
    });
    let layer = tokens * attention.max(dense).max(mixture) * ACTIVATION_BYTES;
    let rows = spec.serving.max_batch.min(spec.serving.chunk_tokens) as f64;
    let logits = rows * m.vocab as f64 * LOGIT_BYTES;
    tokens * 2.0 * hidden * ACTIVATION_BYTES + layer.max(logits)
}

fn does_not_fit(spec: &DeploymentSpec, parts: &Parts) -> Error {
    let capacity = spec.chip.memory_bytes;
    let mut placed = 0.0;
    let mut named = ("activations", parts.activations);
    for (name, bytes) in parts.named() {
        placed += bytes;
        if placed > capacity {
            named = (name, bytes);
            break;
        }
    }
    let (name, bytes) = named;
    let what = format!(
        "{bytes:.0} bytes of {name} a chip do not fit: {:.0} bytes are needed and {capacity:.0} are there, {:.0} too few",
        parts.total(),
        (parts.total() - capacity).ceil()
    );
    infeasible(name, what, smallest_that_fits(spec))
}

fn smallest_that_fits(spec: &DeploymentSpec) -> String {
    let fits = |n: u64| {
        let tp = (1..=n).rev().find(|tp| n.is_multiple_of(*tp) && divides_heads(&spec.model, *tp))?;
        let layout = Layout { tp, dp: n / tp, pp: 1, ep: widest_ep(&spec.model, n)? };
        (Parts::new(spec, &layout).total() <= spec.chip.memory_bytes).then_some(layout)
    };
    match (1..=spec.chip.domain_chips).find_map(fits) {
        Some(l) => format!("the smallest layout that fits is {} chips (tp {}, dp {}, ep {})", l.n_chips(), l.tp, l.dp, l.ep),
        None => format!(
            "no layout inside a domain of {} chips fits; use a chip with more memory, narrower weights, or smaller chunk_tokens",
            spec.chip.domain_chips
        ),
    }
}

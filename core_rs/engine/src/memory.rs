//! The memory of one chip, part by part: weights, runtime, collective buffers, states, keys and values, activations.

use serde::Serialize;

use crate::deployment::DeploymentSpec;
use crate::error::{Error, Result};
use crate::kv::KvModel;
use crate::layout::{divides_heads, infeasible, widest_ep, Layout, Stage};
use crate::model::Attention;

/// Bytes of activations and of anything computed in 16 bits.
const ACTIVATION_BYTES: f64 = 2.0;
/// Logits are sampled in 32 bits.
const LOGIT_BYTES: f64 = 4.0;
/// Stages that are tried where a model does not fit a domain.
const MOST_STAGES: u64 = 16;

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
    /// Past every window; what sliding layers hold comes on top (`KvModel::blocks_for`).
    pub kv_bytes_per_token: f64,
    /// Over the whole replica.
    pub kv_capacity_tokens: u64,
    pub kv_blocks: u64,
    pub max_sequence_tokens: u64,
    /// The share of the layers that the chip's stage holds: that of the pipeline stages which holds the fewest tokens.
    #[serde(skip)]
    pub layers_frac: f64,
    /// Weights over all chips, copies included.
    #[serde(skip)]
    pub all_weights_bytes: f64,
}

/// What must fit on a chip, in the order in which it is placed; the first that overflows is named.
struct Parts {
    weights: f64,
    runtime: f64,
    collective: f64,
    states: f64,
    /// The cache of one step's prompt tokens: below that an engine cannot use its token budget.
    kv_least: f64,
    activations: f64,
    /// Share of the layers.
    layers_frac: f64,
}

impl Parts {
    /// Of one chip of each kind of stage.
    fn of_stages(spec: &DeploymentSpec, layout: &Layout) -> Vec<(Stage, Self)> {
        let stages = layout.stages(spec.model.n_layers);
        stages.into_iter().map(|stage| (stage, Self::new(spec, layout, &stage))).collect()
    }

    /// Of the chip that needs most.
    fn fullest(spec: &DeploymentSpec, layout: &Layout) -> Self {
        let parts = Self::of_stages(spec, layout).into_iter().map(|(_, parts)| parts);
        parts.reduce(|most, one| if one.total() > most.total() { one } else { most }).unwrap_or_else(|| {
            let (is_first, is_last) = (true, true);
            Self::new(spec, layout, &Stage { count: 1, layers: spec.model.n_layers, is_first, is_last })
        })
    }

    fn new(spec: &DeploymentSpec, layout: &Layout, stage: &Stage) -> Self {
        let (tp, n) = (layout.tp as f64, layout.stage_chips() as f64);
        let (params, precision, serving) = (&spec.model.params, &spec.precision, &spec.serving);
        let kv = KvModel::new(&spec.model, layout, precision, serving);
        let share = stage.layers as f64 / spec.model.n_layers as f64;
        Self {
            layers_frac: share,
            weights: params.routed_expert_total * precision.expert_bytes_per_param / n * share
                + rest_params(spec, stage) * precision.rest_bytes_per_param / tp,
            runtime: serving.runtime_reserve_bytes,
            collective: match layout.n_chips() {
                1 => 0.0,
                2 | 3 => serving.collective_buffer_pair_bytes.unwrap_or(serving.collective_buffer_bytes),
                _ => serving.collective_buffer_bytes,
            },
            states: group_sequences(spec, layout) * spec.model.state_bytes_per_sequence / tp * share,
            kv_least: kv.bytes_at(serving.chunk_tokens.min(spec.model.context_tokens)) / kv.shards * share,
            activations: serving.activation_bytes.unwrap_or_else(|| activations(spec, layout, stage)),
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
        let capacity = spec.chip.memory_bytes;
        let kv = KvModel::new(&spec.model, layout, &spec.precision, &spec.serving);
        let stages = Parts::of_stages(spec, layout);
        if stages.iter().any(|(_, parts)| parts.total() > capacity) {
            return Err(does_not_fit(spec, &Parts::fullest(spec, layout)));
        }
        let per_stage = layout.stage_chips() as f64;
        let all_weights_bytes =
            stages.iter().map(|(stage, parts)| parts.weights * (stage.count as f64 * per_stage)).sum();
        let plan = |parts: &Parts| {
            let kv_bytes = capacity - (parts.total() - parts.kv_least);
            let kv_bytes_per_token = kv.bytes_per_token() / kv.shards * parts.layers_frac;
            let group_tokens = (kv_bytes / kv_bytes_per_token).floor() as u64;
            let group_blocks = group_tokens / spec.serving.block_tokens;
            Self {
                capacity_bytes: capacity,
                weights_bytes: parts.weights,
                runtime_bytes: parts.runtime,
                collective_bytes: parts.collective,
                states_bytes: parts.states,
                activations_bytes: parts.activations,
                kv_bytes,
                kv_bytes_per_token,
                kv_capacity_tokens: group_tokens * layout.dp,
                kv_blocks: group_blocks * layout.dp,
                max_sequence_tokens: kv.longest_in(group_blocks).min(spec.model.context_tokens),
                layers_frac: parts.layers_frac,
                all_weights_bytes,
            }
        };
        // A sequence has its tokens in every stage, so the stage that holds fewest decides.
        let plans = stages.iter().map(|(_, parts)| plan(parts));
        let least =
            plans.reduce(|least, one| if one.kv_capacity_tokens < least.kv_capacity_tokens { one } else { least });
        least.ok_or_else(|| Error::input("layout.pp", "must be at least 1"))
    }
}

/// Parameters outside the experts that a stage holds: its layers, and the input embedding or the output head; where both
/// are one matrix, the first and the last of several stages have a copy each.
fn rest_params(spec: &DeploymentSpec, stage: &Stage) -> f64 {
    let (model, params) = (&spec.model, &spec.model.params);
    if stage.is_first && stage.is_last {
        return params.non_expert_total;
    }
    let head = model.lm_head_params();
    let own = params.non_expert_total - params.non_expert_active;
    let embedding = if own > 0.0 { own } else { head };
    let layers = (params.non_expert_active - head) * stage.layers as f64 / model.n_layers as f64;
    layers + if stage.is_first { embedding } else { 0.0 } + if stage.is_last { head } else { 0.0 }
}

/// Sequences of a full batch that one attention group holds.
fn group_sequences(spec: &DeploymentSpec, layout: &Layout) -> f64 {
    spec.serving.max_batch.div_ceil(layout.dp) as f64
}

/// Peak activations of a chip in a step of `chunk_tokens` tokens.
///
/// The tokens of the step pass layer by layer, so one layer's intermediates are alive at a time, beside the residual
/// stream and its normed copy (2 x hidden). The widest of these counts: attention (query, output, and the new keys and
/// values), a dense feed-forward layer (gate, up and their product), a mixture layer (the same for `top_k` experts and
/// the shared ones, with the routed copies in and out), or the logits of a full batch in 32 bits. Heads and inner
/// widths are split over tp; routed work over the chips. All tokens of a step may belong to one attention group.
/// The form follows what an engine's memory profiling run does (one forward pass of `max_num_batched_tokens`). A stage
/// receives the next micro-batch while it works on one; the last stage has the logits, of a micro-batch.
fn activations(spec: &DeploymentSpec, layout: &Layout, stage: &Stage) -> f64 {
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
        let routed = e.top_k as f64 * (inner + 2.0 * hidden) / layout.stage_chips() as f64 * spec.engine.expert_skew;
        routed + e.n_shared_experts as f64 * inner / tp
    });
    let layer = tokens * attention.max(dense).max(mixture) * ACTIVATION_BYTES;
    let verified = spec.serving.speculation.map_or(1, |drafts| drafts.verified_tokens());
    let batch = spec.serving.max_batch.div_ceil(layout.pp);
    let rows = batch.saturating_mul(verified).min(spec.serving.chunk_tokens) as f64;
    let logits = if stage.is_last { rows * m.vocab as f64 * LOGIT_BYTES } else { 0.0 };
    let streams = if layout.pp > 1 { 3.0 } else { 2.0 };
    tokens * streams * hidden * ACTIVATION_BYTES + layer.max(logits)
}

/// Bytes as people read them.
fn shown(bytes: f64) -> String {
    for (unit, prefix) in [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")] {
        if bytes >= unit {
            return format!("{:.2} {prefix}", bytes / unit);
        }
    }
    format!("{bytes:.0} B")
}

fn does_not_fit(spec: &DeploymentSpec, parts: &Parts) -> Error {
    let capacity = spec.chip.memory_bytes;
    let (mut part, mut bytes, mut placed) = ("activations", parts.activations, 0.0);
    for (name, size) in parts.named() {
        placed += size;
        if placed > capacity {
            (part, bytes) = (name, size);
            break;
        }
    }
    let needed = parts.total();
    let short = (needed - capacity).ceil();
    let what = format!(
        "{} of {part} do not fit on a chip: {} needed, {} there, {} short",
        shown(bytes),
        shown(needed),
        shown(capacity),
        shown(short)
    );
    let mut way_out = smallest_that_fits(spec);
    if parts.states > 0.0 && needed - parts.states < capacity {
        let each = parts.states / group_sequences(spec, &spec.layout);
        let most = ((capacity - (needed - parts.states)) / each).floor() as u64 * spec.layout.dp;
        way_out = format!("{way_out}; or set max_batch to at most {most}");
    }
    infeasible(part, what, way_out)
}

/// The layout with the fewest chips inside one domain that holds the model, in words.
fn smallest_that_fits(spec: &DeploymentSpec) -> String {
    let fits = |n: u64, pp: u64| {
        let tp = (1..=n).rev().find(|tp| n.is_multiple_of(*tp) && divides_heads(&spec.model, *tp))?;
        let layout = Layout { tp, dp: n / tp, pp, ep: Some(widest_ep(&spec.model, n)?), crosses_domains: false };
        (Parts::fullest(spec, &layout).total() <= spec.chip.memory_bytes).then_some(layout)
    };
    let domain = spec.chip.domain_chips;
    let in_stages = || (2..=spec.model.n_layers.min(MOST_STAGES)).find_map(|pp| fits(domain, pp));
    match (1..=domain).find_map(|n| fits(n, 1)).or_else(in_stages) {
        Some(l) if l.n_chips() == 1 => "it fits on one chip alone".to_owned(),
        Some(l) if l.pp > 1 => format!("no layout in a domain of {domain} chips fits; {} pipeline stages do (tp {}, dp {}, pp {})", l.pp, l.tp, l.dp, l.pp),
        Some(l) => format!("the smallest layout that fits has {} chips (tp {}, dp {}, ep {})", l.n_chips(), l.tp, l.dp, l.expert_degree(&spec.model)),
        None => format!("no layout in a domain of {domain} chips fits; use chips with more memory, narrower weights or a smaller chunk_tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{deepseek_on_gb300, gpt_oss_on_gb200, llama_70b, llama_on_h100};

    /// 80e9 bytes a chip of which 0.9 may be used, and nothing else beside weights and cache.
    fn seventy_billion_in_bf16(tp: u64) -> DeploymentSpec {
        let mut spec = llama_70b(80e9, tp);
        spec.chip.domain_chips = 16;
        spec.model.params.non_expert_total = 70e9;
        spec.model.params.non_expert_active = 69e9;
        spec.precision.rest_bytes_per_param = 2.0;
        spec.serving.runtime_reserve_bytes = 8e9;
        spec.serving.collective_buffer_bytes = 0.0;
        spec.serving.activation_bytes = Some(0.0);
        spec
    }

    #[test]
    fn capacity_is_of_the_chips_that_hold_different_heads() {
        // (8 x 72e9 - 140e9) / (2 x 80 x 8 x 128 x 2 = 327,680) = 1,330,566 tokens, not eight times that.
        let plan = MemoryPlan::new(&seventy_billion_in_bf16(8)).unwrap();
        assert_eq!(plan.kv_bytes_per_token, 40_960.0);
        assert_eq!(plan.kv_capacity_tokens, 1_330_566);
        assert_eq!(plan.kv_blocks, 1_330_566 / 16);
        // 16 chips and 8 heads: each head lives on two. (72e9 - 8.75e9) / 40,960 = 1,544,189, not 3,088,378.
        let plan = MemoryPlan::new(&seventy_billion_in_bf16(16)).unwrap();
        assert_eq!(plan.kv_bytes_per_token, 40_960.0);
        assert_eq!(plan.kv_capacity_tokens, 1_544_189);
    }

    #[test]
    fn a_latent_is_copied_over_tp_and_split_over_dp() {
        let tensor = MemoryPlan::new(&deepseek_on_gb300(8, 1)).unwrap();
        let data = MemoryPlan::new(&deepseek_on_gb300(1, 8)).unwrap();
        assert_eq!(tensor.kv_bytes_per_token, 61.0 * 576.0 * 2.0);
        assert_eq!(data.kv_bytes_per_token, 61.0 * 576.0 * 2.0);
        // dp 8 keeps the 17.1e9 bytes outside the experts on every chip, and eight caches in place of one.
        assert_eq!(data.weights_bytes - tensor.weights_bytes, 17_116_626_944.0 * 7.0 / 8.0);
        assert!(data.kv_capacity_tokens > 6 * tensor.kv_capacity_tokens);
    }

    #[test]
    fn a_long_unchunked_prompt_tips_one_small_chip_over() {
        let spec = |memory_bytes: f64, chunk: u64| {
            let mut spec = llama_70b(memory_bytes, 1);
            spec.serving.chunk_tokens = chunk;
            spec
        };
        // Weights 70,552,387,584 + runtime 3,758,096,384 + cache of 16,384 tokens at 327,680 = 5,368,709,120: together
        // 79,679,193,088. Activations 16,384 x (2 x 8,192 + 3 x 28,672) x 2 = 3,355,443,200: 3,034,636,288 too many.
        let Err(Error::Infeasible { part, what, way_out }) = MemoryPlan::new(&spec(80e9, 16_384)) else { panic!() };
        assert_eq!(part, "activations");
        assert!(what.contains("3.36 GB of activations") && what.ends_with("3.03 GB short"), "{what}");
        assert!(way_out.contains("has 2 chips (tp 2"), "{way_out}");
        assert!(MemoryPlan::new(&spec(85_899_345_920.0, 16_384)).is_ok());
        assert!(MemoryPlan::new(&spec(80e9, 4096)).is_ok());
        let Err(Error::Infeasible { part, .. }) = MemoryPlan::new(&spec(70e9, 4096)) else { panic!() };
        assert_eq!(part, "weights");
    }

    #[test]
    fn collective_buffers_grow_with_the_replica() {
        let mut spec = llama_on_h100(1);
        spec.serving.collective_buffer_pair_bytes = Some(3e8);
        for (tp, bytes) in [(1, 0.0), (2, 3e8), (4, 411_041_792.0), (8, 411_041_792.0)] {
            spec.layout.tp = tp;
            assert_eq!(MemoryPlan::new(&spec).unwrap().collective_bytes, bytes);
        }
    }

    #[test]
    fn nothing_fits_is_said_so() {
        let mut spec = deepseek_on_gb300(1, 1);
        spec.chip.domain_chips = 2;
        let Err(Error::Infeasible { part, way_out, .. }) = MemoryPlan::new(&spec) else { panic!() };
        assert_eq!(part, "weights");
        assert!(way_out.starts_with("no layout in a domain of 2 chips fits"), "{way_out}");
    }

    #[test]
    fn half_the_bytes_an_element_hold_twice_the_tokens() {
        let mut spec = llama_on_h100(1);
        let wide = MemoryPlan::new(&spec).unwrap();
        assert_eq!(wide.kv_bytes_per_token, 131_072.0);
        spec.precision.kv_bytes_per_element = 1.0;
        let narrow = MemoryPlan::new(&spec).unwrap();
        assert_eq!(narrow.kv_bytes_per_token, 65_536.0);
        assert!(narrow.kv_capacity_tokens >= 2 * wide.kv_capacity_tokens);
    }

    #[test]
    fn a_windowed_sequence_leaves_room_for_its_windows() {
        // 18 full layers x 2 x 8 x 64 x 2 bytes = 36,864 a token; 128 tokens in each of 18 sliding layers are 8 blocks.
        let plan = MemoryPlan::new(&gpt_oss_on_gb200(1, 1)).unwrap();
        assert_eq!(plan.kv_bytes_per_token, 36_864.0);
        let left = plan.capacity_bytes - plan.weights_bytes - plan.runtime_bytes - plan.activations_bytes;
        assert_eq!(plan.kv_capacity_tokens, (left / 36_864.0) as u64);
        let mut spec = gpt_oss_on_gb200(1, 1);
        spec.serving.chunk_tokens = 512;
        spec.serving.activation_bytes = Some(0.0);
        spec.chip.memory_bytes = plan.weights_bytes + plan.runtime_bytes + 100.0 * 16.0 * 36_864.0;
        let plan = MemoryPlan::new(&spec).unwrap();
        assert_eq!((plan.kv_blocks, plan.max_sequence_tokens), (100, 92 * 16));
    }

    #[test]
    fn states_are_kept_for_a_full_batch() {
        let mut spec = llama_on_h100(1);
        spec.model.state_bytes_per_sequence = 1e9;
        let Err(Error::Infeasible { part, way_out, .. }) = MemoryPlan::new(&spec) else { panic!() };
        assert_eq!(part, "states");
        // 85.899e9 less weights 16.060e9, runtime 3.758e9, cache of 8192 tokens 1.074e9 and activations 0.839e9.
        assert!(way_out.ends_with("set max_batch to at most 64"), "{way_out}");
        spec.serving.max_batch = 64;
        assert_eq!(MemoryPlan::new(&spec).unwrap().states_bytes, 64e9);
    }
}

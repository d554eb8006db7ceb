//! A deployment: one model, at one precision, on one kind of chip, in one layout, under one serving engine.

use serde::{Deserialize, Serialize};

use crate::chip::{fraction, not_negative, positive, ChipSpec, Rate};
use crate::error::{Error, Result};
use crate::kv::KvModel;
use crate::layout::Layout;
use crate::memory::MemoryPlan;
use crate::model::ModelSpec;
use crate::speculation::{Pace, SpeculationSpec};

fn one() -> f64 {
    1.0
}

/// Everything that the cost of a step depends on; it crosses the border once, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeploymentSpec {
    pub chip: ChipSpec,
    pub model: ModelSpec,
    pub precision: Precision,
    pub layout: Layout,
    pub engine: EngineSpec,
    pub serving: ServingSpec,
}

/// Stored bytes and compute rate of each part: two things.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// Scales included (MXFP4 4.25 bit, NVFP4 4.5 bit).
    pub expert_bytes_per_param: f64,
    pub rest_bytes_per_param: f64,
    pub experts_rate: Rate,
    /// Format of what the experts' weights are multiplied with, where it is wider: products run at its rate; null = as
    /// the weights.
    #[serde(default)]
    pub experts_operand: Option<Rate>,
    pub rest_rate: Rate,
    pub attention_rate: Rate,
    pub kv_bytes_per_element: f64,
}

/// What the serving software achieves of the hardware, and what it adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// Share of the memory bandwidth that reading weights achieves.
    pub memory_eff_frac: f64,
    /// Share of that where weights are stored in fewer bits than they are computed in, so that each is unpacked first.
    #[serde(default = "one")]
    pub unpack_eff_frac: f64,
    /// Share of the dense rate that decoding achieves.
    pub compute_eff_frac: f64,
    /// Share of the dense rate that prefill achieves.
    pub prefill_eff_frac: f64,
    /// Share of the memory bandwidth that reading and writing keys and values achieves.
    pub kv_read_eff_frac: f64,
    /// Once a step.
    pub host_s: f64,
    /// Once a step for each sequence of an attention group: scheduling, sampling, streaming.
    #[serde(default)]
    pub host_sequence_s: f64,
    /// Once a layer and step; more in a layer that is a mixture, has latent attention, an indexer, or a state.
    pub launch_layer_s: f64,
    pub launch_moe_s: f64,
    pub launch_mla_s: f64,
    pub launch_sparse_s: f64,
    pub launch_linear_s: f64,
    /// Share of `launch_moe_s` that a mixture of 4-bit experts takes where the chip computes in 4 bits (fused kernels).
    #[serde(default = "one")]
    pub launch_fp4_frac: f64,
    /// The same where tokens of several attention groups are exchanged for their experts.
    #[serde(default = "one")]
    pub launch_exchange_frac: f64,
    /// The same of experts whose weights are unpacked before they are multiplied (kernels that are less fused).
    #[serde(default = "one")]
    pub launch_unpack_frac: f64,
    /// Once a mixture layer with shared experts, which are launched beside the routed ones.
    #[serde(default)]
    pub launch_shared_s: f64,
    /// A collective over n chips waits base + max(link latency, log x log2 n).
    pub collective_base_s: f64,
    pub collective_log_s: f64,
    /// A collective that leaves a scale-up domain waits this long more.
    #[serde(default)]
    pub collective_scale_out_s: f64,
    /// Share of the link bandwidth that collectives of decoding tokens achieve.
    pub link_eff_frac: f64,
    /// The same of prompt chunks, whose messages are large; null = as decoding.
    #[serde(default)]
    pub prefill_link_eff_frac: Option<f64>,
    /// Share of `prefill_eff_frac` that grouped products (routed experts) of prompts achieve.
    #[serde(default = "one")]
    pub grouped_eff_frac: f64,
    /// Times that each copy of a prompt's token routed to an expert passes through memory in a mixture layer, in 16 bits,
    /// on every chip of its attention group: gathered, quantised, multiplied, combined.
    #[serde(default)]
    pub routed_passes: f64,
    /// Load of the busiest chip's experts over the mean, 1 = even.
    pub expert_skew: f64,
    /// Measured steps of this stack (engine, model, precision, chip) over those of the figures above.
    #[serde(default = "one")]
    pub stack_factor: f64,
    /// Attention runs after the matrix products instead of beside them: each waits for its own memory or arithmetic.
    #[serde(default)]
    pub attention_apart: bool,
}

/// Limits and reserves of the serving engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingSpec {
    /// Sequences that may run at once.
    pub max_batch: u64,
    /// Tokens of one step: decodes first, then prompt chunks.
    pub chunk_tokens: u64,
    pub block_tokens: u64,
    /// Memory of each chip that the runtime keeps.
    pub runtime_reserve_bytes: f64,
    /// Communication buffers of each chip of four or more; a lone chip has none.
    pub collective_buffer_bytes: f64,
    /// The same of two or three chips; null = as more chips.
    #[serde(default)]
    pub collective_buffer_pair_bytes: Option<f64>,
    /// Peak activations of a chip where measured; null = by the rule of `memory.rs`.
    #[serde(default)]
    pub activation_bytes: Option<f64>,
    /// The most that a chip may draw: steps take as long as that needs; null = what the chip sustains.
    #[serde(default)]
    pub power_cap_w: Option<f64>,
    /// Tokens drafted ahead and verified; null = none.
    #[serde(default)]
    pub speculation: Option<SpeculationSpec>,
}

impl DeploymentSpec {
    /// Reads a spec; the message of a fault names the field.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).map_err(|e| Error::input("deployment", e.to_string()))
    }

    /// Checks every figure and the layout; memory is checked by `MemoryPlan::new`.
    pub fn validate(&self) -> Result<()> {
        self.chip.validate()?;
        self.model.validate()?;
        self.precision.validate()?;
        self.engine.validate()?;
        self.serving.validate()?;
        if self.serving.power_cap_w.is_some_and(|cap_w| !(cap_w > self.chip.drawn_in_steps_w() && cap_w.is_finite())) {
            let what =
                format!("must be above the {} W that a step draws before any work", self.chip.drawn_in_steps_w());
            return Err(Error::input("serving.power_cap_w", what));
        }
        self.layout.validate(&self.model, &self.chip)
    }
}

impl Precision {
    /// The rate of the experts' products: that of the wider operand.
    pub fn expert_products(&self) -> Rate {
        match self.experts_operand {
            Some(operand) if operand.bytes() > self.experts_rate.bytes() => operand,
            _ => self.experts_rate,
        }
    }

    fn validate(&self) -> Result<()> {
        positive("precision.expert_bytes_per_param", self.expert_bytes_per_param)?;
        positive("precision.rest_bytes_per_param", self.rest_bytes_per_param)?;
        positive("precision.kv_bytes_per_element", self.kv_bytes_per_element)
    }
}

impl EngineSpec {
    fn validate(&self) -> Result<()> {
        for (field, value) in [
            ("engine.memory_eff_frac", self.memory_eff_frac),
            ("engine.unpack_eff_frac", self.unpack_eff_frac),
            ("engine.compute_eff_frac", self.compute_eff_frac),
            ("engine.prefill_eff_frac", self.prefill_eff_frac),
            ("engine.kv_read_eff_frac", self.kv_read_eff_frac),
            ("engine.link_eff_frac", self.link_eff_frac),
            ("engine.grouped_eff_frac", self.grouped_eff_frac),
            ("engine.prefill_link_eff_frac", self.prefill_link_eff_frac.unwrap_or(1.0)),
        ] {
            fraction(field, value)?;
        }
        for (field, value) in [
            ("engine.host_s", self.host_s),
            ("engine.host_sequence_s", self.host_sequence_s),
            ("engine.launch_layer_s", self.launch_layer_s),
            ("engine.launch_moe_s", self.launch_moe_s),
            ("engine.launch_mla_s", self.launch_mla_s),
            ("engine.launch_sparse_s", self.launch_sparse_s),
            ("engine.launch_linear_s", self.launch_linear_s),
            ("engine.launch_fp4_frac", self.launch_fp4_frac),
            ("engine.launch_exchange_frac", self.launch_exchange_frac),
            ("engine.launch_unpack_frac", self.launch_unpack_frac),
            ("engine.launch_shared_s", self.launch_shared_s),
            ("engine.collective_base_s", self.collective_base_s),
            ("engine.collective_log_s", self.collective_log_s),
            ("engine.collective_scale_out_s", self.collective_scale_out_s),
            ("engine.routed_passes", self.routed_passes),
        ] {
            not_negative(field, value)?;
        }
        positive("engine.stack_factor", self.stack_factor)?;
        if self.expert_skew < 1.0 || !self.expert_skew.is_finite() {
            return Err(Error::input("engine.expert_skew", format!("must be at least 1, got {}", self.expert_skew)));
        }
        Ok(())
    }
}

impl ServingSpec {
    fn validate(&self) -> Result<()> {
        for (field, value) in [
            ("serving.max_batch", self.max_batch),
            ("serving.chunk_tokens", self.chunk_tokens),
            ("serving.block_tokens", self.block_tokens),
        ] {
            positive(field, value as f64)?;
        }
        not_negative("serving.runtime_reserve_bytes", self.runtime_reserve_bytes)?;
        not_negative("serving.collective_buffer_bytes", self.collective_buffer_bytes)?;
        not_negative("serving.collective_buffer_pair_bytes", self.collective_buffer_pair_bytes.unwrap_or(0.0))?;
        not_negative("serving.activation_bytes", self.activation_bytes.unwrap_or(0.0))?;
        self.speculation.as_ref().map_or(Ok(()), SpeculationSpec::validate)
    }
}

/// What a deployment takes and holds, before any request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub n_chips: u64,
    pub tp: u64,
    pub dp: u64,
    pub pp: u64,
    pub ep: u64,
    /// Weights over all chips, copies included.
    pub weight_bytes: f64,
    /// One copy, past every window.
    pub kv_bytes_per_token: f64,
    pub kv_capacity_tokens: u64,
    pub kv_blocks: u64,
    /// Longest sequence that can be served: one attention group's cache, and the model's context.
    pub max_sequence_tokens: u64,
    pub parked_w: f64,
    /// Mean tokens that a decode step gives a sequence: 1 without drafts.
    pub tokens_per_step: f64,
    pub memory: MemoryPlan,
}

/// The plan of `spec`, or what of it does not fit.
pub fn plan(spec: &DeploymentSpec) -> Result<Plan> {
    spec.validate()?;
    let memory = MemoryPlan::new(spec)?;
    let kv = KvModel::new(&spec.model, &spec.layout, &spec.precision, &spec.serving);
    let n_chips = spec.layout.n_chips();
    Ok(Plan {
        n_chips,
        tp: spec.layout.tp,
        dp: spec.layout.dp,
        pp: spec.layout.pp,
        ep: spec.layout.expert_degree(&spec.model),
        weight_bytes: memory.all_weights_bytes,
        kv_bytes_per_token: kv.bytes_per_token(),
        kv_capacity_tokens: memory.kv_capacity_tokens,
        kv_blocks: memory.kv_blocks,
        max_sequence_tokens: memory.max_sequence_tokens,
        parked_w: spec.chip.parked_w * n_chips as f64,
        tokens_per_step: Pace::new(spec.serving.speculation.as_ref()).mean(),
        memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{deepseek_on_gb300, gpt_oss_on_gb200, llama_on_h100};

    type Spoil = fn(&mut DeploymentSpec);

    #[test]
    fn a_spec_survives_the_border_and_unknown_fields_do_not() {
        let spec = gpt_oss_on_gb200(4, 1);
        let mut tree = serde_json::to_value(&spec).unwrap();
        assert_eq!(DeploymentSpec::from_json(tree.to_string().as_bytes()).unwrap(), spec);
        for part in ["chip", "model", "precision", "layout", "engine", "serving"] {
            let mut other = tree.clone();
            other[part]["unheard_of"] = 1.into();
            let error = DeploymentSpec::from_json(other.to_string().as_bytes()).unwrap_err();
            assert!(error.to_string().contains("unheard_of"), "{error}");
        }
        tree["model"]["attention"]["unheard_of"] = 1.into();
        assert!(DeploymentSpec::from_json(tree.to_string().as_bytes()).is_err());
    }

    #[test]
    fn wrong_figures_are_named() {
        let wrong: [(&str, Spoil); 7] = [
            ("chip.memory_bytes_per_s", |s| s.chip.memory_bytes_per_s = -1.0),
            ("chip.flop_per_s.bf16", |s| s.chip.flop_per_s.bf16 = f64::NAN),
            ("chip.parked_w", |s| s.chip.parked_w = 10.0),
            ("engine.link_eff_frac", |s| s.engine.link_eff_frac = 1.5),
            ("engine.expert_skew", |s| s.engine.expert_skew = 0.5),
            ("serving.max_batch", |s| s.serving.max_batch = 0),
            ("layout.dp", |s| s.layout.dp = 0),
        ];
        for (field, spoil) in wrong {
            let mut spec = llama_on_h100(1);
            spoil(&mut spec);
            assert!(matches!(spec.validate(), Err(Error::Input { field: f, .. }) if f == field), "{field}");
        }
        let mut spec = llama_on_h100(1);
        spec.precision.rest_rate = Rate::Fp4;
        let error = crate::step::StepModel::new(&spec).unwrap_err();
        assert!(error.to_string().contains("precision.rest_rate: the chip has no fp4 path"), "{error}");
    }

    #[test]
    fn a_plan_says_what_the_deployment_holds() {
        let plan = plan(&deepseek_on_gb300(8, 1)).unwrap();
        assert_eq!((plan.n_chips, plan.tp, plan.dp, plan.ep), (8, 8, 1, 8));
        assert_eq!(plan.weight_bytes, 671_025_397_760.0);
        assert_eq!(plan.kv_bytes_per_token, 61.0 * 576.0 * 2.0);
        assert_eq!(plan.max_sequence_tokens, 163_840);
    }
}

//! Coefficients of a step: bytes and operations over the replica, and the seconds they take on its busiest chip.

use crate::chip::Rate;
use crate::deployment::DeploymentSpec;
use crate::error::Result;
use crate::kv::KvModel;
use crate::model::Attention;

/// Seconds that every step pays before any work: host once, launches by layer.
pub fn launch_s(spec: &DeploymentSpec) -> f64 {
    let (model, engine) = (&spec.model, &spec.engine);
    let moe_layers = model.moe.as_ref().map_or(0.0, |m| m.moe_layers as f64);
    let latent_layers = match model.attention {
        Attention::Mla { .. } => model.attention_layers as f64,
        Attention::Gqa { .. } => 0.0,
    };
    let fused = if spec.precision.experts_rate == Rate::Fp4 { engine.launch_fp4_frac } else { 1.0 };
    let exchange = if spec.layout.dp > 1 { engine.launch_exchange_frac } else { 1.0 };
    let experts = (spec.precision.expert_bytes_per_param, spec.precision.experts_rate);
    let unpacked = if is_unpacked(experts.0, experts.1) { engine.launch_unpack_frac } else { 1.0 };
    let has_shared = model.moe.as_ref().is_some_and(|m| m.n_shared_experts > 0);
    let shared_s = if has_shared { engine.launch_shared_s } else { 0.0 };
    engine.host_s
        + model.n_layers as f64 * engine.launch_layer_s
        + moe_layers * (engine.launch_moe_s * fused * exchange * unpacked + shared_s)
        + latent_layers * engine.launch_mla_s
        + model.indexed_layers as f64 * engine.launch_sparse_s
        + model.recurrent_layers as f64 * engine.launch_linear_s
}

/// Weights stored in less than this share of the bits that they are computed in are unpacked; scales take some more.
const UNPACKED_BELOW: f64 = 0.75;

/// Whether weights of so many bytes a parameter are unpacked before they are computed at `rate`.
fn is_unpacked(bytes_per_param: f64, rate: Rate) -> bool {
    bytes_per_param < UNPACKED_BELOW * rate.bytes()
}

/// Bytes moved: `*_bytes` over the replica, copies included, `*_s` on one chip.
#[derive(Debug, Clone)]
pub struct MemoryCost {
    /// Everything but the routed experts, once a step; the input embedding is not read.
    pub rest_bytes: f64,
    pub rest_s: f64,
    /// All routed experts.
    pub expert_bytes: f64,
    pub expert_s: f64,
    /// Keys and values of one token in one layer.
    pub kv_bytes: f64,
    pub kv_s: f64,
    /// Recurrent state of one sequence, read and written.
    pub state_bytes: f64,
    pub state_s: f64,
}

impl MemoryCost {
    /// The bytes of `spec`: dense parts are split over tp and copied over dp, experts are split over the chips of a stage,
    /// keys and values over the chips of a group that hold different heads. Seconds are those of all layers in turn.
    pub fn new(spec: &DeploymentSpec, kv: &KvModel) -> Self {
        let (params, precision, engine) = (&spec.model.params, &spec.precision, &spec.engine);
        let (tp, dp, n) = (spec.layout.tp as f64, spec.layout.dp as f64, spec.layout.stage_chips() as f64);
        let weight_rate = |bytes_per_param: f64, rate: Rate| {
            let unpacked = if is_unpacked(bytes_per_param, rate) { engine.unpack_eff_frac } else { 1.0 };
            spec.chip.memory_bytes_per_s * engine.memory_eff_frac * unpacked
        };
        let rest_rate = weight_rate(precision.rest_bytes_per_param, precision.rest_rate);
        let expert_rate = weight_rate(precision.expert_bytes_per_param, precision.experts_rate);
        let kv_rate = spec.chip.memory_bytes_per_s * engine.kv_read_eff_frac;
        let rest_bytes = params.non_expert_active * precision.rest_bytes_per_param;
        let expert_bytes = params.routed_expert_total * precision.expert_bytes_per_param;
        let state_bytes = 2.0 * spec.model.state_bytes_per_sequence;
        Self {
            rest_bytes: rest_bytes * dp,
            rest_s: rest_bytes / tp / rest_rate,
            expert_bytes,
            expert_s: expert_bytes / n / expert_rate,
            kv_bytes: kv.layer_token_bytes * tp / kv.shards,
            kv_s: kv.layer_token_bytes / kv.shards / kv_rate,
            state_bytes,
            state_s: state_bytes / tp / kv_rate,
        }
    }
}

impl MemoryCost {
    /// The same bytes in `factor` times the seconds.
    pub fn slowed(mut self, factor: f64) -> Self {
        for seconds in [&mut self.rest_s, &mut self.expert_s, &mut self.kv_s, &mut self.state_s] {
            *seconds *= factor;
        }
        self
    }

    /// The seconds of a `share` of the layers, with a share of their own of all that is no expert.
    pub fn of_stage(&self, share: f64, rest_share: f64) -> Self {
        let mut stage = self.clone().slowed(share);
        stage.rest_s = self.rest_s * rest_share;
        stage
    }
}

/// Seconds on one chip: of a token of its attention group, of a token of the replica (experts), of a pair of tokens.
#[derive(Debug, Clone)]
pub struct PartSeconds {
    pub rest: f64,
    pub lm_head: f64,
    pub experts: f64,
    pub pair: f64,
}

/// Operations: `*_flops` over the replica, seconds on one chip by phase.
#[derive(Debug, Clone)]
pub struct ComputeCost {
    /// Of one token: everything but routed experts and output head, the head, the routed experts.
    pub rest_flops: f64,
    pub lm_head_flops: f64,
    pub expert_flops: f64,
    /// Of one token against one token of context in one layer.
    pub decode_pair_flops: f64,
    pub prefill_pair_flops: f64,
    pub decode: PartSeconds,
    pub prefill: PartSeconds,
}

impl ComputeCost {
    /// The operations of `spec`, each part at the dense rate of its number format times the phase's efficiency. Routed
    /// experts of prompts wait for their grouped products, and for the memory that the copies of their tokens pass.
    pub fn new(spec: &DeploymentSpec, skew: f64) -> Result<Self> {
        let (model, precision, chip, engine) = (&spec.model, &spec.precision, &spec.chip, &spec.engine);
        let (tp, n) = (spec.layout.tp as f64, spec.layout.stage_chips() as f64);
        let lm_head = model.lm_head_params();
        let rest_flops = 2.0 * (model.params.non_expert_active - lm_head);
        let lm_head_flops = 2.0 * lm_head;
        let expert_flops = 2.0 * model.params.routed_expert_active;
        let rest_rate = chip.flop_per_s_at(precision.rest_rate, "precision.rest_rate")?;
        let expert_rate = chip.flop_per_s_at(precision.expert_products(), "precision.experts_rate")?;
        let attention_rate = chip.flop_per_s_at(precision.attention_rate, "precision.attention_rate")?;
        let seconds = |pair_flops: f64, eff: f64| PartSeconds {
            rest: rest_flops / tp / (rest_rate * eff),
            lm_head: lm_head_flops / tp / (rest_rate * eff),
            experts: expert_flops * skew / n / (expert_rate * eff),
            pair: pair_flops / tp / (attention_rate * eff),
        };
        let decode_pair_flops = model.decode_flops_per_pair();
        let prefill_pair_flops = model.prefill_flops_per_pair();
        let mut prefill = seconds(prefill_pair_flops, engine.prefill_eff_frac);
        prefill.experts = prefill.experts / engine.grouped_eff_frac + Self::routed_copies_s(spec);
        Ok(Self {
            rest_flops,
            lm_head_flops,
            expert_flops,
            decode_pair_flops,
            prefill_pair_flops,
            decode: seconds(decode_pair_flops, engine.compute_eff_frac),
            prefill,
        })
    }

    /// Seconds that the copies of a prompt's token on their way to its experts take of the memory, a token of the replica.
    fn routed_copies_s(spec: &DeploymentSpec) -> f64 {
        let Some(moe) = &spec.model.moe else { return 0.0 };
        let copies = (moe.top_k * moe.moe_layers) as f64 * spec.model.hidden as f64 * Rate::Bf16.bytes();
        // Every chip of a group has all copies of the group's tokens.
        let groups = spec.layout.dp as f64;
        spec.engine.routed_passes * copies / groups / spec.chip.memory_bytes_per_s
    }
}

impl ComputeCost {
    /// The same operations in `factor` times the seconds.
    pub fn slowed(mut self, factor: f64) -> Self {
        for part in [&mut self.decode, &mut self.prefill] {
            for seconds in [&mut part.rest, &mut part.lm_head, &mut part.experts, &mut part.pair] {
                *seconds *= factor;
            }
        }
        self
    }

    /// The seconds of a `share` of the layers, and of the output head or not (1 or 0).
    pub fn of_stage(&self, share: f64, head: f64) -> Self {
        let mut stage = self.clone().slowed(share);
        stage.decode.lm_head = self.decode.lm_head * head;
        stage.prefill.lm_head = self.prefill.lm_head * head;
        stage
    }
}

/// A table of touched experts ends where the share is 1 in double precision, or here.
const TOUCHED_MOST: u64 = 65_536;

/// Share of the experts that a step touches, by its routed tokens.
#[derive(Debug, Clone)]
pub struct Touched(Vec<f64>);

impl Touched {
    /// 1 - (1 - k/E)^tokens (uniform routing) up to where it is 1; empty for a dense model.
    pub fn new(spec: &DeploymentSpec) -> Self {
        let mut shares = Vec::new();
        if let Some(moe) = &spec.model.moe {
            for tokens in 0..TOUCHED_MOST {
                let share = moe.touched_frac(tokens);
                shares.push(share);
                if share == 1.0 {
                    break;
                }
            }
        }
        Self(shares)
    }

    /// The share at a mean number of tokens, at least one: linear between the whole numbers around it.
    pub fn between(&self, tokens: f64) -> f64 {
        if self.0.is_empty() {
            return 1.0;
        }
        let below = tokens.floor();
        let (low, high) = (self.frac(below as u64), self.frac(below as u64 + 1));
        low + (high - low) * (tokens - below)
    }

    /// The share at `tokens`.
    pub fn frac(&self, tokens: u64) -> f64 {
        usize::try_from(tokens).ok().and_then(|t| self.0.get(t)).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Moe, Params};
    use crate::samples::deepseek_on_gb300;

    #[test]
    fn launches_add_up_by_layer() {
        let mut spec = deepseek_on_gb300(8, 1);
        // 200 us + 61 x 20 us + 58 x 30 us + 61 x 10 us = 3,770 us.
        assert!((launch_s(&spec) - 3770e-6).abs() < 1e-15);
        // Fused 4-bit kernels take half of the mixtures' 1,740 us; with an exchange over groups 1.5 times that.
        spec.engine.launch_fp4_frac = 0.5;
        spec.engine.launch_exchange_frac = 1.5;
        spec.precision.experts_rate = Rate::Fp4;
        assert!((launch_s(&spec) - 2900e-6).abs() < 1e-15);
        spec.layout.dp = 2;
        assert!((launch_s(&spec) - 3335e-6).abs() < 1e-15);
        spec.precision.experts_rate = Rate::Fp8;
        spec.layout.dp = 1;
        // 4-bit weights computed in 8 bits, twice the mixtures' 1,740 us; a shared expert in each of 58 layers, 5 us.
        (spec.engine.launch_unpack_frac, spec.engine.launch_shared_s) = (2.0, 5e-6);
        spec.precision.expert_bytes_per_param = 0.5625;
        assert!((launch_s(&spec) - (3770e-6 + 1740e-6 + 290e-6)).abs() < 1e-15);
        (spec.precision.expert_bytes_per_param, spec.engine.launch_shared_s) = (1.0, 0.0);
        spec.model.indexed_layers = 61;
        assert!((launch_s(&spec) - 6820e-6).abs() < 1e-15);
        spec.model.indexed_layers = 0;
        spec.model.attention_layers = 16;
        spec.model.recurrent_layers = 45;
        // 45 layers of 15 us, and 16 latent ones in place of 61.
        assert!((launch_s(&spec) - (3770e-6 - 450e-6 + 675e-6)).abs() < 1e-15);
    }

    #[test]
    fn experts_of_prompts_wait_for_grouped_products_and_copies() {
        // Two groups of four: 8 copies in each of 58 layers, 7,168 elements of two bytes, five passes, over both groups.
        let mut spec = deepseek_on_gb300(4, 2);
        let plain = ComputeCost::new(&spec, 1.0).unwrap();
        spec.engine.grouped_eff_frac = 0.5;
        spec.engine.routed_passes = 5.0;
        let cost = ComputeCost::new(&spec, 1.0).unwrap();
        let copies_s = 5.0 * 8.0 * 58.0 * 7168.0 * 2.0 / 2.0 / spec.chip.memory_bytes_per_s;
        assert!((cost.prefill.experts / (2.0 * plain.prefill.experts + copies_s) - 1.0).abs() < 1e-12);
        assert_eq!((cost.prefill.rest, cost.decode.experts), (plain.prefill.rest, plain.decode.experts));
    }

    #[test]
    fn products_run_at_the_rate_of_the_wider_operand() {
        let mut spec = deepseek_on_gb300(8, 1);
        spec.precision.experts_rate = Rate::Fp4;
        let narrow = ComputeCost::new(&spec, 1.0).unwrap().decode.experts;
        spec.precision.experts_operand = Some(Rate::Fp8);
        let wide = ComputeCost::new(&spec, 1.0).unwrap().decode.experts;
        let rates = &spec.chip.flop_per_s;
        assert!((wide / narrow - rates.fp4.unwrap() / rates.fp8.unwrap()).abs() < 1e-12);
        spec.precision.experts_operand = Some(Rate::Fp4);
        assert_eq!(ComputeCost::new(&spec, 1.0).unwrap().decode.experts, narrow);
    }

    #[test]
    fn packed_weights_are_read_more_slowly() {
        let mut spec = deepseek_on_gb300(8, 1);
        let kv = KvModel::new(&spec.model, &spec.layout, &spec.precision, &spec.serving);
        let plain = MemoryCost::new(&spec, &kv);
        spec.engine.unpack_eff_frac = 0.8;
        assert_eq!(MemoryCost::new(&spec, &kv).expert_s, plain.expert_s);
        // The same bytes computed in 16 bits are unpacked first; the dense parts are not.
        (spec.precision.expert_bytes_per_param, spec.precision.experts_rate) = (1.0, Rate::Bf16);
        spec.engine.unpack_eff_frac = 1.0;
        let whole = MemoryCost::new(&spec, &kv).expert_s;
        spec.engine.unpack_eff_frac = 0.8;
        let packed = MemoryCost::new(&spec, &kv);
        assert!((packed.expert_s / whole - 1.25).abs() < 1e-12);
        assert_eq!((packed.rest_s, packed.expert_bytes), (plain.rest_s, plain.expert_bytes));
    }

    #[test]
    fn a_step_reads_the_experts_it_touches() {
        // 60 layers x 256 experts x 3 x 4096 x 1536 parameters of one byte, top 8: at 8 chips a step of B tokens reads
        // 289.91e9 x (1 - (1 - 8/256)^B) / 8 bytes a chip.
        let mut spec = deepseek_on_gb300(8, 1);
        let total: f64 = 60.0 * 256.0 * 3.0 * 4096.0 * 1536.0;
        assert_eq!(total, 289_910_292_480.0);
        spec.model.moe =
            Some(Moe { n_experts: 256, top_k: 8, n_shared_experts: 0, expert_intermediate: 1536, moe_layers: 60 });
        spec.model.params = Params {
            routed_expert_total: total,
            routed_expert_active: total / 32.0,
            non_expert_total: 2e9,
            non_expert_active: 2e9,
        };
        let touched = Touched::new(&spec);
        for (tokens, distinct, gigabytes) in [(1, 8.0, 1.13), (8, 57.4, 8.13), (32, 163.3, 23.1), (128, 251.6, 35.6)] {
            let frac = touched.frac(tokens);
            assert!((256.0 * frac - distinct).abs() < 0.05, "{tokens}");
            assert!((total * frac / 8.0 / 1e9 / gigabytes - 1.0).abs() < 0.004, "{tokens}");
        }
        assert_eq!(touched.frac(0), 0.0);
        assert_eq!(touched.frac(1_000_000), 1.0);
    }
}

//! Deployments that the tests of this crate share; figures are those of the catalogue, efficiencies round numbers.

use crate::chip::{ChipSpec, FlopRates, Rate};
use crate::deployment::{DeploymentSpec, EngineSpec, Precision, ServingSpec};
use crate::layout::Layout;
use crate::model::{Attention, ModelSpec, Moe, Params, Sliding};

fn engine() -> EngineSpec {
    EngineSpec {
        memory_eff_frac: 0.8,
        compute_eff_frac: 0.5,
        prefill_eff_frac: 0.5,
        kv_read_eff_frac: 0.75,
        host_s: 200e-6,
        host_sequence_s: 0.0,
        launch_layer_s: 20e-6,
        launch_moe_s: 30e-6,
        launch_mla_s: 10e-6,
        launch_sparse_s: 50e-6,
        stack_factor: 1.0,
        launch_fp4_frac: 1.0,
        launch_exchange_frac: 1.0,
        launch_unpack_frac: 1.0,
        launch_shared_s: 0.0,
        unpack_eff_frac: 1.0,
        launch_linear_s: 15e-6,
        collective_base_s: 1e-6,
        collective_log_s: 4e-6,
        collective_scale_out_s: 50e-6,
        link_eff_frac: 0.25,
        prefill_link_eff_frac: None,
        grouped_eff_frac: 1.0,
        routed_passes: 0.0,
        expert_skew: 1.0,
        attention_apart: false,
    }
}

fn serving() -> ServingSpec {
    ServingSpec {
        max_batch: 256,
        chunk_tokens: 8192,
        block_tokens: 16,
        runtime_reserve_bytes: 3_758_096_384.0,
        collective_buffer_bytes: 411_041_792.0,
        collective_buffer_pair_bytes: None,
        activation_bytes: None,
        power_cap_w: None,
        speculation: None,
    }
}

/// Llama-3.1-8B in bf16 on H100.
pub(crate) fn llama_on_h100(tp: u64) -> DeploymentSpec {
    DeploymentSpec {
        chip: ChipSpec {
            memory_bytes: 85_899_345_920.0,
            memory_bytes_per_s: 3350e9,
            flop_per_s: FlopRates { bf16: 989e12, fp8: Some(1979e12), fp4: None },
            idle_w: 70.0,
            parked_w: 121.7,
            active_w: None,
            low_load_w: 300.0,
            high_load_w: 600.0,
            max_w: 700.0,
            low_load_memory_frac: 0.4,
            high_load_compute_frac: 0.25,
            scale_up_bytes_per_s: 450e9,
            scale_up_latency_s: 5e-6,
            domain_chips: 8,
            scale_out_bytes_per_s: 50e9,
            scale_out_latency_s: 20e-6,
        },
        model: ModelSpec {
            n_layers: 32,
            attention_layers: 32,
            recurrent_layers: 0,
            indexed_layers: 0,
            hidden: 4096,
            n_heads: 32,
            vocab: 128_256,
            context_tokens: 131_072,
            attention: Attention::Gqa { n_kv_heads: 8, head_dim: 128 },
            sliding: None,
            moe: None,
            ffn_intermediate: 14_336,
            params: Params {
                routed_expert_total: 0.0,
                routed_expert_active: 0.0,
                non_expert_total: 8_029_995_008.0,
                non_expert_active: 7_504_658_432.0,
            },
            state_bytes_per_sequence: 0.0,
        },
        precision: Precision {
            expert_bytes_per_param: 2.0,
            rest_bytes_per_param: 2.0,
            experts_rate: Rate::Bf16,
            experts_operand: None,
            rest_rate: Rate::Bf16,
            attention_rate: Rate::Bf16,
            kv_bytes_per_element: 2.0,
        },
        layout: Layout { tp, dp: 1, pp: 1, ep: None, crosses_domains: false },
        engine: engine(),
        serving: serving(),
    }
}

/// Llama-3.1-70B in fp8 with bf16 keys and values on chips of `memory_bytes`.
pub(crate) fn llama_70b(memory_bytes: f64, tp: u64) -> DeploymentSpec {
    let mut spec = llama_on_h100(tp);
    spec.chip.memory_bytes = memory_bytes;
    spec.model.n_layers = 80;
    spec.model.attention_layers = 80;
    spec.model.hidden = 8192;
    spec.model.n_heads = 64;
    spec.model.ffn_intermediate = 28_672;
    spec.model.params.non_expert_total = 70_552_387_584.0;
    spec.model.params.non_expert_active = 69_501_714_432.0;
    spec.precision.rest_bytes_per_param = 1.0;
    spec.precision.rest_rate = Rate::Fp8;
    spec
}

/// DeepSeek-R1 in fp8 on GB300.
pub(crate) fn deepseek_on_gb300(tp: u64, dp: u64) -> DeploymentSpec {
    let mut spec = llama_on_h100(tp);
    spec.chip.memory_bytes = 298_013_687_808.0;
    spec.chip.memory_bytes_per_s = 8000e9;
    spec.chip.flop_per_s = FlopRates { bf16: 2500e12, fp8: Some(5000e12), fp4: Some(15_000e12) };
    spec.chip.scale_up_bytes_per_s = 900e9;
    spec.chip.domain_chips = 72;
    spec.model = ModelSpec {
        n_layers: 61,
        attention_layers: 61,
        recurrent_layers: 0,
        indexed_layers: 0,
        hidden: 7168,
        n_heads: 128,
        vocab: 129_280,
        context_tokens: 163_840,
        attention: Attention::Mla { kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128 },
        sliding: None,
        moe: Some(Moe { n_experts: 256, top_k: 8, n_shared_experts: 1, expert_intermediate: 2048, moe_layers: 58 }),
        ffn_intermediate: 18_432,
        params: Params {
            routed_expert_total: 653_908_770_816.0,
            routed_expert_active: 20_434_649_088.0,
            non_expert_total: 17_116_626_944.0,
            non_expert_active: 16_189_947_904.0,
        },
        state_bytes_per_sequence: 0.0,
    };
    spec.precision.expert_bytes_per_param = 1.0;
    spec.precision.rest_bytes_per_param = 1.0;
    spec.precision.experts_rate = Rate::Fp8;
    spec.precision.rest_rate = Rate::Fp8;
    spec.layout = Layout { tp, dp, pp: 1, ep: None, crosses_domains: false };
    spec
}

/// gpt-oss-120b with MXFP4 experts on GB200.
pub(crate) fn gpt_oss_on_gb200(tp: u64, dp: u64) -> DeploymentSpec {
    let mut spec = deepseek_on_gb300(tp, dp);
    spec.chip.memory_bytes = 198_674_743_296.0;
    spec.chip.flop_per_s.fp4 = Some(10_000e12);
    spec.model = ModelSpec {
        n_layers: 36,
        attention_layers: 36,
        recurrent_layers: 0,
        indexed_layers: 0,
        hidden: 2880,
        n_heads: 64,
        vocab: 201_088,
        context_tokens: 131_072,
        attention: Attention::Gqa { n_kv_heads: 8, head_dim: 64 },
        sliding: Some(Sliding { window_tokens: 128, sliding_layers: 18, full_layers: 18 }),
        moe: Some(Moe { n_experts: 128, top_k: 4, n_shared_experts: 0, expert_intermediate: 2880, moe_layers: 36 }),
        ffn_intermediate: 0,
        params: Params {
            routed_expert_total: 114_701_598_720.0,
            routed_expert_active: 3_584_424_960.0,
            non_expert_total: 2_127_343_104.0,
            non_expert_active: 1_548_209_664.0,
        },
        state_bytes_per_sequence: 0.0,
    };
    spec.precision.expert_bytes_per_param = 0.53125;
    spec.precision.rest_bytes_per_param = 2.0;
    spec.precision.experts_rate = Rate::Fp4;
    spec.precision.rest_rate = Rate::Bf16;
    spec
}

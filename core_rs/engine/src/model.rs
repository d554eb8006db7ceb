//! What a model needs: its layers, its attention kind, its experts, and the work and bytes that follow from them.

use serde::{Deserialize, Serialize};

use crate::chip::{not_negative, positive};
use crate::error::{Error, Result};

/// The structure of one model, as its public configuration gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    pub n_layers: u64,
    /// Layers that keep keys and values for every token: all of them, unless some are recurrent.
    pub attention_layers: u64,
    /// Layers of linear attention or a state space, which keep a fixed state of a sequence instead.
    #[serde(default)]
    pub recurrent_layers: u64,
    /// Attention layers with an indexer that picks what to attend to; this version lets them attend to everything.
    #[serde(default)]
    pub indexed_layers: u64,
    pub hidden: u64,
    pub n_heads: u64,
    pub vocab: u64,
    pub context_tokens: u64,
    pub attention: Attention,
    #[serde(default)]
    pub sliding: Option<Sliding>,
    #[serde(default)]
    pub moe: Option<Moe>,
    /// Inner width of the widest dense feed-forward layer; 0 where every layer is a mixture.
    pub ffn_intermediate: u64,
    pub params: Params,
    /// Fixed state of a sequence in recurrent layers, whatever its length; 0 without such layers.
    #[serde(default)]
    pub state_bytes_per_sequence: f64,
}

/// How a layer attends, and so what it keeps of a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Attention {
    /// Grouped queries: a key and a value for each of `n_kv_heads` heads.
    Gqa { n_kv_heads: u64, head_dim: u64 },
    /// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): one compressed latent and one rotary key for all heads.
    Mla { kv_lora_rank: u64, qk_nope_head_dim: u64, qk_rope_head_dim: u64, v_head_dim: u64 },
}

/// Some layers attend only to the last `window_tokens`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sliding {
    pub window_tokens: u64,
    pub sliding_layers: u64,
    pub full_layers: u64,
}

/// The mixture layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moe {
    pub n_experts: u64,
    pub top_k: u64,
    pub n_shared_experts: u64,
    pub expert_intermediate: u64,
    pub moe_layers: u64,
}

/// Parameter counts; the output head is active, the input embedding is not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub routed_expert_total: f64,
    pub routed_expert_active: f64,
    pub non_expert_total: f64,
    pub non_expert_active: f64,
}

impl ModelSpec {
    /// Layers whose attention is a latent's or recurrent.
    pub fn unlike_layers(&self) -> u64 {
        let latent = match self.attention {
            Attention::Mla { .. } => self.attention_layers,
            Attention::Gqa { .. } => 0,
        };
        latent.saturating_add(self.recurrent_layers)
    }

    /// Checks that the counts are positive and agree with each other.
    pub fn validate(&self) -> Result<()> {
        for (field, value) in [
            ("model.n_layers", self.n_layers),
            ("model.attention_layers", self.attention_layers),
            ("model.hidden", self.hidden),
            ("model.n_heads", self.n_heads),
            ("model.vocab", self.vocab),
            ("model.context_tokens", self.context_tokens),
        ] {
            positive(field, value as f64)?;
        }
        let attention = match self.attention {
            Attention::Gqa { n_kv_heads, head_dim } => {
                [("n_kv_heads", n_kv_heads), ("head_dim", head_dim), ("", 1), ("", 1)]
            }
            Attention::Mla { kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim } => [
                ("kv_lora_rank", kv_lora_rank),
                ("qk_nope_head_dim", qk_nope_head_dim),
                ("qk_rope_head_dim", qk_rope_head_dim),
                ("v_head_dim", v_head_dim),
            ],
        };
        for (field, value) in attention {
            positive(&format!("model.attention.{field}"), value as f64)?;
        }
        positive("model.params.non_expert_total", self.params.non_expert_total)?;
        positive("model.params.non_expert_active", self.params.non_expert_active)?;
        not_negative("model.params.routed_expert_total", self.params.routed_expert_total)?;
        not_negative("model.params.routed_expert_active", self.params.routed_expert_active)?;
        not_negative("model.state_bytes_per_sequence", self.state_bytes_per_sequence)?;
        for (field, count) in [
            ("model.attention_layers", self.attention_layers.saturating_add(self.recurrent_layers)),
            ("model.indexed_layers", self.indexed_layers),
        ] {
            if count > self.n_layers {
                return Err(Error::input(field, format!("{count} of {} layers", self.n_layers)));
            }
        }
        if self.params.non_expert_active < self.lm_head_params() {
            let what = format!("must hold the output head, {} parameters", self.lm_head_params());
            return Err(Error::input("model.params.non_expert_active", what));
        }
        if let Some(s) = &self.sliding {
            positive("model.sliding.window_tokens", s.window_tokens as f64)?;
            positive("model.sliding.full_layers", s.full_layers as f64)?;
            if s.sliding_layers + s.full_layers != self.attention_layers {
                let what = format!(
                    "{} sliding + {} full layers are not {}",
                    s.sliding_layers, s.full_layers, self.attention_layers
                );
                return Err(Error::input("model.sliding", what));
            }
        }
        match &self.moe {
            Some(m) => m.validate(self),
            None if self.params.routed_expert_total > 0.0 || self.params.routed_expert_active > 0.0 => {
                Err(Error::input("model.params.routed_expert_total", "a dense model has no routed experts"))
            }
            None => Ok(()),
        }
    }

    /// Parameters of the output head, part of `non_expert_active`.
    pub fn lm_head_params(&self) -> f64 {
        self.vocab as f64 * self.hidden as f64
    }

    /// Layers that attend to the whole context, and layers that attend to a window.
    pub fn full_and_sliding_layers(&self) -> (f64, f64) {
        match &self.sliding {
            Some(s) => (s.full_layers as f64, s.sliding_layers as f64),
            None => (self.attention_layers as f64, 0.0),
        }
    }

    /// Operations of one layer for one token against one token of context while decoding.
    ///
    /// Grouped queries: scores and values, 2 x 2 x heads x `head_dim`. Latent: in the compressed space (the absorbed
    /// form of the paper), so scores over `kv_lora_rank + qk_rope_head_dim` and values over `kv_lora_rank`.
    pub fn decode_flops_per_pair(&self) -> f64 {
        let heads = self.n_heads as f64;
        match self.attention {
            Attention::Gqa { head_dim, .. } => 4.0 * heads * head_dim as f64,
            Attention::Mla { kv_lora_rank, qk_rope_head_dim, .. } => {
                2.0 * heads * (2 * kv_lora_rank + qk_rope_head_dim) as f64
            }
        }
    }

    /// The same for prompt tokens; latent attention runs uncompressed there, over the heads' own dimensions.
    pub fn prefill_flops_per_pair(&self) -> f64 {
        let heads = self.n_heads as f64;
        match self.attention {
            Attention::Gqa { head_dim, .. } => 4.0 * heads * head_dim as f64,
            Attention::Mla { qk_nope_head_dim, qk_rope_head_dim, v_head_dim, .. } => {
                2.0 * heads * (qk_nope_head_dim + qk_rope_head_dim + v_head_dim) as f64
            }
        }
    }
}

impl Moe {
    fn validate(&self, model: &ModelSpec) -> Result<()> {
        for (field, value) in [
            ("model.moe.n_experts", self.n_experts),
            ("model.moe.top_k", self.top_k),
            ("model.moe.expert_intermediate", self.expert_intermediate),
            ("model.moe.moe_layers", self.moe_layers),
        ] {
            positive(field, value as f64)?;
        }
        positive("model.params.routed_expert_active", model.params.routed_expert_active)?;
        if self.top_k > self.n_experts {
            return Err(Error::input("model.moe.top_k", format!("{} of {} experts", self.top_k, self.n_experts)));
        }
        if self.moe_layers > model.n_layers {
            return Err(Error::input(
                "model.moe.moe_layers",
                format!("{} of {} layers", self.moe_layers, model.n_layers),
            ));
        }
        let share = self.top_k as f64 / self.n_experts as f64;
        let off = model.params.routed_expert_active / model.params.routed_expert_total / share - 1.0;
        if off.abs() > 1e-6 || off.is_nan() {
            let what = format!("must be top_k / n_experts = {share} of routed_expert_total");
            return Err(Error::input("model.params.routed_expert_active", what));
        }
        Ok(())
    }

    /// Share of the experts that `tokens` routed tokens touch: 1 - (1 - k/E)^tokens, uniform routing.
    pub fn touched_frac(&self, tokens: u64) -> f64 {
        let miss = 1.0 - self.top_k as f64 / self.n_experts as f64;
        1.0 - libm::pow(miss, tokens as f64)
    }
}

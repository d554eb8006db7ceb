"""What the catalogue holds of a model: structure, parameters, weights and key-value sizes."""

from __future__ import annotations

from dataclasses import dataclass

from planner.facts.fact import Fact
from planner.facts.keys import Key, Member, Section, members_of

_MOE = (
    Member("experts", "n_experts", "count"),
    Member("top_k", "top_k", "count"),
    Member("shared_experts", "n_shared_experts", "count"),
    Member("expert_intermediate", "expert_intermediate", "count"),
    Member("dense_layers", "dense_layers", "count"),
    Member("moe_layers", "moe_layers", "count"),
    Member("dense_intermediate", "dense_intermediate", "count", may_be_null=True),
)
_PARAMS = (
    *members_of("count", "total", "active_per_token", "routed_expert_total", "routed_expert_active"),
    *members_of("count", "non_expert_total", "non_expert_active", "per_expert", "attention_per_layer"),
    *(
        Member(name, name, "count", is_needed=False)
        for name in ("linear_attention_per_layer", "mamba_per_layer", "ffn_per_layer")
    ),
)
_WEIGHTS = (
    Member("native_checkpoint", "native_checkpoint_bytes", "bytes"),
    Member("native_rule", "native_rule", "text"),
    Member("native_format", "native_format", "formats"),
    Member("bf16_all", "bf16_all_bytes", "bytes"),
    Member("fp8_all", "fp8_all_bytes", "bytes"),
    Member("fp4_nominal_all", "fp4_nominal_all_bytes", "bytes"),
    Member("nvfp4_experts_rest_bf16", "nvfp4_experts_rest_bf16_bytes", "bytes", is_needed=False),
    Member("mxfp4_experts_rest_bf16", "mxfp4_experts_rest_bf16_bytes", "bytes", is_needed=False),
    Member("mxfp4_experts_rest_fp8", "mxfp4_experts_rest_fp8_bytes", "bytes", is_needed=False),
)
_KV = (
    Member("formula", "formula", "text"),
    Member("per_token_bf16", "per_token_bytes_bf16", "bytes"),
    Member("per_token_fp8", "per_token_bytes_fp8", "bytes"),
    Member("per_token_bf16_below_window", "per_token_bytes_bf16_below_window", "bytes", is_needed=False),
    Member("window_layers", "window_layers", "count", is_needed=False),
    Member("window", "window_tokens", "tokens", is_needed=False),
    Member("replicated_across_tp", "replicated_across_tp", "bool", is_needed=False),
    Member("indexer_key_per_token_fp8", "indexer_key_bytes_per_token_fp8", "bytes", is_needed=False),
    Member("state_per_sequence", "state_bytes_per_sequence", "bytes", is_needed=False),
    Member("state_formula", "state_formula", "text", is_needed=False),
    Member("at_8192_tokens_bf16", "at_8192_tokens_bytes_bf16", "bytes", is_needed=False),
    Member("at_131072_tokens_bf16", "at_131072_tokens_bytes_bf16", "bytes", is_needed=False),
)
MODEL: tuple[Key | Section, ...] = (
    Key("family", "family", "text", "dense or moe.", is_needed=True),
    Key("attention", "attention", "text", "Kinds of attention.", is_needed=True),
    Key("layers", "n_layers", "count", "Layers.", is_needed=True),
    Key("hidden", "hidden", "count", "Width of the residual stream.", is_needed=True),
    Key("heads", "n_heads", "count", "Query heads.", is_needed=True),
    Key("kv_heads", "n_kv_heads", "count", "Key-value heads; null with a shared latent.", may_be_null=True),
    Key("head_dim", "head_dim", "count", "Width of a head; null with a shared latent.", may_be_null=True),
    Key("vocab", "vocab", "count", "Tokens of the vocabulary.", is_needed=True),
    Key("tied_embeddings", "tied_embeddings", "bool", "Input and output embeddings are one matrix."),
    Key("context", "context_tokens", "tokens", "Longest sequence.", is_needed=True),
    Key("ffn_intermediate", "ffn_intermediate", "count", "Width of the dense feed-forward part."),
    Key(
        "sliding",
        "sliding",
        "group",
        "Layers that attend to a window only.",
        members=(
            Member("window", "window_tokens", "tokens"),
            Member("sliding_layers", "sliding_layers", "count"),
            Member("full_layers", "full_layers", "count"),
            Member("pattern", "pattern", "text"),
        ),
    ),
    Key(
        "mla",
        "mla",
        "group",
        "Latent attention.",
        members=members_of(
            "count", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"
        ),
    ),
    Key("moe", "moe", "group", "Mixture of experts.", members=_MOE),
    Key(
        "linear_attention",
        "linear_attention",
        "group",
        "Layers with linear attention, a fixed state per sequence.",
        members=(
            *members_of("count", "linear_layers", "full_layers", "key_heads", "value_heads", "key_head_dim"),
            *members_of("count", "value_head_dim", "conv_kernel"),
            *members_of("text", "pattern", "state_dtype"),
        ),
    ),
    Key(
        "mamba",
        "mamba",
        "group",
        "State-space layers, a fixed state per sequence.",
        members=(
            *members_of("count", "mamba_layers", "attention_layers", "ffn_layers", "heads", "head_dim", "state_dim"),
            *members_of("count", "groups", "conv_kernel"),
            *members_of("text", "pattern", "state_dtype"),
        ),
    ),
    Key(
        "sparse_attention",
        "sparse_attention",
        "group",
        "Attention to the tokens that an indexer picks.",
        members=members_of("count", "index_topk", "index_heads", "index_head_dim"),
    ),
    Key("mtp_layers", "mtp_layers", "count", "Multi-token-prediction layers.", rule="not_negative"),
    Key(
        "params",
        "params",
        "group",
        "Parameters; the output matrix counts as active, the input embedding does not.",
        is_needed=True,
        members=_PARAMS,
    ),
    Key(
        "advertised", "advertised", "group", "What the model card says.", members=members_of("count", "total", "active")
    ),
    Key("weights", "weights", "group", "Bytes of all weights by format.", is_needed=True, members=_WEIGHTS),
    Key(
        "kv",
        "kv",
        "group",
        "Key-value cache: marginal bytes of a token in full-attention layers, and of whole sequences.",
        is_needed=True,
        members=_KV,
    ),
    Key("variants", "variants", "texts", "Checkpoints of the same matrices."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model as served; table `MODEL`. Group facts hold plain numbers: `model.moe.group["n_experts"]`."""

    name: str
    hf_id: str = ""
    aliases: tuple[str, ...] = ()
    family: Fact
    attention: Fact
    n_layers: Fact
    hidden: Fact
    n_heads: Fact
    vocab: Fact
    context_tokens: Fact
    params: Fact
    weights: Fact
    kv: Fact
    n_kv_heads: Fact | None = None
    head_dim: Fact | None = None
    tied_embeddings: Fact | None = None
    ffn_intermediate: Fact | None = None
    sliding: Fact | None = None
    mla: Fact | None = None
    moe: Fact | None = None
    linear_attention: Fact | None = None
    mamba: Fact | None = None
    sparse_attention: Fact | None = None
    mtp_layers: Fact | None = None
    advertised: Fact | None = None
    variants: Fact | None = None

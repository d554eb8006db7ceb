"""Facts -> the deployment spec that the core reads (`core_rs/engine/src/deployment.rs` says what each field means)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from planner.errors import FactError, Fault, Notice
from planner.facts import catalog
from planner.facts.fact import Fact
from planner.facts.schema import Chip, Engine, Model, Serving
from planner.model.precision import precision_spec

__all__ = ["deployment_spec"]

_REFERENCE_CHIP = "h100-sxm"
"""The chip whose draws are measured as a share of its rated power."""
_ENGINE_FIELDS = (
    "memory_eff_frac",
    "compute_eff_frac",
    "prefill_eff_frac",
    "kv_read_eff_frac",
    "host_s",
    "launch_layer_s",
    "launch_moe_s",
    "launch_mla_s",
    "launch_sparse_s",
    "launch_linear_s",
    "collective_base_s",
    "collective_log_s",
    "collective_scale_out_s",
    "link_eff_frac",
    "expert_skew",
)
_ENGINE_OPTIONS = (
    "host_sequence_s",
    "prefill_link_eff_frac",
    "unpack_eff_frac",
    "launch_fp4_frac",
    "launch_exchange_frac",
    "launch_unpack_frac",
    "launch_shared_s",
    "grouped_eff_frac",
    "routed_passes",
)
_MOE_FIELDS = ("n_experts", "top_k", "n_shared_experts", "expert_intermediate", "moe_layers")
_SLIDING_FIELDS = ("window_tokens", "sliding_layers", "full_layers")
_MLA_FIELDS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_PARAMS_FIELDS = ("routed_expert_total", "routed_expert_active", "non_expert_total", "non_expert_active")


def deployment_spec(
    chip: Chip,
    model: Model,
    *,
    engine: Engine,
    serving: Serving,
    tp: int,
    dp: int = 1,
    pp: int = 1,
    ep: int | None = None,
    precision: str | None = None,
    kv_dtype: str | None = None,
    max_batch: int | None = None,
    chunk_tokens: int | None = None,
    speculation: Mapping[str, float] | None = None,
    stack_factor: float = 1.0,
) -> tuple[dict[str, Any], str, tuple[Notice, ...]]:
    """The spec of one deployment, its precision in words, and what was decided that a reader should know.

    `tp`, `dp`, `pp` and `ep` are the degrees of tensor, attention data, pipeline and expert parallelism; without `ep`
    experts are spread as widely as they divide. `precision` and `kv_dtype` replace the checkpoint's format and the bf16
    cache (`precision.py`), `max_batch` and `chunk_tokens` the serving defaults. `speculation` has `draft_tokens`,
    `acceptance_frac` and `draft_cost_frac`.
    `stack_factor` is a measured stack's steps over the engine's (`stack.py`).

    Raises:
        FactError: a fact that is needed has no value, or a format is unknown.
    """
    power, power_notices = _power(chip)
    formats = catalog.load().formats()
    weights, words, weight_notices = precision_spec(chip, model, formats, precision=precision, kv_dtype=kv_dtype)
    structure, model_notices = _model(model)
    spec: dict[str, Any] = {
        "chip": {
            "memory_bytes": chip.memory_bytes.number,
            "memory_bytes_per_s": chip.memory_bytes_per_s.number,
            "flop_per_s": {rate: chip.flop_per_s[rate].used for rate in ("bf16", "fp8", "fp4")},
            **power,
            "scale_up_bytes_per_s": chip.scale_up.bytes_per_s.number,
            "scale_up_latency_s": chip.scale_up.latency_s.number,
            "domain_chips": _count(chip.scale_up.domain_chips),
            "scale_out_bytes_per_s": chip.scale_out.bytes_per_s.number,
            "scale_out_latency_s": chip.scale_out.latency_s.number,
        },
        "model": structure,
        "precision": weights,
        "layout": {"tp": tp, "dp": dp, "pp": pp, "ep": ep},
        "engine": _engine(engine),
        "serving": {
            "max_batch": max_batch or _count(serving.max_batch),
            "chunk_tokens": chunk_tokens or _count(serving.chunk_tokens),
            "block_tokens": _count(serving.block_tokens),
            "runtime_reserve_bytes": serving.runtime_reserve_bytes.number,
            "collective_buffer_bytes": serving.collective_buffer_bytes.number,
            "collective_buffer_pair_bytes": serving.collective_buffer_pair_bytes.number,
        },
    }
    if stack_factor != 1.0:
        spec["engine"]["stack_factor"] = stack_factor
    if speculation is not None:
        spec["serving"]["speculation"] = dict(speculation)
    return spec, words, (*model_notices, *weight_notices, *power_notices)


def _power(chip: Chip) -> tuple[dict[str, float], tuple[Notice, ...]]:
    """Draws of the chip and the loads that they belong to; a draw that no source gives is the reference chip's share of
    the rated power, with a notice. What a step draws before any work goes with the low load: the reference's share
    where that is, and as parked where only the low load is known.
    """
    draws = {"idle_w": chip.idle_w.number}
    missing = []
    reference = None
    is_own_load = chip.low_load_w is not None and chip.low_load_w.used is not None
    for field in ("parked_w", "active_w", "low_load_w", "high_load_w"):
        fact: Fact | None = getattr(chip, field)
        if fact is None or fact.used is None:
            if field == "active_w" and is_own_load:
                continue
            reference = reference or catalog.load().chip(_REFERENCE_CHIP)
            share = getattr(reference, field).number / reference.tdp_w.number
            draws[field] = max(share * chip.tdp_w.number, *draws.values())
            missing.append(field)
        else:
            draws[field] = fact.number
    order = [field for field in ("idle_w", "parked_w", "active_w", "low_load_w", "high_load_w") if field in draws]
    for less, more in itertools.pairwise(order):
        if draws[more] < draws[less]:
            what = f"{more} {draws[more]:g} W is below {less} {draws[less]:g} W"
            raise FactError(Fault(what, "a chip draws more the more it does", path=f"chips.{chip.name}"))
    general = catalog.load().general()
    shares = {name: general[name].number for name in ("low_load_memory_frac", "high_load_compute_frac")}
    limit = chip.sustained_max_w if chip.sustained_max_w is not None else chip.tdp_w
    draws = {**draws, "max_w": limit.number, **shares}
    if not missing:
        return draws, ()
    text = f"no source gives {', '.join(missing)} of {chip.name}; {_REFERENCE_CHIP}'s share of rated power stands in"
    return draws, (Notice("power_assumed", text),)


def _engine(engine: Engine) -> dict[str, float]:
    """The serving software's figures; what a file leaves out is left to the core's own rule."""
    found = {field: getattr(engine, field).number for field in _ENGINE_FIELDS}
    options: dict[str, Fact | None] = {field: getattr(engine, field) for field in _ENGINE_OPTIONS}
    return found | {field: fact.number for field, fact in options.items() if fact is not None}


def _model(model: Model) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    """The structure of the model, and which of its layers this version treats as plainer ones."""
    n_layers = _count(model.n_layers)
    moe = model.moe.group if model.moe is not None else None
    dense_width = _count(model.ffn_intermediate) if model.ffn_intermediate is not None else 0
    spec: dict[str, Any] = {
        "n_layers": n_layers,
        "attention_layers": n_layers,
        "hidden": _count(model.hidden),
        "n_heads": _count(model.n_heads),
        "vocab": _count(model.vocab),
        "context_tokens": _count(model.context_tokens),
        "attention": _attention(model),
        "ffn_intermediate": dense_width or (moe or {}).get("dense_intermediate") or 0,
        "params": {name: model.params.group[name] for name in _PARAMS_FIELDS},
    }
    if moe is not None:
        spec["moe"] = {name: moe[name] for name in _MOE_FIELDS}
    if model.sliding is not None:
        spec["sliding"] = {name: model.sliding.group[name] for name in _SLIDING_FIELDS}
    notices = []
    if "chunked" in str(model.attention.used):
        text = f"layers of {model.name} that attend inside a chunk are costed as a sliding window of that length"
        notices.append(Notice("chunked_attention", text))
    if model.sparse_attention is not None:
        spec["indexed_layers"] = n_layers
        text = f"the indexer of {model.name} is not modelled: every token attends to its whole context, an upper bound"
        notices.append(Notice("sparse_attention", text))
    recurrent = _recurrent(model)
    if recurrent is not None:
        spec["attention_layers"], spec["recurrent_layers"] = recurrent
        spec["state_bytes_per_sequence"] = model.kv.group["state_bytes_per_sequence"]
        text = f"recurrent layers of {model.name} are costed by their matrices and their state; the scan itself is not"
        notices.append(Notice("recurrent_layers", text))
    return spec, tuple(notices)


def _attention(model: Model) -> dict[str, Any]:
    if model.mla is not None:
        return {"kind": "mla", **{name: model.mla.group[name] for name in _MLA_FIELDS}}
    if model.n_kv_heads is None or model.head_dim is None:
        what = f"{model.name} has neither key-value heads nor a latent"
        raise FactError(Fault(what, "give n_kv_heads and head_dim"))
    return {"kind": "gqa", "n_kv_heads": _count(model.n_kv_heads), "head_dim": _count(model.head_dim)}


def _recurrent(model: Model) -> tuple[object, object] | None:
    """Layers that attend, and layers that keep a state, of a hybrid."""
    if model.linear_attention is not None:
        group = model.linear_attention.group
        return group["full_layers"], group["linear_layers"]
    if model.mamba is not None:
        group = model.mamba.group
        return group["attention_layers"], group["mamba_layers"]
    return None


def _count(fact: Fact) -> int:
    return int(fact.number)

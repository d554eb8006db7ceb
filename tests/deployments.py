"""Deployments for tests of the simulator, written by hand: a toy model whose cache holds as many blocks as wanted."""

from __future__ import annotations

import copy
from typing import Any

import polars as pl

from planner import core
from planner.errors import Infeasible

Spec = dict[str, Any]

TOY: Spec = {
    "chip": {
        "memory_bytes": 1e12,
        "memory_bytes_per_s": 1e9,
        "flop_per_s": {"bf16": 5e9, "fp8": None, "fp4": None},
        "idle_w": 1.0,
        "parked_w": 2.0,
        "low_load_w": 5.0,
        "high_load_w": 10.0,
        "max_w": 9.0,
        "low_load_memory_frac": 0.8,
        "high_load_compute_frac": 0.5,
        "scale_up_bytes_per_s": 1e8,
        "scale_up_latency_s": 5e-6,
        "domain_chips": 8,
        "scale_out_bytes_per_s": 1e8,
        "scale_out_latency_s": 20e-6,
    },
    "model": {
        "n_layers": 4,
        "attention_layers": 4,
        "hidden": 64,
        "n_heads": 4,
        "vocab": 128,
        "context_tokens": 100_000,
        "attention": {"kind": "gqa", "n_kv_heads": 4, "head_dim": 64},
        "sliding": None,
        "moe": None,
        "ffn_intermediate": 128,
        "params": {
            "routed_expert_total": 0.0,
            "routed_expert_active": 0.0,
            "non_expert_total": 1e6,
            "non_expert_active": 1e6,
        },
    },
    "precision": {
        "expert_bytes_per_param": 2.0,
        "rest_bytes_per_param": 2.0,
        "experts_rate": "bf16",
        "rest_rate": "bf16",
        "attention_rate": "bf16",
        "kv_bytes_per_element": 2.0,
    },
    "layout": {"tp": 1, "dp": 1, "pp": 1, "ep": 1},
    "engine": {
        "memory_eff_frac": 0.8,
        "compute_eff_frac": 0.5,
        "prefill_eff_frac": 0.6,
        "kv_read_eff_frac": 0.75,
        "host_s": 100e-6,
        "launch_layer_s": 10e-6,
        "launch_moe_s": 0.0,
        "launch_mla_s": 0.0,
        "launch_sparse_s": 0.0,
        "launch_linear_s": 0.0,
        "collective_base_s": 1e-6,
        "collective_log_s": 4e-6,
        "link_eff_frac": 0.25,
        "expert_skew": 1.0,
    },
    "serving": {
        "max_batch": 64,
        "chunk_tokens": 256,
        "block_tokens": 16,
        "runtime_reserve_bytes": 0.0,
        "collective_buffer_bytes": 0.0,
        "activation_bytes": 0.0,
        "power_cap_w": None,
        "speculation": None,
    },
}
"""A model of a million parameters: a step takes some milliseconds, of which the cache is a part that shows."""

GPT_OSS: Spec = copy.deepcopy(TOY)
"""gpt-oss-120b with MXFP4 experts on four GB200; efficiencies are round numbers."""
GPT_OSS["chip"].update(
    memory_bytes=198_674_743_296.0,
    memory_bytes_per_s=8000e9,
    flop_per_s={"bf16": 2500e12, "fp8": 5000e12, "fp4": 10_000e12},
    idle_w=150.0,
    parked_w=250.0,
    low_load_w=500.0,
    high_load_w=1000.0,
    max_w=1200.0,
    scale_up_bytes_per_s=900e9,
    domain_chips=72,
    scale_out_bytes_per_s=50e9,
)
GPT_OSS["model"].update(
    n_layers=36,
    attention_layers=36,
    hidden=2880,
    n_heads=64,
    vocab=201_088,
    context_tokens=131_072,
    attention={"kind": "gqa", "n_kv_heads": 8, "head_dim": 64},
    sliding={"window_tokens": 128, "sliding_layers": 18, "full_layers": 18},
    moe={"n_experts": 128, "top_k": 4, "n_shared_experts": 0, "expert_intermediate": 2880, "moe_layers": 36},
    ffn_intermediate=0,
    params={
        "routed_expert_total": 114_701_598_720.0,
        "routed_expert_active": 3_584_424_960.0,
        "non_expert_total": 2_127_343_104.0,
        "non_expert_active": 1_548_209_664.0,
    },
)
GPT_OSS["precision"].update(expert_bytes_per_param=0.53125, experts_rate="fp4")
GPT_OSS["layout"].update(tp=4, ep=4)
GPT_OSS["engine"].update(host_s=200e-6, launch_layer_s=20e-6, launch_moe_s=30e-6)
GPT_OSS["serving"].update(
    max_batch=256,
    chunk_tokens=8192,
    runtime_reserve_bytes=3_758_096_384.0,
    collective_buffer_bytes=411_041_792.0,
    activation_bytes=None,
)


def toy(*, blocks: int = 10_000, window: int | None = None, layout: Spec | None = None, **changes: Any) -> Spec:
    """The toy with a cache of at least `blocks` blocks a replica: more only where one step's prompt tokens need it.

    `window` makes half of the layers sliding; `changes` are fields of any section, by their name.
    """
    spec = copy.deepcopy(TOY)
    if window is not None:
        spec["model"]["sliding"] = {"window_tokens": window, "sliding_layers": 2, "full_layers": 2}
    spec["layout"].update(layout or {})
    for name, value in changes.items():
        section = next(s for s in ("serving", "engine", "chip", "model") if name in spec[s])
        spec[section][name] = value
    memory = core.plan(spec)["memory"]
    fixed = memory["capacity_bytes"] - memory["kv_bytes"]
    groups = spec["layout"]["dp"]
    while True:
        cache = -(-blocks // groups) * spec["serving"]["block_tokens"] * memory["kv_bytes_per_token"]
        spec["chip"]["memory_bytes"] = fixed + cache + 1.0
        try:
            core.plan(spec)
        except Infeasible:
            blocks += groups
            continue
        return spec


def cell(
    deployments: list[tuple[Spec, int]] | Spec, *, classes: list[Spec] | None = None, **fields: Any
) -> dict[str, Any]:
    """A simulation spec: deployments with their replicas, a pool each; one class that may use them all."""
    placed = deployments if isinstance(deployments, list) else [(deployments, 1)]
    everywhere = {"limits": [], "targets": [{"deployments": list(range(len(placed))), "share": None}]}
    return {
        "spec_version": 1,
        "seed": 1,
        "warmup_ns": 0,
        "length_ns": 3600 * 10**9,
        "drain_ns": 600 * 10**9,
        "window_ns": 60 * 10**9,
        "router": "round-robin",
        "n_pools": len(placed),
        "classes": classes or [everywhere],
        "deployments": [{"pool_ix": at, "n_replicas": n, "deployment": spec} for at, (spec, n) in enumerate(placed)],
        "keep_requests": True,
    } | fields


def requests(
    rows: list[tuple[int, int, int, int]],
    links: list[tuple[int | None, int]] | None = None,
    sessions: list[int] | None = None,
) -> pl.DataFrame:
    """A request frame of (arrival in ns, class, prompt tokens, answer tokens), and whom each follows after how long."""
    schema = {"arrival_ns": pl.UInt64, "class_ix": pl.UInt16, "input_tokens": pl.UInt32, "output_tokens": pl.UInt32}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    if links is not None:
        after = [2**64 - 1 if row is None else row for row, _ in links]
        frame = frame.with_columns(
            pl.Series("after_row", after, dtype=pl.UInt64),
            pl.Series("delay_ns", [delay for _, delay in links], dtype=pl.UInt64),
        )
    if sessions is not None:
        frame = frame.with_columns(pl.Series("session", sessions, dtype=pl.UInt64))
    return frame


def blocks(hashes: dict[int, list[int]]) -> pl.DataFrame:
    """A table of prompt hashes from those of each row."""
    rows = [(row, each) for row in sorted(hashes) for each in hashes[row]]
    return pl.DataFrame(rows, schema={"row": pl.UInt64, "hash": pl.UInt64}, orient="row")

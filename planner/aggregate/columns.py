"""The columns of a result's tables: every one starts with `variant` and `seed`, and names carry their units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planner.aggregate.latency import METRICS
from planner.aggregate.metrics import STATISTICS
from planner.aggregate.work import COUNTS, FLOATS

if TYPE_CHECKING:
    import polars as pl

Columns = Mapping[str, str]

KEYS: Columns = {"variant": "text", "seed": "seed"}
"""Column -> kind of value (`schema_of`); these two come first in every table."""
_LATENCIES: Columns = {f"{m}_{q}_s": "float" for m in METRICS for q in STATISTICS}
CLASSES: Columns = {
    **KEYS,
    "class": "text",
    "model": "text",
    "offered": "count",
    "completed": "count",
    "rejected": "count",
    "timed_out": "count",
    "cancelled": "count",
    "unfinished": "count",
    "retried": "count",
    "lost": "count",
    "input_tokens": "count",
    "output_tokens": "count",
    "span_offered": "count",
    "span_completed": "count",
    "span_attained": "count",
    "span_single_token": "count",
    "span_tasks": "count",
    "attainment_frac": "float",
    "verdict": "text",
    **_LATENCIES,
}
POOLS: Columns = {
    **KEYS,
    "pool": "text",
    "rack": "text",
    "racks": "count",
    "replicas": "count",
    "chips": "count",
    "idle_chips": "count",
    "busy_frac": "float",
    "mfu_frac": "float",
    "mbu_frac": "float",
    "kv_frac": "float",
    "down_frac": "float",
    "tokens_per_s_in": "float",
    "tokens_per_s_out": "float",
    "tokens_per_s_cached": "float",
    "tokens_per_s_hit": "float",
    "cached_frac": "float",
    "preemptions": "count",
    "bottleneck": "text",
    "chip_rated_w": "float",
    "rack_it_mean_w": "float",
    "rack_it_peak_w": "float",
    "facility_mean_w": "float",
    "facility_peak_w": "float",
    "usd_per_h": "float",
}
DEPLOYMENTS: Columns = {
    **KEYS,
    "pool": "text",
    "model": "text",
    "layout": "text",
    "engine": "text",
    "precision": "text",
    "replicas": "count",
    "chips_per_replica": "count",
    "kv_capacity_tokens": "count",
    **dict.fromkeys(FLOATS, "float"),
    **dict.fromkeys(COUNTS, "count"),
}
WINDOWS: Columns = {
    **KEYS,
    "pool": "text",
    "window_ix": "count",
    "start_s": "float",
    "busy_frac": "float",
    "mfu_frac": "float",
    "mbu_frac": "float",
    "kv_frac": "float",
    "down_frac": "float",
    "chip_w": "float",
    "rack_it_w": "float",
    "facility_w": "float",
    "input_tokens": "count",
    "output_tokens": "count",
    "recomputed_tokens": "count",
    "prefix_hit_tokens": "count",
    "cached_input_tokens": "count",
    "preemptions": "count",
}
CLASS_WINDOWS: Columns = {
    **KEYS,
    "class": "text",
    "window_ix": "count",
    "start_s": "float",
    "offered": "count",
    "completed": "count",
    "rejected": "count",
    "timed_out": "count",
    "cancelled": "count",
    "retried": "count",
    "lost": "count",
    "attained": "count",
}
SKETCHES: Columns = {
    **KEYS,
    "class": "text",
    "pool": "text",
    "metric": "text",
    "class_ix": "code",
    "pool_ix": "code",
    "metric_ix": "code",
    "is_bucket": "code",
    "key_ns": "count64",
    "count": "count64",
    "sum_s": "count64",
    "sum_fs": "count64",
}
COSTS: Columns = {**KEYS, "pool": "text", "part": "text", "usd_per_h": "float", "formula": "text"}
FACTS: Columns = {
    **KEYS,
    "path": "text",
    "unit": "text",
    "value": "float",
    "value_text": "text",
    "low": "float",
    "high": "float",
    "grade": "text",
    "replaces": "text",
    "is_assumed": "truth",
    "source": "text",
    "note": "text",
    "usd_per_h_low": "float",
    "usd_per_h_high": "float",
    "swing_usd_per_h": "float",
}
SOURCES: Columns = {
    **KEYS,
    "source": "text",
    "title": "text",
    "where": "text",
    "kind": "text",
    "read": "text",
    "date": "text",
    "note": "text",
}
SWINGS: Columns = {
    **KEYS,
    "figure": "text",
    "path": "text",
    "grade": "text",
    "is_assumed": "truth",
    "is_simulated": "truth",
    "low": "float",
    "high": "float",
    "figure_low": "float",
    "figure_high": "float",
    "swing": "float",
    "rank_correlation": "float",
}
SAMPLES: Columns = {
    **KEYS,
    "sample_ix": "code32",
    "simulated_ix": "code32",
    "member": "code32",
    "kind": "text",
    "name": "text",
    "value": "float",
}
REQUESTS: Columns = {
    **KEYS,
    "row": "count64",
    "class": "text",
    "fate": "text",
    "replica_ix": "code32",
    "arrival_ns": "count64",
    "start_ns": "count64",
    "first_token_ns": "count64",
    "end_ns": "count64",
    "input_tokens": "code32",
    "output_tokens": "code32",
    "generated_tokens": "code32",
}
TIMELINE: Columns = {
    **KEYS,
    "pool": "text",
    "replica_ix": "code32",
    "begin_ns": "count64",
    "end_ns": "count64",
    "n_decoding": "count64",
    "n_prompts": "count64",
    "steps": "count64",
}
CURVES: Columns = {
    **KEYS,
    "pool": "text",
    "model": "text",
    "layout": "text",
    "role": "text",
    "replicas": "count",
    "chip_rated_w": "float",
    "prompt_tokens": "float",
    "cached_tokens": "float",
    "mean_output_tokens": "float",
    "n_seqs": "count",
    "tpot_s": "float",
    "tokens_per_s_in": "float",
    "tokens_per_s_out": "float",
}
HORIZON_CLASSES: Columns = {
    **KEYS,
    "hour": "count",
    "class": "text",
    "rate_req_per_s": "float",
    "state": "text",
    "attainment_frac": "float",
    "ttft_p95_s": "float",
    "tpot_p95_s": "float",
    "e2e_p95_s": "float",
    "margin_frac": "float",
}
HORIZON_POOLS: Columns = {
    **KEYS,
    "hour": "count",
    "pool": "text",
    "load_frac": "float",
    "rack_it_w": "float",
    "facility_w": "float",
    "tokens_per_s_in": "float",
    "tokens_per_s_out": "float",
}
TABLES: Mapping[str, Columns] = {
    "pools": POOLS,
    "deployments": DEPLOYMENTS,
    "classes": CLASSES,
    "windows": WINDOWS,
    "class_windows": CLASS_WINDOWS,
    "sketches": SKETCHES,
    "costs": COSTS,
    "facts": FACTS,
    "sources": SOURCES,
    "swings": SWINGS,
    "samples": SAMPLES,
    "requests": REQUESTS,
    "timeline": TIMELINE,
    "curves": CURVES,
    "horizon_classes": HORIZON_CLASSES,
    "horizon_pools": HORIZON_POOLS,
}
"""Every table of a result, by the name of its file."""

ON_DEMAND = frozenset({"samples", "requests", "timeline", "curves", "horizon_classes", "horizon_pools"})
"""Tables that are there only where they were asked for, or where the road to a result made them (`curves`)."""


def schema_of(columns: Columns) -> dict[str, pl.DataType]:
    """Column types for polars."""
    import polars as pl

    types: dict[str, pl.DataType] = {
        "text": pl.String(),
        "seed": pl.UInt64(),
        "count": pl.Int64(),
        "count64": pl.UInt64(),
        "code": pl.UInt16(),
        "code32": pl.UInt32(),
        "float": pl.Float64(),
        "truth": pl.Boolean(),
    }
    return {name: types[kind] for name, kind in columns.items()}

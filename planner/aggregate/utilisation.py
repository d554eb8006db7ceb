"""How busy a pool is, in four ways that are never mixed, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.aggregate import metrics
from planner.aggregate.latency import METRICS

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.work import Sums

FRACTIONS = {
    "busy_frac": "busy_chip_s",
    "mfu_frac": "flop_chip_s",
    "mbu_frac": "bytes_chip_s",
    "kv_frac": "kv_chip_s",
    "down_frac": "down_chip_s",
}
"""Utilisation -> the chip time that is divided by the chip time there was."""
_FS_PER_S = 10**15


def fractions(work: Sums, *, placed_chips: int, span_s: float) -> dict[str, float | None]:
    """Busy time, MFU, MBU and KV occupancy of the chips under a replica; None where there are none, or no time."""
    chip_s = placed_chips * span_s
    return {name: work[part] / chip_s if chip_s > 0 else None for name, part in FRACTIONS.items()}


def per_s(count: float, span_s: float) -> float | None:
    """A count as a rate; None over no time."""
    return count / span_s if span_s > 0 else None


def _share(part: float, rest: float) -> float | None:
    """What a part is of the whole that it makes with the rest; None of nothing."""
    return part / (part + rest) if part + rest else None


def wait_frac(sketches: pl.DataFrame, pool_ix: int) -> float | None:
    """Share of the time to the first token that requests of a pool waited before their first step."""
    if sketches.is_empty():
        return None
    mine = sketches.filter(sketches["pool_ix"] == pool_ix)
    waited, first = (_sum_fs(mine, METRICS.index(metric)) for metric in ("queue", "ttft"))
    return waited / first if first else None


def _sum_fs(sketches: pl.DataFrame, metric_ix: int) -> int:
    mine = sketches.filter(sketches["metric_ix"] == metric_ix)
    whole_s: list[int] = mine["sum_s"].to_list()
    rest_fs: list[int] = mine["sum_fs"].to_list()
    return sum(whole_s) * _FS_PER_S + sum(rest_fs)


def bottleneck(work: Sums, used: dict[str, float | None], waited_frac: float | None) -> str:
    """What holds the pool up; `metrics` has the rule and its four thresholds."""
    if not work["busy_chip_s"]:
        return "none"
    prompt_tokens = work["input_tokens"] + work["recomputed_tokens"]
    if work["recomputed_tokens"] > 0 and work["recomputed_tokens"] >= metrics.KV_RECOMPUTED_FRAC * prompt_tokens:
        return "kv"
    is_waiting = (waited_frac or 0.0) > metrics.QUEUE_WAIT_FRAC
    if is_waiting and (used["kv_frac"] or 0.0) >= metrics.KV_FULL_FRAC:
        return "kv"
    if is_waiting and (used["busy_frac"] or 0.0) >= metrics.QUEUE_BUSY_FRAC:
        return "queue"
    return max(("memory", "compute", "network", "launch", "power"), key=lambda name: work[f"{name}_chip_s"])


def pool_figures(work: Sums, *, placed_chips: int, span_s: float, waited_frac: float | None) -> dict[str, Any]:
    """The load of one pool, under the names of the glossary."""
    used = fractions(work, placed_chips=placed_chips, span_s=span_s)
    return {
        **used,
        "tokens_per_s_in": per_s(work["input_tokens"], span_s),
        "tokens_per_s_out": per_s(work["output_tokens"], span_s),
        "tokens_per_s_cached": per_s(work["cached_input_tokens"], span_s),
        "tokens_per_s_hit": per_s(work["prefix_hit_tokens"], span_s),
        "cached_frac": _share(work["cached_input_tokens"], work["input_tokens"]),
        "preemptions": work["preemptions"],
        "bottleneck": bottleneck(work, used, waited_frac),
    }

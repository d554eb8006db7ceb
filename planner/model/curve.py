"""Tokens per user against tokens per replica: what a deployment gives in a steady stream, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner import core

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Point", "Stream", "curve"]

STEPS_PER_DOUBLING = 4
"""Batches at which a curve is read, for each doubling."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The mean request that a deployment serves over and over."""

    prompt_tokens: float
    """Tokens of a prompt that are computed, cached ones left out."""
    cached_tokens: float
    output_tokens: float
    role: str = "mixed"


@dataclass(frozen=True, slots=True)
class Point:
    """One batch of one replica."""

    n_seqs: int
    tpot_s: float | None
    """None for a replica that computes prompts only."""
    tokens_per_s_in: float
    tokens_per_s_out: float


def curve(spec: Mapping[str, Any], plan: Mapping[str, Any], stream: Stream) -> list[Point]:
    """Points of a replica at batches from 1 to the largest that its memory and its cap hold.

    In a steady stream each step of B sequences also carries the prompts of those that replace the ones that end, B /
    output of them: tpot = decode(B) + B / output x (decode(B) with a prompt beside it - decode(B)), as layouts are
    chosen (`planner/model/choose.py`). A decode replica carries no prompts; a prefill replica one prompt after another,
    with one in each of its pipeline stages.
    """
    import polars as pl

    prompt, output = max(1, round(stream.prompt_tokens)), max(1.0, stream.output_tokens)
    cached = round(stream.cached_tokens)
    if stream.role == "prefill":
        n_stages = spec["layout"]["pp"]
        loads = pl.concat([_loads(spec, [0], prompt, cached, 0)] * n_stages)
        step_s = core.step_times(spec, loads.with_columns(load_ix=pl.lit(0, pl.UInt64)))["time_s"].to_list()[0]
        return [Point(1, None, n_stages * prompt / step_s, 0.0)]
    most = _most(spec, plan, stream.prompt_tokens + cached + output)
    batches = _batches(most)
    context = round(stream.prompt_tokens + cached + output / 2)
    bare = core.step_times(spec, _loads(spec, batches, 0, cached, context))["time_s"].to_list()
    mixed = core.step_times(spec, _loads(spec, batches, prompt, cached, context))["time_s"].to_list()
    points = []
    for n_seqs, decode, both in zip(batches, bare, mixed, strict=True):
        share = 0.0 if stream.role == "decode" else n_seqs / output
        tpot = decode + share * (both - decode)
        per_s = n_seqs / tpot
        points.append(Point(n_seqs, tpot, 0.0 if stream.role == "decode" else per_s * prompt / output, per_s))
    return points


def _most(spec: Mapping[str, Any], plan: Mapping[str, Any], tokens: float) -> int:
    """Sequences of `tokens` that run at once; a window counts in tokens of the full layers, as blocks do."""
    sliding = spec["model"].get("sliding")
    if sliding:
        tokens += min(tokens, sliding["window_tokens"]) * sliding["sliding_layers"] / sliding["full_layers"]
    return max(1, min(int(spec["serving"]["max_batch"]), int(plan["kv_capacity_tokens"] / max(1.0, tokens))))


def _batches(most: int) -> list[int]:
    """1 .. most, ever further apart, without powers of two that another machine might round otherwise."""
    found, batch = [], 1
    while batch < most:
        found.append(batch)
        batch += max(1, batch // STEPS_PER_DOUBLING)
    return [*found, most]


def _loads(spec: Mapping[str, Any], batches: list[int], chunk: int, past: int, context: int) -> pl.DataFrame:
    import polars as pl

    sliding = spec["model"].get("sliding")
    window = int(sliding["window_tokens"]) if sliding else 0
    columns = {
        "n_seqs": batches,
        "context_tokens": [n * context for n in batches],
        "window_tokens": [n * min(context, window) for n in batches],
        "n_growing_in_window": [0] * len(batches),
        "chunk_tokens": [chunk] * len(batches),
        "chunk_past_tokens": [past if chunk else 0] * len(batches),
    }
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.UInt64))

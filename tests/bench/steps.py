"""Steps costed a second on one core, through the table that Python calls (`core.step_times`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from planner import core

N_STEPS = 100_000
"""Of one table: as many as a search over layouts and batches costs."""
N_TABLES = 20


def main(deployment: Mapping[str, Any], say: Callable[[str, float, str, float], None]) -> None:
    """Print the figures: decoding alone, and each step with a prompt's chunk; `ratio` is the time against the first."""
    first: float | None = None
    for name, chunk in (("decode", 0), ("with_chunk", 512)):
        batches = frame(chunk)
        start_s = time.perf_counter()
        for _ in range(N_TABLES):
            core.step_times(dict(deployment), batches)
        spent_s = time.perf_counter() - start_s
        first = first or spent_s
        say(f"step_times_per_s_{name}", N_TABLES * N_STEPS / spent_s, "steps/s", spent_s / first)


def frame(chunk: int) -> pl.DataFrame:
    """Batches of 1 to 512 sequences at contexts that differ, each with one chunk of a prompt or none."""
    ix = pl.int_range(0, N_STEPS, dtype=pl.UInt64, eager=True)
    n_seqs = ix % 512 + 1
    return pl.DataFrame(
        {
            "load_ix": ix,
            "n_seqs": n_seqs,
            "context_tokens": n_seqs * (ix % 4096 + 1),
            "window_tokens": ix * 0,
            "n_growing_in_window": ix * 0,
            "chunk_tokens": ix * 0 + chunk,
            "chunk_past_tokens": ix * 0,
        }
    )

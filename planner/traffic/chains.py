"""Requests that wait for others: sessions, agents' tasks and closed loops.

A row has the row that it comes after and the pause in between; a row without one has `NO_ROW` there.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from planner import core
from planner.errors import Notice
from planner.scenario.schema import TrafficClass
from planner.traffic import laws, synthetic
from planner.traffic.schema import NO_ROW, NO_SESSION

if TYPE_CHECKING:
    import polars as pl

FASTEST_TOKEN_S = 1e-3
"""A closed loop without a number of requests has as many as replicas that give a token in this time could serve."""


def is_chained(cls: TrafficClass) -> bool:
    """Whether requests of the class wait for others."""
    return cls.sessions is not None or cls.agents is not None or cls.arrivals == "closed"


def per_start(cls: TrafficClass) -> float:
    """Mean requests of a session or task; 1 for a class without."""
    found = cls.sessions.turns if cls.sessions else cls.agents.steps if cls.agents else None
    return found.mean_turns if found else 1.0


def head_tokens(cls: TrafficClass) -> int:
    """Tokens that all sessions or tasks of the class begin with."""
    found = cls.sessions or cls.agents
    return found.system or 0 if found else 0


def draw(
    cls: TrafficClass, *, key: int, seed: int, length_ns: int, base_dir: Path, context_tokens: int | None
) -> tuple[pl.DataFrame, tuple[Notice, ...]]:
    """The requests of a chained class, columns of `schema.chain_schema`, and what is worth saying about them."""
    if cls.arrivals == "closed":
        return _closed(cls, key=key, seed=seed, length_ns=length_ns, base_dir=base_dir, context_tokens=context_tokens)
    return _sessions(cls, key=key, seed=seed, length_ns=length_ns, base_dir=base_dir, context_tokens=context_tokens)


def _sessions(
    cls: TrafficClass, *, key: int, seed: int, length_ns: int, base_dir: Path, context_tokens: int | None
) -> tuple[pl.DataFrame, tuple[Notice, ...]]:
    import polars as pl

    assert cls.input is not None
    assert cls.output is not None
    turns, between = (
        (cls.sessions.turns, cls.sessions.think) if cls.sessions else (cls.agents.steps, cls.agents.tool)  # type: ignore[union-attr]
    )
    frame = core.sample(
        {
            "kind": "sessions",
            "starts": laws.arrivals(cls, key=key, seed=seed, length_ns=length_ns, per_start=per_start(cls)),
            "turns": laws.turns(turns),
            "pause": laws.pause(between),
            "input": synthetic.dist_spec(cls.input, base_dir),
            "output": synthetic.dist_spec(cls.output, base_dir),
            "head_tokens": head_tokens(cls),
            "context_tokens": context_tokens,
        }
    )
    notices = synthetic.redrawn_notice(int((frame["redraws"] > 0).sum()), frame.height, context_tokens)
    cut = frame.filter(pl.col("lost_turns") > 0)
    if cut.height:
        n_sessions = int(frame["session"].n_unique())
        message = (
            f"{cut.height:,} of {n_sessions:,} sessions end at the model's context of {context_tokens:,} tokens: "
            f"{int(cut['lost_turns'].sum()):,} turns are not asked"
        )
        notices = (*notices, Notice("context_end", message))
    return frame.drop("redraws", "lost_turns").with_columns(pl.col("arrival_ns").cast(pl.Int64)), notices


def _closed(
    cls: TrafficClass, *, key: int, seed: int, length_ns: int, base_dir: Path, context_tokens: int | None
) -> tuple[pl.DataFrame, tuple[Notice, ...]]:
    """Requests of `concurrency` clients, in waves: request k comes after request k - concurrency."""
    import polars as pl

    assert cls.concurrency is not None
    n = closed_requests(cls, length_ns, key=key, seed=seed, base_dir=base_dir)
    lengths = synthetic.draw_lengths(cls, key=key, seed=seed, n=n, base_dir=base_dir, context_tokens=context_tokens)
    n_redrawn = int((lengths["redraws"] > 0).sum())
    row = pl.int_range(pl.len(), dtype=pl.UInt64)
    is_first = row < cls.concurrency
    delay = pl.lit(0, pl.UInt64)
    if cls.think is not None:
        spec = {"kind": "pauses", "seed": seed, "key": key, "n": n, "pause": laws.pause(cls.think)}
        delay = pl.lit(core.sample(spec)["delay_ns"])
    frame = lengths.select(
        pl.lit(0, pl.Int64).alias("arrival_ns"),
        "input_tokens",
        "output_tokens",
        pl.when(is_first).then(NO_ROW).otherwise(row - cls.concurrency).cast(pl.UInt64).alias("after_row"),
        pl.when(is_first).then(0).otherwise(delay).cast(pl.UInt64).alias("delay_ns"),
        pl.lit(NO_SESSION, pl.UInt64).alias("session"),
    )
    return frame, synthetic.redrawn_notice(n_redrawn, n, context_tokens)


def closed_requests(cls: TrafficClass, length_ns: int, *, key: int, seed: int, base_dir: Path) -> int:
    """How many requests a closed loop has: those asked for, or more than any replicas could serve in the time."""
    assert cls.concurrency is not None
    if cls.requests is not None:
        return cls.requests
    sample = synthetic.draw_lengths(cls, key=key, seed=seed, n=1_000, base_dir=base_dir)
    mean_output = int(sample["output_tokens"].sum()) / sample.height
    waves = math.ceil(length_ns / laws.NS_PER_S / (mean_output * FASTEST_TOKEN_S)) + 1
    return cls.concurrency * waves

"""Latencies of a run's batches, as the core has them: what to ask it for, and what they say.

One long run has an interval by its batches (`aggregate/batches.py`), and a quantile is no sum of windows: the core
keeps a sketch of each batch. They merge as all sketches do: what would be a class is here a class and a batch, and
behind the metrics come counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import core

if TYPE_CHECKING:
    import polars as pl

MOST_SKETCHES = 100_000
"""Of a cell, so that they take no more than some 100 MB; with more classes, pools and batches there are none."""
COUNTS = ("offered", "single_token", "tasks")
"""What is counted of each batch, in the order in which it comes behind the metrics."""


def plan(*, first_ns: int, each_ns: int, n: int, n_classes: int, n_pools: int) -> dict[str, int] | None:
    """What the core is asked for; None where it would be too much."""
    if n * n_classes * n_pools * len(core.METRICS) > MOST_SKETCHES:
        return None
    return {"first_ns": first_ns, "each_ns": each_ns, "n": n}


def of_first(found: pl.DataFrame, n_classes: int, n_all: int) -> pl.DataFrame:
    """The sketches of the first `n_classes` of `n_all` classes alone."""
    import polars as pl

    place = pl.col("class_ix")
    own = place // n_all * n_classes + place % n_all
    return found.filter(place % n_all < n_classes).with_columns(own.cast(found.schema["class_ix"]))


def of_batch(found: pl.DataFrame, ix: int, n_classes: int) -> tuple[pl.DataFrame, dict[str, list[int]]]:
    """The sketches of one batch by class, and by class what it counted."""
    import polars as pl

    own = found.filter(pl.col("class_ix") // n_classes == ix).with_columns(pl.col("class_ix") % n_classes)
    n_metrics = len(core.METRICS)
    counts: dict[str, list[int]] = {}
    for code, name in enumerate(COUNTS, start=n_metrics):
        rows: dict[Any, int] = dict(own.filter(pl.col("metric_ix") == code).select("class_ix", "count").iter_rows())
        counts[name] = [rows.get(class_ix, 0) for class_ix in range(n_classes)]
    return own.filter(pl.col("metric_ix") < n_metrics), counts

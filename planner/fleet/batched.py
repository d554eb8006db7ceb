"""Latencies of a run's batches: a sketch of each, made of the rows of its requests where they were simulated.

One long run has an interval by its batches (`aggregate/batches.py`), and a quantile is no sum of windows. So the core
keeps a row a request, the rows become sketches of their batch, and only these leave the cell. They merge as all
sketches do: what would be the class of a row is here its class and batch, and two further metrics count requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner import core

if TYPE_CHECKING:
    import polars as pl

MOST_REQUESTS = 2_000_000
"""Of a cell; with more their rows would take too much memory, about 150 bytes each."""
METRICS = ("ttft", "tpot", "e2e", "queue")
"""What a row of a request tells."""
OFFERED, SINGLE = len(core.METRICS), len(core.METRICS) + 1
"""In place of a metric: requests that were offered in a batch, and those of them with one output token."""


def plan(*, first_ns: int, each_ns: int, n: int, n_classes: int) -> dict[str, int]:
    """What `sketches` needs, beside the spec that the core sees."""
    return {"first_ns": first_ns, "each_ns": each_ns, "n": n, "n_classes": n_classes}


def sketches(requests: pl.DataFrame, of: Mapping[str, int]) -> pl.DataFrame:
    """The sketches of each class in each batch, `class_ix` being batch x classes + class."""
    import polars as pl

    batch = (pl.col("arrival_ns").cast(pl.Int64) - of["first_ns"]) // of["each_ns"]
    own = requests.filter((pl.col("class_ix") < of["n_classes"]) & (batch >= 0) & (batch < of["n"])).with_columns(
        class_ix=(batch * of["n_classes"] + pl.col("class_ix")).cast(pl.UInt16)
    )
    gaps = pl.col("output_tokens").cast(pl.Int64) - 1
    decode = pl.col("end_ns").cast(pl.Int64) - pl.col("first_token_ns").cast(pl.Int64)
    arrival = pl.col("arrival_ns").cast(pl.Int64)
    values = {
        "ttft": pl.col("first_token_ns").cast(pl.Int64) - arrival,
        "tpot": pl.when(gaps > 0).then((decode + gaps // 2) // gaps),
        "e2e": pl.col("end_ns").cast(pl.Int64) - arrival,
        "queue": pl.col("start_ns").cast(pl.Int64) - arrival,
    }
    found = []
    for name in METRICS:  # one after the other: many rows become few
        rows = _rows(own.select("class_ix", key_ns=values[name]).drop_nulls(), core.METRICS.index(name))
        found.append(core.merged_sketches([rows]))
    for code, counted in ((OFFERED, own), (SINGLE, own.filter(gaps == 0, pl.col("end_ns").is_not_null()))):
        counts = counted.group_by("class_ix").agg(count=pl.len()).sort("class_ix")
        found.append(_rows(counts.with_columns(key_ns=0), code))
    return core.merged_sketches(found)


def _rows(values: pl.DataFrame, metric_ix: int) -> pl.DataFrame:
    """Values in nanoseconds, once or as often as they `count`, as the core's sketches have them."""
    import polars as pl

    key = pl.col("key_ns").cast(pl.UInt64)
    return values.select(
        "class_ix",
        pool_ix=pl.lit(0, pl.UInt16),
        metric_ix=pl.lit(metric_ix, pl.UInt16),
        is_bucket=pl.lit(0, pl.UInt16),
        key_ns=key,
        count=pl.col("count").cast(pl.UInt64) if "count" in values.columns else pl.lit(1, pl.UInt64),
        sum_s=key // 10**9,
        sum_fs=key % 10**9 * 10**6,
    )


def of_batch(found: pl.DataFrame, ix: int, n_classes: int) -> tuple[pl.DataFrame, dict[str, list[int]]]:
    """The sketches of one batch by class, and by class the requests: `offered`, and `single_token`."""
    import polars as pl

    own = found.filter(pl.col("class_ix") // n_classes == ix).with_columns(pl.col("class_ix") % n_classes)
    counts: dict[str, list[int]] = {}
    for name, code in (("offered", OFFERED), ("single_token", SINGLE)):
        rows: dict[Any, int] = dict(own.filter(pl.col("metric_ix") == code).select("class_ix", "count").iter_rows())
        counts[name] = [rows.get(class_ix, 0) for class_ix in range(n_classes)]
    return own.filter(pl.col("metric_ix") < OFFERED), counts

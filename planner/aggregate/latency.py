"""Latency of a class: means and quantiles off the merged sketches, never an average of quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.aggregate.metrics import STATISTICS

if TYPE_CHECKING:
    import polars as pl

METRICS = ("ttft", "tpot", "itl", "e2e", "queue", "task")
"""Latency metrics, in the order of the core's `metric_ix`."""
QUANTILES = {name: None if name == "mean" else int(name[1:]) / 100 for name in STATISTICS}
"""Statistic -> quantile; None is the mean."""

Latencies = dict[str, dict[str, float | None]]


def latencies(sketches: pl.DataFrame, n_classes: int) -> list[Latencies]:
    """For each class `ttft_s`, `tpot_s`, ... -> mean and quantiles in seconds, of the requests that have the value."""
    from planner import core

    queries = [
        core.Query(class_ix, metric, quantile)
        for class_ix in range(n_classes)
        for metric in METRICS
        for quantile in QUANTILES.values()
    ]
    answers = iter(core.quantiles(sketches, queries))
    return [
        {f"{metric}_s": {name: next(answers) for name in QUANTILES} for metric in METRICS} for _ in range(n_classes)
    ]


def quantiles_of(
    sketches: pl.DataFrame, asked: Sequence[tuple[int, str, float, int, int | None]]
) -> list[float | None]:
    """Quantiles over populations: (class, metric, quantile, members below every value, size or None = with a value)."""
    from planner import core

    queries = [
        core.Query(class_ix, metric, quantile, n_low, n_total) for class_ix, metric, quantile, n_low, n_total in asked
    ]
    return core.quantiles(sketches, queries)

"""Windows -> hours -> days: lazily, streaming, and to the same bytes in whatever order the rows come.

Counts are added up. Shares and powers are means over all windows of the hour or day: they are added as whole numbers
(shares in 2^-40, watts in 2^-10), since float sums hang on the order of the rows. A window without a row had no work:
it counts as 0 in shares; what a parked pool draws is not in the table, so a power is null where a window has no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planner.errors import Fault, ScenarioError

if TYPE_CHECKING:
    import polars as pl

SPANS = {"hour": 3_600.0, "day": 86_400.0}
_SHARE = 2.0**40
_WATT = 2.0**10
_KEYS = ("variant", "seed", "pool", "class")


def windows_in(span: str, window_s: float) -> int:
    """How many windows a span has. Raises `ScenarioError` where windows do not fill it."""
    n = round(SPANS[span] / window_s)
    if n < 1 or abs(n * window_s - SPANS[span]) > 1e-9:
        what = f"windows of {window_s:g} s do not fill {'an' if span == 'hour' else 'a'} {span}"
        raise ScenarioError(Fault(what, "set run.window to a part of it, as 60 s", path="run.window"))
    return n


def rollup(
    windows: pl.LazyFrame, *, n_in: int, n_windows: Mapping[tuple[str, int], int], window_s: float
) -> pl.LazyFrame:
    """Rows of `windows` or `class_windows` by stretches of `n_in` windows, sorted by what they are of.

    `n_windows` says for each variant and seed how many windows its run has. The columns are those of the table, with
    `span_ix` for `window_ix`.
    """
    import polars as pl

    schema = windows.collect_schema()
    keys = [name for name in _KEYS if name in schema]
    counts = [name for name, kind in schema.items() if kind == pl.Int64 and name != "window_ix"]
    shares = [name for name in schema if name.endswith("_frac")]
    watts = [name for name in schema if name.endswith("_w")]
    runs = pl.LazyFrame(
        [(variant, seed, n) for (variant, seed), n in n_windows.items()],
        schema={"variant": schema["variant"], "seed": schema["seed"], "n_run": pl.Int64},
        orient="row",
    )
    whole = [
        (pl.col(name) * scale).round().cast(pl.Int64).alias(name)
        for names, scale in ((shares, _SHARE), (watts, _WATT))
        for name in names
    ]
    summed = (
        windows.with_columns((pl.col("window_ix") // n_in).alias("span_ix"), *whole)
        .group_by(*keys, "span_ix")
        .agg(*(pl.col(name).sum() for name in (*counts, *shares, *watts)), pl.len().cast(pl.Int64).alias("n_rows"))
        .join(runs, on=["variant", "seed"], how="left")
    )
    first = pl.col("span_ix") * n_in
    n_there = pl.max_horizontal(pl.min_horizontal(first + n_in, "n_run") - first, "n_rows")
    is_full = pl.col("n_rows") == n_there
    return summed.select(
        *keys,
        "span_ix",
        (first * window_s).alias("start_s"),
        *((pl.col(name) / n_there / _SHARE).alias(name) for name in shares),
        *(pl.when(is_full).then(pl.col(name) / n_there / _WATT).alias(name) for name in watts),
        *counts,
    ).sort(*keys, "span_ix")

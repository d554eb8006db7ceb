"""What a trace holds, in figures: the account of its rows, sums, quantiles, how its arrivals are spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.traffic.schema import Trace

if TYPE_CHECKING:
    import polars as pl

_QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_LISTED_WHOLE = 20
"""A trace of at most so many requests is listed whole beside its figures."""


def inspect(trace: Trace) -> dict[str, Any]:
    """The figures of a trace by name; what the trace does not have is absent, what is undefined is None.

    Times are seconds, rates requests per second; quantiles interpolate linearly; `gap_cv` is the standard deviation
    of the gaps between arrivals (over n) divided by their mean.
    """
    figures: dict[str, Any] = {
        "format": trace.format,
        "aggregate": trace.is_aggregate,
        "rows_read": trace.rows_read,
        "rejected": trace.rejected,
        "warnings": [notice.code for notice in trace.warnings],
        "out_of_order_rows": trace.out_of_order_rows,
        "bad_line_numbers": list(trace.bad_line_numbers),
    }
    return figures | (trace.totals if trace.is_aggregate else _of_requests(trace))


def _of_requests(trace: Trace) -> dict[str, Any]:
    requests = trace.requests
    duration_s = trace.span_ns / 1e9
    figures: dict[str, Any] = {
        "n_requests": trace.n_requests,
        "sum_input_tokens": int(requests["input_tokens"].sum()),
        "sum_output_tokens": int(requests["output_tokens"].sum()),
        "duration_s": duration_s,
        "mean_rate_req_per_s": trace.n_requests / duration_s if trace.span_ns else None,
        "input": _lengths(requests["input_tokens"]),
        "output": _lengths(requests["output_tokens"]),
    }
    if "cached_input_tokens" in requests.columns:
        cached = int(requests["cached_input_tokens"].sum())
        figures["sum_cached_input_tokens"] = cached
        figures["sum_uncached_input_tokens"] = figures["sum_input_tokens"] - cached
    if trace.block_tokens is not None:
        hits = prefix_hit_tokens(requests, trace.block_tokens)
        figures["block_tokens"] = trace.block_tokens
        figures["prefix_hit_tokens_infinite_cache"] = hits
        figures["prefix_hit_frac_infinite_cache"] = hits / figures["sum_input_tokens"]
    for name in ("class", "model"):
        if name in requests.columns:
            counted = requests[name].fill_null("").value_counts(sort=True).head(50)
            figures[f"by_{name}"] = {
                str(key): int(n) for key, n in sorted(counted.iter_rows(), key=lambda p: (-p[1], p[0]))
            }
    return figures | _arrivals(requests)


def _lengths(tokens: pl.Series) -> dict[str, float]:
    figures: dict[str, Any] = {"min": tokens.min(), "mean": int(tokens.sum()) / tokens.len()}
    figures |= {f"p{round(q * 100):02d}": tokens.quantile(q, interpolation="linear") for q in _QUANTILES}
    return figures | {"max": tokens.max()}


def _arrivals(requests: pl.DataFrame) -> dict[str, Any]:
    arrivals = requests["arrival_ns"]
    gaps = arrivals.diff().drop_nulls()
    figures: dict[str, Any] = {
        "gap_cv": gap_cv(gaps),
        "longest_gap_s": int(gaps.max()) / 1e9 if gaps.len() else None,  # type: ignore[arg-type]
        "peak_requests_in_any_60_s": peak_requests(arrivals, 60 * 10**9),
    }
    if arrivals.len() <= _LISTED_WHOLE:
        figures["arrivals_s"] = [ns / 1e9 for ns in arrivals.to_list()]
        figures["gaps_ns"] = gaps.to_list()
        figures["input_tokens_in_time_order"] = requests["input_tokens"].to_list()
    return figures


def gap_cv(gaps: pl.Series) -> float | None:
    """Coefficient of variation of gaps in nanoseconds; None without a gap above 0."""
    import numpy as np

    values = gaps.to_numpy().astype(np.float64)
    mean = values.mean() if values.size else 0.0
    return float(values.std() / mean) if mean > 0 else None


def peak_requests(arrivals: pl.Series, window_ns: int) -> int:
    """The most arrivals in any half-open window of `window_ns`; `arrivals` does not fall."""
    import numpy as np

    times = arrivals.to_numpy()
    upto = np.searchsorted(times, times + window_ns, side="left")
    return int((upto - np.arange(times.size)).max())


def prefix_hit_tokens(requests: pl.DataFrame, block_tokens: int) -> int:
    """Prompt tokens that a prefix cache without bounds would have held already, requests taken one after the other.

    A request hits the leading run of its blocks that an earlier request had; its last block may be a partial one.
    """
    return int(prefix_hits(requests, block_tokens).sum())


def prefix_hits(requests: pl.DataFrame, block_tokens: int) -> pl.Series:
    """`prefix_hit_tokens` of each request."""
    import polars as pl

    frame = requests.select("input_tokens", "hash_ids").with_row_index("request")
    blocks = frame.select("request", "hash_ids").explode("hash_ids").drop_nulls()
    first = blocks.group_by("hash_ids").agg(pl.col("request").min().alias("first"))
    seen = blocks.join(first, on="hash_ids", how="left", maintain_order="left").select(
        "request", (pl.col("first") < pl.col("request")).alias("seen")
    )
    runs = seen.select("request", pl.col("seen").cast(pl.Int64).cum_min().over("request").alias("n"))
    hit = runs.group_by("request").agg(pl.col("n").sum().alias("blocks"))
    joined = frame.join(hit, on="request", how="left", maintain_order="left")
    tokens = pl.min_horizontal(pl.col("blocks").fill_null(0) * block_tokens, pl.col("input_tokens").cast(pl.Int64))
    return joined.select(tokens.alias("hit_tokens")).to_series()

"""What a replay comes to: errors, requests one by one, and what ran second by second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.model.replay import METRICS, Replayed, Run, errors

if TYPE_CHECKING:
    import polars as pl

__all__ = ["per_request", "result_of"]

_COUNTS = ("steps", "preemptions", "recomputed_tokens", "prefix_hit_tokens")


def result_of(
    run: Run,
    replayed: Replayed,
    fitted: Mapping[str, float] | None,
    n_fitted: int | None,
    band: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The tree that `planner validate --requests --json` gives; `band` is that of a replay without a fit."""
    work = replayed.windows
    return {
        "chip": run.chip,
        "requests": run.requests.height,
        "requests_left_out": run.n_left_out,
        "fit_first": n_fitted,
        "fitted": None if fitted is None else dict(fitted),
        "error_frac": errors(run.measured, replayed.requests),
        "measured_mean": {metric: run.measured[metric].mean() for metric in METRICS},
        "simulated_mean": {metric: replayed.requests[metric].mean() for metric in METRICS},
        "band": None if band is None else dict(band),
        "simulated_counts": {name: int(work[name].sum()) for name in _COUNTS},
        "per_request": per_request(run, replayed).to_dicts(),
        "timeseries": timeseries(run, replayed).to_dicts(),
    }


def per_request(run: Run, replayed: Replayed) -> pl.DataFrame:
    """Each request's measured and simulated times, in the order of arrival."""
    import polars as pl

    simulated = replayed.requests.select(METRICS)
    return pl.concat(
        [
            run.requests.select("request_id", "queued_s", "input_tokens", "output_tokens"),
            run.measured.rename({metric: f"measured_{metric}" for metric in METRICS}),
            simulated.rename({metric: f"simulated_{metric}" for metric in METRICS}),
        ],
        how="horizontal",
    )


def timeseries(run: Run, replayed: Replayed) -> pl.DataFrame:
    """At each second: how many ran and waited, measured and simulated, and the simulated work of the second before."""
    import polars as pl

    sides = {"measured": run.requests, "simulated": replayed.requests}
    end_s = max(float(side["last_token_s"].max() or 0.0) for side in sides.values())  # type: ignore[arg-type]
    seconds = pl.Series(range(1, int(end_s) + 2), dtype=pl.Int64)
    columns: dict[str, Any] = {"t_s": seconds}
    for name, side in sides.items():
        begun = {each: side[each].sort() for each in ("queued_s", "scheduled_s", "last_token_s")}
        counts = {each: times.search_sorted(seconds.cast(pl.Float64), side="right") for each, times in begun.items()}
        columns[f"{name}_running"] = counts["scheduled_s"].cast(pl.Int64) - counts["last_token_s"].cast(pl.Int64)
        columns[f"{name}_waiting"] = counts["queued_s"].cast(pl.Int64) - counts["scheduled_s"].cast(pl.Int64)
    work = replayed.windows.select(
        t_s=pl.col("window_ix").cast(pl.Int64) + 1,
        simulated_input_tokens=pl.col("input_tokens") + pl.col("recomputed_tokens"),
        simulated_output_tokens="output_tokens",
        simulated_kv_frac=pl.col("kv_token_s") / replayed.kv_capacity_tokens,
    )
    return pl.DataFrame(columns).join(work, on="t_s", how="left", maintain_order="left").fill_null(0)

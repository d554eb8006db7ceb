"""Which points of a sweep are worth having, and how far off each may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planner.model import bands, trust
from planner.model.calibration import Calibration
from planner.model.posterior import Posterior
from planner.model.sweep import Lengths, Pool
from planner.model.trust import Trust

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CHARTS", "mark", "with_bands", "without_losers"]

CHARTS: Mapping[str, tuple[str, str]] = {
    "tok_s_chip": ("tbt_s", "tok_s_chip"),
    "e2e": ("e2e_s", "tok_s_chip"),
    "chip_rated": ("tbt_s", "mixed_tok_s_kw_chip_rated"),
    "rack_it": ("tbt_s", "mixed_tok_s_kw_rack_it"),
    "facility": ("tbt_s", "mixed_tok_s_kw_facility"),
    "usd": ("tbt_s", "usd_per_mtok"),
}
"""Charts by name: a time, and what is had for it; of the cost, less is more."""
_CURVE = ("chip", "stack", "regime")
MOST_BUSY = 1.25
"""Work of a pool of prompts over its time."""


def mark(points: pl.DataFrame) -> pl.DataFrame:
    """Adds `pareto`, whether no other point of the same chip has a shorter time between tokens and more tokens a second
    and chip, and `pareto_of`, the charts on whose curve (of one chip, stack and regime) the point lies.
    """
    import polars as pl

    points = points.with_row_index("row")
    on: dict[int, list[str]] = {}
    for part in points.partition_by(_CURVE, maintain_order=True):
        for name, (time, gain) in CHARTS.items():
            for row in _unbeaten(part, time, gain):
                on.setdefault(row, []).append(name)
    best = {
        row
        for part in points.partition_by("chip", maintain_order=True)
        for row in _unbeaten(part, "tbt_s", "tok_s_chip")
    }
    rows = points["row"].to_list()
    return points.drop("row").with_columns(
        pl.Series("pareto", [row in best for row in rows]),
        pl.Series("pareto_of", [on.get(row, []) for row in rows], dtype=pl.List(pl.Utf8)),
    )


def _unbeaten(points: pl.DataFrame, time: str, gain: str) -> list[int]:
    """Rows that no other beats in both; of equals, the first."""
    is_cost = gain == "usd_per_mtok"
    table = points.select("row", time, gain).sort([time, gain, "row"], descending=[False, not is_cost, False])
    found, best = [], None
    for row, _, value in table.rows():
        if value is None:
            continue
        if best is None or (value < best if is_cost else value > best):
            found.append(row)
            best = value
    return found


def without_losers(points: pl.DataFrame) -> pl.DataFrame:
    """One point for each layout and number of clients: the workers that make most of a layout's chips. Clients who only
    lengthen the queue of a pool of prompts are left out.
    """
    import polars as pl

    keys = [*_CURVE, "engine", "mode", "tp", "dp", "pp", "concurrency"]
    order = points.filter(pl.col("prefill_busy_frac") <= MOST_BUSY).with_row_index("row")
    order = order.sort(["tok_s_chip", "row"], descending=[True, False])
    return order.unique(keys, keep="first", maintain_order=True).sort("row").drop("row")


def with_bands(
    points: pl.DataFrame, pool: Pool, lengths: Lengths, precision: str, calibration: Calibration, posterior: Posterior
) -> pl.DataFrame:
    """Adds the 80 % band of each time and of the rate, and the grade.

    A measured or pooled stack has the band of its regime in the calibration. The inferred chip has that of the
    posterior's figures: of the time between tokens at low load, and beyond that the wider of it and of the peak's.
    """
    import polars as pl

    stages = pl.max_horizontal("pp", "prefill_pp")
    rows = points.select("stack", "engine", "mode", "concurrency", stages).rows()
    drafts = (pool.spec["serving"].get("speculation") or {}).get("draft_tokens")
    known: dict[tuple[str, str, str, int, int], Trust] = {}
    factors, grades = [], []
    for stack, engine, mode, clients, pp in rows:
        key = (stack, engine, mode, bands.range_of(clients), pp)
        if key not in known:
            if stack == "inferred":
                known[key] = trust.inferred(pool.model.name, clients, posterior)
            else:
                row = {
                    "chip": pool.chip.name,
                    "model": pool.model.name,
                    "backend": engine if stack == "measured" else "",
                    "precision": precision,
                    "mode": mode,
                    "concurrency": float(clients),
                    "pp": pp,
                    "draft_tokens": drafts,
                }
                known[key] = trust.measured(row, calibration)
        factors.append((*known[key].tpot, *known[key].ttft))
        grades.append(known[key].grade)
    table = pl.DataFrame(factors, schema=["tbt_lo", "tbt_hi", "ttft_lo", "ttft_hi"], orient="row")
    decode_s = (lengths.mean_output - 1.0) * pl.col("tbt_s")
    return (
        pl.concat([points, table], how="horizontal")
        .with_columns(
            tbt_low_s=pl.col("tbt_s") * pl.col("tbt_lo"),
            tbt_high_s=pl.col("tbt_s") * pl.col("tbt_hi"),
            ttft_low_s=pl.col("ttft_s") * pl.col("ttft_lo"),
            ttft_high_s=pl.col("ttft_s") * pl.col("ttft_hi"),
            e2e_low_s=pl.col("ttft_s") * pl.col("ttft_lo") + decode_s * pl.col("tbt_lo"),
            e2e_high_s=pl.col("ttft_s") * pl.col("ttft_hi") + decode_s * pl.col("tbt_hi"),
            grade=pl.Series(grades),
        )
        .with_columns(
            tok_s_chip_low=pl.col("tok_s_chip") * pl.col("e2e_s") / pl.col("e2e_high_s"),
            tok_s_chip_high=pl.col("tok_s_chip") * pl.col("e2e_s") / pl.col("e2e_low_s"),
        )
        .drop("tbt_lo", "tbt_hi", "ttft_lo", "ttft_hi")
    )

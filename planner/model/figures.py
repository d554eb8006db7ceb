"""The four published metrics, read off a sweep the way a benchmark would have measured them.

The search is over all layouts, but not over all loads: benchmark runs keep the mean time to the first token within five
seconds and at most 256 clients an attention group (the peaks among the measured points are at 4.1 to 4.8 s and at most
269), and a peak beyond that would be one that nobody ran.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Curve", "Figures", "benchmarked", "curve", "figures"]

MOST_TTFT_S = 5.0
MOST_CLIENTS_A_GROUP = 256


@dataclass(frozen=True, slots=True)
class Curve:
    """A frontier: time between tokens rising, mixed tokens per second and chip rising with it."""

    tbt_s: tuple[float, ...]
    mixed_tok_s_chip: tuple[float, ...]

    def at(self, tbt_s: float) -> float | None:
        """The rate within a time between tokens: between neighbours on straight lines of logarithms, the last point's
        for a longer time, none for one that no point keeps.
        """
        ix = bisect_left(self.tbt_s, tbt_s)
        if ix == len(self.tbt_s):
            return self.mixed_tok_s_chip[-1] if self.tbt_s else None
        if self.tbt_s[ix] == tbt_s:
            return self.mixed_tok_s_chip[ix]
        if ix == 0:
            return None
        (x0, x1), (y0, y1) = self.tbt_s[ix - 1 : ix + 1], self.mixed_tok_s_chip[ix - 1 : ix + 1]
        share = log(tbt_s / x0) / log(x1 / x0)
        return y0 * exp(share * log(y1 / y0))


@dataclass(frozen=True, slots=True)
class Figures:
    """What the headline says of one chip and model."""

    min_tbt_s: float
    min_e2e_s: float
    peak_mixed_tok_s_chip: float
    chips_at_min_tbt: int
    """Chips that decode one request at the shortest time between tokens."""
    curve: Curve
    rows: Mapping[str, Mapping[str, Any]]
    """The points that the first three are read off: `tbt`, `e2e`, `peak`."""


def benchmarked(points: pl.DataFrame) -> pl.DataFrame:
    """The closed loops that a benchmark would run."""
    import polars as pl

    return points.filter(
        (pl.col("regime") == "closed_loop")
        & (pl.col("ttft_s") <= MOST_TTFT_S)
        & (pl.col("concurrency") <= MOST_CLIENTS_A_GROUP * pl.col("dp") * pl.col("decode_workers"))
    )


def curve(points: pl.DataFrame, mixed_per_output: float) -> Curve:
    """The points that no other beats in both time between tokens and rate, in order."""
    rows = points.select("tbt_s", "tok_s_chip").sort(["tbt_s", "tok_s_chip"], descending=[False, True]).rows()
    tbt: list[float] = []
    rate: list[float] = []
    for x, y in rows:
        if not rate or y > rate[-1]:
            tbt.append(x)
            rate.append(y)
    return Curve(tuple(tbt), tuple(y * mixed_per_output for y in rate))


def figures(points: pl.DataFrame, mixed_per_output: float) -> Figures | None:
    """The figures of a sweep; None if nothing fits."""

    inside = benchmarked(points)
    if inside.is_empty():
        return None
    fastest = inside.sort(["tbt_s", "chips"]).row(0, named=True)
    soonest = inside.sort(["e2e_s", "chips"]).row(0, named=True)
    busiest = inside.sort(["tok_s_chip", "tbt_s"], descending=[True, False]).row(0, named=True)
    return Figures(
        min_tbt_s=fastest["tbt_s"],
        min_e2e_s=soonest["e2e_s"],
        peak_mixed_tok_s_chip=busiest["tok_s_chip"] * mixed_per_output,
        chips_at_min_tbt=fastest["tp"] * fastest["dp"] * fastest["pp"],
        curve=curve(inside, mixed_per_output),
        rows={"tbt": fastest, "e2e": soonest, "peak": busiest},
    )

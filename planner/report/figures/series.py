"""Stretches of time: windows of a run as a few hundred bins at most, means over the seeds, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["Bins", "bins", "by_bin", "mean", "rows_of"]

Where = Sequence[tuple[str, Any]]
MOST_BINS = 144
"""More would not be seen on a page, and would make it large."""


@dataclass(frozen=True, slots=True)
class Bins:
    """The windows of a run put together to equal stretches; the last may be short."""

    window_s: float
    each: int
    """Windows in a bin."""
    n: int
    length_s: float

    @property
    def width_s(self) -> float:
        """Length of a bin."""
        return self.each * self.window_s

    def start_s(self, ix: int) -> float:
        """Begin of a bin."""
        return ix * self.width_s

    def end_s(self, ix: int) -> float:
        """End of a bin; the last one ends with the run."""
        return min(self.start_s(ix + 1), self.length_s)

    def n_windows(self, ix: int) -> int:
        """Windows of a bin that begin before arrivals stop."""
        whole = math.ceil(self.length_s / self.window_s)
        return max(0, min(self.each, whole - ix * self.each))


def bins(run: Mapping[str, Any], most: int = MOST_BINS) -> Bins:
    """Bins over [0, length) of a run's settings, at most so many, of whole windows."""
    window_s, length_s = run["window_s"], run["length_s"]
    whole = max(1, math.ceil(length_s / window_s))
    each = math.ceil(whole / most)
    return Bins(window_s, each, math.ceil(whole / each), length_s)


def rows_of(result: Result, table: str, variant: str) -> Iterable[dict[str, Any]]:
    """Rows of a variant, as they stand."""
    frame = result.tables[table]
    rows: Iterable[dict[str, Any]] = frame.filter(frame["variant"] == variant).iter_rows(named=True)
    return rows


def by_bin(
    result: Result, table: str, variant: str, what: Bins, keys: Sequence[str], value: str, *, where: Where = ()
) -> dict[tuple[Any, ...], list[list[float]]]:
    """For each key the values of each bin, over windows and seeds, in the order of the table.

    `where` is (column, value) pairs that rows have to have.
    """
    frame = result.tables[table]
    for column, wanted in (("variant", variant), *where):
        frame = frame.filter(frame[column] == wanted)
    found: dict[tuple[Any, ...], list[list[float]]] = {}
    for at, each, *key in frame.select("window_ix", value, *keys).iter_rows():
        ix = at // what.each
        if ix < what.n and each is not None:
            found.setdefault(tuple(key), [[] for _ in range(what.n)])[ix].append(each)
    return found


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of what is there; None of nothing."""
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None

"""A figure's rows as a table for who cannot, or would rather not, read a drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.live import Time
from planner.report.figures.series import mean

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Sheet", "over_time", "plainly"]

MOST_ROWS = 24
"""Stretches of time that a table shows; the rows themselves lie beside the page."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of text: the first cell of a row heads it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)
    """Columns of words; the others are figures."""
    note: str = ""


def plainly(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[tuple[str, str, str]], *, note: str = "", most: int = 200
) -> Sheet:
    """Rows as they are; `columns` are (column, head, kind of unit), with no kind for words."""
    told = list(rows)
    words = [ix for ix, (_, _, kind) in enumerate(columns) if not kind]
    cells = [[_cell(row[column], kind) for column, _, kind in columns] for row in told[:most]]
    if len(told) > most:
        note = f"{note} The first {most} of {len(told):,} rows.".strip()
    return Sheet([head for _, head, _ in columns], cells, words, note)


def over_time(
    rows: pl.DataFrame,
    time: Time,
    column: str,
    kind: str,
    name: Callable[[Mapping[str, Any]], str],
    *,
    start: str = "start_s",
    seconds: float = 1.0,
) -> Sheet:
    """A row for each stretch of time, a column for each thing that `name` tells apart; means, where stretches were put
    together.
    """
    found: dict[str, dict[float, float | None]] = {}
    for row in rows.iter_rows(named=True):
        found.setdefault(name(row), {})[row[start] * seconds] = row[column]
    starts = sorted({at for values in found.values() for at in values})
    each = -(-len(starts) // MOST_ROWS)
    cells = []
    for ix in range(0, len(starts), each):
        part = starts[ix : ix + each]
        end = starts[ix + each] if ix + each < len(starts) else time.end_s
        means = [mean([values.get(at) for at in part]) for values in found.values()]
        cells.append([time.between(part[0], end), *(_cell(value, kind) for value in means)])
    note = f"Means of {each} stretches each." if each > 1 else ""
    return Sheet(["Time", *found], cells, (0,), note)


def _cell(value: Any, kind: str) -> str:
    if value is None:
        return "-"
    return units.format(value, kind) if kind and not isinstance(value, str) else str(value)

"""Measured tables as people hand them over: CSV, each cell a text; what is no number is told by column and line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import FactError, Fault

if TYPE_CHECKING:
    import polars as pl

__all__ = ["reason", "text_table", "with_numbers"]

_EMPTY = ("", "nan", "NaN", "NA", "null", "None")
_FIRST_LINE = 2


def text_table(path: Path, what: str, needed: Sequence[str], known: Sequence[str]) -> pl.DataFrame:
    """The rows of a CSV file as texts, null where a cell is empty or says that it is; `what` they are and the columns
    that are `known`, `needed` ones among them, for messages.

    Raises:
        FactError: the file cannot be read, or needed columns are missing.
    """
    import polars as pl

    try:
        table = pl.read_csv(path.read_bytes(), infer_schema_length=0, null_values=list(_EMPTY))
    except (OSError, pl.exceptions.PolarsError) as error:
        fault = Fault(f"cannot read the {what}: {reason(error)}", "give a CSV file with a header", file=str(path))
        raise FactError(fault) from None
    if missing := [name for name in needed if name not in table.columns]:
        names = ", ".join(f"'{name}'" for name in missing)
        also = [name for name in known if name not in needed]
        way_out = f"{what} have {', '.join(needed)}, and may have {', '.join(also)}"
        raise FactError(Fault(f"no column {names}", way_out, file=str(path)))
    return table


def with_numbers(
    table: pl.DataFrame,
    path: Path,
    names: Sequence[str],
    *,
    kind: str = "a number",
    holds: Callable[[pl.Series], pl.Series] | None = None,
) -> pl.DataFrame:
    """The table with those of the columns that it has as floats; `holds` says which of them are of the `kind`.

    Raises:
        FactError: cells are not; one fault for each column, with the line of the first.
    """
    import polars as pl

    present = [name for name in names if name in table.columns]
    typed = table.with_columns(pl.col(name).str.strip_chars().cast(pl.Float64, strict=False) for name in present)
    faults = []
    for name in present:
        is_right = typed[name].is_not_null()
        if holds is not None:
            is_right &= holds(typed[name]).fill_null(value=False)
        spoilt = (table[name].is_not_null() & ~is_right).arg_true()
        if spoilt.len():
            more = f" ({spoilt.len()} rows)" if spoilt.len() > 1 else ""
            what = f"'{table[name][int(spoilt[0])]}' is not {kind}{more}"
            line = int(spoilt[0]) + _FIRST_LINE
            faults.append(
                Fault(what, "write plain digits, or leave the cell empty", path=name, file=str(path), line=line)
            )
    if faults:
        raise FactError(*faults)
    return typed


def reason(error: Exception) -> str:
    """What the system says of a file, without its name, which stands before it in a message."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

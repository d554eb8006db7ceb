"""Reading a trace file: its format is told by its content, never by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planner.errors import Fault, TrafficError, near
from planner.traffic import csv_rows, json_rows
from planner.traffic import source as source_module
from planner.traffic.readers import FORMATS, reader
from planner.traffic.readers.table import TableReader, Wanted, columns_of
from planner.traffic.schema import Trace
from planner.traffic.source import Source


def read(
    path: str | Path, *, format: str | None = None, class_column: str | None = None, model_column: str | None = None
) -> Trace:
    """The requests of a trace file, and the account of its rows.

    `format` is one of `FORMATS`; without it the columns, keys or first fields decide. `class_column` and
    `model_column` name the columns that become `class` and `model`.

    Raises:
        TrafficError: the file or the format is not known, or no row of it is a request; says the way out.
        RunError: the file is there and may not be read.
    """
    if format is not None and format not in FORMATS:
        raise TrafficError(Fault(f"unknown trace format {format!r}{near(format, FORMATS)}", file=str(path)))
    source = source_module.load(path)
    if "after_row" in columns_of(source):
        what = "its requests wait for the ends of others (column after_row), which no recorded arrivals can say"
        raise source.refuse(what, "run the scenario that made it; or take that column away to send all at once")
    chosen = reader(format) if format is not None else reader(_sniff(source))
    return chosen.read(source, Wanted(class_column, model_column))


def _sniff(source: Source) -> str:
    """The format of a file, by what its columns are.

    Raises:
        TrafficError: no format has such columns; names the nearest and what it lacks.
    """
    columns = columns_of(source)
    for name in FORMATS:
        if reader(name).sniff(columns):
            return name
    if source.container == "json" and not columns:
        line, reason = json_rows.why_none(source)
        what = f"no line of it is a JSON object with keys, nor is the whole one JSON list: {reason[:200]}"
        raise source.refuse(what, "it may have been cut off: fetch it again", line=line)
    if source.container == "csv" and any(map(reader("servegen").sniff, csv_rows.first_rows(source))):
        return "servegen"  # it has no header, and its first row may be the broken one
    raise source.refuse(*_unknown(columns, source))


def _unknown(columns: Sequence[str], source: Source) -> tuple[str, str]:
    listed = ", ".join(repr(c[:40]) for c in columns[:12]) or "none"
    what = "keys" if source.container == "json" else "columns"
    nearest = [(len(r.layout.lacks(columns)), r) for r in map(reader, FORMATS) if isinstance(r, TableReader)]
    n_lacking, best = min(nearest, key=lambda pair: pair[0])
    if 0 < n_lacking < 3:
        lacks = ", ".join(map(repr, best.layout.lacks(columns)))
        return (
            f"no known trace format has these {what}: {listed}",
            f"for {best.name} it lacks {lacks}; formats: {', '.join(FORMATS)}",
        )
    way_out = f"write arrival_s, input_tokens, output_tokens; formats: {', '.join(FORMATS)}"
    return f"no known trace format has these {what}: {listed}", way_out

"""CSV text -> columns of text with their line numbers. Every line is a row, a comment or blank; none is lost.

Lines without quotes, which is all of nearly every trace, are split by polars. A quoted field may span lines, if its
end is found and the lines in between are not rows themselves; a quote that is never closed costs its own line only.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.traffic.source import Source

if TYPE_CHECKING:
    import polars as pl

_SEPARATORS = (",", ";", "\t", "|")
_HEAD = 1_000_000
_MAX_SPAN = 200
"""Lines that one quoted row may span."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a file as text: `line` and one String column per field, and the lines that are no rows."""

    frame: pl.DataFrame
    columns: tuple[str, ...]
    """The names as written, stripped; the frame's columns are `0`, `1`, ... in their order."""
    bad_lines: tuple[int, ...]
    is_invalid_utf8: bool = False


def lines_of(source: Source) -> tuple[pl.DataFrame, bool]:
    """Numbered lines (`line`, `text`) that are neither blank nor comments, and whether bytes had to be replaced."""
    import polars as pl

    is_replaced = False
    try:
        frame = pl.read_lines(source.data, name="text", row_index_name="line", row_index_offset=1)
    except pl.exceptions.ComputeError:
        is_replaced = True
        data = source.data.decode("utf-8", errors="replace").encode()
        frame = pl.read_lines(data, name="text", row_index_name="line", row_index_offset=1)
    bare = pl.col("text").str.strip_chars()
    is_hint = (pl.col("line") == 1) & bare.str.contains(r'^"?sep=.?"?$')  # for Excel, which also hides it
    return frame.filter((bare != "") & ~bare.str.starts_with("#") & ~is_hint), is_replaced


def first_rows(source: Source, n: int = 20) -> list[tuple[str, ...]]:
    """The fields of the first lines, stripped, split at the separator that gives most of them in the very first."""
    head, rest = source.data[:_HEAD], source.data[_HEAD:]
    if rest and b"\n" in head:
        head = head[: head.rindex(b"\n")]
    lines, _ = lines_of(replace(source, data=head if b"\n" in head else source.data))
    texts = lines["text"].head(n).to_list()
    return [_cells(text, _separator(texts[0])) for text in texts]


def read(source: Source, *, has_header: bool = True, n_fields: int | None = None) -> Table:
    """The rows of a CSV file; with no header, rows of `n_fields` fields."""
    import polars as pl

    lines, is_replaced = lines_of(source)
    if not lines.height:
        return Table(pl.DataFrame(schema={"line": pl.UInt32()}), (), (), is_replaced)
    first = lines["text"][0]
    separator = _separator(first)
    names = _cells(first, separator) if has_header else tuple(str(k) for k in range(n_fields or 0))
    body = lines.slice(1) if has_header else lines
    width = len(names)
    has_quote = body["text"].str.contains('"', literal=True)
    quoted_rows, taken, bad = _quoted(body, has_quote, separator, width) if has_quote.any() else ([], set(), [])
    plain = body.filter(~has_quote)
    if taken:
        plain = plain.filter(~pl.col("line").is_in(sorted(taken)))
    fits = plain["text"].str.count_matches(separator, literal=True) == width - 1
    bad += plain.filter(~fits)["line"].to_list()
    split = pl.col("text").str.split_exact(separator, width - 1).struct.rename_fields([str(k) for k in range(width)])
    frame = plain.filter(fits).select(pl.col("line").cast(pl.UInt32), split.struct.unnest())
    if quoted_rows:
        schema = {"line": pl.UInt32(), **{str(k): pl.String() for k in range(width)}}
        extra = pl.DataFrame(quoted_rows, schema=schema, orient="row")
        frame = pl.concat([frame, extra]).sort("line")
    frame = frame.with_columns(pl.exclude("line").str.strip_chars())
    return Table(frame, names, tuple(sorted(bad)), is_replaced)


def _separator(first: str) -> str:
    return max(_SEPARATORS, key=first.count)


def _cells(line: str, separator: str) -> tuple[str, ...]:
    fields = _fields(line, separator)
    return tuple(f.strip() for f in (line.split(separator) if fields is None else fields))


def _fields(text: str, separator: str) -> list[str] | None:
    """The fields of one row, or None if its quotes are not closed or not where quotes belong."""
    try:
        rows = list(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _quoted(
    body: pl.DataFrame, has_quote: pl.Series, separator: str, width: int
) -> tuple[list[tuple[int | str, ...]], set[int], list[int]]:
    """Rows of the lines with quotes, the further lines that those rows cover, and the lines that are no rows."""
    texts, numbers = body["text"], body["line"]
    rows: list[tuple[int | str, ...]] = []
    covered: set[int] = set()
    bad: list[int] = []
    csv.field_size_limit(2**31 - 1)
    for ix in has_quote.arg_true().to_list():
        number = numbers[ix]
        if number in covered:
            continue
        fields = _fields(texts[ix], separator)
        n_more = 0
        if fields is None:
            fields, n_more = _spanning(texts, ix, separator, width)
        if fields is None or len(fields) != width:
            bad.append(number)
            continue
        rows.append((number, *fields))
        covered.update(numbers[ix + 1 : ix + 1 + n_more].to_list())
    return rows, covered, bad


def _spanning(texts: pl.Series, ix: int, separator: str, width: int) -> tuple[list[str] | None, int]:
    """The row that starts at `ix`, leaves a quote open and ends some lines on, and how many further lines it takes."""
    joined = texts[ix]
    for n_more in range(1, min(_MAX_SPAN, texts.len() - ix)):
        following = texts[ix + n_more]
        alone = _fields(following, separator)
        if alone is not None and len(alone) == width:
            return None, 0  # that line is a row of its own: the open quote is a fault of its line
        joined = f"{joined}\n{following}"
        fields = _fields(joined, separator)
        if fields is not None:
            return (fields, n_more) if len(fields) == width else (None, 0)
    return None, 0

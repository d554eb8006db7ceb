"""The reader of every format that is a table of requests: a `Layout` applied to CSV, JSON or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from planner.errors import Notice, near
from planner.traffic import csv_rows, flags, json_rows
from planner.traffic.account import Raw, account
from planner.traffic.cells import DIGITS, Unit, tokens
from planner.traffic.layout import Layout
from planner.traffic.schema import Trace
from planner.traffic.source import Source

if TYPE_CHECKING:
    import polars as pl

_SNIFFED_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Columns that a scenario maps to classes and models, by their names in the file."""

    class_column: str | None = None
    model_column: str | None = None


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads files of one layout."""

    layout: Layout

    @property
    def name(self) -> str:
        """The format's name."""
        return self.layout.name

    @property
    def title(self) -> str:
        """Who writes such files."""
        return self.layout.title

    def sniff(self, columns: Sequence[str]) -> bool:
        """Whether a file with these columns or keys is of this format."""
        return not self.layout.lacks(columns)

    def read(self, source: Source, wanted: Wanted) -> Trace:
        """The trace.

        Raises:
            TrafficError: needed columns are absent or stand twice, or no row is a request.
        """
        raw = {"csv": _from_csv, "json": _from_json, "parquet": _from_parquet}[source.container](
            source, self.layout, wanted
        )
        return account(raw, source=source, format=self.name)


def columns_of(source: Source) -> tuple[str, ...]:
    """The names of a file's columns, or of the keys of its first rows."""
    if source.container == "csv":
        return next(iter(csv_rows.first_rows(source, 1)), ())
    if source.container == "parquet":
        return tuple(_parquet(source).columns)
    found = json_rows.read(source, n_lines=_SNIFFED_ROWS)
    return _keys(found.rows) or (("data", *found.envelope) if found.envelope is not None else ())


def _keys(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(rows)))


def _pick(layout: Layout, columns: Sequence[str], source: Source, wanted: Wanted) -> dict[str, str]:
    """Role -> the column that fills it, as the file spells it.

    Raises:
        TrafficError: a needed or asked-for column is absent, or one that is used stands twice.
    """
    lacking = layout.lacks(columns)
    if lacking:
        listed = ", ".join(columns[:20]) or "none"
        raise source.refuse(
            f"no column {' and no column '.join(map(repr, lacking))}, which {layout.name} needs", f"it has: {listed}"
        )
    spelt: dict[str, list[str]] = {}
    for column in columns:
        spelt.setdefault(column.casefold(), []).append(column)
    roles = {
        "arrival": layout.clocks,
        "input": layout.input,
        "output": layout.output,
        "cached": layout.cached,
        "total": layout.total,
        "id": layout.id,
        "session": layout.session,
        "class": layout.class_ if wanted.class_column is None else (wanted.class_column,),
        "model": layout.model if wanted.model_column is None else (wanted.model_column,),
        "hash_ids": layout.hash_ids,
        "block": layout.block,
        **{flag.role: (flag.column,) for flag in (*layout.failed, *layout.cache_hit)},
    }
    found: dict[str, str] = {}
    for role, names in roles.items():
        name = next((n for n in names if n.casefold() in spelt), None)
        if name is None:
            continue
        if len(spelt[name.casefold()]) > 1:
            raise source.refuse(
                f"column {name!r} stands twice", "name each column once, so that it is clear which is meant"
            )
        found[role] = spelt[name.casefold()][0]
    for role, name in (("class", wanted.class_column), ("model", wanted.model_column)):
        if name is not None and role not in found:
            raise source.refuse(f"no column {name!r} for the {role}{near(name, columns)}")
    return found


def _unit(layout: Layout, column: str) -> Unit:
    return next(clock.unit for clock in layout.arrival if clock.column.casefold() == column.casefold())


def _raw(
    frame: pl.DataFrame,
    layout: Layout,
    found: Mapping[str, str],
    unit: Unit | None = None,
    *,
    bad_lines: tuple[int, ...] = (),
    notes: Iterable[Notice] = (),
) -> Raw:
    """The frame of roles with its flags and block size worked out."""
    failed, hit = ([f for f in some if f.role in frame.columns] for some in (layout.failed, layout.cache_hit))
    unit = unit or _unit(layout, found["arrival"])
    warnings = [*notes, *flags.unknown(frame, failed)]
    if unit == "ms" and not found["arrival"].casefold().endswith("ms"):
        n_broken = int(frame["arrival"].str.contains(r"\.0*[1-9]").sum())
        if n_broken:
            text = (
                f"{n_broken:,} stamps have a fraction, but {layout.title} counts whole milliseconds: "
                "if they are seconds, name the column arrival_s"
            )
            warnings.append(Notice("fractional_ms", text))
    marks = {"failed": flags.marked(failed), "cache_hit": flags.marked(hit)}
    frame = frame.with_columns(e.alias(name) for name, e in marks.items() if e is not None)
    block_tokens = layout.block_tokens
    if "block" in frame.columns:
        sizes = tokens(frame["block"].drop_nulls().unique())
        block_tokens = sizes[0] if sizes.len() == 1 else None
    frame = frame.drop([name for name in frame.columns if name == "block" or name.startswith("flag ")])
    return Raw(frame, unit, bad_lines, tuple(warnings), block_tokens)


def _from_csv(source: Source, layout: Layout, wanted: Wanted) -> Raw:
    import polars as pl

    table = csv_rows.read(source)
    inner, notes = _inner_columns(table, layout)
    found = _pick(layout, (*table.columns, *inner), source, wanted)
    found.pop("hash_ids", None)
    columns = {role: inner.get(name) for role, name in found.items()}
    frame = table.frame.select(
        (pl.col(str(table.columns.index(found[role]))) if made is None else pl.lit(made)).alias(role)
        for role, made in columns.items()
    )
    if table.is_invalid_utf8:
        notes.append(Notice("invalid_utf8", "some bytes are not UTF-8 and were replaced"))
    return _raw(frame, layout, found, bad_lines=table.bad_lines, notes=notes)


def _inner_columns(table: csv_rows.Table, layout: Layout) -> tuple[dict[str, pl.Series], list[Notice]]:
    """The layout's dotted names that JSON in the cells of a CSV column has, each as a column of text."""
    made: dict[str, pl.Series] = {}
    notes = []
    for head in dict.fromkeys(name.partition(".")[0] for name in layout.nested):
        if head in table.columns and table.columns.count(head) == 1:
            texts = table.frame[str(table.columns.index(head))].to_list()
            rows = [{head: json_rows.unfolded(text)} for text in texts]
            n_unread = sum(isinstance(row[head], str) and row[head].startswith("{") for row in rows)
            if n_unread:
                notes.append(Notice("unread_column", f"{head} of {n_unread:,} rows is no JSON and was not looked at"))
            for name in (n for n in layout.nested if n.startswith(f"{head}.")):
                values = [json_rows.lookup(row, name) for row in rows]
                if any(value is not None for value in values):
                    made[name] = cell_texts(values, is_count=name in layout.cached)
    return made, notes


def _from_json(source: Source, layout: Layout, wanted: Wanted) -> Raw:
    import polars as pl

    rows = json_rows.read(source)
    for head in dict.fromkeys(name.partition(".")[0] for name in layout.nested):
        for row in rows.rows:
            if isinstance(row.get(head), str):
                row[head] = json_rows.unfolded(row[head])
    known = list(_keys(rows.rows))
    asked = [*layout.nested, wanted.class_column, wanted.model_column]
    known += [k for k in asked if k and "." in k and any(json_rows.lookup(row, k) is not None for row in rows.rows)]
    found = _pick(layout, known, source, wanted)
    columns: dict[str, pl.Series] = {}
    for role, key in found.items():
        values = (
            [json_rows.lookup(row, key) for row in rows.rows] if "." in key else [row.get(key) for row in rows.rows]
        )
        if role == "hash_ids":
            columns[role] = pl.Series([_hashes(v) for v in values], dtype=pl.List(pl.Int64))
        else:
            is_count = role in ("input", "output", "cached", "total")
            columns[role] = cell_texts(values, is_count=is_count)
    return _raw(pl.DataFrame(columns), layout, found, bad_lines=rows.bad_lines, notes=_page_notes(rows.envelope))


def _page_notes(envelope: dict[str, Any] | None) -> tuple[Notice, ...]:
    """A warning if the list says that it is one page of several."""
    if not envelope:
        return ()
    page, pages = envelope.get("page"), envelope.get("total_pages")
    more = envelope.get("has_more") is True or (isinstance(page, int) and isinstance(pages, int) and pages > 1)
    return (
        (Notice("has_more", "the file is one page of several: the rest of the requests is elsewhere"),) if more else ()
    )


def cell_texts(values: Sequence[Any], *, is_count: bool) -> pl.Series:
    """JSON values as the text of cells, a column at once."""
    import polars as pl

    kinds = set(map(type, values))
    if kinds <= {int, json_rows.Literal}:
        return pl.Series(list(map(str, values)), dtype=pl.String)
    return pl.Series([cell_text(value, is_count=is_count) for value in values], dtype=pl.String)


def cell_text(value: Any, *, is_count: bool) -> str | None:
    """A JSON value as the text of a cell. A count that is JSON text keeps its quotes, so it is no number."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | json_rows.Literal):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"' if is_count and value.strip() else value.strip()
    return "{}" if isinstance(value, dict) else "[]"


def _hashes(value: Any) -> list[int] | None:
    """Block hashes as 64-bit integers; null if they are no list of whole numbers."""
    if not isinstance(value, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        return None
    return [(v + 2**63) % 2**64 - 2**63 for v in value]


def _parquet(source: Source) -> pl.DataFrame:
    import io

    import polars as pl

    try:
        return pl.read_parquet(io.BytesIO(source.data))
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise source.refuse(f"the Parquet file cannot be read: {reason}", "fetch or write it again") from None


def _from_parquet(source: Source, layout: Layout, wanted: Wanted) -> Raw:
    import polars as pl

    table = _parquet(source)
    found = _pick(layout, table.columns, source, wanted)
    frame = table.select(pl.col(column).alias(role) for role, column in found.items())
    unit: Unit | None = None
    casts = []
    for role, kind in frame.schema.items():
        if role == "hash_ids":
            if not (isinstance(kind, pl.List) and kind.inner is not None and kind.inner.is_integer()):
                raise source.refuse(
                    f"column {found[role]!r} holds {kind}, not lists of whole numbers",
                    "write one list of hashes a request",
                )
            casts.append(pl.col(role).cast(pl.List(pl.Int64)))
        elif isinstance(kind, pl.Datetime):
            zone = "Z" if kind.time_zone else ""
            plain = pl.col(role).dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else pl.col(role)
            casts.append(plain.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.9f{zone}").alias(role))
            unit = "iso" if role == "arrival" else unit
        elif kind == pl.Duration and role == "arrival":
            casts.append(pl.col(role).dt.total_nanoseconds().cast(pl.String))
            unit = "ns"
        elif kind.is_nested() or kind in (pl.Duration, pl.Object):
            raise source.refuse(f"column {found[role]!r} holds {kind}, not plain values", "write numbers and text")
        else:
            casts.append(pl.col(role).cast(pl.String).str.strip_chars())
    notes = _coarse(frame["arrival"], unit or _unit(layout, found["arrival"]))
    try:
        texts = frame.select(casts)
    except pl.exceptions.ComputeError:
        raise source.refuse("a column holds bytes that are no text", "write numbers and text as such") from None
    return _raw(texts, layout, found, unit, notes=notes)


def _coarse(stamps: pl.Series, unit: Unit) -> tuple[Notice, ...]:
    """A warning where the floats of a clock are so large that they step by more than a microsecond."""
    import numpy as np

    if not stamps.dtype.is_float() or unit not in DIGITS:
        return ()
    sizes = np.abs(stamps.to_numpy())
    sizes = sizes[sizes < 2.0**63 / 10 ** DIGITS[unit]]  # beyond it is no time
    step_s = float(np.spacing(sizes.max())) * 10.0 ** (DIGITS[unit] - 9) if sizes.size else 0.0
    if step_s <= 1e-6:
        return ()
    return (
        Notice(
            "coarse_time",
            f"arrivals are {stamps.dtype} that step by {step_s:.3g} s, and closer ones fall on one instant; "
            "write them as whole nanoseconds (arrival_ns)",
        ),
    )

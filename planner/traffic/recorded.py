"""The requests of a class as a trace file has them: those of its class and model, on the class's clock."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import FactError, Fault, Notice, TrafficError, near
from planner.facts import catalog
from planner.scenario.files import is_file, locate
from planner.scenario.schema import TrafficClass
from planner.traffic import blocks, trace, transform
from planner.traffic.schema import Trace

if TYPE_CHECKING:
    import polars as pl

_COLUMNS = ("arrival_ns", "input_tokens", "output_tokens")


def rows_of(cls: TrafficClass, name: str, base_dir: Path, *, prefixes: bool = False) -> tuple[Trace, pl.DataFrame, int]:
    """The trace of a class, those of its requests that are the class's, and the span on the class's clock.

    With `prefixes` the rows keep the trace's block hashes (`hash_ids`, `copy` 0), where it has them.
    Time runs from the trace's first request, whichever class that is, so that classes of one trace keep step.
    """
    import polars as pl

    assert cls.trace is not None
    found = _read(locate(cls.trace, base_dir), cls.format, cls.class_column, cls.model_column)
    if found.is_aggregate:
        what = f"{found.format} has sums and no arrivals"
        way_out = "describe the class by arrivals, rate, input and output"
        raise TrafficError(Fault(what, way_out, path=f"traffic.{name}.trace", file=found.path))
    columns = [*_COLUMNS]
    rows = clock(found.requests, cls)
    if prefixes and found.block_tokens:
        rows = rows.with_columns(blocks.dense(rows["hash_ids"]).alias("hash_ids"), pl.lit(0, pl.UInt32).alias("copy"))
        columns += ["hash_ids", "copy"]
    span_ns = int(rows["arrival_ns"][-1]) + 1
    if cls.class_column is not None:
        rows = _only(rows, "class", {name}, f"traffic.{name}.class_column", found, meant=name)
    if cls.model_column is not None:
        values = rows["model"].unique().drop_nulls().to_list()
        same = {value for value in values if _same_model(value, cls.model, base_dir)}
        rows = _only(rows, "model", same, f"traffic.{name}.model_column", found, meant=cls.model)
    return found, rows.select(columns), span_ns


def n_requests(cls: TrafficClass, base_dir: Path) -> int:
    """Requests of the whole trace of a class."""
    assert cls.trace is not None
    return _read(locate(cls.trace, base_dir), cls.format, cls.class_column, cls.model_column).n_requests


def notices(found: Trace, rows: pl.DataFrame) -> tuple[Notice, ...]:
    """What is worth saying about a trace of which `rows` are the class's."""
    said = list(found.warnings)
    if rows.height < found.n_requests:
        message = f"{rows.height:,} of the trace's {found.n_requests:,} requests are of this class and model"
        said.append(Notice("part_of_trace", message))
    if found.rejected:
        counts = ", ".join(f"{n:,} {reason}" for reason, n in found.rejected.items())
        n_refused = sum(found.rejected.values())
        said.append(Notice("failed_rows", f"{n_refused:,} of {found.rows_read:,} rows refused: {counts}"))
    return tuple(said)


def nothing_left(name: str, length_s: float | None, path: str) -> TrafficError:
    """The error about a class whose trace has no request in the run."""
    what = "no request is left" if length_s is None else f"no request arrives in the first {length_s:g} s"
    return TrafficError(Fault(what, "raise scale or run.length", path=f"traffic.{name}", file=path))


def _only(
    rows: pl.DataFrame, column: str, wanted: Iterable[str], path: str, found: Trace, *, meant: str
) -> pl.DataFrame:
    import polars as pl

    kept = rows.filter(pl.col(column).is_in(list(wanted)))
    if not kept.height:
        values = sorted(rows[column].drop_nulls().unique().to_list())
        raise TrafficError(
            Fault(f"no row of the trace is for {meant!r}{near(meant, values)}", path=path, file=found.path)
        )
    return kept


def _same_model(value: str, model: str, base_dir: Path) -> bool:
    """Whether a model's name in a trace means the class's model, by any spelling that the catalogue knows."""
    if value == model:
        return True
    try:
        mine = catalog.load().model(model, base=base_dir)
        return not is_file(value) and catalog.load().model(value) == mine
    except FactError:
        return False


def _read(path: Path | str, format: str | None, class_column: str | None, model_column: str | None) -> Trace:
    """A trace file, kept while it does not change: each seed and variant asks for it again."""
    try:
        stat = Path(path).stat()
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except (OSError, ValueError):
        stamp = (0, 0, 0)  # the reader says what is wrong
    return _read_once(str(path), stamp, format, class_column, model_column)


@functools.lru_cache(maxsize=4)
def _read_once(
    path: str, stamp: tuple[int, int, int], format: str | None, class_column: str | None, model_column: str | None
) -> Trace:
    return trace.read(path, format=format, class_column=class_column, model_column=model_column)


def clock(frame: pl.DataFrame, cls: TrafficClass) -> pl.DataFrame:
    """The clock of a class: sped up, then with its idle times capped."""
    cap_ns = None if cls.idle_cap_s is None else round(cls.idle_cap_s * 1e9)
    return transform.idle_cap(transform.faster(frame, cls.speedup), cap_ns)

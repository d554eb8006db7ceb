"""The road from a scenario's classes to the requests that are simulated."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import FactError, Fault, Notice, TrafficError, near
from planner.facts import catalog
from planner.scenario.files import is_file, locate
from planner.scenario.schema import Scenario, TrafficClass
from planner.traffic import profiles, synthetic, trace, transform
from planner.traffic.schema import Trace

if TYPE_CHECKING:
    import polars as pl

_COLUMNS = ("arrival_ns", "input_tokens", "output_tokens")
_SAMPLED = 10_000


@dataclass(frozen=True, slots=True)
class ClassTraffic:
    """The requests of one class."""

    frame: pl.DataFrame
    """`arrival_ns` Int64, `input_tokens` and `output_tokens` UInt32, in order of arrival."""
    span_ns: int
    """How long it lasts: the run's length, or up to and with its last arrival."""
    failed_rows: int = 0
    """Rows of its file that the reader refused; they are nobody's requests."""
    notices: tuple[Notice, ...] = ()
    digest: str = ""
    """Of the trace file's content; empty if there is none."""


@dataclass(frozen=True, slots=True)
class ScenarioTraffic:
    """The requests of all classes under one seed."""

    frame: pl.DataFrame
    """`arrival_ns` UInt64, `class_ix` UInt16 (the scenario's order), `input_tokens` and `output_tokens` UInt32; sorted
    by arrival, class, then each class's own order."""
    length_ns: int
    """Arrivals are before it, or at it if it was asked for."""
    classes: Mapping[str, ClassTraffic] = field(default_factory=dict)

    @property
    def failed_rows(self) -> int:
        """Rows that readers refused, each file once."""
        by_file = {c.digest or name: c.failed_rows for name, c in self.classes.items()}
        return sum(by_file.values())

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is worth saying about the traffic, each line under its class's name."""
        return tuple(replace(n, message=f"{name}: {n.message}") for name, c in self.classes.items() for n in c.notices)


def for_scenario(scenario: Scenario, seed: int) -> ScenarioTraffic:
    """All requests of `scenario` under `seed`. A class's requests depend on its own section, its name and the seed.

    Without `run.length` the run is as long as the longest trace.

    Raises:
        TrafficError: a trace cannot be used, or no length is known.
    """
    import polars as pl

    asked_ns = None if scenario.run.length_s is None else round(scenario.run.length_s * 1e9)
    made: dict[str, ClassTraffic] = {}
    # Classes with a trace first: the others last as long as the longest of them.
    for name, cls in sorted(scenario.traffic.items(), key=lambda item: item[1].trace is None):
        length_ns = asked_ns
        if length_ns is None and cls.trace is None:
            length_ns = max((c.span_ns for c in made.values()), default=None)
            if length_ns is None:
                raise TrafficError(
                    Fault("no class has a trace that gives the length", "write run: {length: 30 min}", path="run")
                )
        made[name] = for_class(cls, name=name, seed=seed, length_ns=length_ns, base_dir=scenario.base_dir)
    classes = {name: made[name] for name in scenario.traffic}
    frames = [
        c.frame.select(
            pl.col("arrival_ns").cast(pl.UInt64),
            pl.lit(ix, dtype=pl.UInt16).alias("class_ix"),
            "input_tokens",
            "output_tokens",
        )
        for ix, c in enumerate(classes.values())
    ]
    frame = frames[0] if len(frames) == 1 else pl.concat(frames).sort("arrival_ns", maintain_order=True)
    length_ns = asked_ns if asked_ns is not None else max(c.span_ns for c in classes.values())
    return ScenarioTraffic(frame.rechunk(), length_ns, classes)


def for_class(
    cls: TrafficClass, *, name: str, seed: int, length_ns: int | None, base_dir: Path = Path()
) -> ClassTraffic:
    """The requests of class `name`: drawn, realised from a profile, or read from a trace and reshaped.

    `length_ns` cuts arrivals (that instant included); None keeps a trace's whole span.

    Raises:
        TrafficError: the trace cannot be used, or the class is drawn and no length is given.
    """
    if cls.trace is None:
        return _drawn(cls, name=name, seed=seed, length_ns=length_ns, base_dir=base_dir)
    if is_file(cls.trace):
        return _recorded(cls, name=name, seed=seed, length_ns=length_ns, base_dir=base_dir)
    return _profiled(cls, name=name, seed=seed, length_ns=length_ns, base_dir=base_dir)


def for_class_sample(cls: TrafficClass, *, name: str = "", seed: int, base_dir: Path = Path()) -> pl.DataFrame:
    """Lengths of a class's requests for means and shapes (`input_tokens output_tokens`): one span, or 10,000 draws."""
    context = _context(cls, base_dir)
    if cls.trace is None:
        found = synthetic.draw_lengths(
            cls, key=class_key(name), seed=seed, n=_SAMPLED, base_dir=base_dir, context_tokens=context
        )
    elif is_file(cls.trace):
        found = _rows_of(cls, name, base_dir)[1]
    else:
        found = profiles.realise(_profile(cls.trace), key=class_key(name), seed=seed, context_tokens=context)
    return found.select("input_tokens", "output_tokens")


def class_key(name: str) -> int:
    """The number under which a class draws: its name's, so that other classes may come and go."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def _drawn(cls: TrafficClass, *, name: str, seed: int, length_ns: int | None, base_dir: Path) -> ClassTraffic:
    if length_ns is None:
        raise TrafficError(Fault("drawn requests need a length of time", "write run: {length: 30 min}", path="run"))
    transform.too_many((cls.rate_req_per_s or 0.0) * length_ns / 1e9)
    context = _context(cls, base_dir)
    frame, n_redrawn = synthetic.draw(
        cls, key=class_key(name), seed=seed, length_ns=length_ns, base_dir=base_dir, context_tokens=context
    )
    return ClassTraffic(_plain(frame), length_ns, notices=_redrawn(n_redrawn, frame.height, context))


def _profiled(cls: TrafficClass, *, name: str, seed: int, length_ns: int | None, base_dir: Path) -> ClassTraffic:
    import polars as pl

    assert cls.trace is not None
    mapped = [key for key in ("class_column", "model_column", "format") if getattr(cls, key) is not None]
    if mapped:
        what = f"{mapped[0]} belongs to trace files; {cls.trace} is a profile"
        raise TrafficError(
            Fault(what, "take it away, or name a file as ./trace.csv", path=f"traffic.{name}.{mapped[0]}")
        )
    spec = _profile(cls.trace)
    context = _context(cls, base_dir)
    n_requests = sum(size * count for size, count in enumerate(spec["batch_sizes"]))
    span_ns = _clock(pl.DataFrame({"arrival_ns": [0, spec["span_ns"]]}), cls)["arrival_ns"][-1]
    n_passes = 1 + (length_ns // (span_ns + 1) if cls.repeat and length_ns is not None else 0)
    transform.too_many(n_requests * cls.scale * n_passes)
    parts = []
    for number in range(n_passes):
        drawn = profiles.realise(
            spec, key=class_key(name), seed=seed, scale=cls.scale, number=number, context_tokens=context
        )
        shifted = _clock(drawn, cls).with_columns(pl.col("arrival_ns") + number * (span_ns + 1))
        parts.append(shifted)
    frame = pl.concat(parts) if len(parts) > 1 else parts[0]
    n_redrawn = int((frame["redraws"] > 0).sum())
    if length_ns is not None:
        frame = transform.cut(frame, length_ns)
    return ClassTraffic(
        _plain(frame),
        span_ns + 1 if length_ns is None else length_ns,
        notices=_redrawn(n_redrawn, frame.height, context),
    )


def _recorded(cls: TrafficClass, *, name: str, seed: int, length_ns: int | None, base_dir: Path) -> ClassTraffic:
    found, rows, span_ns = _rows_of(cls, name, base_dir)
    frame = transform.copies(rows, cls.scale, span_ns=span_ns, key=class_key(name), seed=seed)
    if length_ns is not None:
        if cls.repeat and length_ns >= span_ns:
            frame = transform.repeat(frame, span_ns, length_ns)
        frame = transform.cut(frame, length_ns)
    if not frame.height:
        what = "no request is left" if length_ns is None else f"no request arrives in the first {length_ns / 1e9:g} s"
        raise TrafficError(Fault(what, "raise scale or run.length", path=f"traffic.{name}", file=found.path))
    notices = list(found.warnings)
    if rows.height < found.n_requests:
        message = f"{rows.height:,} of the trace's {found.n_requests:,} requests are of this class and model"
        notices.append(Notice("part_of_trace", message))
    if found.rejected:
        counts = ", ".join(f"{n:,} {reason}" for reason, n in found.rejected.items())
        notices.append(
            Notice("failed_rows", f"{sum(found.rejected.values()):,} of {found.rows_read:,} rows refused: {counts}")
        )
    return ClassTraffic(
        frame,
        span_ns if length_ns is None else length_ns,
        failed_rows=sum(found.rejected.values()),
        notices=tuple(notices),
        digest=found.digest,
    )


def _clock(frame: pl.DataFrame, cls: TrafficClass) -> pl.DataFrame:
    """The clock of a class: sped up, then with its idle times capped."""
    cap_ns = None if cls.idle_cap_s is None else round(cls.idle_cap_s * 1e9)
    return transform.idle_cap(transform.faster(frame, cls.speedup), cap_ns)


def _rows_of(cls: TrafficClass, name: str, base_dir: Path) -> tuple[Trace, pl.DataFrame, int]:
    """The trace of a class, those of its requests that are the class's, and the span on the class's clock.

    Time runs from the trace's first request, whichever class that is, so that classes of one trace keep step.
    """
    assert cls.trace is not None
    found = _read(locate(cls.trace, base_dir), cls.format, cls.class_column, cls.model_column)
    if found.is_aggregate:
        what = f"{found.format} has sums and no arrivals"
        way_out = "describe the class by arrivals, rate, input and output"
        raise TrafficError(Fault(what, way_out, path=f"traffic.{name}.trace", file=found.path))
    rows = _clock(found.requests, cls)
    span_ns = int(rows["arrival_ns"][-1]) + 1
    if cls.class_column is not None:
        rows = _only(rows, "class", {name}, f"traffic.{name}.class_column", found, meant=name)
    if cls.model_column is not None:
        values = rows["model"].unique().drop_nulls().to_list()
        same = {value for value in values if _same_model(value, cls.model, base_dir)}
        rows = _only(rows, "model", same, f"traffic.{name}.model_column", found, meant=cls.model)
    return found, rows.select(_COLUMNS), span_ns


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


@functools.lru_cache(maxsize=16)
def _profile(name: str) -> dict[str, Any]:
    return profiles.load(name)


def _context(cls: TrafficClass, base_dir: Path) -> int | None:
    """The context of the class's model in tokens; None where it is not known."""
    context = catalog.load().model(cls.model, base=base_dir).context_tokens
    return None if context is None or context.used is None else int(context.number)


def _redrawn(n_redrawn: int, n: int, context: int | None) -> tuple[Notice, ...]:
    if not n_redrawn:
        return ()
    message = (
        f"{n_redrawn:,} of {n:,} drawn requests were longer than the model's context of {context:,} and drawn again"
    )
    return (Notice("redrawn", message),)


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.select(pl.col("arrival_ns").cast(pl.Int64), *_COLUMNS[1:])

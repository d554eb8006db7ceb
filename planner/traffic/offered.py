"""The requests that a run offers: of a class, and of all classes in one order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planner.errors import Notice
from planner.traffic import blocks
from planner.traffic.schema import NO_ROW, NO_SESSION, chain_schema

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class ClassTraffic:
    """The requests of one class."""

    frame: pl.DataFrame
    """`arrival_ns` Int64, `input_tokens` and `output_tokens` UInt32, in order of arrival; where requests wait for
    others also the columns of `chain_schema`, rows and sessions counted within the class."""
    span_ns: int
    """How long it lasts: the run's length, or up to and with its last arrival."""
    failed_rows: int = 0
    """Rows of its file that the reader refused; they are nobody's requests."""
    notices: tuple[Notice, ...] = ()
    digest: str = ""
    """Of the trace file's content; empty if there is none."""
    runs: pl.DataFrame | None = None
    """Blocks of its prompts (`blocks.run_schema`), rows and hashes counted within the class or its trace; None where
    nothing is known of prefixes or nobody asked."""
    block_tokens: int = 0
    """Tokens of one of those blocks."""


@dataclass(frozen=True, slots=True)
class ScenarioTraffic:
    """The requests of all classes under one seed."""

    frame: pl.DataFrame
    """`arrival_ns` UInt64, `class_ix` UInt16 (the scenario's order), `input_tokens` and `output_tokens` UInt32; sorted
    by arrival, class, then each class's own order. Where requests of any class wait for others, also the columns of
    `chain_schema`."""
    length_ns: int
    """Arrivals are before it, or at it if it was asked for."""
    classes: Mapping[str, ClassTraffic] = field(default_factory=dict)
    runs: pl.DataFrame | None = None
    """Blocks of the prompts (`blocks.run_schema`), sorted by row; None where no class has any."""
    block_tokens: int | None = None
    """Tokens of a block."""

    @property
    def blocks(self) -> pl.DataFrame | None:
        """The single blocks of all prompts: `row` and `hash`, UInt64, in prompt order."""
        return None if self.runs is None else blocks.expand(self.runs)

    @property
    def failed_rows(self) -> int:
        """Rows that readers refused, each file once."""
        by_file = {c.digest or name: c.failed_rows for name, c in self.classes.items()}
        return sum(by_file.values())

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is worth saying about the traffic, each line under its class's name."""
        return tuple(replace(n, message=f"{name}: {n.message}") for name, c in self.classes.items() for n in c.notices)


def merged(classes: list[ClassTraffic]) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The requests of all classes in one order, and their runs of blocks, with rows of that order."""
    import polars as pl

    is_chained = any("after_row" in c.frame.columns for c in classes)
    frames = [
        _with_chains(c.frame, is_chained=is_chained).select(
            pl.col("arrival_ns").cast(pl.UInt64),
            pl.lit(ix, dtype=pl.UInt16).alias("class_ix"),
            pl.exclude("arrival_ns"),
        )
        for ix, c in enumerate(classes)
    ]
    frame = frames[0] if len(frames) == 1 else pl.concat(frames).sort("arrival_ns", maintain_order=True)
    # The sort is stable: the k-th row of a class is its own row k.
    places = [frame.select(pl.arg_where(pl.col("class_ix") == ix)).to_series() for ix in range(len(classes))]
    if is_chained:
        frame = _relinked(frame, places)
    space_of: dict[str, int] = {}
    parts = []
    for ix, c in enumerate(classes):
        if c.runs is not None:
            space = space_of.setdefault(c.digest or f"class {ix}", ix)
            rows = places[ix].cast(pl.UInt64)[c.runs["row"]].alias("row")
            parts.append(blocks.in_space(c.runs.with_columns(rows), space))
    return frame.rechunk(), pl.concat(parts).sort("row", maintain_order=True) if parts else None


def _with_chains(frame: pl.DataFrame, *, is_chained: bool) -> pl.DataFrame:
    import polars as pl

    if not is_chained or "after_row" in frame.columns:
        return frame
    free = {"after_row": NO_ROW, "delay_ns": 0, "session": NO_SESSION}
    return frame.with_columns(pl.lit(free[name], kind).alias(name) for name, kind in chain_schema().items())


def _relinked(frame: pl.DataFrame, places: list[pl.Series]) -> pl.DataFrame:
    """The frame with rows and sessions counted over all classes; `places` has the rows of each class."""
    import polars as pl

    parts = []
    n_sessions = 0
    for place in places:
        mine = frame[place]
        after = mine["after_row"]
        has = (after != NO_ROW) & (after < mine.height)
        linked = place.cast(pl.UInt64)[after.set(~has, 0).cast(pl.Int64)].set(~has, NO_ROW) if mine.height else after
        in_session = mine["session"] != NO_SESSION
        session = (mine["session"] + n_sessions).set(~in_session, NO_SESSION)
        known = mine["session"].filter(in_session)
        n_sessions += int(known.max()) + 1 if known.len() else 0  # type: ignore[arg-type]
        parts.append(pl.DataFrame([place.alias("row"), linked.alias("after_row"), session.alias("session")]))
    links = pl.concat(parts).sort("row")
    return frame.with_columns(links["after_row"], links["session"])

"""Cutting a run into stretches of time, each a cell of its own: what is simulated of each, and what is counted.

A stretch counts the requests that arrive in [begin, end) and the work of that time. Requests that arrive up to a
warm-up before it and after it are simulated with it, as shadows that nobody counts: they come as a second set of
classes behind the first. Times are those of the whole run, so outages, windows and clocks need no shift.

A session or a task is counted with the stretch in which it begins, all its requests with it, also those that are sent
after the stretch: such a stretch is simulated until they are done, up to the run's own end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner import core
from planner.fleet import batched
from planner.traffic.schema import NO_ROW

if TYPE_CHECKING:
    import polars as pl

LEAST_FRAC = 0.1
"""A rest shorter than this part of a stretch goes to the stretch before it."""
SPAN = 2**64 - 1
"""The `window_ix` of the row of work that is of the whole measured span (`core_rs/engine/src/table/exact.rs`)."""
_OURS = ("stretch",)
"""Of a spec, what the core does not see."""
_KEYS = ("deployment_ix", "window_ix")


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a run."""

    from_ns: int
    """The first arrival that is simulated with it."""
    begin_ns: int
    end_ns: int
    to_ns: int
    """The last arrival that is simulated with it, that instant included."""
    is_first: bool
    is_last: bool

    @property
    def name(self) -> str:
        """All that a draw hangs on."""
        return f"{self.from_ns} {self.begin_ns} {self.end_ns} {self.to_ns}"


def plan(*, length_ns: int, split_ns: int, warmup_ns: int) -> tuple[Stretch, ...]:
    """The stretches of a run; one if it is not longer than `split_ns`."""
    edges = list(range(0, length_ns, split_ns))
    if len(edges) > 1 and length_ns - edges[-1] < LEAST_FRAC * split_ns:
        edges.pop()
    return tuple(
        stretch(begin, end, length_ns=length_ns, warmup_ns=warmup_ns)
        for begin, end in zip(edges, [*edges[1:], length_ns], strict=True)
    )


def stretch(begin_ns: int, end_ns: int, *, length_ns: int, warmup_ns: int) -> Stretch:
    """One piece of a run, with its shadows on both sides."""
    is_last = end_ns >= length_ns
    return Stretch(
        from_ns=max(0, begin_ns - warmup_ns),
        begin_ns=begin_ns,
        end_ns=end_ns,
        to_ns=length_ns if is_last else min(length_ns, end_ns + warmup_ns),
        is_first=begin_ns == 0,
        is_last=is_last,
    )


def spec_of(spec: Mapping[str, Any], piece: Stretch, *, has_chains: bool) -> dict[str, Any]:
    """The spec of a cell for a stretch; `stretch` in it is for `trimmed`, the core does not see it.

    Where there are chains, requests may be sent until the run's own end, though none begins so late.
    """
    shadows = [{**each, "limits": []} for each in spec["classes"]]
    return {
        **spec,
        "classes": [*spec["classes"], *shadows],
        "warmup_ns": spec["warmup_ns"] if piece.is_first else piece.begin_ns,
        "length_ns": spec["length_ns"] if has_chains else piece.to_ns,
        "stretch": {
            "n_classes": len(spec["classes"]),
            "begin_ns": piece.begin_ns,
            "end_ns": piece.end_ns,
            "is_first": piece.is_first,
            "is_last": piece.is_last,
            "warmup_ns": spec["warmup_ns"],
        },
    }


def requests(frame: pl.DataFrame, piece: Stretch, n_classes: int) -> tuple[pl.DataFrame, int]:
    """The requests of a stretch, shadows in the classes behind the others, and how many rows are before them."""
    import polars as pl

    arrivals = frame["arrival_ns"]
    first = int(arrivals.search_sorted(piece.from_ns, side="left"))
    last = int(arrivals.search_sorted(piece.to_ns, side="right"))
    mine = frame.slice(first, last - first)
    at = pl.col("arrival_ns")
    is_counted = at >= piece.begin_ns
    if not piece.is_last:
        is_counted &= at < piece.end_ns
    shadow = pl.col("class_ix") + pl.lit(n_classes, dtype=frame.schema["class_ix"])
    mine = mine.with_columns(pl.when(is_counted).then("class_ix").otherwise(shadow).alias("class_ix"))
    if "after_row" in mine.columns:  # all requests of a chain have the arrival of its first, so none is cut off
        after = pl.col("after_row")
        own = after - pl.lit(first, dtype=pl.UInt64)
        mine = mine.with_columns(pl.when(after == NO_ROW).then(after).otherwise(own).alias("after_row"))
    return mine, first


def simulate_cell(
    spec: Mapping[str, Any],
    frame: pl.DataFrame,
    blocks: pl.DataFrame | None,
    *,
    progress: Callable[[int, int], None] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> core.CellTables:
    """As `core.simulate_cell`; of a stretch of time only what it counts."""
    tables = core.simulate_cell(_asked(spec), frame, blocks, progress=progress, is_cancelled=is_cancelled)
    return _counted(tables, spec)


class Running:
    """A cell under way, of which `simulate_cell` would make the same of all its requests at once."""

    def __init__(
        self, spec: Mapping[str, Any], *, progress: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> None:
        self._spec = spec
        self._cell = core.Cell(_asked(spec), progress=progress, is_cancelled=is_cancelled)

    def take(self, requests: pl.DataFrame) -> None:
        """Go on with these, which come after those before."""
        self._cell.take(requests)

    def finish(self) -> core.CellTables:
        """No more requests come: what the cell leaves."""
        return _counted(self._cell.finish(), self._spec)


def _asked(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the core is asked for."""
    return {key: value for key, value in spec.items() if key not in _OURS}


def _counted(tables: core.CellTables, spec: Mapping[str, Any]) -> core.CellTables:
    """What is counted of a cell's tables."""
    if "stretch" not in spec:
        return tables
    return trimmed(tables, spec["stretch"], spec["window_ns"], len(spec["classes"]))


def trimmed(tables: core.CellTables, of: Mapping[str, Any], window_ns: int, n_classes: int) -> core.CellTables:
    """What a stretch counts of what was simulated: its own requests, and the work of its own time.

    `n_classes` are all, those of shadows too.
    """
    import polars as pl

    is_own = pl.col("class_ix") < of["n_classes"]
    placed = tables.placed if of["is_first"] else tables.placed.with_columns(n_replicas=pl.lit(0, dtype=pl.UInt32))
    kept = tables.requests
    return replace(
        tables,
        classes=tables.classes.filter(is_own),
        class_windows=tables.class_windows.filter(is_own),
        placed=placed.cast(dict(tables.placed.schema)),  # type: ignore[arg-type]
        work=_work(tables.work, of, window_ns),
        sketches=tables.sketches.filter(is_own),
        requests=None if kept is None else kept.filter(is_own),
        timeline=None if tables.timeline is None else tables.timeline.filter(_in_time(of)),
        batches=None if tables.batches is None else batched.of_first(tables.batches, of["n_classes"], n_classes),
    )


def _in_time(of: Mapping[str, Any]) -> pl.Expr:
    """Whether what a replica did ended in the stretch."""
    import polars as pl

    end = pl.col("end_ns")
    begin_ns, end_ns = int(of["begin_ns"]), int(of["end_ns"])
    return end >= begin_ns if of["is_last"] else (end >= begin_ns) & (end < end_ns)


def _work(work: pl.DataFrame, of: Mapping[str, Any], window_ns: int) -> pl.DataFrame:
    """The windows of the stretch, and the row of the span as their sum; after the last stretch comes its drain."""
    import polars as pl

    window = pl.col("window_ix")
    is_span = window == SPAN
    begin, end = of["begin_ns"] // window_ns, of["end_ns"] // window_ns
    inside = ~is_span & (window >= begin)
    if of["is_last"]:
        return work.filter(is_span | inside)
    inside &= window < end
    measured = inside & (window >= of["warmup_ns"] // window_ns) if of["is_first"] else inside
    values = [name for name in work.columns if name not in _KEYS]
    none = work.filter(is_span).with_columns(pl.lit(0).cast(work.schema[name]).alias(name) for name in values)
    span = work.filter(measured).with_columns(pl.lit(SPAN, dtype=pl.UInt64).alias("window_ix"))
    return core.added(pl.concat([none, span, work.filter(inside)]))

"""The one door to the Rust core: typed wrappers, errors translated, tables as polars frames.

Specs cross once as JSON; tables cross as Arrow, without copies of Python objects. Every call that can take long gives
the interpreter lock away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner import _core
from planner.errors import CoreError, Fault, Infeasible, PlannerError, RunError

if TYPE_CHECKING:
    import polars as pl

METRICS = ("ttft", "tpot", "itl", "e2e", "queue", "task")
"""Latency metrics, in the order of the core's `metric_ix`."""
FATES = ("completed", "rejected", "unfinished", "timed_out", "cancelled")
"""How a request ends, in the order of the core's `fate`."""

NOWHERE = 2**32 - 1
"""The core's `replica_ix` of a request that is on no replica."""

SLICE_EVENTS = 100_000
"""Events of one slice: about 30 ms, so that Ctrl-C and progress are prompt and the slicing costs nothing."""

FEED_ROWS = 100_000
"""Requests handed to the core at a time; those it is done with are forgotten."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to read off the merged sketch of a class and metric; `quantile` None asks for the mean."""

    class_ix: int
    metric: str
    quantile: float | None
    n_low: int = 0
    n_total: int | None = None


@dataclass(frozen=True, slots=True)
class SimTables:
    """What one simulation leaves: counters, work and sketches, each a frame (see `core_rs/engine/src/table.rs`)."""

    classes: pl.DataFrame
    class_windows: pl.DataFrame
    deployments: pl.DataFrame
    windows: pl.DataFrame
    sketches: pl.DataFrame
    requests: pl.DataFrame | None
    n_events: int
    timeline: pl.DataFrame | None = None
    batches: pl.DataFrame | None = None
    """Sketches of each batch of the run (`planner.fleet.batched`)."""


@dataclass(frozen=True, slots=True)
class CellTables:
    """What one cell leaves, work in whole numbers: those of several cells become one in any order (`merge`)."""

    classes: pl.DataFrame
    class_windows: pl.DataFrame
    placed: pl.DataFrame
    """What each deployment is; `n_replicas` is how many the cell has."""
    work: pl.DataFrame
    sketches: pl.DataFrame
    requests: pl.DataFrame | None
    n_events: int
    timeline: pl.DataFrame | None = None
    batches: pl.DataFrame | None = None


class Cancelled(Exception):
    """The caller asked the simulation to stop."""


def _translate(error: _core.EngineError) -> PlannerError:
    kind, where, what, way_out = error.args
    if kind == "infeasible":
        return Infeasible(Fault(what=f"{where}: {what}", way_out=way_out))
    if kind == "bug":
        info = ", ".join(f"{name} {value}" for name, value in _core.build_info())
        return CoreError(Fault(what=f"bug in the core: {what}", way_out=f"please report it with: {info}"))
    if kind == "disk":
        return RunError(Fault(what=what, way_out="free some space there, or set TMPDIR to a larger disk"))
    return CoreError(Fault(what=f"{where}: {what}", way_out=way_out))


@contextmanager
def _translated() -> Iterator[None]:
    """What the core refuses, as errors of ours."""
    try:
        yield
    except _core.EngineError as error:
        raise _translate(error) from None


def _json(spec: object) -> bytes:
    try:
        return json.dumps(spec, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise CoreError(Fault(what=f"spec: {error}")) from None


def _frame(table: _core.Table) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(table)


def plan(deployment: Mapping[str, object]) -> dict[str, Any]:
    """What a deployment takes and holds: chips, memory of a chip by part in bytes, KV capacity in tokens and blocks.

    Raises:
        Infeasible: a part does not fit; the message names it and the smallest layout that does.
        CoreError: the spec itself is wrong.
    """
    with _translated():
        result: dict[str, Any] = json.loads(_core.plan(_json(deployment)))
    return result


def step_times(deployment: Mapping[str, object], batches: pl.DataFrame) -> pl.DataFrame:
    """The cost of a step for each row of `batches`: time, energy, bytes, operations, and what each further step adds.

    `batches` has the UInt64 columns n_seqs, context_tokens, window_tokens, n_growing_in_window, chunk_tokens and
    chunk_past_tokens (`core_rs/engine/src/step.rs` says what each counts). Where it has a UInt64 column load_ix, too,
    neighbouring rows of the same number are one step with several prompt chunks.
    """
    with _translated():
        return _frame(_core.step_times(_json(deployment), batches))


def steady(spec: Mapping[str, object], rows: pl.DataFrame) -> tuple[pl.DataFrame, list[tuple[str, str] | None]]:
    """TTFT, TPOT, throughput and draw of closed loops at fixed concurrency, a row each; for each group of `spec` why it
    cannot run (what, way out), or None. Rows of such a group are NaN.

    `rows` has group_ix UInt64 and the Float64 columns input_tokens, output_tokens, concurrency, prefill_workers and
    decode_workers, and may have held_steps and in_step (`core_rs/engine/src/steady.rs`; 0 without).
    """
    with _translated():
        points, refusals = _core.steady(_json(spec), rows)
    return _frame(points), refusals


def sample(spec: Mapping[str, object]) -> pl.DataFrame:
    """Random arrivals or lengths as `core_rs/engine/src/sample.rs` describes them; a pure function of `spec`."""
    with _translated():
        return _frame(_core.sample(_json(spec)))


class Offered:
    """The requests of some cells, drawn as they are asked for (`core_rs/engine/src/offered.rs`)."""

    def __init__(
        self, spec: Mapping[str, object], beside: Sequence[object], cells: Sequence[int], *, keeps_rows: bool = False
    ) -> None:
        """`beside` has for each class a frame of recorded rows, a `realised`, or None, as its source asks.

        Raises:
            CoreError: the spec or what stands beside it is wrong.
        """
        self._cells = cells
        with _translated():
            self._offered = _core.Offered(_json(spec), list(beside), list(cells), keeps_rows)

    def batches(self, most: int) -> Iterator[list[pl.DataFrame]]:
        """The next requests of each cell, as `simulate_cell` has them, with `row` where rows are kept.

        Of all cells `most` at a time are gone through, so that frames may be empty.

        Raises:
            RunError: drawn requests that do not fit in memory cannot be kept on the disk.
        """
        is_over = False
        while not is_over:
            with _translated():
                table, counts, is_over = self._offered.next(most)
            frame, at, found = _frame(table), 0, []
            for n in counts:
                found.append(frame.slice(at, n))
                at += n
            yield found

    def expected(self) -> list[float]:
        """About how many requests come of each class, in all cells."""
        return self._offered.expected()

    def seen(self) -> list[list[tuple[int, int, int]]]:
        """By cell asked for and class: requests so far, those of them drawn again, the least KV tokens of one."""
        return self._offered.seen()


def realised(profile: Mapping[str, object]) -> object:
    """A profile whose realisations several `Offered` walk over: each span of them is drawn once, by all of them."""
    with _translated():
        return _core.Realised(_json(profile))


def quantiles(sketches: pl.DataFrame, queries: Sequence[Query]) -> list[float | None]:
    """Means and quantiles in seconds off the merged sketches, in the order of `queries`; None where there is none."""
    asked = [
        {
            "class_ix": query.class_ix,
            "metric_ix": METRICS.index(query.metric),
            "quantile": query.quantile,
            "n_low": query.n_low,
            "n_total": query.n_total,
        }
        for query in queries
    ]
    with _translated():
        return list(_core.quantiles(sketches, _json(asked)))


def simulate(
    spec: Mapping[str, object],
    requests: pl.DataFrame | Iterable[pl.DataFrame],
    blocks: pl.DataFrame | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> SimTables:
    """Simulate a fleet that is one cell to its end; see `simulate_cell`."""
    return finish(simulate_cell(spec, requests, blocks, progress=progress, is_cancelled=is_cancelled))


def simulate_cell(
    spec: Mapping[str, object],
    requests: pl.DataFrame | Iterable[pl.DataFrame],
    blocks: pl.DataFrame | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> CellTables:
    """Simulate one cell to its end.

    `requests` has arrival_ns UInt64 (sorted), class_ix UInt16, input_tokens and output_tokens UInt32; optional are
    session UInt64 (whose request it is, 2^64 - 1 for nobody's) and, for chains, after_row UInt64 (the row that it
    follows, 2^64 - 1 for none) with delay_ns UInt64 (how long after its end it is sent). Several frames in a row stand
    for one; each is handed over when the one before is used up, so that memory does not grow with their number (chains
    are handed over whole).
    `blocks`, the hashes of prompts for prefix caches, has row and hash UInt64: by row, in prompt order, a hash for each
    `hash_block_tokens` tokens (the last may stand for less) that names them and all before them; with a column n UInt32
    a row stands for n consecutive hashes from hash on. `progress` is told the
    simulated nanoseconds and the events so far after each slice; `is_cancelled` is asked before each.

    Raises:
        Cancelled: `is_cancelled` said so.
        CoreError: the spec or the requests are wrong, or the simulation is stuck.
        Infeasible: a deployment does not fit.
    """
    with _translated():
        sim = _core.Sim(_json(spec))
        rows_fed = blocks_fed = 0
        for frame in _slices(requests):
            sim.feed(frame)
            if blocks is not None:
                rows_fed += len(frame)
                last = blocks["row"].search_sorted(rows_fed)
                sim.feed_blocks(blocks[blocks_fed:last])
                blocks_fed = last
            if frame is not requests and "after_row" not in frame.columns:
                _advance(sim, progress, is_cancelled)
        if blocks is not None and blocks_fed < blocks.height:
            sim.feed_blocks(blocks[blocks_fed:])  # of rows that there are not: the core says so
        sim.end_of_requests()
        return _tables(sim, spec, _advance(sim, progress, is_cancelled))


class Cell:
    """One cell under way: requests are handed over as they come, and it goes on as far as they tell."""

    def __init__(
        self,
        spec: Mapping[str, object],
        *,
        progress: Callable[[int, int], None] | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """As for `simulate_cell`."""
        self._spec, self._progress, self._is_cancelled = spec, progress, is_cancelled
        with _translated():
            self._sim = _core.Sim(_json(spec))

    def take(self, requests: pl.DataFrame) -> None:
        """Go on with these, which come after those before. Raises as `simulate_cell` does."""
        with _translated():
            self._sim.feed(requests)
            _advance(self._sim, self._progress, self._is_cancelled)

    def finish(self) -> CellTables:
        """No more requests come: go on to the end; what it leaves."""
        with _translated():
            self._sim.end_of_requests()
            n_events = _advance(self._sim, self._progress, self._is_cancelled)
            return _tables(self._sim, self._spec, n_events)


def _tables(sim: _core.Sim, spec: Mapping[str, object], n_events: int) -> CellTables:
    return CellTables(
        classes=_frame(sim.take("classes")),
        class_windows=_frame(sim.take("class_windows")),
        placed=_frame(sim.take("placed")),
        work=_frame(sim.take("work")),
        sketches=_frame(sim.take("sketches")),
        requests=_frame(sim.take("requests")) if spec.get("keep_requests") else None,
        n_events=n_events,
        timeline=_frame(sim.take("timeline")) if spec.get("timeline_rows") else None,
        batches=_frame(sim.take("batches")) if spec.get("batches") else None,
    )


def merge(parts: Sequence[CellTables]) -> CellTables:
    """The tables that some cells of one fleet leave together: the same bytes in whatever order and groups they come."""
    import polars as pl

    if len(parts) == 1:
        return parts[0]

    def joined(what: str) -> pl.DataFrame:
        return _merged(what, [getattr(part, what) for part in parts])

    def stacked(what: str, *by: str) -> pl.DataFrame | None:
        frames = [frame for part in parts if (frame := getattr(part, what)) is not None]
        return pl.concat(frames).sort(by, maintain_order=True) if frames else None

    batches = [part.batches for part in parts if part.batches is not None]
    n_replicas = sum((part.placed["n_replicas"] for part in parts[1:]), start=parts[0].placed["n_replicas"])
    return CellTables(
        classes=joined("classes"),
        class_windows=joined("class_windows"),
        placed=parts[0].placed.with_columns(n_replicas=n_replicas),
        work=joined("work"),
        sketches=joined("sketches"),
        requests=stacked("requests", "row"),
        n_events=sum(part.n_events for part in parts),
        timeline=stacked("timeline", "end_ns", "replica_ix", "begin_ns"),
        batches=merged_sketches(batches) if batches else None,
    )


def added(work: pl.DataFrame) -> pl.DataFrame:
    """Rows of a cell's `work` of equal deployment and window as one, exactly."""
    return _merged("work", [work])


def merged_sketches(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Sketches of equal class, pool and metric as one, whatever their order; single values are sketches too."""
    return _merged("sketches", parts)


def _merged(what: str, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    with _translated():
        return _frame(_core.merge(what, list(parts)))


def finish(cell: CellTables) -> SimTables:
    """The tables of a fleet from those of its cells, once these are merged."""
    import polars as pl

    with _translated():
        deployments, windows = (_frame(_core.finish(what, cell.work)) for what in ("deployments", "windows"))
    return SimTables(
        classes=cell.classes,
        class_windows=cell.class_windows,
        deployments=pl.DataFrame([*cell.placed, *list(deployments)[1:]]),
        windows=windows,
        sketches=cell.sketches,
        requests=cell.requests,
        n_events=cell.n_events,
        timeline=cell.timeline,
        batches=cell.batches,
    )


def split(requests: pl.DataFrame, keys: Sequence[int], weights: Sequence[Sequence[float]], *, seed: int) -> pl.Series:
    """The cell of each request, drawn in proportion to the `weights` of its class, under the class's key.

    Requests of one session, and those that follow one another, stay together (`core_rs/engine/src/split.rs`).
    """
    spec = {"seed": seed, "keys": list(keys), "weights": [list(each) for each in weights]}
    with _translated():
        return _frame(_core.split(_json(spec), requests))["cell_ix"]


def _slices(requests: pl.DataFrame | Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Pieces to feed one after the other; what is no frame of polars is the core's to read or refuse."""
    import polars as pl

    is_one = hasattr(requests, "__arrow_c_stream__") or not isinstance(requests, Iterable)
    for frame in [requests] if is_one else requests:
        if isinstance(frame, pl.DataFrame) and frame.height > FEED_ROWS and "after_row" not in frame.columns:
            yield from frame.iter_slices(FEED_ROWS)
        else:
            yield frame  # type: ignore[misc]


def _advance(sim: _core.Sim, progress: Callable[[int, int], None] | None, is_cancelled: Callable[[], bool]) -> int:
    """Go on until the simulation is done or waits for requests; the events so far."""
    before = -SLICE_EVENTS
    while True:
        if is_cancelled():
            raise Cancelled
        now_ns, n_events, is_done = sim.advance(SLICE_EVENTS)
        if progress is not None:
            progress(now_ns, n_events)
        if is_done or n_events - before < SLICE_EVENTS:
            return n_events
        before = n_events


def build_info() -> dict[str, str]:
    """How the core was built: version, fingerprint of its sources, profile (debug or release), target, spec version."""
    return dict(_core.build_info())

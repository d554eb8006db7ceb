"""What a worker of a cluster is sent and what it sends back. No Ray in here: a thread can do the same work.

A bundle is some cells that are done one after the other: whole simulations of one cell each, or cells of one
simulation, whose tables leave as one.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import CoreError, Fault, RunError
from planner.fleet import draws, parts, stretches, together
from planner.fleet.checkpoint import put
from planner.fleet.draws import CellRequests, Draw, DrawnFacts, Flow
from planner.fleet.executor import Item, Simulation
from planner.fleet.parts import Part
from planner.fleet.storage import Folder
from planner.traffic.streamed import Shared

if TYPE_CHECKING:
    import polars as pl

BUNDLE_S = 0.5
"""How long a bundle takes about: long against what it costs to send one."""
MOST_IN_BUNDLE = 256
BASE_BYTES = 250e6
REQUEST_BYTES = 150.0
"""What a worker takes in memory, and what each request adds while it is drawn, dealt out and simulated."""
CELL_BYTES = 20e6
"""What a cell adds of which the requests are drawn as it goes."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The requests of one cell in a file of all cells' at an address that every worker reaches."""

    facts: DrawnFacts
    folder: Folder
    name: str
    first: int
    n: int
    first_run: int | None
    n_runs: int
    has_rows: bool


Held = tuple[DrawnFacts, CellRequests] | Slice | Draw
"""Requests at hand, where they are read, or what they are drawn from before they are simulated."""
Requests = Held | Flow
"""The same, or what they are drawn from as they are simulated."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell to simulate, without its requests."""

    inputs: str
    stage: str
    simulation: int
    seed: int
    cell: int
    spec: Mapping[str, Any]
    replicas: Sequence[int]


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to do with a bundle."""

    run_id: str
    number: int
    """Of this sending of the bundle, under which the worker says how far it is."""
    made_by: str
    """The driver's core."""
    cells: tuple[Cell, ...]
    place: Folder | None = None
    """Where the worker keeps its parts; None leaves that to the driver."""


@dataclass(frozen=True, slots=True)
class Note:
    """That a bundle is done."""

    n_bytes: int
    """Of its parts, packed."""
    said: tuple[str, ...] = ()
    """Warnings, each once."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a bundle."""

    packed: tuple[bytes, ...]


def cell_of(item: Item, simulation: Simulation) -> Cell:
    """What a worker needs of a cell."""
    ix, cell = item
    spec, replicas = simulation.specs[cell], simulation.replicas[cell]
    return Cell(simulation.inputs, simulation.stage, ix, simulation.draw.seed, cell, spec, replicas)


def bundles(
    items: Sequence[Item], simulations: Sequence[Simulation], n_workers: int, is_flow: Callable[[int], bool]
) -> list[list[Item]]:
    """The items, in their order, in pieces that take about `BUNDLE_S`; shorter ones where workers would else wait.

    Cells of a simulation whose requests are drawn as they go (`is_flow`) are in few pieces, however long these take.
    """
    large = [item for item in items if is_flow(item[0])]
    made = together.groups(large, n_workers, lambda ix: simulations[ix].n_cells, is_flow)
    return made + _small([item for item in items if not is_flow(item[0])], simulations, n_workers)


def _small(items: Sequence[Item], simulations: Sequence[Simulation], n_workers: int) -> list[list[Item]]:
    total_s = sum(simulations[s].cost_s(c) for s, c in items)
    aim_s = min(BUNDLE_S, max(total_s / max(1, 4 * n_workers), 0.02))
    made: list[list[Item]] = []
    spent_s = 0.0
    for item in items:
        simulation = simulations[item[0]]
        last = made[-1] if made else None
        cost_s = simulation.cost_s(item[1])
        # Cells of several simulations leave as one table each, so they do not mix.
        is_kin = last is not None and (
            last[0][0] == item[0] if simulation.n_cells > 1 else simulations[last[0][0]].n_cells == 1
        )
        if last is None or not is_kin or spent_s + cost_s > aim_s or len(last) >= MOST_IN_BUNDLE:
            made.append([])
            spent_s = 0.0
        made[-1].append(item)
        spent_s += cost_s
    return made


def memory_bytes(items: Sequence[Item], simulations: Sequence[Simulation], *, is_flow: bool) -> float:
    """What a bundle takes at most: its largest cell, or all requests of a simulation where the worker draws them."""
    if is_flow:
        return BASE_BYTES + CELL_BYTES * len(items)
    return BASE_BYTES + REQUEST_BYTES * max(max(simulations[s].n_requests) for s, _ in items)


def work(
    order: Order,
    requests: Sequence[Requests],
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda _cells, _ns: None,
) -> tuple[Note, Done]:
    """Simulate a bundle. `progress` is told how many cells are done, and the clock of the one at work.

    Raises:
        RunError: this is another core than the driver's, or the parts cannot be kept.
    """
    check_core(order.made_by)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        done: list[Part] = []
        if requests and isinstance(requests[0], Flow):
            done.append(_together(order.cells, requests[0], is_cancelled, partial(progress, 0)))
        else:
            for cell, drawn in zip(order.cells, requests, strict=True):
                assert not isinstance(drawn, Flow)  # a bundle has requests of one kind
                done.append(_simulated(cell, drawn, is_cancelled, partial(progress, len(done))))
        if len({part.simulation for part in done}) == 1:
            done = [parts.merge(done)]
        packed = tuple(parts.pack(part) for part in done)
        for each in packed if order.place is not None else ():
            put(order.place, each)  # type: ignore[arg-type]
    said = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return Note(sum(map(len, packed)), said), Done(packed)


def check_core(made_by: str) -> None:
    """Refuse to work for a driver with another core."""
    if parts.made_by() != made_by:
        what = f"a worker has core {parts.made_by()}, the driver has {made_by}"
        raise RunError(Fault(what, "install the same planner on all nodes"))


def _together(
    cells: Sequence[Cell], flow: Flow, is_cancelled: Callable[[], bool], progress: Callable[[int], None]
) -> Part:
    facts, found = together.simulate(
        flow,
        Shared.of(flow.streamed),
        {each.cell: each.spec for each in cells},
        {each.cell: each.replicas for each in cells},
        progress=lambda _cell, now_ns: progress(now_ns),
        is_cancelled=is_cancelled,
    )
    first = cells[0]
    where = (first.inputs, first.stage, first.simulation, first.seed, tuple(found))
    return Part(*where, facts, core.merge(list(found.values())))


def _simulated(cell: Cell, drawn: Held, is_cancelled: Callable[[], bool], progress: Callable[[int], None]) -> Part:
    if isinstance(drawn, Draw):
        facts, all_cells = draws.make(drawn)
        requests = all_cells[cell.cell]
    elif isinstance(drawn, Slice):
        facts, requests = drawn.facts, read(drawn)
    else:
        facts, requests = drawn
    tables = stretches.simulate_cell(
        cell.spec,
        requests.frame,
        requests.blocks,
        progress=lambda now_ns, _: progress(now_ns),
        is_cancelled=is_cancelled,
    )
    tables = draws.renumbered(tables, requests.rows, cell.replicas)
    return Part(cell.inputs, cell.stage, cell.simulation, cell.seed, (cell.cell,), facts, tables)


def merged(done: Sequence[Done]) -> Done:
    """Parts of one simulation as one."""
    try:
        whole = parts.merge([parts.unpack(packed) for each in done for packed in each.packed])
    except parts.Damaged as damage:
        raise CoreError(Fault(f"what workers sent was altered on its way: {damage}")) from None
    return Done((parts.pack(whole),))


def drawn(draw: Draw) -> list[tuple[DrawnFacts, CellRequests]]:
    """The requests of each cell, each with the facts of all."""
    facts, cells = draws.make(draw)
    return [(facts, cell) for cell in cells]


def laid_down(draw: Draw, folder: Folder) -> list[Slice]:
    """Draw requests and write them, cell after cell, where every worker reads only its own rows."""
    import polars as pl

    facts, cells = draws.make(draw)
    name = f"requests-{draw.key[:16]}-{draw.seed}"
    has_rows = cells[0].rows is not None
    frames = [cell.frame if cell.rows is None else cell.frame.with_columns(cell.rows.alias("row")) for cell in cells]
    runs = [cell.runs for cell in cells if cell.runs is not None]
    largest = max(1, min(1 << 17, max(frame.height for frame in frames)))
    folder.write(f"{name}.parquet", _parquet(pl.concat(frames), largest))
    if runs:
        folder.write(f"{name}-blocks.parquet", _parquet(pl.concat(runs), largest))
    found = []
    first = first_run = 0
    for cell in cells:
        n, n_runs = cell.frame.height, 0 if cell.runs is None else cell.runs.height
        at_run = first_run if cell.runs is not None else None
        found.append(Slice(facts, folder, name, first, n, at_run, n_runs, has_rows))
        first, first_run = first + n, first_run + n_runs
    return found


def _parquet(frame: pl.DataFrame, row_group: int) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd", row_group_size=row_group)
    return file.getvalue()


def read(place: Slice) -> CellRequests:
    """The requests of one cell: only the row groups that hold them are read."""
    frame = _rows(place.folder, f"{place.name}.parquet", place.first, place.n)
    runs = None
    if place.first_run is not None:
        runs = _rows(place.folder, f"{place.name}-blocks.parquet", place.first_run, place.n_runs)
    return CellRequests(frame.drop("row"), runs, frame["row"]) if place.has_rows else CellRequests(frame, runs, None)


def _rows(folder: Folder, name: str, first: int, n: int) -> pl.DataFrame:
    import polars as pl

    if folder.is_local:
        return pl.scan_parquet(f"{folder}/{name}").slice(first, n).collect()
    return pl.read_parquet(io.BytesIO(folder.read(name))).slice(first, n)


def unpacked(packed: bytes) -> Part:
    """What a worker sent. Raises `RunError` if it was altered on its way."""
    try:
        return parts.unpack(packed)
    except parts.Damaged as damage:
        raise RunError(
            Fault(f"what a worker sent was altered on its way: {damage}", "run again with --resume")
        ) from None


def users(simulations: Sequence[Simulation], to_do: Sequence[Item]) -> dict[str, int]:
    """How many cells are still to be done with the requests of each draw."""
    found: dict[str, int] = {}
    for s, _ in to_do:
        key = simulations[s].draw.key
        found[key] = found.get(key, 0) + 1
    return found


def draw_bytes(simulation: Simulation) -> float:
    """What a worker takes that draws all requests of a simulation."""
    return BASE_BYTES + REQUEST_BYTES * sum(simulation.n_requests)


def where(draw: Draw, shared: Folder | None) -> list[Any]:
    """The requests of each cell, or where they were written."""
    return drawn(draw) if shared is None else list(laid_down(draw, shared))

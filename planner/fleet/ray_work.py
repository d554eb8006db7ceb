"""What a worker of a cluster is sent and what it sends back. No Ray in here: a thread can do the same work.

A bundle is some cells that are done one after the other: whole simulations of one cell each, or cells of one
simulation, whose tables leave as one.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planner.errors import CoreError, Fault, RunError
from planner.fleet import draws, parts, stretches
from planner.fleet.draws import CellRequests, Draw, DrawnFacts
from planner.fleet.executor import Item, Simulation
from planner.fleet.parts import Part
from planner.fleet.storage import Folder

if TYPE_CHECKING:
    import polars as pl

BUNDLE_S = 0.5
"""How long a bundle takes about: long against what it costs to send one."""
MOST_IN_BUNDLE = 256
BASE_BYTES = 250e6
REQUEST_BYTES = 150.0
"""What a worker takes in memory, and what each request adds while it is drawn, dealt out and simulated."""


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


Requests = tuple[DrawnFacts, CellRequests] | Slice | Draw
"""Requests at hand, where they are read, or what they are drawn from."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell to simulate, without its requests."""

    inputs: str
    simulation: int
    seed: int
    cell: int
    spec: Mapping[str, Any]
    replicas: Sequence[int]


@dataclass(slots=True)
class Bundle:
    """Cells that are sent together, as the driver keeps account of them."""

    items: list[Item]
    n_tries: int = 0
    is_done: bool = False
    since_s: float = 0.0
    refs: list[Any] = field(default_factory=list)
    """Where its results will be: one for each time that it was sent and may still be answered."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a bundle."""

    packed: tuple[bytes, ...]
    said: tuple[str, ...]
    """Warnings, each once."""


def cell_of(item: Item, simulation: Simulation) -> Cell:
    """What a worker needs of a cell."""
    ix, cell = item
    return Cell(simulation.inputs, ix, simulation.draw.seed, cell, simulation.specs[cell], simulation.replicas[cell])


def bundles(items: Sequence[Item], simulations: Sequence[Simulation], n_workers: int) -> list[list[Item]]:
    """The items, in their order, in pieces that take about `BUNDLE_S`; shorter ones where workers would else wait."""
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


def memory_bytes(items: Sequence[Item], simulations: Sequence[Simulation]) -> float:
    """What a bundle takes at most: its largest cell, or all requests of a simulation where the worker draws them."""
    return BASE_BYTES + REQUEST_BYTES * max(max(simulations[s].n_requests) for s, _ in items)


def work(
    cells: Sequence[Cell],
    requests: Sequence[Requests],
    made_by: str,
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Done:
    """Simulate a bundle. Raises `RunError` where this is another core than the driver's."""
    check_core(made_by)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        done = [_simulated(cell, drawn, is_cancelled) for cell, drawn in zip(cells, requests, strict=True)]
        if len({part.simulation for part in done}) == 1:
            done = [parts.merge(done)]
        packed = tuple(parts.pack(part) for part in done)
    return Done(packed, tuple(dict.fromkeys(str(warning.message) for warning in caught)))


def check_core(made_by: str) -> None:
    """Refuse to work for a driver with another core."""
    if parts.made_by() != made_by:
        what = f"a worker has core {parts.made_by()}, the driver has {made_by}"
        raise RunError(Fault(what, "install the same planner on all nodes"))


def _simulated(cell: Cell, drawn: Requests, is_cancelled: Callable[[], bool]) -> Part:
    if isinstance(drawn, Draw):
        facts, all_cells = draws.make(drawn)
        requests = all_cells[cell.cell]
    elif isinstance(drawn, Slice):
        facts, requests = drawn.facts, read(drawn)
    else:
        facts, requests = drawn
    tables = stretches.simulate_cell(cell.spec, requests.frame, requests.blocks, is_cancelled=is_cancelled)
    tables = draws.renumbered(tables, requests.rows, cell.replicas)
    return Part(cell.inputs, cell.simulation, cell.seed, (cell.cell,), facts, tables)


def merged(done: Sequence[Done]) -> Done:
    """Parts of one simulation as one."""
    try:
        whole = parts.merge([parts.unpack(packed) for each in done for packed in each.packed])
    except parts.Damaged as damage:
        raise CoreError(Fault(f"what workers sent was altered on its way: {damage}")) from None
    return Done((parts.pack(whole),), tuple(dict.fromkeys(said for each in done for said in each.said)))


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

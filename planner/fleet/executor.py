"""Running simulations: one interface, whoever does the work. The results are the same bytes wherever they were made.

A simulation is a fleet under one seed's traffic; it is one cell, or several whose tables are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from planner.fleet.checkpoint import Kept, Stored
from planner.fleet.draws import Draw, DrawnFacts
from planner.fleet.operation import NS_PER_S
from planner.fleet.parts import Part

REQUEST_S = 2e-6
CELL_S = 3e-3
"""What a request and a cell cost at least, on one core of 2024; only the order and the size of tasks hang on them."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """Everything that its tables depend on."""

    inputs: str
    """Digest of the question that it belongs to."""
    draw: Draw
    specs: tuple[Mapping[str, Any], ...]
    """The core's spec of each cell."""
    replicas: tuple[Sequence[int], ...]
    """By cell: the numbers of its replicas in the whole fleet."""
    end_ns: int
    """Where the simulated clock ends, for progress."""
    n_requests: tuple[int, ...]
    """About how many requests each cell is offered."""
    stage: str = "run"
    """The list of work that it stands in."""

    @property
    def n_cells(self) -> int:
        return len(self.specs)

    def cost_s(self, cell: int) -> float:
        """About how long a cell takes on one core."""
        return CELL_S + self.n_requests[cell] * REQUEST_S


@dataclass(frozen=True, slots=True)
class Progress:
    """How far all cells together are."""

    done_s: float
    """Simulated seconds done, over all cells."""
    total_s: float
    n_requests: int
    """Requests offered, over all cells."""
    n_cells_done: int
    n_cells: int


class Executor(Protocol):
    """Does the work of a run."""

    def facts(self, draws: Sequence[Draw]) -> list[DrawnFacts]:
        """What is known of the requests of each draw. Raises `TrafficError`."""
        ...

    def run(
        self,
        simulations: Sequence[Simulation],
        *,
        kept: Kept | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Generator[Part, None, None]:
        """The whole of each simulation, in the order in which they are done.

        What `kept` has need not be done again; the other parts are put there as they are done. Closing the iterator, or
        an interrupt inside it, stops what is running.
        """
        ...


Item = tuple[int, int]
"""A simulation's place in the list, and one of its cells."""


def items_to_do(simulations: Sequence[Simulation], have: Sequence[Stored]) -> list[Item]:
    """The cells that are in no part: those of the same requests together, the costliest first."""
    done = {(part.simulation, cell) for part in have for cell in part.cells}
    left = [(s, c) for s, sim in enumerate(simulations) for c in range(sim.n_cells) if (s, c) not in done]
    cost = {(s, c): simulations[s].cost_s(c) for s, c in left}
    of_draw: dict[str, float] = {}
    for item in left:
        key = simulations[item[0]].draw.key
        of_draw[key] = max(of_draw.get(key, 0.0), cost[item])
    keys = {key: ix for ix, key in enumerate(of_draw)}

    def rank(item: Item) -> tuple[float, int, float, Item]:
        key = simulations[item[0]].draw.key
        return (-of_draw[key], keys[key], -cost[item], item)

    return sorted(left, key=rank)


class Tally:
    """Counts what is done, for progress."""

    def __init__(self, simulations: Sequence[Simulation], to_do: Sequence[Item]) -> None:
        self.simulations = simulations
        self.n_cells = sum(sim.n_cells for sim in simulations)
        self.total_s = sum(sim.n_cells * sim.end_ns for sim in simulations) / NS_PER_S
        self.n_requests = sum(sum(sim.n_requests) for sim in simulations)
        self.left = set(to_do)
        self.now_ns: dict[Item, int] = {}
        """The clocks of cells under way."""
        self.n_done = self.n_cells - len(to_do)
        self.done_ns = sum(sim.n_cells * sim.end_ns for sim in simulations) - sum(
            simulations[s].end_ns for s, _ in to_do
        )

    def at(self, item: Item, now_ns: int) -> None:
        """The clock of a cell under way."""
        if item in self.left:
            self.now_ns[item] = min(now_ns, self.simulations[item[0]].end_ns)

    def done(self, item: Item) -> None:
        """A cell is done."""
        if item in self.left:
            self.left.remove(item)
            self.now_ns.pop(item, None)
            self.n_done += 1
            self.done_ns += self.simulations[item[0]].end_ns

    def progress(self) -> Progress:
        done_s = (self.done_ns + sum(list(self.now_ns.values()))) / NS_PER_S
        return Progress(done_s, self.total_s, self.n_requests, self.n_done, self.n_cells)

"""Simulations on threads of this machine: the core gives the interpreter lock away, so they run side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial

from planner import core
from planner.fleet import draws, parts, stretches, together
from planner.fleet.checkpoint import Kept
from planner.fleet.draws import CellRequests, Draw, DrawnFacts, Flow
from planner.fleet.executor import Item, Progress, Simulation, Tally, items_to_do
from planner.fleet.parts import Part
from planner.fleet.threads import gather
from planner.fleet.waiting import Waiting
from planner.traffic.streamed import Shared

MOST_KEPT = 20_000_000
"""Requests that are kept between `facts` and `run`; more of them are drawn again."""


class LocalExecutor:
    """Up to `n_workers` cells at a time."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._drawn: dict[str, tuple[DrawnFacts, list[CellRequests]]] = {}

    def facts(self, draws_: Sequence[Draw]) -> list[DrawnFacts]:
        """What is known of the requests of each draw."""
        found: dict[int, DrawnFacts] = {}
        n_kept = 0
        for ix, (facts, cells) in gather([partial(_make, draw) for draw in draws_], self.n_workers):
            found[ix] = facts
            n_kept += sum(cell.frame.height for cell in cells)
            if cells and n_kept <= MOST_KEPT:
                self._drawn[draws_[ix].key] = (facts, cells)
        return [found[ix] for ix in range(len(draws_))]

    def run(
        self,
        simulations: Sequence[Simulation],
        *,
        kept: Kept | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Generator[Part, None, None]:
        """Whole simulations in the order in which they are done; the first error stops the rest."""
        have = () if kept is None else kept.have(simulations)
        waiting = Waiting(simulations, have)
        to_do = items_to_do(simulations, have)
        tally = Tally(simulations, to_do)
        shelf = _Shelf(simulations, to_do, self._drawn)
        self._drawn = {}
        yield from waiting.whole_at_once()
        some = together.groups(
            to_do,
            self.n_workers,
            lambda ix: simulations[ix].n_cells,
            lambda ix: shelf.flow(simulations[ix].draw) is not None,
        )
        work = [partial(_simulate, items, simulations[items[0][0]], shelf, tally) for items in some]
        with closing(gather(work, self.n_workers, poll=lambda _: progress(tally.progress()))) as finished:
            for at, part in finished:
                for item in some[at]:
                    tally.done(item)
                if kept is not None:
                    kept.keep(parts.pack(part))
                if (whole := waiting.add(part)) is not None:
                    yield whole


def _make(draw: Draw, _stop: threading.Event) -> tuple[DrawnFacts, list[CellRequests]]:
    """The facts, and the requests of each cell where they are drawn in one go."""
    found = draws.flow(draw)
    return draws.make(draw) if found is None else (draws.flow_facts(found), [])


def _simulate(items: list[Item], simulation: Simulation, shelf: _Shelf, tally: Tally, stop: threading.Event) -> Part:
    ix, first = items[0]
    cells = tuple(cell for _, cell in items)
    made = shelf.flow(simulation.draw)
    if made is not None:
        flow, shared = made
        facts, found = together.simulate(
            flow,
            shared,
            {cell: simulation.specs[cell] for cell in cells},
            {cell: simulation.replicas[cell] for cell in cells},
            progress=lambda cell, now_ns: tally.at((ix, cell), now_ns),
            is_cancelled=stop.is_set,
        )
        tables = core.merge(list(found.values()))
    else:
        facts, requests = shelf.take(simulation.draw, first)
        if stop.is_set():
            raise core.Cancelled
        tables = stretches.simulate_cell(
            simulation.specs[first],
            requests.frame,
            requests.blocks,
            progress=lambda now_ns, _: tally.at((ix, first), now_ns),
            is_cancelled=stop.is_set,
        )
        tables = draws.renumbered(tables, requests.rows, simulation.replicas[first])
    shelf.give_back(simulation.draw, len(items))
    return Part(simulation.inputs, simulation.stage, ix, simulation.draw.seed, cells, facts, tables)


class _Shelf:
    """Requests that are drawn when their first cell comes up and dropped after their last."""

    def __init__(
        self,
        simulations: Sequence[Simulation],
        to_do: Sequence[Item],
        drawn: dict[str, tuple[DrawnFacts, list[CellRequests]]],
    ) -> None:
        self.left: dict[str, int] = {}
        for s, _ in to_do:
            key = simulations[s].draw.key
            self.left[key] = self.left.get(key, 0) + 1
        self.drawn = {key: made for key, made in drawn.items() if key in self.left}
        self.flows: dict[str, tuple[Flow, Shared] | None] = dict.fromkeys(self.drawn)
        self.locks = {key: threading.Lock() for key in self.left}
        self.lock = threading.Lock()

    def flow(self, draw: Draw) -> tuple[Flow, Shared] | None:
        """Where the requests come from, and what all that draw them share; None where they are drawn in one go."""
        with self.locks[draw.key]:
            if draw.key not in self.flows:
                found = draws.flow(draw)
                self.flows[draw.key] = None if found is None else (found, Shared.of(found.streamed))
            return self.flows[draw.key]

    def take(self, draw: Draw, cell: int) -> tuple[DrawnFacts, CellRequests]:
        """The requests of a cell, drawn with those of all."""
        with self.locks[draw.key]:
            if draw.key not in self.drawn:
                self.drawn[draw.key] = draws.make(draw)
            facts, cells = self.drawn[draw.key]
        return facts, cells[cell]

    def give_back(self, draw: Draw, n_cells: int) -> None:
        """So many cells are done."""
        with self.lock:
            self.left[draw.key] -= n_cells
            if not self.left[draw.key]:
                self.drawn.pop(draw.key, None)
                self.flows[draw.key] = None

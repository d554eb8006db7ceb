"""Simulations on threads of this machine: the core gives the interpreter lock away, so they run side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial

from planner import core
from planner.fleet import draws, parts, stretches
from planner.fleet.checkpoint import Kept
from planner.fleet.draws import CellRequests, Draw, DrawnFacts
from planner.fleet.executor import Item, Progress, Simulation, Tally, items_to_do
from planner.fleet.parts import Part
from planner.fleet.threads import gather
from planner.fleet.waiting import Waiting

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
            if n_kept <= MOST_KEPT:
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
        work = [partial(_simulate, item, simulations[item[0]], shelf, tally) for item in to_do]
        with closing(gather(work, self.n_workers, poll=lambda _: progress(tally.progress()))) as finished:
            for at, part in finished:
                tally.done(to_do[at])
                if kept is not None:
                    kept.keep(parts.pack(part))
                if (whole := waiting.add(part)) is not None:
                    yield whole


def _make(draw: Draw, _stop: threading.Event) -> tuple[DrawnFacts, list[CellRequests]]:
    return draws.make(draw, streams=True)


def _simulate(item: Item, simulation: Simulation, shelf: _Shelf, tally: Tally, stop: threading.Event) -> Part:
    ix, cell = item
    facts, requests = shelf.take(simulation.draw, cell)
    if stop.is_set():
        raise core.Cancelled
    tables = stretches.simulate_cell(
        simulation.specs[cell],
        requests.offered,
        requests.blocks,
        progress=lambda now_ns, _: tally.at(item, now_ns),
        is_cancelled=stop.is_set,
    )
    tables = draws.renumbered(tables, requests.rows, simulation.replicas[cell])
    shelf.give_back(simulation.draw)
    return Part(simulation.inputs, simulation.stage, ix, simulation.draw.seed, (cell,), facts, tables)


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
        self.locks = {key: threading.Lock() for key in self.left}
        self.lock = threading.Lock()

    def take(self, draw: Draw, cell: int) -> tuple[DrawnFacts, CellRequests]:
        with self.locks[draw.key]:
            if draw.key not in self.drawn:
                self.drawn[draw.key] = draws.make(draw, streams=True)
            facts, cells = self.drawn[draw.key]
        return facts, cells[cell]

    def give_back(self, draw: Draw) -> None:
        with self.lock:
            self.left[draw.key] -= 1
            if not self.left[draw.key]:
                del self.drawn[draw.key]

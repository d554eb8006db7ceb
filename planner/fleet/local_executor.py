"""Simulations on threads of this machine: the core gives the interpreter lock away, so they run side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from planner import core
from planner.fleet import draws, parts
from planner.fleet.draws import CellRequests, Draw, DrawnFacts
from planner.fleet.executor import Item, Progress, Simulation, Tally, items_to_do
from planner.fleet.parts import Part
from planner.fleet.threads import gather

AT_ONCE = 16
"""Parts of a simulation that wait before they are merged."""
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
            n_kept += sum(facts.n_requests)
            if n_kept <= MOST_KEPT:
                self._drawn[draws_[ix].key] = (facts, cells)
        return [found[ix] for ix in range(len(draws_))]

    def run(
        self,
        simulations: Sequence[Simulation],
        *,
        have: Sequence[bytes] = (),
        keep: Callable[[bytes], None] | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Iterator[Part]:
        """Whole simulations in the order in which they are done; the first error stops the rest."""
        waiting: dict[int, list[Part]] = {}
        known = [parts.unpack(packed) for packed in have]
        for part in known:
            waiting.setdefault(part.simulation, []).append(part)
        to_do = items_to_do(simulations, known)
        tally = Tally(simulations, to_do)
        shelf = _Shelf(simulations, to_do, self._drawn)
        self._drawn = {}
        for ix in list(waiting):
            if (whole := _whole(simulations, waiting, ix)) is not None:
                yield whole
        work = [partial(_simulate, item, simulations[item[0]], shelf, tally) for item in to_do]
        for at, part in gather(work, self.n_workers, poll=lambda _: progress(tally.progress())):
            tally.done(to_do[at])
            if keep is not None:
                keep(parts.pack(part))
            waiting.setdefault(part.simulation, []).append(part)
            if (whole := _whole(simulations, waiting, part.simulation)) is not None:
                yield whole


def _make(draw: Draw, _stop: threading.Event) -> tuple[DrawnFacts, list[CellRequests]]:
    return draws.make(draw)


def _whole(simulations: Sequence[Simulation], waiting: dict[int, list[Part]], ix: int) -> Part | None:
    """The simulation if it is whole; many parts that wait for others become one."""
    mine = waiting[ix]
    if sum(len(part.cells) for part in mine) == simulations[ix].n_cells:
        return parts.merge(waiting.pop(ix))
    if len(mine) >= AT_ONCE:
        waiting[ix] = [parts.merge(mine)]
    return None


def _simulate(item: Item, simulation: Simulation, shelf: _Shelf, tally: Tally, stop: threading.Event) -> Part:
    ix, cell = item
    facts, requests = shelf.take(simulation.draw, cell)
    tables = core.simulate_cell(
        simulation.specs[cell],
        requests.frame,
        requests.blocks,
        progress=lambda now_ns, _: tally.at(item, now_ns),
        is_cancelled=stop.is_set,
    )
    tables = draws.renumbered(tables, requests.rows, simulation.replicas[cell])
    shelf.give_back(simulation.draw)
    return Part(ix, (cell,), facts, tables)


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
                self.drawn[draw.key] = draws.make(draw)
            facts, cells = self.drawn[draw.key]
        return facts, cells[cell]

    def give_back(self, draw: Draw) -> None:
        with self.lock:
            self.left[draw.key] -= 1
            if not self.left[draw.key]:
                del self.drawn[draw.key]

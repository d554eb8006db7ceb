"""Simulations on a Ray cluster, which is reached through `ray_door.py` alone.

The driver sends bundles of cells (`ray_bundles.py`), a bounded number at a time, and never holds more than a few
results: parts of a simulation meet in tasks, as a tree (`ray_tree.py`). Where parts are kept at an address that every
worker reaches, the workers put them there, and of a cell the driver gets a note. Workers and nodes may die: what they
had in hand is sent again, in smaller bundles if need be. Requests go by reference, through the object store or as files
at that address; a simulation of one cell draws its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from planner.errors import RunError
from planner.fleet import draws as draws_module
from planner.fleet import ray_door, ray_work
from planner.fleet.checkpoint import Kept, Stored
from planner.fleet.draws import Draw, DrawnFacts
from planner.fleet.executor import Progress, Simulation, items_to_do
from planner.fleet.parts import Part
from planner.fleet.ray_address import given_up
from planner.fleet.ray_bundles import TRIES, Bundles, Requests
from planner.fleet.ray_door import Lost
from planner.fleet.ray_tree import Tree
from planner.fleet.storage import Folder
from planner.fleet.waiting import Waiting

POLL_S = 0.2
ROOM_S = 1.0
"""How often the driver looks how large the cluster is."""
MEMORY_FRAC = 0.8
"""A task asks for no more of the largest node's memory than this: it would wait for ever."""
FACTS_AT_ONCE = 64


class RayExecutor:
    """Work on the cluster that this process is connected to."""

    def __init__(self, *, n_workers: int | None = None, shared: Folder | None = None) -> None:
        self.n_workers = n_workers
        self._requests = Requests(shared)
        self._facts: dict[str, DrawnFacts] = {}
        self._room = (0, 0.0)
        self._room_s = float("-inf")

    def facts(self, draws: Sequence[Draw]) -> list[DrawnFacts]:
        """What is known of the requests of each draw."""
        for draw in draws:
            if draw.key not in self._facts and (flow := draws_module.flow(draw)) is not None:
                self._facts[draw.key] = draws_module.flow_facts(flow)
        unknown = list({draw.key: draw for draw in draws if draw.key not in self._facts}.values())
        for at in range(0, len(unknown), FACTS_AT_ONCE):
            some = unknown[at : at + FACTS_AT_ONCE]
            refs = [ray_door.send_facts(draw) if draw.is_anywhere else None for draw in some]
            self._facts |= {draw.key: self._known(draw, ref) for draw, ref in zip(some, refs, strict=True)}
        return [self._facts[draw.key] for draw in draws]

    def _known(self, draw: Draw, ref: Any) -> DrawnFacts:
        if ref is None:
            made = ray_door.answer(self._requests.of_driver(draw)[0])
            facts: DrawnFacts = made.facts if isinstance(made, ray_work.Slice) else made[0]
            return facts
        for n_tries in range(1, TRIES + 1):
            try:
                return ray_door.answer(ref)  # type: ignore[no-any-return]
            except Lost as lost:
                if n_tries == TRIES:
                    raise given_up(n_tries, "draw of requests", lost) from None
                ref = ray_door.send_facts(draw)
        raise AssertionError

    def room(self) -> tuple[int, float]:
        """Workers that may be used, and the most memory that a task may ask for, in bytes."""
        now_s = time.monotonic()
        if now_s - self._room_s > ROOM_S:
            n_there, largest = ray_door.room()
            n_used = n_there if self.n_workers is None else min(self.n_workers, n_there)
            self._room, self._room_s = (max(1, n_used), MEMORY_FRAC * largest), now_s
        return self._room

    def run(
        self,
        simulations: Sequence[Simulation],
        *,
        kept: Kept | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Generator[Part, None, None]:
        """Whole simulations in the order in which they are done; the first error stops the rest."""
        have = () if kept is None else kept.have(simulations)
        yield from Waiting(simulations, have).whole_at_once()
        to_do = items_to_do(simulations, have)
        work = Bundles(simulations, to_do, requests=self._requests, room=self.room, kept=kept)
        tree = Tree(simulations, have, place=work.place, n_tries=TRIES)
        try:
            while work.is_left or tree.is_busy:
                work.send()
                for ref in ray_door.ready([*work.flying, *tree.flying], POLL_S):
                    if ref in tree.flying:
                        tree.landed(ref)
                    elif ref in work.flying and (landed := work.landed(ref)) is not None:
                        ix = landed.items[0][0]
                        if simulations[ix].n_cells > 1:
                            tree.add(ix, landed.result, len(landed.items))
                        else:
                            yield from map(ray_work.unpacked, landed.packed or ())
                yield from tree.whole()
                if lost := set(tree.lost()):
                    there = [] if kept is None else [each for each in kept.have(simulations) if each.simulation in lost]
                    work.again([(ix, cell) for ix in sorted(lost) for cell in _missing(simulations[ix], ix, there)])
                    tree.take(there)
                work.look()
                progress(work.tally.progress())
        except RunError as error:
            if error.hint or kept is None:
                raise
            raise RunError(*error.faults, hint=kept.way_on()) from None
        finally:
            if work.flying or tree.flying:
                ray_door.stop(work.run_id)
            self._requests.clear()


def _missing(simulation: Simulation, ix: int, there: Sequence[Stored]) -> list[int]:
    """The cells of a simulation that are in no kept part."""
    found = {cell for each in there if each.simulation == ix for cell in each.cells}
    return [cell for cell in range(simulation.n_cells) if cell not in found]


@contextmanager
def connected(address: str, *, n_workers: int | None = None, shared: Folder | None = None) -> Iterator[RayExecutor]:
    """An executor on a cluster: `new` (of this machine, ended with the executor), `auto`, or an address.

    Raises:
        RunError: as `ray_door.connected` does.
    """
    with ray_door.connected(address, n_workers=n_workers):
        yield RayExecutor(n_workers=n_workers, shared=shared)

"""Cells of simulations on their way to being one: they meet in tasks, as a tree, and the driver gets the root alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from planner.fleet import ray_door, ray_work
from planner.fleet.checkpoint import Stored
from planner.fleet.executor import Simulation
from planner.fleet.parts import Part
from planner.fleet.ray_address import given_up
from planner.fleet.ray_work import Done
from planner.fleet.storage import Folder

FAN = 8
"""Parts that meet in one task."""
_log = logging.getLogger(__name__)


class Tree:
    """Cells of simulations, merged in tasks until each simulation is one."""

    def __init__(
        self, simulations: Sequence[Simulation], have: Sequence[Stored], *, place: Folder | None, n_tries: int
    ) -> None:
        self.simulations = simulations
        self.n_tries = n_tries
        self.left = {ix: sim.n_cells for ix, sim in enumerate(simulations) if sim.n_cells > 1}
        self._lost: list[int] = []
        self.n_lost: dict[int, int] = {}
        self.refs: dict[int, list[Any]] = {}
        self.flying: dict[Any, int] = {}
        self._place = place
        done: dict[int, int] = {}
        for each in have:
            done[each.simulation] = done.get(each.simulation, 0) + len(each.cells)
        self.take([each for each in have if done[each.simulation] < simulations[each.simulation].n_cells])

    @property
    def is_busy(self) -> bool:
        return bool(self.flying)

    def take(self, stored: Sequence[Stored]) -> None:
        """Parts that are kept: read here, or where workers reach them by one of these."""
        for each in stored:
            if self._place is None:
                ref = ray_door.put(Done((each.read(),)))
            else:
                ref = ray_door.send_read(self._place, each.name)
            self.add(each.simulation, ref, len(each.cells))

    def add(self, ix: int, ref: Any, n_cells: int) -> None:
        """Some more cells of a simulation."""
        self.left[ix] -= n_cells
        self.refs.setdefault(ix, []).append(ref)
        self._meet(ix)

    def _meet(self, ix: int) -> None:
        mine = self.refs.get(ix, [])
        is_last = self.left[ix] == 0
        while len(mine) >= FAN or (is_last and len(mine) > 1):
            some, self.refs[ix] = mine[:FAN], mine[FAN:]
            mine = self.refs[ix]
            self.flying[ray_door.send_merge(some)] = ix

    def landed(self, ref: Any) -> None:
        """A task of the tree is done: its result is one more part."""
        ix = self.flying.pop(ref)
        self.refs.setdefault(ix, []).append(ref)
        if ix not in self.flying.values():
            self._meet(ix)

    def whole(self) -> Iterator[Part]:
        """Simulations that have become one."""
        for ix in [ix for ix, n in self.left.items() if n == 0 and ix not in self.flying.values()]:
            if len(self.refs.get(ix, [])) == 1:
                (ref,) = self.refs.pop(ix)
                try:
                    done = ray_door.answer(ref)
                except ray_door.Lost as lost:
                    _log.info("done again: %s", lost)
                    self.n_lost[ix] = self.n_lost.get(ix, 0) + 1
                    if self.n_lost[ix] >= self.n_tries:
                        raise given_up(self.n_tries, "simulation's results", lost) from None
                    self.left[ix] = self.simulations[ix].n_cells
                    self._lost.append(ix)
                    continue
                del self.left[ix]
                yield ray_work.unpacked(done.packed[0])

    def lost(self) -> list[int]:
        """Simulations whose results died with their node beyond what the cluster makes again; they begin with what is
        kept of them.
        """
        found, self._lost = self._lost, []
        return found

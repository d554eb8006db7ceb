"""Parts of simulations that are not whole yet, as any executor collects them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.errors import Fault, RunError
from planner.fleet import parts
from planner.fleet.checkpoint import Stored
from planner.fleet.executor import Simulation
from planner.fleet.parts import Part

AT_ONCE = 16
"""Parts of a simulation that wait before they are merged."""


class Waiting:
    """Parts of simulations that are not whole yet; many of one simulation become one."""

    def __init__(self, simulations: Sequence[Simulation], have: Sequence[Stored]) -> None:
        self.simulations = simulations
        self.stored: dict[int, list[Stored]] = {}
        for each in have:
            self.stored.setdefault(each.simulation, []).append(each)
        self.done: dict[int, list[Part]] = {}

    def whole_at_once(self) -> Iterator[Part]:
        """Simulations of which nothing is to do."""
        for ix in sorted(self.stored):
            if (whole := self._whole(ix)) is not None:
                yield whole

    def add(self, part: Part) -> Part | None:
        """One more part; the whole simulation if that was the last."""
        mine = self.done.setdefault(part.simulation, [])
        mine.append(part)
        if len(mine) >= AT_ONCE:
            self.done[part.simulation] = [parts.merge(mine)]
        return self._whole(part.simulation)

    def _whole(self, ix: int) -> Part | None:
        stored, done = self.stored.get(ix, []), self.done.get(ix, [])
        n_cells = sum(len(each.cells) for each in stored) + sum(len(each.cells) for each in done)
        if n_cells < self.simulations[ix].n_cells:
            return None
        self.done.pop(ix, None)
        for each in self.stored.pop(ix, []):
            done = [parts.merge([*done, _read(each)])]
        return parts.merge(done)


def _read(stored: Stored) -> Part:
    try:
        return parts.unpack(stored.read())
    except parts.Damaged as damage:
        what = f"a finished part was altered while the run was at work: {damage}"
        raise RunError(Fault(what, "run again with --resume")) from None

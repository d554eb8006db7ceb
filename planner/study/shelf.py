"""The tables of many finished simulations in little memory.

A table as polars holds it takes a kilobyte or two a column, however few its rows are. So the tables of some
simulations are put together as one and packed (Arrow, zstd), and those of one are cut out of it when they are asked
for. What was asked for last stays unpacked: who goes through simulations in order unpacks each block once.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from planner.core import SimTables

if TYPE_CHECKING:
    import polars as pl

TOGETHER = 64
MOST_BYTES = 64 << 20
"""Simulations of a block, or fewer that take so much; what is more recent is not packed."""


class Shelf:
    """Simulations that are put down as they are done, and taken by a function that each is given."""

    def __init__(self) -> None:
        self._open: list[SimTables] = []
        self._open_bytes = 0
        self._packed: list[_Block] = []
        self._last: tuple[int, list[SimTables]] | None = None

    def put(self, sim: SimTables) -> Callable[[], SimTables]:
        """Keep a simulation; what gives it back."""
        place = (len(self._packed), len(self._open))
        self._open.append(sim)
        self._open_bytes += int(sum(frame.estimated_size() for frame in _frames(sim).values()))
        if len(self._open) == TOGETHER or self._open_bytes >= MOST_BYTES:
            self._packed.append(_Block(self._open))
            self._open, self._open_bytes = [], 0
        return partial(self._take, *place)

    def _take(self, block: int, at: int) -> SimTables:
        if block == len(self._packed):
            return self._open[at]
        if self._last is None or self._last[0] != block:
            self._last = None
            self._last = (block, self._packed[block].unpacked())
        return self._last[1][at]


class _Block:
    """Some simulations, packed."""

    def __init__(self, sims: list[SimTables]) -> None:
        self.n_events = [sim.n_events for sim in sims]
        self.heights: dict[str, list[int | None]] = {}
        self.bodies: dict[str, bytes] = {}
        of_sims = [_frames(sim) for sim in sims]
        for name in _TABLES:
            self.heights[name] = [frames[name].height if name in frames else None for frames in of_sims]
            if there := [frames[name] for frames in of_sims if name in frames]:
                self.bodies[name] = _written(there)

    def unpacked(self) -> list[SimTables]:
        made: list[dict[str, Any]] = [{"n_events": n} for n in self.n_events]
        for name in _TABLES:
            heights = self.heights[name]
            ends = list(accumulate(n or 0 for n in heights))
            whole = _read(self.bodies[name]) if name in self.bodies else None
            for sim, n, end in zip(made, heights, ends, strict=True):
                sim[name] = None if n is None or whole is None else whole.slice(end - n, n)
        return [SimTables(**sim) for sim in made]


_TABLES = tuple(field.name for field in fields(SimTables) if field.name != "n_events")


def _frames(sim: SimTables) -> dict[str, pl.DataFrame]:
    """The tables that there are."""
    return {name: frame for name in _TABLES if (frame := getattr(sim, name)) is not None}


def _written(frames: list[pl.DataFrame]) -> bytes:
    import polars as pl

    file = io.BytesIO()
    pl.concat(frames, rechunk=True).write_ipc_stream(file, compression="zstd")
    return file.getvalue()


def _read(body: bytes) -> pl.DataFrame:
    import polars as pl

    return pl.read_ipc_stream(io.BytesIO(body)).rechunk()

"""Running cells: one interface, whoever does the work. The results are the same bytes wherever they were made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from planner.core import SimTables
from planner.fleet.cells import Cell


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
    """Runs cells and gives back (place in the list, tables) as they finish."""

    def run(self, cells: Sequence[Cell], *, progress: Callable[[Progress], None]) -> Iterator[tuple[int, SimTables]]:
        """Closing the iterator, or an interrupt inside it, stops what is running."""
        ...

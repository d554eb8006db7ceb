"""Cells on threads of this machine: the core gives the interpreter lock away, so they run side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from planner import core
from planner.core import SimTables
from planner.fleet.cells import NS_PER_S, Cell
from planner.fleet.executor import Progress
from planner.fleet.threads import gather


class LocalExecutor:
    """Up to `n_workers` cells at a time."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers

    def run(self, cells: Sequence[Cell], *, progress: Callable[[Progress], None]) -> Iterator[tuple[int, SimTables]]:
        """Results in the order in which cells finish; the first error stops the rest."""
        total_s = sum(cell.end_ns for cell in cells) / NS_PER_S
        n_requests = sum(cell.n_requests for cell in cells)
        now_ns = [0] * len(cells)

        def work(ix: int, stop: threading.Event) -> SimTables:
            def note(at_ns: int, _events: int) -> None:
                now_ns[ix] = min(at_ns, cells[ix].end_ns)

            requests, blocks = cells[ix].requests(), cells[ix].blocks()
            tables = core.simulate(cells[ix].spec, requests, blocks, progress=note, is_cancelled=stop.is_set)
            now_ns[ix] = cells[ix].end_ns
            return tables

        def poll(n_done: int) -> None:
            progress(Progress(sum(now_ns) / NS_PER_S, total_s, n_requests, n_done, len(cells)))

        yield from gather([partial(work, ix) for ix in range(len(cells))], self.n_workers, poll=poll)

"""Cells on threads of this machine: the core gives the interpreter lock away, so they run side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from planner import core
from planner.core import SimTables
from planner.fleet.cells import NS_PER_S, Cell
from planner.fleet.executor import Progress

POLL_S = 0.05
"""How often the waiting thread looks up: an interrupt acts within this and one slice of the core."""


class LocalExecutor:
    """Up to `n_workers` cells at a time."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers

    def run(self, cells: Sequence[Cell], *, progress: Callable[[Progress], None]) -> Iterator[tuple[int, SimTables]]:
        """Results in the order in which cells finish; the first error stops the rest."""
        stop = threading.Event()
        now_ns = [0] * len(cells)

        def work(ix: int) -> SimTables:
            cell = cells[ix]

            def note(at_ns: int, _events: int) -> None:
                now_ns[ix] = at_ns

            requests = cell.requests()
            tables = core.simulate(cell.spec, requests, progress=note, is_cancelled=stop.is_set)
            now_ns[ix] = cell.end_ns
            return tables

        total_s = sum(cell.end_ns for cell in cells) / NS_PER_S
        pool = ThreadPoolExecutor(max_workers=max(1, min(self.n_workers, len(cells))))
        futures: dict[Future[SimTables], int] = {pool.submit(work, ix): ix for ix in range(len(cells))}
        pending = set(futures)
        try:
            while pending:
                done, pending = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
                done_s = sum(min(at, cell.end_ns) for at, cell in zip(now_ns, cells, strict=True)) / NS_PER_S
                progress(Progress(done_s, total_s, len(cells) - len(pending), len(cells)))
                for future in sorted(done, key=lambda f: futures[f]):
                    yield futures[future], future.result()
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

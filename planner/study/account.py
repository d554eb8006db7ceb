"""How far a run is that does several lists of work, one after the other, of which the later hang on the earlier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from planner.fleet.executor import Progress


class Account:
    """Progress of all lists of work of a run as one."""

    def __init__(self, tell: Callable[[Progress], None], later_s: Mapping[str, float]) -> None:
        """`later_s` is about how many seconds the lists to come will simulate, by name."""
        self.tell = tell
        self.later_s = dict(later_s)
        self.before = self.now = Progress(done_s=0.0, total_s=0.0, n_requests=0, n_cells_done=0, n_cells=0)

    def of(self, stage: str) -> Callable[[Progress], None]:
        """Takes the progress of the list of work that begins; those before it are done."""
        self.before = _sum(self.before, replace(self.now, done_s=self.now.total_s, n_cells_done=self.now.n_cells))
        self.now = Progress(done_s=0.0, total_s=0.0, n_requests=0, n_cells_done=0, n_cells=0)
        self.later_s.pop(stage, None)

        def told(progress: Progress) -> None:
            self.now = progress
            whole = _sum(self.before, progress)
            self.tell(replace(whole, total_s=whole.total_s + sum(self.later_s.values())))

        return told


def _sum(one: Progress, other: Progress) -> Progress:
    return Progress(
        one.done_s + other.done_s,
        one.total_s + other.total_s,
        one.n_requests + other.n_requests,
        one.n_cells_done + other.n_cells_done,
        one.n_cells + other.n_cells,
    )

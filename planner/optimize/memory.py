"""What a search has found, so that nothing is found twice: solved programs, verdicts and costs of simulations.

Everything here is a function of its key alone, so a search that is gone on with ends with the bytes of one that never
stopped (but for a solver's own time limit, whose answer is kept rather than asked for again).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from planner.optimize.instance import Decision, Instance
from planner.optimize.linear import Stop
from planner.optimize.program import Failed, Seen
from planner.optimize.search import Solved, solve


class Notes(Protocol):
    """Where findings outlive the process: `planner.fleet.checkpoint`."""

    def noted(self, key: str) -> Any:
        """What is there under a key; None where nothing is."""
        ...

    def note(self, key: str, tree: Any) -> None:
        """Put something under a key."""
        ...


class Memory:
    """Findings by key, in this process and, with `notes`, for the next one."""

    def __init__(self, notes: Notes | None = None) -> None:
        self._notes = notes
        self._known: dict[str, Any] = {}

    def of(self, key: str, find: Callable[[], Any]) -> Any:
        """What is known under a key, as JSON; it is found where it is not."""
        if key not in self._known:
            tree = self._notes.noted(key) if self._notes is not None else None
            if tree is None:
                tree = json.loads(json.dumps(find()))  # as a later process reads it
                if self._notes is not None:
                    self._notes.note(key, tree)
            self._known[key] = tree
        return self._known[key]

    def solve(
        self,
        instance: Instance,
        stop: Stop | None = None,
        *,
        failed: Sequence[Failed] = (),
        seen: Sequence[Seen] = (),
        below: float | None = None,
    ) -> Solved:
        """`search.solve`."""
        asked = repr((instance, stop, tuple(failed), tuple(seen), below))
        key = f"solved {hashlib.sha256(asked.encode()).hexdigest()}"
        return _solved(self.of(key, lambda: asdict(solve(instance, stop, failed=failed, seen=seen, below=below))))


def _solved(tree: dict[str, Any]) -> Solved:
    made = tree["decision"]
    decision = None if made is None else Decision(**{name: _tuples(value) for name, value in made.items()})
    return Solved(**{**tree, "decision": decision})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value

"""Where finished parts of a run are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from planner.fleet.executor import Simulation


class Kept(Protocol):
    """Finished parts of a run."""

    def have(self, simulations: Sequence[Simulation]) -> Sequence[bytes]:
        """Those that are there and whole, no cell in two of them."""
        ...

    def keep(self, packed: bytes) -> None:
        """Put one more."""
        ...

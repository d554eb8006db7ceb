"""What two scenarios ask differently, path by path."""

from __future__ import annotations

from dataclasses import dataclass

from planner.scenario.dump import ordered
from planner.scenario.schema import Scenario
from planner.scenario.tree import Steps, Tree, show


@dataclass(frozen=True, slots=True)
class Difference:
    """A path at which two scenarios differ; a side that has no value there is None."""

    path: str
    base: object
    other: object


def diff(base: Scenario, other: Scenario) -> tuple[Difference, ...]:
    """The differences as both files write them, in the order of the schema; lists are compared as wholes."""
    left, right = _leaves(base), _leaves(other)
    found = []
    for path in dict.fromkeys((*left, *right)):
        a, b = left.get(path), right.get(path)
        if a != b:
            found.append(Difference(show(path), a, b))
    return tuple(found)


def _leaves(scenario: Scenario) -> dict[Steps, object]:
    tree: Tree = ordered(scenario.tree)
    return {path: leaf.plain() for path, leaf in tree.leaves()}

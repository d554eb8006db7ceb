"""What the schema reads and this version does not act on: one table, from which later versions take rows away."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.errors import Fault, ScenarioError
from planner.scenario.fields import LONG_FORM
from planner.scenario.files import matches
from planner.scenario.schema import Question, Scenario
from planner.scenario.shape import Fields, facts
from planner.scenario.tree import Steps, Tree, show

_LATER = "this version does not act on it: planner run refuses it"


def _always(_: Tree) -> bool:
    return True


def _is_range(tree: Tree) -> bool:
    return isinstance(tree.value, dict) and "value" not in tree.value


def _is_not(*values: str) -> Callable[[Tree], bool]:
    return lambda tree: tree.value not in values


def _is_any(tree: Tree) -> bool:
    return tree.value == "any"


def _is_menu(tree: Tree) -> bool:
    return isinstance(tree.value, list) and sum("per_rack" not in entry.keys for entry in tree.value) > 1


UNSUPPORTED: tuple[tuple[str, Callable[[Tree], bool], str], ...] = (
    ("fleet.spare", _always, "capacity is not kept free"),
    ("fleet.survive", _always, "racks out of service are not simulated"),
    ("fleet.cell_replicas", _always, "the fleet is simulated as one cell"),
    ("fleet.pools.*.count", _is_range, "racks are not chosen: write a number"),
    ("fleet.pools.*.deploy", _is_any, "deployments are not chosen: write a list"),
    ("fleet.pools.*.deploy", _is_menu, "two entries have no per_rack: one of them can take what is left of a rack"),
    ("fleet.pools.*.deploy.*.speculation", _always, "no tokens are drafted"),
    ("fleet.pools.*.power_cap", _always, "chips draw what they need"),
    ("fleet.pools.*.deploy.*.pp", _is_not("1"), "pipeline stages are not simulated"),
    ("sites", _always, "one site is simulated: write site"),
    ("cost.insurance", _always, "insurance is not charged: add it to upkeep"),
    ("goal", _always, "no fleet is chosen: the one given is simulated"),
    ("periods", _always, "one period is simulated"),
    ("run.split", _always, "a run is not cut into parts"),
    ("sweep", _always, "values are not swept"),
)
"""Pattern of the key, whether the value there is one that is not acted on, and what that means."""


def unsupported(tree: Tree) -> Iterator[Fault]:
    """A fault for each key of the merged tree that this version does not act on, in the file's order."""
    found: dict[Steps, Fault] = {}
    for pattern, applies, meaning in UNSUPPORTED:
        for path, here in matches(tree, pattern):
            if applies(here):
                found[path] = fault_at(here, path, meaning, _LATER, at_key=True)
    for path, here in tree.walk():
        if path not in found and _is_wish_with_range(path, here):
            what = "the range of a quantity that is no fact is not varied"
            found[path] = fault_at(here, path, what, _LATER, at_key=True)
    yield from sorted(found.values(), key=lambda fault: (fault.file, fault.line or 0, fault.col or 0))


def refuse_unsupported(scenario: Scenario) -> None:
    """Nothing, or `ScenarioError` with every key that would be ignored."""
    if scenario.unsupported:
        raise ScenarioError(*scenario.unsupported, hint="take these keys away; planner check lists them too")


def fault_at(tree: Tree, path: Steps, what: str, way_out: str = "", *, at_key: bool = False) -> Fault:
    """A fault at a value of the merged tree, or at its key."""
    o = tree.origin
    line, col = (o.key_line, o.key_col) if at_key and o.key_line else (o.line, o.col)
    return Fault(what, way_out, path=show(path), file=o.file, line=line, col=col)


_FACTS = tuple(facts(Fields(Question)))


def _is_wish_with_range(path: Steps, tree: Tree) -> bool:
    keys = tree.keys
    is_long = "value" in keys and keys.keys() <= set(LONG_FORM) and not keys.keys().isdisjoint({"low", "high"})
    return is_long and not any(_fits(path, pattern) for pattern in _FACTS)


def _fits(path: Steps, pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(want in ("*", step) for step, want in zip(path, pattern, strict=True))

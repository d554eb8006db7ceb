"""What the schema reads and not every verb acts on: one table, from which later versions take rows away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planner.errors import Fault, Notice, ScenarioError
from planner.scenario.fields import LONG_FORM
from planner.scenario.files import matches
from planner.scenario.schema import Question, Scenario
from planner.scenario.shape import Fields, facts
from planner.scenario.tree import Steps, Tree, show

VERBS: dict[str, tuple[str, ...]] = {"run": (), "sweep": ("sweep",), "headroom": (), "optimize": ("goal",)}
"""The verbs that simulate a scenario, each with the keys of which it needs one."""


def _always(_: Tree) -> bool:
    return True


def _is_range(tree: Tree) -> bool:
    return isinstance(tree.value, dict) and "value" not in tree.value


def _has_shares(tree: Tree) -> bool:
    return isinstance(tree.value, dict) and any(share.value is not None for share in tree.keys.values())


def _is_any(tree: Tree) -> bool:
    return tree.value == "any"


def _is_menu(tree: Tree) -> bool:
    return isinstance(tree.value, list) and sum("per_rack" not in entry.keys for entry in tree.value) > 1


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a scenario, or one sort of value there, that some verb does not act on."""

    pattern: str
    """Where it stands; `*` stands for any name or item."""
    applies: Callable[[Tree], bool]
    """Whether the value there is of the sort that is meant."""
    meaning: str
    """What a verb that does not act on it does instead."""
    verbs: tuple[str, ...] = ()
    """The verbs that act on it."""
    is_said: bool = False
    """The other verbs go on without it and say so; otherwise they refuse the scenario."""


UNSUPPORTED: tuple[Key, ...] = (
    Key("fleet.pools.*.count", _is_range, "racks are not chosen: write a number", verbs=("optimize",)),
    Key("fleet.pools.*.deploy", _is_any, "deployments are not chosen: write a list", verbs=("optimize",)),
    Key(
        "fleet.pools.*.deploy",
        _is_menu,
        "two entries have no per_rack: one of them can take what is left of a rack",
        verbs=("optimize",),
    ),
    Key(
        "fleet.routes.*",
        _has_shares,
        "shares are what is chosen: name the pools alone, as [a, b]",
        verbs=("run", "sweep", "headroom"),
    ),
    Key("sites", _always, "one site is planned for: write site", verbs=("run", "sweep", "headroom", "optimize")),
    Key("goal", _always, "no fleet is chosen: the one given is simulated", verbs=("optimize",)),
    Key("periods", _always, "one period is simulated", verbs=("optimize",)),
    *(
        Key(f"fleet.pools.*.{name}", _always, "the racks stand as they are given", verbs=("optimize",))
        for name in ("retire", "available_from", "lead_time", "deliveries")
    ),
    Key("run.horizon", _always, "the horizon is not walked", verbs=("run", "sweep"), is_said=True),
    Key("sweep", _always, "the values of the scenario itself are taken", verbs=("sweep",), is_said=True),
)
"""One row for each key that not every verb acts on; a key that every verb acts on has none."""


@dataclass(frozen=True, slots=True)
class Found:
    """A key of a scenario that not every verb acts on, and where it stands."""

    key: Key
    at: Fault
    """Its place, and what not acting on it means."""

    @property
    def path(self) -> str:
        """Its dotted path."""
        return self.at.path

    def refused_by(self, verb: str) -> bool:
        """Whether a verb refuses a scenario with it."""
        return verb not in self.key.verbs and not self.key.is_said

    def fault(self, verb: str) -> Fault:
        """Why a verb refuses it, and which verb does not."""
        others = " and ".join(f"planner {name}" for name in self.key.verbs)
        way_out = f"it is for {others}: planner {verb} refuses it" if others else f"planner {verb} refuses it"
        return replace(self.at, way_out=way_out if others else f"this version does not act on it: {way_out}")


def unsupported(tree: Tree) -> Iterator[Found]:
    """Each key of the merged tree that not every verb acts on, in the file's order."""
    found: dict[Steps, Found] = {}
    for key in UNSUPPORTED:
        for path, here in matches(tree, key.pattern):
            if key.applies(here):
                found[path] = Found(key, fault_at(here, path, key.meaning, at_key=True))
    for path, here in tree.walk():
        if path not in found and _is_wish_with_range(path, here):
            found[path] = Found(_RANGE, fault_at(here, path, _RANGE.meaning, at_key=True))
    yield from sorted(found.values(), key=lambda one: (one.at.file, one.at.line or 0, one.at.col or 0))


def refuse_unsupported(scenario: Scenario, verb: str) -> None:
    """Nothing, or `ScenarioError` with every key that `verb` would ignore."""
    faults = [found.fault(verb) for found in scenario.unsupported if found.refused_by(verb)]
    if faults:
        raise ScenarioError(*faults, hint="take these keys away; planner check lists them too")


def set_aside(scenario: Scenario, verb: str) -> tuple[Notice, ...]:
    """What `verb` goes on without, for which another verb is meant, one notice each."""
    return tuple(
        Notice("for_another_verb", f"{found.path} is for planner {found.key.verbs[0]}: {found.key.meaning}")
        for found in scenario.unsupported
        if found.key.is_said and found.key.verbs and verb not in found.key.verbs
    )


def verbs_for(scenario: Scenario) -> tuple[str, ...]:
    """The verbs that a scenario is for: they act on all that it says, and it says what they need."""
    there = {found.key.pattern for found in scenario.unsupported}
    return tuple(
        verb
        for verb, needed in VERBS.items()
        if (not needed or there & set(needed)) and not any(found.refused_by(verb) for found in scenario.unsupported)
    )


def fault_at(tree: Tree, path: Steps, what: str, way_out: str = "", *, at_key: bool = False) -> Fault:
    """A fault at a value of the merged tree, or at its key."""
    o = tree.origin
    line, col = (o.key_line, o.key_col) if at_key and o.key_line else (o.line, o.col)
    return Fault(what, way_out, path=show(path), file=o.file, line=line, col=col)


_RANGE = Key("", _always, "the range of a quantity that is no fact is not varied")
_FACTS = tuple(facts(Fields(Question)))


def _is_wish_with_range(path: Steps, tree: Tree) -> bool:
    keys = tree.keys
    is_long = "value" in keys and keys.keys() <= set(LONG_FORM) and not keys.keys().isdisjoint({"low", "high"})
    return is_long and not any(_fits(path, pattern) for pattern in _FACTS)


def _fits(path: Steps, pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(want in ("*", step) for step, want in zip(path, pattern, strict=True))

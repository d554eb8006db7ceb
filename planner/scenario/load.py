"""From a scenario file to a `Scenario`: files merged, variants built and checked, all faults in one report."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from planner.errors import Fault, ScenarioError, near
from planner.facts.schema import Fact
from planner.scenario import checks, sites
from planner.scenario.fields import NameOf
from planner.scenario.judge import judge, placed, read_error
from planner.scenario.layers import (
    Change,
    apply,
    contradictions,
    read_files,
    read_overrides,
    read_sets,
)
from planner.scenario.schema import Question, Scenario, Sweep
from planner.scenario.section import Section, shown
from planner.scenario.tree import Origin, Steps, Tree, prune, put, show, steps
from planner.scenario.unsupported import fault_at, unsupported

BASE = "base"
_MAX_AXIS = 10_000
_MAX_VALUES = 200_000


def load(
    source: str | Path, *, sets: Sequence[str] = (), variant: str | None = None, stdin_text: str | None = None
) -> Scenario:
    """The scenario of a file: its base, or the named `variant`, with `sets` (`PATH=VALUE`) laid over it.

    `source` is a path, or `-` for `stdin_text`. Every variant and every value of a sweep is checked, not only the one
    that is asked for. Raises `ScenarioError` with all faults of the file, each with its place.
    """
    return load_all(source, sets=sets, names=(variant or BASE,), stdin_text=stdin_text)[0]


def load_all(
    source: str | Path,
    *,
    sets: Sequence[str] = (),
    names: Sequence[str] | None = None,
    stdin_text: str | None = None,
) -> tuple[Scenario, ...]:
    """As `load`, several variants of a file that is read and checked once: those named (`base` is the file itself),
    by default `base` and all.
    """
    faults: list[Fault] = []
    is_stdin = str(source) == "-"
    if is_stdin and stdin_text is None:
        stdin_text = read_stdin()
    if is_stdin:
        merged, base_dir = read_files(stdin_text, None, "<stdin>", faults)
    else:
        merged, base_dir = read_files(None, Path(source), str(source), faults)
    if sum(1 for _ in merged.walk()) > _MAX_VALUES:
        raise ScenarioError(Fault(f"more than {_MAX_VALUES:,} values", "split the scenario", file=merged.origin.file))
    file = _File.of(merged, base_dir, faults)
    judged = {BASE: judge(file.base, base_dir)}
    faults.extend(judged[BASE].faults)
    for name in file.variants:
        judged[name] = judge(file.tree(name, faults), base_dir)
        faults.extend(_only_there(name, judged[name].faults, judged[BASE].faults))
    faults.extend(_swept(file, base_dir, judged[BASE].faults))
    names = tuple(judged) if names is None else tuple(dict.fromkeys(names))
    for name in names:
        if name not in judged:
            what = f"no scenario is named {shown(name)}{near(name, judged)}"
            faults.append(Fault(what, file=merged.origin.file))
    names = [name for name in names if name in judged]
    changes = read_sets(sets, base_dir, faults)
    laid = [change for change in changes if not (change.path == ("sweep",) and change.value.value is None)]
    if len(laid) < len(changes):
        file = replace(file, sweep=None)
    if changes:
        judged |= {name: judge(prune(_tried(file.tree(name, []), laid, faults)), base_dir) for name in names}
    made = []
    for name in names:
        asked = judged[name]
        faults.extend(asked.faults)
        if asked.question is not None:
            made.append((name, asked.question, asked.tree))
    if faults:
        raise ScenarioError(*_once(faults))
    return tuple(
        _scenario(name, question, tree, base_dir, variants=file.variants, sweep=file.sweep)
        for name, question, tree in made
    )


def changed(scenario: Scenario, sets: Sequence[str]) -> Scenario:
    """A loaded scenario with `sets` (`PATH=VALUE`) laid over it, as `load` does it; without its sweep.

    Raises `ScenarioError` with all faults of what comes out.
    """
    faults: list[Fault] = []
    tree = _tried(scenario.tree, read_sets(sets, scenario.base_dir, faults), faults)
    judged = judge(prune(tree), scenario.base_dir)
    faults.extend(judged.faults)
    if faults or judged.question is None:
        raise ScenarioError(*_once(faults))
    return _scenario(
        scenario.name, judged.question, judged.tree, scenario.base_dir, variants=scenario.variants, sweep=None
    )


def read_stdin() -> str:
    """The text on standard input. Raises `ScenarioError` if it is not UTF-8."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScenarioError(Fault(f"not UTF-8 text (byte {error.start})", "save it as UTF-8", file="<stdin>")) from None


@dataclass(frozen=True, slots=True)
class _File:
    """A merged file taken apart: the base question, and what makes variants of it."""

    base: Tree
    changes: dict[str, list[Change]]
    variants: dict[str, tuple[str, ...]]
    sweep: Tree | None

    @classmethod
    def of(cls, merged: Tree, base_dir: Path, faults: list[Fault]) -> _File:
        parts = merged.keys
        question = {key: part for key, part in parts.items() if key not in {"overrides", "scenarios", "sweep"}}
        base = prune(Tree(question, merged.origin))
        changes = read_overrides(_section(parts, "overrides", faults), faults)
        scenarios = _variants(prune(_section(parts, "scenarios", faults)), changes, faults)
        sweep = parts.get("sweep")
        file = cls(base, changes, scenarios, None if sweep is None or sweep.value is None else prune(sweep))
        used = {name for names in scenarios.values() for name in names}
        for name, entries in changes.items():
            if name not in used:
                _tried(base, entries, faults)
        return file

    def tree(self, name: str, faults: list[Fault]) -> Tree:
        """The merged tree of a variant; faults of its paths are added."""
        if name == BASE:
            return self.base
        entries = [change for override in self.variants[name] for change in self.changes.get(override, [])]
        faults.extend(contradictions(entries, name))
        return prune(_tried(self.base, entries, faults))


def _tried(tree: Tree, entries: Sequence[Change], faults: list[Fault]) -> Tree:
    for change in entries:
        tree = apply(tree, change, faults)
    return tree


def _section(parts: Mapping[str, Tree], key: str, faults: list[Fault]) -> Tree:
    """A section of the file that is a map; an empty one where it is absent or something else."""
    found = parts.get(key)
    if found is not None and isinstance(found.value, dict):
        return found
    if found is not None and found.value is not None:
        faults.append(
            fault_at(found, (key,), f"a map of names is meant, not {shown(found.plain())}", "write name: value lines")
        )
    return Tree({}, next(iter(parts.values())).origin)


def _variants(tree: Tree, changes: Mapping[str, Any], faults: list[Fault]) -> dict[str, tuple[str, ...]]:
    """Variant -> the overrides it is made of, from the file's `scenarios` section."""
    made: dict[str, tuple[str, ...]] = {}
    for name, listed in tree.keys.items():
        at: Steps = ("scenarios", name)
        if name == BASE:
            faults.append(fault_at(listed, at, f"{BASE} is the file itself", "use another name", at_key=True))
            continue
        try:
            NameOf().read(name)
        except ValueError:
            faults.append(fault_at(listed, at, f"{shown(name)} is no name", "use visible characters", at_key=True))
            continue
        items = listed.value if isinstance(listed.value, list) else [listed] if isinstance(listed.value, str) else None
        if items is None:
            faults.append(
                fault_at(listed, at, f"a list of overrides is meant, not {shown(listed.plain())}", "such as [name]")
            )
            continue
        names: list[str] = []
        for i, item in enumerate(items):
            if not isinstance(item.value, str) or item.value not in changes:
                what = f"no override is named {shown(item.plain())}{near(str(item.value), changes)}"
                faults.append(fault_at(item, (*at, i), what))
            elif item.value in names:
                faults.append(fault_at(item, (*at, i), f"override {shown(item.value)} is named twice"))
            else:
                names.append(str(item.value))
        made[name] = tuple(names)
    return made


def _only_there(name: str, found: Sequence[Fault], base: Sequence[Fault]) -> Iterator[Fault]:
    """The faults of a variant that the base has not, said to be in that variant where their place does not tell."""
    for fault in found:
        if fault not in base:
            yield replace(fault, what=f"in scenario {shown(name)}: {fault.what}")


def _swept(file: _File, base_dir: Path, base: Sequence[Fault]) -> Iterator[Fault]:
    """Faults of the sweep: its shape, its paths, and each of its values put into the base."""
    if file.sweep is None:
        return
    try:
        Sweep.model_validate(file.sweep.plain())
    except ValidationError as error:
        for trouble in read_error(error):
            yield placed(Tree({"sweep": file.sweep}, file.sweep.origin), replace(trouble, loc=("sweep", *trouble.loc)))
        return
    axes = file.sweep.keys["axes"].keys
    for text, axis in axes.items():
        at: Steps = ("sweep", "axes", text)
        items = axis.value if isinstance(axis.value, list) else []
        if not items or len(items) > _MAX_AXIS:
            yield fault_at(axis, at, f"the axis has {len(items)} values", f"write 1 to {_MAX_AXIS:,}")
            continue
        try:
            path = steps(text)
        except ValueError as error:
            yield fault_at(axis, at, f"{shown(text)} is no path: {error}", "such as fleet.pools.a.count", at_key=True)
            continue
        for item in items:
            faults: list[Fault] = []
            tree = apply(file.base, Change(path, item, axis if item is items[0] else item), faults)
            if faults:
                yield from faults
                break
            yield from (fault for fault in judge(prune(tree), base_dir).faults if fault not in base)


def _once(faults: Sequence[Fault]) -> list[Fault]:
    """The faults without repetitions, in the order of the files' lines; those without a place last."""
    order = {file: i for i, file in enumerate(dict.fromkeys(fault.file for fault in faults))}
    kept: dict[tuple[Any, ...], Fault] = {}
    for fault in faults:
        kept.setdefault((fault.file, fault.line, fault.col, fault.path, fault.what.split(": ", 1)[-1]), fault)
    return sorted(kept.values(), key=lambda f: (order[f.file], f.line or 10**9, f.col or 0))


# -- the result --------------------------------------------------------------------------------------------------------


def _scenario(
    name: str,
    question: Question,
    tree: Tree,
    base_dir: Path,
    *,
    variants: Mapping[str, tuple[str, ...]],
    sweep: Tree | None,
) -> Scenario:
    whole = tree if sweep is None else Tree({**tree.keys, "sweep": sweep}, tree.origin)
    placed = _with_paths(question, ())
    return Scenario(
        name=name,
        title=placed.title,
        question=placed.question,
        traffic=placed.traffic,
        slo=placed.slo,
        fleet=sites.spread(placed.fleet, placed.sites),
        site=placed.site,
        sites=placed.sites,
        cost=placed.cost,
        goal=placed.goal,
        periods=placed.periods,
        run=placed.run,
        variants=variants,
        sweep=None if sweep is None else Sweep.model_validate(sweep.plain()),
        tree=tree,
        base_dir=base_dir,
        unsupported=tuple(unsupported(whole)),
        notices=tuple(checks.notices(question)),
    )


def _with_paths(value: Any, path: Steps) -> Any:
    """A section with the path of each of its facts written into it."""
    if isinstance(value, Fact):
        return replace(value, path=show(path))
    if isinstance(value, dict):
        return {key: _with_paths(child, (*path, key)) for key, child in value.items()}
    if isinstance(value, tuple):
        return tuple(_with_paths(child, (*path, i)) for i, child in enumerate(value))
    if not isinstance(value, Section):
        return value
    fields = type(value).model_fields
    changed = {name: _with_paths(getattr(value, name), (*path, field.alias or name)) for name, field in fields.items()}
    return value.model_copy(update={n: v for n, v in changed.items() if v is not getattr(value, n)})


def rebuilt(scenario: Scenario, changes: Mapping[Steps, Any], *, name: str) -> Scenario:
    """The scenario with plain values put in at some paths (None takes away), under another name.

    What is put in has the origin `planner`: it was found, not written. Raises `ScenarioError` as `load` does.
    """
    tree = scenario.tree
    for path, value in changes.items():
        tree = put(tree, path, _grown(value, Origin("planner")))
    judged = judge(prune(tree), scenario.base_dir)
    if judged.faults or judged.question is None:
        raise ScenarioError(*_once(judged.faults))
    return _scenario(name, judged.question, judged.tree, scenario.base_dir, variants={}, sweep=None)


def _grown(value: Any, origin: Origin) -> Tree:
    if isinstance(value, Mapping):
        return Tree({str(key): _grown(child, origin) for key, child in value.items()}, origin, is_fresh=True)
    if isinstance(value, (list, tuple)):
        return Tree([_grown(child, origin) for child in value], origin)
    if isinstance(value, bool):
        return Tree("true" if value else "false", origin)
    return Tree(None if value is None else str(value), origin)

"""Laying files, overrides and --set over each other: what may stand where, what removes nothing, what contradicts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner import yaml_tree
from planner.errors import Fault, ScenarioError, near
from planner.scenario.fields import LONG_FORM
from planner.scenario.schema import Question, ScenarioFile
from planner.scenario.section import shown
from planner.scenario.shape import Fields, Items, Leaf, Names, Shape, below, known
from planner.scenario.tree import Origin, Steps, Tree, from_node, merge, put, relayer, show, steps
from planner.scenario.unsupported import fault_at
from planner.yaml_tree import Node

FILE = Fields(ScenarioFile)
QUESTION = Fields(Question)
_MAX_EXTENDS = 32
_FILE_KEYS = ("extends", "overrides", "scenarios", "sweep")


@dataclass(frozen=True, slots=True)
class Change:
    """One value put at one path: an entry of an override, or a --set."""

    path: Steps
    value: Tree
    said_at: Tree
    """The value as the user wrote it, for the place of faults."""
    name: str = ""
    """The override that it belongs to."""


def read_files(text: str | None, path: Path | None, name: str, faults: list[Fault]) -> tuple[Tree, Path]:
    """The merged tree of a scenario file and all that it extends, and the folder of the file itself.

    `text` is the file's content when it does not come from `path`. Nulls are still in the tree.
    """
    folder = (path.parent if path else Path()).resolve()
    node = yaml_tree.read(text, file=name) if text is not None else yaml_tree.read_file(path or name, name=name)
    chain = [from_node(node, "file", folder)]
    seen = [path.resolve()] if path else []
    while (link := chain[-1].keys.get("extends")) is not None and link.value is not None:
        node, where = _extended(link, chain[-1], seen)
        seen.append(where)
        chain.append(from_node(node, "extends", where.parent))
    merged = Tree({}, chain[0].origin)
    for tree in reversed(chain):
        layer = Tree({key: child for key, child in tree.keys.items() if key != "extends"}, tree.origin)
        faults.extend(_removes_nothing(layer, merged))
        merged = merge(merged, layer)
    return merged, folder


def _extended(link: Tree, tree: Tree, seen: list[Path]) -> tuple[Node, Path]:
    """The file that an `extends` names. Raises `ScenarioError` at the place that names it."""
    at = ("extends",)
    text = link.value
    if not isinstance(text, str):
        raise ScenarioError(fault_at(link, at, f"a file is meant, not {shown(text)}", "such as ./base.yaml"))
    if not text.startswith(("./", "../", "/", "~/")):
        raise ScenarioError(fault_at(link, at, f"{shown(text)} is no file", f"a file is written ./{text}"))
    where = (link.origin.folder / Path(text).expanduser()).resolve()
    if where in seen:
        names = " -> ".join(p.name for p in [*seen[seen.index(where) :], where])
        raise ScenarioError(
            fault_at(link, at, f"files extend each other in a circle: {names}", "break it at one of them")
        )
    if len(seen) >= _MAX_EXTENDS:
        raise ScenarioError(
            fault_at(link, at, f"more than {_MAX_EXTENDS} files extend each other", "merge some of them")
        )
    shown_name = os.path.normpath(Path(tree.origin.file).parent / text) if not text.startswith(("/", "~")) else text
    try:
        return yaml_tree.read_file(where, name=shown_name), where
    except ScenarioError as error:
        if any(fault.line for fault in error.faults):
            raise
        reasons = "; ".join(fault.what for fault in error.faults)
        way_out = "extends names a file relative to this one, such as ./base.yaml"
        raise ScenarioError(fault_at(link, at, f"{shown(text)}: {reasons}", way_out)) from None


def _removes_nothing(layer: Tree, under: Tree) -> Iterable[Fault]:
    """Faults for nulls of a file that remove nothing: a key left empty, or a name that is not there."""
    for path, leaf in layer.leaves():
        if leaf.value is not None or (path[:1] == ("overrides",) and len(path) > 2):
            continue
        if under.at(path) is not None or not path:
            continue
        parent = shape_at(path[:-1], FILE)
        if isinstance(parent, Names):
            here = under.at(path[:-1])
            hint = near(str(path[-1]), here.keys) if here else ""
            what = f"{shown(path[-1])} is empty, and removes nothing that is inherited{hint}"
            yield fault_at(leaf, path, what, "write its keys, or take it away", at_key=True)


def shape_at(path: Steps, root: Shape) -> Shape | None:
    """The shape of a place; None where the schema has no such place."""
    here: Shape | None = root
    for step in path:
        here = below(here, step) if here is not None else None
    return here


# -- overrides ---------------------------------------------------------------------------------------------------------


def read_overrides(tree: Tree, faults: list[Fault]) -> dict[str, list[Change]]:
    """Override name -> its changes, from the file's `overrides` section."""
    made: dict[str, list[Change]] = {}
    for name, override in tree.keys.items():
        if override.value is None:
            continue
        at: Steps = ("overrides", name)
        if not isinstance(override.value, dict):
            what = f"an override is a map of path: value, not {shown(override.plain())}"
            faults.append(fault_at(override, at, what, "such as {fleet.pools.a.count: 3}"))
            continue
        made[name] = []
        for text, value in override.value.items():
            try:
                path = steps(text)
            except ValueError as error:
                faults.append(fault_at(value, (*at, text), f"{shown(text)} is no path: {error}", at_key=True))
                continue
            made[name].append(Change(path, relayer(value, f"override {name}"), value, name))
    return made


def contradictions(changes: Sequence[Change], scenario: str) -> Iterable[Fault]:
    """Faults for paths that two overrides of one scenario, or one override twice, set to different values."""
    said: dict[Steps, tuple[Change, Tree]] = {}
    inner: dict[Steps, tuple[Change, Tree]] = {}
    for change in changes:
        for path, leaf in change.value.leaves(change.path):
            if leaf.value == {}:
                continue
            clash = said.get(path) or inner.get(path)
            clash = clash or next((said[path[:n]] for n in range(1, len(path)) if path[:n] in said), None)
            if clash and not (path in said and clash[1].plain() == leaf.plain()):
                other = clash[0]
                place = f"override {shown(other.name)}" if other.name != change.name else "the same override"
                where = f"{clash[1].origin.file}:{clash[1].origin.line}"
                what = f"in scenario {shown(scenario)}: {show(path)} is also set by {place} ({where}), to another value"
                yield fault_at(leaf, path, what, "leave one of the two out")
                continue
            said.setdefault(path, (change, leaf))
            for n in range(1, len(path)):
                inner.setdefault(path[:n], (change, leaf))


# -- --set -------------------------------------------------------------------------------------------------------------


def read_sets(sets: Sequence[str], folder: Path, faults: list[Fault]) -> list[Change]:
    """The changes that `--set PATH=VALUE` asks for; the value is YAML."""
    made = []
    for text in sets:
        path_text, equals, value_text = _halves(text)
        place = f"--set {path_text[:60]}"
        origin = Origin("--set", place, folder=folder)
        if not equals:
            faults.append(Fault(f"{shown(text)} has no '='", "write --set PATH=VALUE", file="--set"))
            continue
        try:
            path = steps(path_text)
        except ValueError as error:
            faults.append(Fault(f"{shown(path_text)} is no path: {error}", "such as fleet.pools.a.count", file=place))
            continue
        try:
            node = yaml_tree.read("value:\n" + "\n".join(f"  {line}" for line in value_text.split("\n")), file=place)
        except ScenarioError as error:
            faults.extend(replace(fault, file=place, line=None, col=None, path=show(path)) for fault in error.faults)
            continue
        assert isinstance(node.value, dict)
        tree = _placeless(node.value["value"], origin)
        made.append(Change(path, tree, tree))
    return made


def _halves(text: str) -> tuple[str, str, str]:
    """A --set cut at its first '=' outside quotes."""
    is_quoted = False
    for i, char in enumerate(text):
        if char == '"' and text[i - 1 : i] != "\\":
            is_quoted = not is_quoted
        elif char == "=" and not is_quoted:
            return text[:i].strip(), "=", text[i + 1 :]
    return text, "", ""


def _placeless(node: Node, origin: Origin) -> Tree:
    if isinstance(node.value, dict):
        return Tree({key: _placeless(child, origin) for key, child in node.value.items()}, origin)
    if isinstance(node.value, list):
        return Tree([_placeless(child, origin) for child in node.value], origin)
    return Tree(node.value, origin)


# -- applying ----------------------------------------------------------------------------------------------------------


def apply(tree: Tree, change: Change, faults: list[Fault]) -> Tree:
    """The tree with a change put in; with a fault more, and unchanged, where its path leads nowhere."""
    path = _resolve(tree, change, faults)
    if path is None:
        return tree
    return put(_lifted(tree, path), path, change.value)


def _resolve(tree: Tree, change: Change, faults: list[Fault]) -> Steps | None:
    """The path with list items as numbers, or None and a fault that says which step is wrong."""

    def refuse(what: str, way_out: str = "") -> None:
        faults.append(fault_at(change.said_at, change.path, what, way_out, at_key=True))

    shape: Shape = QUESTION
    path: list[str | int] = []
    here: Tree | None = tree
    for i, raw in enumerate(change.path):
        is_last = i == len(change.path) - 1
        is_index = isinstance(shape, Items) and isinstance(raw, str) and raw.isdecimal() and len(raw) <= 6
        step: str | int = int(raw) if is_index else raw
        if i == 0 and step in (*_FILE_KEYS, "schema"):
            refuse(f"{step} cannot be set by a path", "set the value itself, such as fleet.pools.a.count")
            return None
        inner = below(shape, step)
        if inner is None:
            options = known(shape)
            if isinstance(shape, Leaf) and not options:
                refuse(f"{show(tuple(path))} is a single value: it has no {shown(step)}", "set that value itself")
            elif isinstance(shape, Items):
                refuse(f"{show(tuple(path))} is a list: {shown(step)} is no item", "items are written [0]")
            else:
                refuse(f"unknown key {shown(step)}{near(str(step), options)}")
            return None
        child = here.at((step,)) if here is not None else None
        if child is None and isinstance(shape, Items):
            n = len(here.value) if here is not None and isinstance(here.value, list) else 0
            refuse(f"{show(tuple(path))} has no item {step}", f"it has {n}, counted from 0")
            return None
        if child is None and isinstance(shape, Names) and (not is_last or change.value.value is None):
            names = here.keys if here is not None else {}
            refuse(f"{show(tuple(path))} has no {shown(step)}{near(str(step), names)}")
            return None
        if isinstance(shape, Items) and is_last and change.value.value is None:
            refuse("an item of a list cannot be removed by itself", "write the whole list")
            return None
        path.append(step)
        shape, here = inner, child
    return tuple(path)


def _lifted(tree: Tree, path: Steps) -> Tree:
    """The tree with a short quantity made long, where the path leads to a key of its long form."""
    if len(path) < 2 or path[-1] not in LONG_FORM:
        return tree
    holder, parent = tree.at(path[:-1]), shape_at(path[:-1], QUESTION)
    if holder is None or not isinstance(holder.value, str) or not isinstance(parent, Leaf) or not parent.has_long_form:
        return tree
    return put(tree, path[:-1], Tree({"value": holder}, holder.origin))

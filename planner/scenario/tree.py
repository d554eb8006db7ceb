"""Scenario files as trees of values that know their origin, and the laws by which one is laid over another.

Maps merge, lists and scalars replace, null removes. A null is kept until `prune`, so that laying trees over each other
is associative: a map laid over anything but a map is marked `is_fresh` and replaces what lies deeper.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from planner.yaml_tree import Node

Step = str | int
Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written: the layer, and the file with line and column where there is one."""

    layer: str
    """`file`, `extends`, `override NAME` or `--set`."""
    file: str = ""
    line: int | None = None
    col: int | None = None
    key_line: int | None = None
    key_col: int | None = None
    folder: Path = Path()
    """The folder that relative files named there start from."""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.col) if part not in ("", None))
        return f"{self.layer} {place}" if self.layer.startswith("override") else place


@dataclass(frozen=True, slots=True)
class Tree:
    """One value of a scenario and its origin; maps and lists hold further trees."""

    value: str | dict[str, Tree] | list[Tree] | None
    origin: Origin
    is_fresh: bool = False
    """A map that replaces what it is laid over, instead of merging with it."""

    @property
    def keys(self) -> dict[str, Tree]:
        """The map's children; none for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def plain(self) -> object:
        """The same without origins: text, dict, list and None only."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def child(self, step: Step) -> Tree | None:
        """The value at a key of a map or an index of a list; None where there is none."""
        if isinstance(self.value, list):
            return self.value[step] if isinstance(step, int) and 0 <= step < len(self.value) else None
        return self.keys.get(step) if isinstance(step, str) else None

    def at(self, path: Steps) -> Tree | None:
        """The value at a path; None where there is none."""
        here: Tree = self
        for step in path:
            below = here.child(step)
            if below is None:
                return None
            here = below
        return here

    def leaves(self, path: Steps = ()) -> Iterator[tuple[Steps, Tree]]:
        """Scalars, nulls, lists as wholes and empty maps, with their paths, in the file's order."""
        if isinstance(self.value, dict) and self.value:
            for key, child in self.value.items():
                yield from child.leaves((*path, key))
        else:
            yield path, self

    def walk(self, path: Steps = ()) -> Iterator[tuple[Steps, Tree]]:
        """This value and all below it, list items included, with their paths, in the file's order."""
        yield path, self
        if isinstance(self.value, dict):
            for key, child in self.value.items():
                yield from child.walk((*path, key))
        elif isinstance(self.value, list):
            for i, child in enumerate(self.value):
                yield from child.walk((*path, i))


def from_node(node: Node, layer: str, folder: Path) -> Tree:
    """The tree of a file's node, each value marked with its layer."""
    origin = Origin(layer, node.file, node.line, node.col, node.key_line, node.key_col, folder)
    if isinstance(node.value, dict):
        return Tree({key: from_node(child, layer, folder) for key, child in node.value.items()}, origin)
    if isinstance(node.value, list):
        return Tree([from_node(child, layer, folder) for child in node.value], origin)
    return Tree(node.value, origin)


def relayer(tree: Tree, layer: str) -> Tree:
    """The same values said to come from another layer, at the same place of the same file."""
    origin = replace(tree.origin, layer=layer)
    if isinstance(tree.value, dict):
        return Tree({key: relayer(child, layer) for key, child in tree.value.items()}, origin, tree.is_fresh)
    if isinstance(tree.value, list):
        return Tree([relayer(child, layer) for child in tree.value], origin)
    return Tree(tree.value, origin)


def merge(under: Tree, over: Tree) -> Tree:
    """`over` laid over `under`: maps merge key by key in the order of first appearance, all else replaces."""
    if not isinstance(over.value, dict) or over.is_fresh:
        return over
    if not isinstance(under.value, dict):
        return Tree(over.value, over.origin, is_fresh=True)
    merged = dict(under.value)
    for key, child in over.value.items():
        merged[key] = merge(merged[key], child) if key in merged else child
    return Tree(merged, over.origin, under.is_fresh)


def put(tree: Tree, path: Steps, value: Tree) -> Tree:
    """The tree with `value` laid over what stands at `path`; maps on the way are made, list items have to exist."""
    if not path:
        return merge(tree, value)
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        if not isinstance(tree.value, list) or not 0 <= step < len(tree.value):
            raise KeyError(step)
        items = list(tree.value)
        items[step] = put(items[step], rest, value)
        return Tree(items, tree.origin)
    children = dict(tree.keys)
    here = children.get(step)
    if here is None:
        nothing = Tree({}, value.origin)
        children[step] = value if not rest else put(nothing, rest, value)
    else:
        children[step] = put(here, rest, value)
    return Tree(children, tree.origin, tree.is_fresh or not isinstance(tree.value, dict))


def prune(tree: Tree) -> Tree:
    """The tree without its nulls: what a null removed is gone."""
    if isinstance(tree.value, dict):
        return Tree({k: prune(v) for k, v in tree.value.items() if v.value is not None}, tree.origin)
    if isinstance(tree.value, list):
        return Tree([prune(item) for item in tree.value], tree.origin)
    return tree


def show(path: Steps) -> str:
    """A path as people write it: `fleet.pools.gb300.deploy[0].model`; a step with a dot or bracket is quoted.

    >>> show(("traffic", "gpt-4.1", "rate"))
    'traffic."gpt-4.1".rate'
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        short = step if len(step) <= 64 else step[:61] + "..."
        is_plain = short and short.isprintable() and short == short.strip() and not set(short) & set('."[]=')
        text += "." if text else ""
        text += short if is_plain else json.dumps(short, ensure_ascii=not short.isprintable())
    return text


def steps(text: str) -> Steps:
    """The steps of a written path. Raises `ValueError` with the reason.

    >>> steps('traffic."gpt-4.1".rate'), steps("fleet.pools.a.deploy[0].chips")
    (('traffic', 'gpt-4.1', 'rate'), ('fleet', 'pools', 'a', 'deploy', 0, 'chips'))
    """
    path: list[Step] = []
    rest = text.strip()
    while True:
        if rest.startswith('"'):
            try:
                step, end = json.JSONDecoder().raw_decode(rest)
            except json.JSONDecodeError:
                raise ValueError("a quote is not closed") from None
            path.append(step)
            rest = rest[end:]
        else:
            cut = min((at for at in (rest.find("."), rest.find("[")) if at >= 0), default=len(rest))
            if not rest[:cut]:
                raise ValueError("a step is empty")
            path.append(rest[:cut])
            rest = rest[cut:]
        while rest.startswith("["):
            inside, closed, rest = rest[1:].partition("]")
            if not closed or not inside.isdecimal() or len(inside) > 6:
                raise ValueError("list items are written [0]")
            path.append(int(inside))
        if not rest:
            return tuple(path)
        if not rest.startswith("."):
            raise ValueError(f"'.' is missing before '{rest[:20]}'")
        rest = rest[1:]

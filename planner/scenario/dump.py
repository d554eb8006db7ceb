"""The merged scenario written out again: as a plain tree, and as YAML with the origin of each value beside it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from planner.scenario.files import is_file, reference_paths
from planner.scenario.schema import Question
from planner.scenario.shape import Fields, Items, Shape, below
from planner.scenario.tree import Origin, Steps, Tree

_ROOT = Fields(Question)
_WORD = re.compile(r"[A-Za-z0-9.+/]([A-Za-z0-9_ .%/+()-]*[A-Za-z0-9_.%/+()-])?", re.ASCII)
_OTHERWISE_READ = re.compile(
    r"y|n|yes|no|on|off|true|false|null|[-+]?[0-9._]+(e[-+]?[0-9]+)?|[-+]?\.(inf|nan)|0[xob][0-9a-f_]+"
    r"|\d{4}-\d{1,2}-\d{1,2}.*",
    re.IGNORECASE | re.ASCII,
)
"""Text that some YAML reader takes for a truth, a number or a date: it is written in quotes."""


def plain(tree: Tree) -> dict[str, Any]:
    """The sections in the order of the schema; numbers where that loses nothing, else the text as written."""
    made = _plain(ordered(tree))
    assert isinstance(made, dict)
    return made


def without_paths(tree: Tree) -> dict[str, Any]:
    """As `plain`, with the names of files taken out: what they hold matters, not where they lie."""

    def hide(here: Tree, path: Steps) -> Tree:
        if isinstance(here.value, dict):
            return Tree({key: hide(child, (*path, key)) for key, child in here.value.items()}, here.origin)
        if isinstance(here.value, list):
            return Tree([hide(child, (*path, i)) for i, child in enumerate(here.value)], here.origin)
        if isinstance(here.value, str) and is_file(here.value) and path in files:
            return Tree("./", here.origin)
        return here

    files = {path for path, _ in reference_paths(tree)}
    return plain(hide(tree, ()))


def ordered(tree: Tree, shape: Shape = _ROOT) -> Tree:
    """The tree with known keys in the order of the schema, free names in that of the file, and no empty sections."""
    if isinstance(tree.value, list):
        each = shape.each if isinstance(shape, Items) else shape
        return Tree([ordered(item, each) for item in tree.value], tree.origin)
    if not isinstance(tree.value, dict):
        return tree
    keys = list(tree.value)
    if isinstance(shape, Fields):
        known = list(shape.keys)
        keys = [key for key in known if key in tree.value] + [key for key in keys if key not in known]
    made = {}
    for key in keys:
        child = ordered(tree.value[key], below(shape, key) or shape)
        if not (isinstance(shape, Fields) and child.value == {}):
            made[key] = child
    return Tree(made, tree.origin)


def _plain(tree: Tree) -> Any:
    if isinstance(tree.value, dict):
        return {key: _plain(child) for key, child in tree.value.items()}
    if isinstance(tree.value, list):
        return [_plain(child) for child in tree.value]
    return _number(tree.value)


def _number(text: str | None) -> str | int | float | bool | None:
    """The number or truth that the text is the usual spelling of; else the text itself."""
    if text in {"true", "false"}:
        return text == "true"
    if text is None or len(text) > 20 or not re.fullmatch(r"-?\d+(\.\d+)?", text, re.ASCII):
        return text
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if repr(value) == text:
            return value
    return text


def to_yaml(tree: Tree, *, origins: bool = False, beside: Path | None = None) -> str:
    """The scenario as YAML that loads to an equal one; with `origins` a comment says where each value is from.

    Files are named as they were asked for, or relative to the folder `beside`, the same from wherever it was asked.
    """
    lines: list[tuple[str, Origin | None]] = []
    _write(ordered(tree), _ROOT, 0, "", lines)
    if not origins:
        return "".join(f"{text}\n" for text, _ in lines)
    width = min(72, max((len(text) for text, origin in lines if origin), default=0))
    return "".join(
        f"{text:<{width}}  # {_seen_from(origin, beside)}\n" if origin else f"{text}\n" for text, origin in lines
    )


def _seen_from(origin: Origin, beside: Path | None) -> Origin:
    if beside is None or not origin.file or origin.file.startswith("<"):
        return origin
    path = os.path.relpath(origin.folder / Path(origin.file).name, beside)
    return replace(origin, file=Path(path).as_posix())


def _write(tree: Tree, shape: Shape, depth: int, lead: str, lines: list[tuple[str, Origin | None]]) -> None:
    """Lines of a map's items at a depth; `lead` is the list mark in front of the first."""
    assert isinstance(tree.value, dict)
    for i, (key, child) in enumerate(tree.value.items()):
        head = f"{'  ' * depth}{lead if i == 0 else ' ' * len(lead)}{_scalar(key)}:"
        inner = below(shape, key) or shape
        inside = depth + 1 + len(lead) // 2
        if isinstance(child.value, dict) and child.value:
            lines.append((head, None))
            _write(child, inner, inside, "", lines)
        elif isinstance(child.value, list) and any(isinstance(item.value, dict) for item in child.value):
            lines.append((head, None))
            for item in child.value:
                if isinstance(item.value, dict) and item.value:
                    _write(item, below(inner, 0) or inner, inside, "- ", lines)
                else:
                    lines.append((f"{'  ' * inside}- {_flow(item)}", item.origin))
        else:
            lines.append((f"{head} {_flow(child)}", child.origin))


def _flow(tree: Tree) -> str:
    if isinstance(tree.value, dict):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in tree.value.items()) + "}"
    if isinstance(tree.value, list):
        return "[" + ", ".join(_flow(item) for item in tree.value) + "]"
    return _scalar(tree.value)


def _scalar(text: str | None) -> str:
    """Text as a YAML scalar that every reader takes for the same text, or for the number that it spells."""
    if text is None:
        return "null"
    number = _number(text)
    if not isinstance(number, str):
        return text
    if _WORD.fullmatch(text) and not _OTHERWISE_READ.fullmatch(text):
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).strip()

"""What a scenario names: a bare name is a catalogue entry, `./file` is a file beside the one that names it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.errors import FactError
from planner.facts import catalog
from planner.scenario.tree import Steps, Tree, put

_REFERENCES: tuple[tuple[str, str], ...] = (
    ("traffic.*.trace", "profile"),
    ("traffic.*.model", "model"),
    ("traffic.*.shape", "demand"),
    ("traffic.*.shape.demand", "demand"),
    ("traffic.*.input.file", "lengths"),
    ("traffic.*.output.file", "lengths"),
    ("fleet.pools.*.rack", "rack"),
    ("fleet.pools.*.deploy.*.model", "model"),
    ("fleet.pools.*.deploy.*.engine", "engine"),
    ("site.name", "site"),
    ("site.grid", "site"),
    ("sites.*.name", "site"),
    ("sites.*.grid", "site"),
)
"""Every key whose value is a name of the catalogue or a file, and the kind of thing it names."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that names something: of the catalogue, or a file where `kind` allows one."""

    kind: str
    tree: Tree

    @property
    def text(self) -> str:
        return str(self.tree.value)


def references(tree: Tree) -> Iterator[tuple[Steps, Reference]]:
    """Every named thing of a scenario with its path, in the order of the table."""
    for pattern, kind in _REFERENCES:
        for path, found in matches(tree, pattern):
            if isinstance(found.value, str):
                yield path, Reference(kind, found)


def reference_paths(tree: Tree) -> Iterator[tuple[Steps, Tree]]:
    """The references that are files."""
    for path, reference in references(tree):
        if is_file(reference.text):
            yield path, reference.tree


def matches(tree: Tree, pattern: str) -> Iterator[tuple[Steps, Tree]]:
    """The values at a dotted pattern, in which `*` is any name or list item."""

    def walk(here: Tree, wanted: list[str], path: Steps) -> Iterator[tuple[Steps, Tree]]:
        if not wanted:
            yield path, here
        elif isinstance(here.value, dict):
            for key in here.value if wanted[0] == "*" else [wanted[0]]:
                if key in here.value:
                    yield from walk(here.value[key], wanted[1:], (*path, key))
        elif isinstance(here.value, list) and wanted[0] == "*":
            for i, item in enumerate(here.value):
                yield from walk(item, wanted[1:], (*path, i))

    yield from walk(tree, pattern.split("."), ())


def is_file(text: str) -> bool:
    """Whether a reference is a file, not a name of the catalogue."""
    return text.startswith(("./", "../", "/", "~/")) or "://" in text


def locate(text: str, folder: Path) -> Path | str:
    """The file that a reference means: a path, or an address such as s3://bucket/file as it is."""
    if "://" in text:
        return text
    return folder / Path(text).expanduser()


def rebase(tree: Tree, base_dir: Path) -> Tree:
    """The tree with every relative file written relative to `base_dir`, wherever its own file lies."""
    for path, here in list(reference_paths(tree)):
        text = str(here.value)
        folder = here.origin.folder
        if folder == base_dir or not text.startswith(("./", "../")):
            continue
        moved = Path(os.path.relpath(folder / text, base_dir)).as_posix()
        moved = moved if moved.startswith("../") else f"./{moved}"
        tree = put(tree, path, Tree(moved, here.origin))
    return tree


def canonical(tree: Tree) -> Tree:
    """The tree with every model under its name in the catalogue (`openai/gpt-oss-120b` is `gpt-oss-120b`)."""
    shelf = catalog.load()
    for path, reference in list(references(tree)):
        if reference.kind != "model" or is_file(reference.text) or reference.text in shelf.names("models"):
            continue
        try:
            name = shelf.model(reference.text).name
        except FactError:
            continue
        tree = put(tree, path, Tree(name, reference.tree.origin))
    return tree

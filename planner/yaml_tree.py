"""YAML as people write it, read into a tree that knows the line and column of every key and value.

Plain scalars stay text (`no` is the text "no", `1e9` is the text "1e9"); only `null`, `~` and nothing at all are null.
The text is untrusted: anchors, aliases, tags, duplicate keys, several documents, deep nesting and huge files are
refused, each with its place. Facts and scenarios are both read here.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from planner.errors import Fault, PlannerError, ScenarioError, near

MAX_BYTES = 8_000_000
MAX_DEPTH = 64
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NULLS = frozenset({"", "~", "null"})


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a file and where it stands (1-based); mappings and lists hold further nodes."""

    value: str | dict[str, Node] | list[Node] | None
    line: int
    col: int
    key_line: int | None = None
    """Line of the key that leads here; None for the top and for list items."""
    key_col: int | None = None
    file: str = ""
    is_quoted: bool = False
    """The text stood in quotes or in a block, so it is meant as text."""

    def fault(self, what: str, way_out: str = "", *, path: str = "", at_key: bool = False) -> Fault:
        """A fault at this value, or at its key."""
        line, col = (self.key_line, self.key_col) if at_key and self.key_line else (self.line, self.col)
        return Fault(what, way_out, path=path, file=self.file, line=line, col=col)

    def walk(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """This node and all below it, each with its dotted path (`pools.a.deploy[0].model`), in the file's order."""
        yield path, self
        if isinstance(self.value, dict):
            for key, child in self.value.items():
                yield from child.walk(f"{path}.{key}" if path else key)
        elif isinstance(self.value, list):
            for i, child in enumerate(self.value):
                yield from child.walk(f"{path}[{i}]")

    def plain(self) -> object:
        """The same without places: text, dict, list and None only."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def read(text: str, *, file: str, error: type[PlannerError] = ScenarioError) -> Node:
    """The tree of one YAML document whose top level is a mapping.

    `file` is the name to show in messages. Raises `error` with every fault that can be told apart: syntax stops at the
    first, duplicate keys, anchors, aliases and tags are all listed.
    """
    if len(text) > MAX_BYTES:
        raise error(Fault(f"the file has {len(text):,} characters", f"at most {MAX_BYTES:,} are read", file=file))
    builder = _Builder(file)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except _Stop:
        pass
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        what = ", ".join(part for part in (e.context, e.problem) if part)
        builder.faults.append(
            Fault(
                f"not valid YAML: {what}",
                "check quotes, brackets and indentation",
                file=file,
                line=mark.line + 1 if mark else None,
                col=mark.column + 1 if mark else None,
            )
        )
    except (yaml.YAMLError, UnicodeError) as e:
        position = getattr(e, "position", None)
        line, col = _place(text, position) if isinstance(position, int) else (None, None)
        reason = getattr(e, "reason", "cannot be read")
        builder.faults.append(
            Fault(f"not valid YAML: {reason}", "remove the special character", file=file, line=line, col=col)
        )
    if builder.faults:
        raise error(*builder.faults)
    top = builder.top
    if top is None or top.value is None:
        raise error(Fault("the file is empty", "write `key: value` lines", file=file))
    if not isinstance(top.value, dict):
        kind = "a list" if isinstance(top.value, list) else "a single value"
        raise error(
            Fault(
                f"the file holds {kind} at the top", "write `key: value` lines", file=file, line=top.line, col=top.col
            )
        )
    return top


def read_file(path: Path | str, *, name: str | None = None, error: type[PlannerError] = ScenarioError) -> Node:
    """As `read`, from a file of at most 8 MB in UTF-8; `name` is shown instead of the path. Raises `error`."""
    return read(file_text(path, name=name, error=error), file=name or str(path), error=error)


def file_text(path: Path | str, *, name: str | None = None, error: type[PlannerError] = ScenarioError) -> str:
    """The text of a file that a person names, or `error` with the reason why not."""
    shown = name or str(path)
    path = Path(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise error(Fault("is a folder, not a file", "name a YAML file in it", file=shown))
        if not stat.S_ISREG(status.st_mode):
            raise error(Fault("is not a regular file", "write - to read from stdin", file=shown))
        if status.st_size > MAX_BYTES:
            raise error(Fault(f"the file has {status.st_size:,} bytes", f"at most {MAX_BYTES:,} are read", file=shown))
        data = path.read_bytes()
    except FileNotFoundError:
        raise error(Fault("no such file" + (_siblings(path) or "; check the path"), file=shown)) from None
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise error(
            Fault(f"cannot be read: {reason.lower()}", "check the path and its permissions", file=shown)
        ) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        col = e.start - (data.rfind(b"\n", 0, e.start) + 1) + 1
        raise error(
            Fault(
                f"not UTF-8 text (byte {data[e.start]:#04x})", "save the file as UTF-8", file=shown, line=line, col=col
            )
        ) from None


def _siblings(path: Path) -> str:
    try:
        names = sorted(p.name for p in path.parent.iterdir() if p.suffix in {".yaml", ".yml", ".json"})
    except OSError:
        return ""
    return near(path.name, names)


def _place(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


class _Stop(Exception):
    """Reading further is of no use."""


@dataclass(slots=True)
class _Open:
    """A mapping or list that is not closed yet."""

    items: dict[str, Node] | list[Node]
    line: int
    col: int
    key: str | None = None
    key_line: int | None = None
    key_col: int | None = None
    is_skipped: bool = False
    """The coming value belongs to a refused key."""


class _Builder:
    """Builds the tree from parser events, without recursion, and collects faults on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.top: Node | None = None
        self.faults: list[Fault] = []
        self.n_documents = 0
        self.stack: list[_Open] = []

    def take(self, event: yaml.Event) -> None:
        mark = event.start_mark
        line, col = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        match event:
            case yaml.DocumentStartEvent():
                self.n_documents += 1
                if self.n_documents > 1:
                    self._stop(line, col, "a second document starts here", "keep one document in a file")
            case yaml.AliasEvent():
                self._refuse(line, col, f"alias '*{event.anchor}' is not read", "write the value out")
                self._place_value(Node(None, line, col, file=self.file))
            case yaml.ScalarEvent():
                self._marks(event, line, col)
                is_quoted = event.style not in (None, "")
                self._scalar(event.value, is_quoted, line, col)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._marks(event, line, col)
                if len(self.stack) >= MAX_DEPTH:
                    self._stop(line, col, f"nested more than {MAX_DEPTH} levels deep", "flatten the file")
                if self._wants_key():
                    self._stop(line, col, "a key is a mapping or a list", "keys are plain words")
                self.stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], line, col))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                done = self.stack.pop()
                self._place_value(Node(done.items, done.line, done.col, file=self.file))

    def _marks(self, event: yaml.NodeEvent, line: int, col: int) -> None:
        if event.anchor:
            self._refuse(line, col, f"anchor '&{event.anchor}' is not read", "write the value out where it is needed")
        tag = getattr(event, "tag", None)
        if tag and tag != "!":
            self._refuse(line, col, f"tag '{tag}' is not read", "write the value without a tag")

    def _wants_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].items, dict) and self.stack[-1].key is None

    def _scalar(self, text: str, is_quoted: bool, line: int, col: int) -> None:
        if not self._wants_key():
            value = None if not is_quoted and text in _NULLS else text
            self._place_value(Node(value, line, col, file=self.file, is_quoted=is_quoted))
            return
        parent = self.stack[-1]
        assert isinstance(parent.items, dict)
        parent.key, parent.key_line, parent.key_col = text, line, col
        parent.is_skipped = True
        if not is_quoted and text in _NULLS:
            self._refuse(line, col, "a value has no key", "write `key: value`")
        elif text in parent.items:
            first = parent.items[text]
            self._refuse(
                line,
                col,
                f"'{text}' is written twice, first at line {first.key_line}, column {first.key_col}",
                "keep one of them",
            )
        else:
            parent.is_skipped = False

    def _place_value(self, node: Node) -> None:
        if not self.stack:
            self.top = node
            return
        parent = self.stack[-1]
        if isinstance(parent.items, list):
            parent.items.append(node)
            return
        if not parent.is_skipped and parent.key is not None:
            parent.items[parent.key] = Node(
                node.value, node.line, node.col, parent.key_line, parent.key_col, self.file, node.is_quoted
            )
        parent.key = None

    def _refuse(self, line: int, col: int, what: str, way_out: str) -> None:
        self.faults.append(Fault(what, way_out, path=self._path(), file=self.file, line=line, col=col))

    def _stop(self, line: int, col: int, what: str, way_out: str) -> None:
        self._refuse(line, col, what, way_out)
        raise _Stop

    def _path(self) -> str:
        parts: list[str] = []
        for level in self.stack:
            if isinstance(level.items, list):
                parts.append(f"[{len(level.items)}]")
            elif level.key:
                parts.append(f".{level.key}")
        return "".join(parts).removeprefix(".")

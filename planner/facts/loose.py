"""Files of facts without a fixed table of keys (traffic profiles, demand): nested mappings and lists, facts inside."""

from __future__ import annotations

from typing import Any

from planner import units
from planner.facts.fact import Fact
from planner.facts.reading import META, Reader
from planner.facts.schema import Key
from planner.yaml_tree import Node


def read_loose(reader: Reader, node: Node, name: str, *, kind: str) -> dict[str, Any]:
    """The tree of a file with plain numbers and text, quantities in memory's units, and a `Fact` where a grade stands.

    A mapping with `grade` and `value` is one fact; with `grade` alone a group fact of its other keys. A text that is a
    number or a quantity becomes a number; quoted text stays text.
    """
    return _mapping(reader, node, f"{kind}.{name}")


def _mapping(reader: Reader, node: Node, home: str, path: str = "") -> dict[str, Any]:
    items = node.value if isinstance(node.value, dict) else {}
    return {
        key: _value(reader, child, f"{home}.{key}", f"{path}.{key}" if path else key) for key, child in items.items()
    }


def _value(reader: Reader, node: Node, home: str, path: str) -> Any:
    if isinstance(node.value, list):
        return [_value(reader, child, f"{home}[{i}]", f"{path}[{i}]") for i, child in enumerate(node.value)]
    if not isinstance(node.value, dict):
        return plain(node)
    items = node.value
    if "grade" not in items:
        return _mapping(reader, node, home, path)
    if "value" in items and isinstance(items["value"].value, str | None):
        kind = units.kind_of(str(items["value"].value)) if not items["value"].is_quoted else None
        return reader.fact(node, Key("value", "value", kind or "text", "", may_be_null=True), path=path, home=home)
    meta = {key: items[key] for key in META if key in items and key != "value"}
    value = {key: _value(reader, c, f"{home}.{key}", f"{path}.{key}") for key, c in items.items() if key not in meta}
    head = Node(
        {**meta, "value": Node("group", node.line, node.col, file=node.file)}, node.line, node.col, file=node.file
    )
    said = reader.fact(head, Key("value", "value", "text", ""), path=path, home=home)
    whole: Any = value["value"] if set(value) == {"value"} else value
    return Fact(
        whole,
        grade=said.grade,
        range_grade=said.range_grade,
        source=said.source,
        note=said.note,
        path=home,
        kind="group",
    )


def plain(node: Node) -> Any:
    """A scalar as number, quantity in memory's unit, truth value or text."""
    text = node.value
    if not isinstance(text, str) or node.is_quoted:
        return text
    if text in {"true", "false"}:
        return text == "true"
    kind = units.kind_of(text)
    if kind is None:
        return text
    value = units.number(text, kind) if kind != "ratio" else units.parse(text, kind)
    return int(value) if kind == "count" else value

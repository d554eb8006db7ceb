"""Nodes of a YAML file -> facts, with every fault of the file collected and placed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from planner import units
from planner.errors import Fault, near
from planner.facts.fact import GRADES, Alternative, Fact, Group, Scalar
from planner.facts.schema import Key, Member, Section
from planner.yaml_tree import Node

META = ("value", "low", "high", "default", "unit", "grade", "range_grade", "source", "note", "alternatives")
_GROUP_META = ("grade", "range_grade", "source", "note", "alternatives")
_EXAMPLES = {"text": "some text", "bool": "true", "date": "2026-12-31", "texts": "[a, b]"}


class Reader:
    """Reads the facts of one file; look at `faults` when done, values are worthless if there are any."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []

    # -- sections ------------------------------------------------------------------------------------------------------

    def section(
        self, node: Node, keys: Sequence[Key | Section], *, path: str, home: str, also: Iterable[str] = ()
    ) -> dict[str, object]:
        """attribute -> Fact (or a nested dict) for a mapping; `also` names keys that the caller reads itself."""
        found: dict[str, object] = {}
        items = self._mapping(node, path)
        if items is None:
            return found
        known = {key.key: key for key in keys}
        others = set(also)
        for name, child in items.items():
            here = _join(path, name)
            entry = known.get(name)
            if entry is None:
                if name not in others:
                    self.fault(child, f"unknown key '{name}'{near(name, [*known, *others])}", path=here, at_key=True)
            elif isinstance(entry, Section):
                found[entry.attr] = self.section(child, entry.keys, path=here, home=f"{home}.{entry.attr}")
            else:
                found[entry.attr] = self.fact(child, entry, path=here, home=f"{home}.{entry.attr}")
        for entry in keys:
            if entry.key in items:
                continue
            if isinstance(entry, Section) and any(key.is_needed for key in entry.keys):
                self.fault(node, f"missing '{entry.key}'", entry.doc, path=_join(path, entry.key))
            elif isinstance(entry, Key) and entry.is_needed:
                self.fault(node, f"missing '{entry.key}'", f"write {self._example(entry)}", path=_join(path, entry.key))
        return found

    def text(self, node: Node, name: str, *, is_needed: bool = False, path: str = "") -> str:
        """A plain text key of a mapping, or '' if it is absent."""
        items = node.value if isinstance(node.value, dict) else {}
        child = items.get(name)
        if child is None:
            if is_needed:
                self.fault(node, f"missing '{name}'", f"write `{name}: ...`", path=_join(path, name))
            return ""
        if not isinstance(child.value, str) or child.value == "":
            self.fault(child, f"'{name}' is not text", path=_join(path, name))
            return ""
        return child.value

    def texts(self, node: Node, path: str) -> tuple[str, ...]:
        """A text or a list of texts."""
        if isinstance(node.value, str):
            return (node.value,)
        if isinstance(node.value, list) and all(isinstance(child.value, str) for child in node.value):
            return tuple(str(child.value) for child in node.value)
        self.fault(node, "is not a text or a list of texts", path=path)
        return ()

    # -- facts ---------------------------------------------------------------------------------------------------------

    def fact(self, node: Node, key: Key, *, path: str, home: str) -> Fact:
        """One fact: a short quantity, or the long form with grade, range and sources."""
        if key.kind == "group":
            return self._group(node, key, path, home)
        unit = units.KINDS[key.kind].unit if key.kind in units.KINDS else ""
        if not isinstance(node.value, dict):
            value = self._value(node, key, path)
            if node.value is None and not key.may_be_null:
                self.fault(node, "has no value", f"write {self._example(key)}", path=path)
            return Fact(value, unit=unit, path=home, kind=key.kind)
        items = node.value
        self._only(items, META, path)
        value_node = items.get("value")
        if value_node is None:
            self.fault(node, "missing 'value'", f"write {self._example(key)}", path=_join(path, "value"))
        values = {
            name: self._value(items[name], key, _join(path, name))
            for name in ("value", "low", "high", "default")
            if name in items
        }
        for name in ("low", "high", "default"):
            if name in items and items[name].value is None:
                self.fault(items[name], f"'{name}' has no value", "leave the key out", path=_join(path, name))
        grade = self._grade(items, "grade", path) or "assumed"
        fact = Fact(
            values.get("value"),
            low=_number(values.get("low")),
            high=_number(values.get("high")),
            default=values.get("default"),
            unit=self._unit(items, key, path) or unit,
            path=home,
            kind=key.kind,
            grade=grade,
            range_grade=self._grade(items, "range_grade", path),
            source=self.texts(items["source"], _join(path, "source")) if "source" in items else (),
            note=self._note(items, path),
            alternatives=self._alternatives(items, key, path),
        )
        if value_node is not None:
            self._judge(fact, key, items, path)
        return fact

    def _judge(self, fact: Fact, key: Key, items: dict[str, Node], path: str) -> None:
        value = items["value"]
        if fact.grade == "undisclosed":
            if fact.value is not None:
                self.fault(
                    value, "an undisclosed fact has no value", "move it to `default`, or give a grade", path=path
                )
            elif fact.default is None and key.is_needed:
                self.fault(
                    value, "undisclosed without a placeholder", f"add `default:` {self._example(key)}", path=path
                )
        elif "default" in items:
            self.fault(items["default"], "only an undisclosed fact has a `default`", "write it as `value`", path=path)
        elif value.value is None and not key.may_be_null:
            self.fault(value, "has no value", "write one, or `grade: undisclosed` with a `default`", path=path)
        low, used, high = fact.low, _number(fact.used), fact.high
        if low is not None and high is not None and low > high:
            self.fault(items["low"], "low is above high", path=_join(path, "low"))
        elif used is not None and ((low is not None and used < low) or (high is not None and used > high)):
            self.fault(value, "lies outside low..high", path=path)

    def _group(self, node: Node, key: Key, path: str, home: str) -> Fact:
        items = self._mapping(node, path)
        if items is None:
            return Fact(None, path=home, kind="group")
        members = {member.key: member for member in key.members}
        self._only(items, (*members, *_GROUP_META), path)
        group: Group = {}
        for name, member in members.items():
            child = items.get(name)
            if child is None:
                if member.is_needed:
                    self.fault(node, f"missing '{name}'", path=_join(path, name))
                continue
            group[member.attr] = self._member(child, member, _join(path, name))
        return Fact(
            group,
            path=home,
            kind="group",
            grade=self._grade(items, "grade", path) or "assumed",
            range_grade=self._grade(items, "range_grade", path),
            source=self.texts(items["source"], _join(path, "source")) if "source" in items else (),
            note=self._note(items, path),
        )

    def _member(self, node: Node, member: Member, path: str) -> Scalar | dict[str, Scalar] | list[Scalar]:
        if member.kind == "formats":
            pair = self._mapping(node, path) or {}
            self._only(pair, ("experts", "rest", "activations"), path)
            experts = pair.get("experts")
            has_none = experts is None or experts.value is None  # a dense model
            formats: dict[str, Scalar] = {
                "experts": None if has_none else self.text(node, "experts", path=path),
                "rest": self.text(node, "rest", is_needed=True, path=path),
            }
            if "activations" in pair:  # of the experts, where wider than their weights
                formats["activations"] = self.text(node, "activations", path=path)
            return formats
        if node.value is None:
            if not member.may_be_null:
                self.fault(node, "has no value", path=path)
            return None
        key = Key(member.key, member.attr, member.kind, "", rule="not_negative")
        return self._value(node, key, path)

    def _value(self, node: Node, key: Key, path: str) -> Scalar:
        """The value of a scalar node in the unit of its kind; null stays None."""
        if node.value is None:
            return None
        if key.kind == "texts":
            return self.texts(node, path)
        if not isinstance(node.value, str):
            self.fault(node, "is not a single value", f"write {self._example(key)}", path=path)
            return None
        text = node.value
        if key.kind == "text":
            return text
        if key.kind == "bool":
            if text not in {"true", "false"}:
                self.fault(node, f"'{text}' is neither true nor false", path=path)
            return text == "true"
        if key.kind == "date":
            return self._date(node, text, path)
        try:
            value = units.number(text, key.kind)
        except units.UnitError as e:
            self.fault(node, e.what, e.way_out, path=path)
            return None
        self._rule(node, value, key.rule, path)
        return value

    def _rule(self, node: Node, value: float, rule: str, path: str) -> None:
        what = ""
        if value < 0:
            what = "is negative"
        elif rule == "positive" and value == 0:
            what = "is zero"
        elif rule == "share" and value > 1:
            what = "is more than 100 %"
        elif rule == "at_least_one" and value < 1:
            what = "is less than 1"
        if what:
            self.fault(node, f"'{node.value}' {what}", path=path)

    def _date(self, node: Node, text: str, path: str) -> str | None:
        try:
            if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
                return date.fromisoformat(text).isoformat()
        except ValueError:
            pass
        self.fault(node, f"'{text}' is not a date", "write it such as 2026-12-31", path=path)
        return None

    def _unit(self, items: dict[str, Node], key: Key, path: str) -> str:
        """What is counted, for counts and ratios; elsewhere the unit belongs into the value."""
        if "unit" not in items:
            return ""
        if key.kind not in {"count", "ratio"}:
            self.fault(
                items["unit"],
                "the unit belongs into the value",
                f"write {self._example(key)}",
                path=_join(path, "unit"),
                at_key=True,
            )
            return ""
        return self.text(Node(items, 0, 0, file=self.file), "unit", path=path)

    def _grade(self, items: dict[str, Node], name: str, path: str) -> str:
        grade = self.text(Node(items, 0, 0, file=self.file), name, path=path)
        if grade and grade not in GRADES:
            self.fault(items[name], f"unknown grade '{grade}'{near(grade, GRADES)}", path=_join(path, name))
        return grade

    def _note(self, items: dict[str, Node], path: str) -> str:
        node = items.get("note")
        if node is None or node.value is None:
            return ""
        if not isinstance(node.value, str):
            self.fault(node, "a note is text", "put it in quotes", path=_join(path, "note"))
            return ""
        return node.value

    def _alternatives(self, items: dict[str, Node], key: Key, path: str) -> tuple[Alternative, ...]:
        node = items.get("alternatives")
        if node is None:
            return ()
        path = _join(path, "alternatives")
        if not isinstance(node.value, list):
            self.fault(node, "is not a list", "write [{value: ..., source: ...}]", path=path)
            return ()
        found: list[Alternative] = []
        for i, child in enumerate(node.value):
            here = f"{path}[{i}]"
            entry = self._mapping(child, here)
            if entry is None:
                continue
            self._only(entry, ("value", "source", "note"), here)
            if "value" not in entry:
                self.fault(child, "missing 'value'", path=here)
                continue
            source = self.texts(entry["source"], _join(here, "source")) if "source" in entry else ()
            value = self._value(entry["value"], key, _join(here, "value"))
            found.append(Alternative(value, source, self._note(entry, here)))
        return tuple(found)

    # -- faults --------------------------------------------------------------------------------------------------------

    def fault(self, node: Node, what: str, way_out: str = "", *, path: str = "", at_key: bool = False) -> None:
        """Notes a fault at a node."""
        self.faults.append(node.fault(what, way_out, path=path, at_key=at_key))

    def _mapping(self, node: Node, path: str) -> dict[str, Node] | None:
        if isinstance(node.value, dict):
            return node.value
        self.fault(node, "is not a mapping", "write `key: value` lines below it", path=path)
        return None

    def _only(self, items: dict[str, Node], known: Iterable[str], path: str) -> None:
        names = list(known)
        for name, child in items.items():
            if name not in names:
                what = f"unknown key '{name}'{near(name, names)}"
                way_out = "a comma inside a note needs quotes" if child.value is None else ""
                self.fault(child, what, way_out, path=_join(path, name), at_key=True)

    def _example(self, key: Key) -> str:
        example = units.KINDS[key.kind].example if key.kind in units.KINDS else _EXAMPLES.get(key.kind, "...")
        return f"it such as `{key.key}: {example}`"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None

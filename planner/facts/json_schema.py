"""JSON Schema (draft 2020-12) of catalogue files, for editors, made from the tables that read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from planner import units
from planner.facts import schema
from planner.facts.fact import GRADES
from planner.facts.schema import Key, Member, Section

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NUMBER = r"[+-]?[0-9][0-9_]*(\.[0-9]*)?([eE][+-]?[0-9]+)?"
_TEXTS: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_KINDS: dict[str, tuple[Sequence[Key | Section], tuple[str, ...]]] = {
    "chips": (schema.CHIP, ("title", "vendor", "status", "engine")),
    "racks": (schema.RACK, ("title", "chip")),
    "models": (schema.MODEL, ("hf_id", "aliases")),
    "engines": (schema.ENGINE, ("title",)),
    "serving": (schema.SERVING, ("title",)),
    "sites": (schema.SITE, ("title",)),
}
"""Kind of file -> the table of its facts, and its keys that are plain text."""


def quantity(kind: str) -> dict[str, Any]:
    """A quantity in its short form: text with one of the units of its kind, or a number where that is right."""
    spec = units.KINDS[kind]
    names = "|".join(re.escape(unit) for unit in spec.units)
    is_bare = "?" if spec.is_bare else ""
    text = {"type": "string", "pattern": rf"^\s*{_NUMBER}\s*({names}){is_bare}\s*$", "examples": [spec.example]}
    return {"anyOf": [text, {"type": "number"}]} if spec.is_bare else text


def long_form(value: dict[str, Any]) -> dict[str, Any]:
    """The long form of a value: with range, grade, sources and what others say."""
    alternative = {
        "type": "object",
        "properties": {"value": value, "source": _TEXTS, "note": {"type": "string"}},
        "required": ["value"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "value": {"anyOf": [value, {"type": "null"}]},
            "low": value,
            "high": value,
            "default": {**value, "description": "Stands in for an undisclosed value."},
            "unit": {"type": "string", "description": "What is counted."},
            "grade": {"enum": list(GRADES)},
            "range_grade": {"enum": list(GRADES)},
            "source": _TEXTS,
            "note": {"type": "string"},
            "alternatives": {"type": "array", "items": alternative},
        },
        "additionalProperties": False,
    }


def catalog() -> dict[str, Any]:
    """The schema of a chip, rack, model, engine, serving or site file; its key `schema` says which it is."""
    kinds = [
        {
            "title": kind,
            **_mapping(keys, {"schema": {"const": f"{kind}/1"}, **dict.fromkeys(texts, _TEXTS)}),
        }
        for kind, (keys, texts) in _KINDS.items()
    ]
    return {"$schema": DIALECT, "title": "planner catalogue file", "type": "object", "oneOf": kinds}


def _mapping(keys: Sequence[Key | Section], more: dict[str, Any]) -> dict[str, Any]:
    properties = dict(more)
    required = ["schema"] if "schema" in more else []
    for key in keys:
        if isinstance(key, Section):
            properties[key.key] = {"description": key.doc, **_mapping(key.keys, {})}
        else:
            properties[key.key] = {"description": key.doc, **_fact(key)}
        if isinstance(key, Section) or key.is_needed:
            required.append(key.key)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _fact(key: Key) -> dict[str, Any]:
    if key.kind == "group":
        members = {member.key: _member(member) for member in key.members}
        about = {name: part for name, part in long_form({})["properties"].items() if name in _GROUP_META}
        needed = [member.key for member in key.members if member.is_needed]
        return {
            "type": "object",
            "properties": {**members, **about},
            "required": needed,
            "additionalProperties": False,
        }
    value = _value(key.kind)
    forms = [value, long_form(value)]
    return {"anyOf": [*forms, {"type": "null"}] if key.may_be_null else forms}


def _member(member: Member) -> dict[str, Any]:
    value = _value(member.kind)
    return {"anyOf": [value, {"type": "null"}]} if member.may_be_null else value


_GROUP_META = ("grade", "range_grade", "source", "note", "alternatives")


def _value(kind: str) -> dict[str, Any]:
    if kind in units.KINDS:
        return quantity(kind)
    return {
        "bool": {"type": "boolean"},
        "texts": _TEXTS,
        "date": {"type": "string", "format": "date"},
        "formats": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    }.get(kind, {"type": "string"})

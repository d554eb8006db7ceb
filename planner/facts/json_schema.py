"""JSON Schema of catalogue files, made from the tables of the schema, for editors that complete keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner import units
from planner.facts import schema
from planner.facts.fact import GRADES
from planner.facts.keys import Key, Member, Section

FILES: dict[str, tuple[tuple[Key | Section, ...], tuple[str, ...], tuple[str, ...]]] = {
    "chip": (schema.CHIP, ("title",), ("vendor", "status", "engine")),
    "rack": (schema.RACK, ("title", "chip"), ()),
    "model": (schema.MODEL, (), ("hf_id", "aliases")),
    "engine": (schema.ENGINE, ("title",), ()),
    "serving": (schema.SERVING, ("title",), ()),
    "site": (schema.SITE, ("title",), ()),
}
"""Kind of file -> its facts, the texts that it must have, the texts that it may have."""


def catalog() -> dict[str, Any]:
    """The schema of every kind of file that a person may write, under `$defs`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Facts that planner reads",
        "$defs": {kind: _file(*parts) for kind, parts in FILES.items()},
        "anyOf": [{"$ref": f"#/$defs/{kind}"} for kind in FILES],
    }


def _file(keys: Sequence[Key | Section], needed: Sequence[str], optional: Sequence[str]) -> dict[str, Any]:
    whole = _section(keys)
    texts: dict[str, Any] = {name: {"type": "string"} for name in ("schema", *needed, *optional)}
    if "aliases" in texts:
        texts["aliases"] = {"type": ["string", "array"], "items": {"type": "string"}}
    whole["properties"] = texts | whole["properties"]
    whole["required"] = [*needed, *whole["required"]]
    return whole


def _section(keys: Sequence[Key | Section]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for key in keys:
        if isinstance(key, Section):
            properties[key.key] = _section(key.keys) | {"description": key.doc}
            is_needed = any(inner.is_needed for inner in key.keys)
        else:
            properties[key.key] = _fact(key) | {"description": _words(key)}
            is_needed = key.is_needed
        if is_needed:
            required.append(key.key)
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


def _fact(key: Key) -> dict[str, Any]:
    if key.kind == "group":
        return _group(key.members)
    value = _value(key.kind, may_be_null=key.may_be_null)
    nullable = _value(key.kind, may_be_null=True)
    long = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"value": nullable, "low": value, "high": value, "default": value, "unit": {"type": "string"}}
        | _how_known()
        | {
            "alternatives": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"value": nullable, "source": _SOURCE, "note": {"type": "string"}},
                    "required": ["value"],
                },
            }
        },
        "required": ["value"],
    }
    return {"anyOf": [value, long]}


def _group(members: Sequence[Member]) -> dict[str, Any]:
    properties = {member.key: _value(member.kind, may_be_null=member.may_be_null) for member in members}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties | _how_known(),
        "required": [member.key for member in members if member.is_needed],
    }


_SOURCE: dict[str, Any] = {"type": ["string", "array"], "items": {"type": "string"}}


def _how_known() -> dict[str, Any]:
    grade = {"enum": list(GRADES)}
    return {"grade": grade, "range_grade": grade, "source": _SOURCE, "note": {"type": "string"}}


def _value(kind: str, *, may_be_null: bool) -> dict[str, Any]:
    """What an editor sees: plain numbers are numbers there, quantities are text."""
    types: list[str]
    if kind == "bool":
        types = ["boolean"]
    elif kind == "texts":
        return {"type": ["string", "array"], "items": {"type": "string"}}
    elif kind == "formats":
        text = {"type": ["string", "null"]}
        names = ("experts", "rest", "activations")
        return {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(names, text)}
    else:
        types = ["string", "number"] if kind in units.KINDS and units.KINDS[kind].is_bare else ["string"]
    return {"type": [*types, "null"] if may_be_null else types if len(types) > 1 else types[0]}


def _words(key: Key) -> str:
    if key.kind not in units.KINDS:
        return key.doc
    return f"{key.doc} Such as {units.KINDS[key.kind].example}; in memory {key.attr}."

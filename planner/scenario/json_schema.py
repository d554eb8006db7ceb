"""JSON Schema (draft 2020-12) of scenario files, for editors, made from the sections that read them."""

from __future__ import annotations

from typing import Any

from planner.facts.schema import GRADES
from planner.scenario.fields import LONG
from planner.scenario.schema import ScenarioFile

_VALUE = {"type": ["string", "number"]}
_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_LONG_FORM: dict[str, Any] = {
    "description": "A quantity with its range, how it is known and where it is from.",
    "type": "object",
    "properties": {
        "value": _VALUE,
        "low": _VALUE,
        "high": _VALUE,
        "default": {**_VALUE, "description": "Stands in for an undisclosed value."},
        "grade": {"enum": list(GRADES)},
        "source": _TEXTS,
        "note": {"type": "string"},
        "alternatives": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"value": _VALUE, "source": _TEXTS, "note": {"type": "string"}},
                "required": ["value"],
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}

_SHORT: dict[str, list[dict[str, Any]]] = {
    "Dist": [{"type": "string"}],
    "Pause": [{"type": "string"}],
    "Shape": [{"type": "string"}, {"type": "array", "items": {"type": "number", "minimum": 0}}],
    "Failures": [{"const": "default"}],
    "Router": [{"$ref": "#/$defs/Router/properties/policy"}],
}
"""Sections that have a short spelling, and what it may be."""


def scenario() -> dict[str, Any]:
    """The schema of a scenario file.

    A file that extends another may leave out what the other has and may remove it with null, so that below the top
    no key is required and every one may be null; `planner check` judges the merged file.
    """
    made = ScenarioFile.model_json_schema(by_alias=True, mode="validation")
    _refer(made)
    sections = made["$defs"]
    _short_forms(sections)
    for section in [*sections.values(), made]:
        section.pop("required", None)
        for name, value in section.get("properties", {}).items():
            section["properties"][name] = _open(value)
    sections["LongQuantity"] = _LONG_FORM
    whole = {"required": ["title", "traffic", "fleet"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": "planner scenario",
        "if": {"required": ["extends"]},
        "else": whole,
    }


def _refer(value: Any) -> None:
    """Puts the reference to the long form where sections left a mark for it."""
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refer(part)
    if isinstance(value, dict) and value.pop(LONG, False):
        value["$ref"] = "#/$defs/LongQuantity"


def _short_forms(sections: dict[str, Any]) -> None:
    """Spellings that are made long before a section reads them."""
    sections["Pool"]["properties"]["count"] = {
        "description": "Number of racks; {min, max} lets `planner optimize` choose.",
        "anyOf": [{"type": "integer", "minimum": 0}, {"$ref": "#/$defs/CountRange"}],
    }
    deploy = sections["Pool"]["properties"]["deploy"]
    sections["Pool"]["properties"]["deploy"] = {
        "description": deploy.pop("description"),
        "anyOf": [{"const": "any"}, deploy],
    }
    budget = sections["Goal"]["properties"]["budget"]
    money = next(form for form in budget["anyOf"] if form.get("type") == "object")["additionalProperties"]
    budget["anyOf"] = [*money["anyOf"], {"type": "object", "additionalProperties": money}]
    goal = sections["Goal"]["properties"]
    goal["minimise"] = {
        "description": "The figure to make small; a map {tco: 1, carbon: 100 USD/tCO2e} makes a weighted sum small.",
        "anyOf": [{"enum": ["tco", "capex", "energy", "carbon"]}, {"$ref": "#/$defs/Weights"}],
    }
    racks = {"type": "integer", "minimum": 0}
    sections["Pool"]["properties"]["deliveries"] = {
        "description": "Most racks that are delivered in a period; a map gives each period its own.",
        "anyOf": [racks, {"type": "object", "additionalProperties": racks}],
    }
    routes = sections["FleetSpec"]["properties"]["routes"]["additionalProperties"]
    forms = [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, dict(routes)]
    routes.clear()
    routes["anyOf"] = forms
    short = {name: {"$ref": f"#/$defs/{name}"} for name in _SHORT}
    for name, section in list(sections.items()):
        for key, value in section.get("properties", {}).items():
            for form, spellings in _SHORT.items():
                if value.get("$ref") == short[form]["$ref"] or short[form] in value.get("anyOf", []):
                    section["properties"][key] = {
                        "description": value.get("description", ""),
                        "anyOf": [short[form], *spellings],
                    }
        section.setdefault("title", name)


def _open(value: dict[str, Any]) -> dict[str, Any]:
    """The schema of a key's value, or null, without the titles and defaults that pydantic makes up."""
    value = {key: part for key, part in value.items() if key not in {"title", "default"}}
    if isinstance(value.get("additionalProperties"), dict):
        value["additionalProperties"] = _open(value["additionalProperties"])
    if value.get("anyOf") and {"type": "null"} in value["anyOf"]:
        return value
    about = {"description": value.pop("description")} if "description" in value else {}
    return {**about, "anyOf": [value, {"type": "null"}]}

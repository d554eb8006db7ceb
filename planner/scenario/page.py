"""`docs/reference/scenario.md`, made from the sections: every key of a scenario, what it is and what it takes."""

from __future__ import annotations

from collections.abc import Iterator

from planner import units
from planner.scenario.fields import FactOf, Factor, FlagOf, NameOf, Quantity, Reader, TextOf, Whole
from planner.scenario.schema import ScenarioFile
from planner.scenario.section import Section
from planner.scenario.shape import Fields, Items, Leaf, Names, Shape
from planner.scenario.unsupported import UNSUPPORTED, Key

_HEAD = """# Scenario

What may a scenario say? Every section, every key, and what each takes. Keys without a default may be left out unless
`planner check` says that they are missing. A quantity marked *fact* may be written long, as `{value, low, high, grade,
source, note, alternatives}`: its range then counts in the result's intervals.

This page is made from `planner/scenario/sections_*.py` by `make docs`.
"""


def page() -> str:
    """The page, as Markdown."""
    parts = [_HEAD]
    parts += [_section(path, section) for path, section in _sections(Fields(ScenarioFile), ())]
    lines = ["## Not for every verb", "", "Read and checked by all. A verb that does not act on a key refuses it, or"]
    lines += ["says that it goes on without; `planner check` tells which verbs a file is for.", ""]
    lines += ["| key | verbs that act on it | the others | which means |", "|---|---|---|---|"]
    lines += dict.fromkeys(map(_not_for_all, UNSUPPORTED))
    return "\n".join([*parts, *lines, ""])


def _not_for_all(key: Key) -> str:
    verbs = ", ".join(f"`{verb}`" for verb in key.verbs) or "none yet"
    return f"| `{key.pattern}` | {verbs} | {'go on' if key.is_said else 'refuse'} | {_cell(key.meaning)} |"


def _sections(shape: Shape, path: tuple[str, ...]) -> Iterator[tuple[str, type[Section]]]:
    """The sections below a place, each with its path, in the order of the file."""
    match shape:
        case Fields():
            yield ".".join(path), shape.section
            for key, child in shape.keys.items():
                yield from _sections(child, (*path, key))
        case Names():
            yield from _sections(shape.each, (*path, "*"))
        case Items():
            yield from _sections(shape.each, (*path[:-1], f"{path[-1]}[]"))


def _section(path: str, section: type[Section]) -> str:
    lines = [f"## {path or 'The file'}", "", " ".join((section.__doc__ or "").split()), ""]
    lines += ["| key | takes | default | what it is |", "|---|---|---|---|"]
    seen: set[str] = set()
    for name, field in section.model_fields.items():
        key = field.alias or name
        if key not in seen:
            shape = Fields(section).keys[key]
            default = _default(field.default, shape)
            lines.append(f"| `{key}` | {_cell(_takes(shape))} | {default} | {_cell(field.description or '')} |")
        seen.add(key)
    return "\n".join([*lines, ""])


def _default(value: object, shape: Shape) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        is_quantity = isinstance(shape, Leaf) and isinstance(shape.reader, Quantity)
        return units.format(value, shape.reader.kind) if is_quantity else f"{value:g}"  # type: ignore[union-attr]
    return value if isinstance(value, str) else ""


def _takes(shape: Shape) -> str:
    """What a key takes, in a few words."""
    match shape:
        case Fields():
            return "section"
        case Names():
            inner = _takes(shape.each) or "values"
            return "sections by name" if inner == "section" else f"{inner} by name"
        case Items():
            return f"list: {_takes(shape.each)}"
        case Leaf():
            return " \\| ".join(f"`{choice}`" for choice in shape.choices) if shape.choices else _kind(shape.reader)


def _kind(reader: Reader | None) -> str:
    match reader:
        case FactOf():
            return f"fact, such as `{units.KINDS[reader.kind].example}`"
        case Quantity():
            return f"such as `{units.KINDS[reader.kind].example}`"
        case Whole():
            return "count"
        case Factor():
            return "number"
        case FlagOf():
            return "true or false"
        case NameOf():
            return "name"
        case TextOf():
            return "text"
    return ""


def _cell(text: str) -> str:
    return " ".join(text.replace("\\|", "|").replace("|", "\\|").split())

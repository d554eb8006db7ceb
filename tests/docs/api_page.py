"""`docs/reference/python-api.md`: the public names with their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import planner

_HEAD = """# Python API

What can a notebook or a pipeline call? `import planner` costs nothing; each name is loaded when it is used. Everything
else in the package may change without notice. Errors are those of [Errors](errors.md).

This page is made from the code by `make docs`.
"""


def page() -> str:
    """The page, as Markdown."""
    parts = [_HEAD, _text(planner.__doc__ or "")]
    for name in sorted(planner.__all__, key=lambda name: (name[0].isupper(), name)):
        thing = getattr(planner, name)
        parts.append(_class(name, thing) if inspect.isclass(thing) else _function(f"planner.{name}", thing, 2))
    return "\n".join(parts)


def _function(name: str, thing: Any, level: int) -> str:
    signature = re.sub(
        r"<function [^>]*>+ at \w+>|<function [^>]+>", "...", str(inspect.signature(thing)).replace("'", "")
    )
    return f"{'#' * level} {name}\n\n```python\n{name}{_folded(signature)}\n```\n\n{_text(inspect.getdoc(thing) or '')}"


def _folded(signature: str) -> str:
    """A long signature, a parameter a line."""
    if len(signature) < 90:
        return signature
    inside, _, after = signature[1:].rpartition(")")
    parts, depth, start = [], 0, 0
    for ix, char in enumerate(inside):
        depth += (char in "[(") - (char in "])")
        if char == "," and not depth:
            parts.append(inside[start:ix].strip())
            start = ix + 1
    parts.append(inside[start:].strip())
    return "(\n" + "".join(f"    {part},\n" for part in parts) + ")" + after


def _class(name: str, thing: type) -> str:
    lines = [f"## planner.{name}", "", _text(inspect.getdoc(thing) or "")]
    names = [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
    names = names or list(getattr(thing, "model_fields", {}))
    if names:
        lines += [f"Fields: {', '.join(f'`{each}`' for each in names)}.", ""]
    for each, member in vars(thing).items():
        if each.startswith("_") and each not in {"_repr_html_"}:
            continue
        if isinstance(member, property):
            lines.append(f"### {name}.{each}\n\n{_text(inspect.getdoc(member) or '')}")
        elif isinstance(member, (staticmethod, classmethod)) or inspect.isfunction(member):
            lines.append(_function(f"{name}.{each}", getattr(thing, each), 3))
    return "\n".join(lines)


def _text(doc: str) -> str:
    """A docstring as Markdown: examples become code."""
    out: list[str] = []
    is_code = False
    for line in inspect.cleandoc(doc).splitlines():
        starts = line.startswith(">>>")
        if starts and not is_code:
            out.append("```pycon")
            is_code = True
        elif is_code and not line:
            out.append("```")
            is_code = False
        stripped = line.strip()
        if not is_code and stripped == "Raises:":
            out += ["Raises:", ""]
            continue
        is_item = not is_code and line.startswith("    ")
        out.append(line if not is_item else f"  {stripped}" if line.startswith("        ") else f"- {stripped}")
    if is_code:
        out.append("```")
    return "\n".join(out) + "\n"

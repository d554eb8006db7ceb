"""YAML of a file of facts that a fit has made: long tables of numbers, compact and in the order given."""

from __future__ import annotations

from typing import Any

_WIDTH = 112


def yaml_text(tree: dict[str, Any]) -> str:
    """The text of `tree`: lists and innermost maps in one line, or wrapped; the rest one key a line."""
    return "".join(_entry(key, value, "") for key, value in tree.items())


def _entry(key: str, value: Any, indent: str) -> str:
    import yaml

    if isinstance(value, dict) and any(isinstance(inner, dict | list) for inner in value.values()):
        return f"{indent}{key}:\n" + "".join(_entry(k, v, indent + "  ") for k, v in value.items())
    if not isinstance(value, dict | list):
        return indent + yaml.safe_dump({key: value}, width=10_000, allow_unicode=True)
    flow = yaml.safe_dump(value, default_flow_style=True, width=_WIDTH - len(indent), sort_keys=False).rstrip()
    if len(indent) + len(key) + 2 + len(flow) <= _WIDTH + 4 and "\n" not in flow:
        return f"{indent}{key}: {flow}\n"
    inner = flow.replace("\n", "\n  " + indent)
    return f"{indent}{key}:\n{indent}  {inner}\n"

"""What was asked of the fleet: each class's arrivals and lengths, as the resolved scenario of the result has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner import yaml_tree
from planner.report.page_html import View, anchor, esc, section, table

_LENGTHS = ("input", "output")
_LIMITS = ("slo", "model", "tenant")


def traffic(view: View) -> str | None:
    """A row for each class. A trace says whether it was copied or squeezed, for `scale` and `speedup` differ."""
    asked: Any = yaml_tree.read(view.result.scenarios[view.name], file="scenario.resolved.yaml").plain()
    rows = [
        [esc(name), esc(_arrivals(klass)), *(esc(_text(klass.get(key, "as recorded"))) for key in _LENGTHS)]
        for name, klass in asked.get("traffic", {}).items()
    ]
    body = table("Traffic by class, as asked", ["Class", "Arrivals", "Prompts", "Answers"], rows, words=(0, 1, 2, 3))
    return section("Traffic", body, at=anchor(view.name, "traffic"), level=view.level)


def _arrivals(klass: Mapping[str, Any]) -> str:
    """How the requests of a class come."""
    parts = []
    rest = {key: value for key, value in klass.items() if key not in (*_LENGTHS, *_LIMITS)}
    if "trace" in rest:
        parts.append(f"trace {_text(rest.pop('trace'))}")
        scale = rest.pop("scale", None)
        if scale is not None:
            parts.append(
                f"scale {_text(scale)}: so many seeded copies, the first as recorded, each other turned round its "
                "span; the span stays"
            )
        speedup = rest.pop("speedup", None)
        if speedup is not None:
            parts.append(f"speedup {_text(speedup)}: the recorded clock so many times as fast, no request more")
    return ", ".join([*parts, *(f"{key} {_text(value)}" for key, value in rest.items())])


def _text(value: Any) -> str:
    """A value of the scenario in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        shown = [_text(each) for each in value[:8]]
        return ", ".join(shown) + (f", ... ({len(value)} in all)" if len(value) > len(shown) else "")
    return str(value)

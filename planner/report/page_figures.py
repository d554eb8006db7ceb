"""Section 5 of the page: the figures, each with what it says in words for who cannot see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.report.figures import style
from planner.report.page_html import View, anchor, esc, section

if TYPE_CHECKING:
    from planner.report.figures.registry import Drawn

__all__ = ["figures"]


def figures(view: View, made: Sequence[Drawn]) -> str:
    """The figures of a variant in a grid."""
    parts = []
    for drawn in made:
        if drawn.figure.name == "horizon" and (drawn.chart is None or view.tree.get("horizon")):
            continue  # it stands with the horizon
        name = anchor(view.name, "figure", drawn.figure.name)
        level = view.level + 1
        title = f'<h{level} class="figure" id="{name}">{esc(drawn.figure.title)}</h{level}>'
        if drawn.chart is None:
            parts.append(f'<figure aria-labelledby="{name}">{title}<p class="note">{esc(drawn.why)}.</p></figure>')
            continue
        svg = style.inline_svg(drawn.chart, alt=drawn.alt)
        caption = f"<figcaption>{esc(drawn.figure.caption)}</figcaption>"
        parts.append(f'<figure aria-labelledby="{name}">{title}{svg}{caption}</figure>')
    body = f'<div class="figures">{"".join(parts)}</div>'
    return section("Figures", body, at=anchor(view.name, "figures"), level=view.level, classes="breaks")

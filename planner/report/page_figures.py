"""Section 5 of the page: the figures, each live where a script runs, still where none does, and told as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.report import page_live
from planner.report.figures import style
from planner.report.page_html import View, anchor, esc, section, sheet_table

if TYPE_CHECKING:
    from planner.report.figures.live import Time
    from planner.report.figures.registry import Drawn

__all__ = ["block", "figure", "figures"]


def figures(view: View, made: Sequence[Drawn]) -> str:
    """The figures of a variant in a grid."""
    parts = [
        figure(view, drawn)
        for drawn in made
        if drawn.figure.name != "horizon" or (drawn.chart is not None and not view.tree.get("horizon"))
    ]  # the horizon's stands with the horizon
    pools = page_live.pools(view.look, list(view.tree["pools"]))
    body = f'<div class="figures" data-pools="{pools}">{"".join(parts)}</div>'
    return section("Figures", body, at=anchor(view.name, "figures"), level=view.level, classes="breaks")


def figure(view: View, drawn: Drawn, *, is_alone: bool = False) -> str:
    """One figure of a result."""
    name, level = anchor(view.name, "figure", drawn.figure.name), view.level + 1
    title = f'<h{level} class="figure" id="{name}">{esc(drawn.figure.title)}</h{level}>'
    pools = f' data-pools="{page_live.pools(view.look, list(view.tree["pools"]))}"' if is_alone else ""
    kind = f'data-figure="{drawn.figure.name}"{" class=alone" if is_alone else ""}{pools}'
    head = f'<figure aria-labelledby="{name}" {kind}>{title}'
    if drawn.chart is None:
        return f'{head}<p class="note">{esc(drawn.why)}.</p></figure>'
    where = f"All rows: <code>figures/{esc(drawn.figure.name)}.parquet</code>."
    told = sheet_table(f"{drawn.figure.title}{f', {view.name}' if view.is_one_of_several else ''}", drawn.sheet, where)
    return f"{head}{_drawing(drawn.chart, drawn.alt, drawn.figure.caption, told, drawn.time)}</figure>"


def block(drawing: Mapping[str, Any], *, at: str, title: str, level: int, alt: str, caption: str, told: str) -> str:
    """A figure of a page that is no result's: `told` is its table, HTML."""
    head = f'<figure aria-labelledby="{at}"><h{level} class="figure" id="{at}">{esc(title)}</h{level}>'
    return f"{head}{_drawing(drawing, alt, caption, told, None)}</figure>"


def _drawing(drawing: Mapping[str, Any], alt: str, caption: str, told: str, time: Time | None) -> str:
    """The still drawing, how it is read, its rows as a table, and what the live drawing is made of."""
    vega = style.compiled(drawing)
    svg = style.inline_svg(vega, alt=alt)
    return f"{svg}<figcaption>{esc(caption)}</figcaption>{told}{page_live.specification(vega, time)}"

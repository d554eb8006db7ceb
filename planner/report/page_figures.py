"""Section 5 of the page: the figures, each live where a script runs, still where none does, and told as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.report import page_live
from planner.report.figures import style
from planner.report.page_html import View, anchor, esc, section, table

if TYPE_CHECKING:
    from planner.report.figures.registry import Drawn

__all__ = ["figure", "figures"]


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
    """One figure: its title, the drawing, how it is read, its rows as a table, and what the live drawing is made of."""
    name, level = anchor(view.name, "figure", drawn.figure.name), view.level + 1
    title = f'<h{level} class="figure" id="{name}">{esc(drawn.figure.title)}</h{level}>'
    pools = f' data-pools="{page_live.pools(view.look, list(view.tree["pools"]))}"' if is_alone else ""
    kind = f'data-figure="{drawn.figure.name}"{" class=alone" if is_alone else ""}{pools}'
    head = f'<figure aria-labelledby="{name}" {kind}>{title}'
    if drawn.chart is None:
        return f'{head}<p class="note">{esc(drawn.why)}.</p></figure>'
    vega = style.compiled(drawn.chart)
    svg = style.inline_svg(vega, alt=drawn.alt)
    caption = f"<figcaption>{esc(drawn.figure.caption)}</figcaption>"
    spec = page_live.specification(vega, drawn.time)
    return f"{head}{svg}{caption}{_sheet(view, drawn)}{spec}</figure>"


def _sheet(view: View, drawn: Drawn) -> str:
    """The rows of a figure, folded away."""
    sheet = drawn.sheet
    name = f"{drawn.figure.title}, {view.name}" if view.is_one_of_several else drawn.figure.title
    told = table(
        f"{name}: its figures",
        [esc(head) for head in sheet.head],
        [[esc(c) for c in row] for row in sheet.rows],
        words=sheet.words,
    )
    where = f"All rows: <code>figures/{esc(drawn.figure.name)}.parquet</code>."
    note = f'<p class="note">{esc(sheet.note)} {where}</p>'
    return f'<details class="sheet"><summary>The same as a table</summary>{told}{note}</details>'

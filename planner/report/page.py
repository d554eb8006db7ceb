"""The capacity review: one self-contained HTML page of a result, without a request to any network.

It is whole without its script: each drawing is SVG in the page, with its words, its rows as a table, and a tooltip of
its own where a mark stands for a figure. Where the script runs, a live drawing takes the still one's place
(`page_live.py`): figures under the pointer, one pool picked out, time looked at closer. Print has the still ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.report.figures import registry
from planner.report.page_answer import answer, question, shared_question
from planner.report.page_compare import side_by_side
from planner.report.page_evidence import again, evidence, left_out, sources
from planner.report.page_figures import figures
from planner.report.page_fleet import fleet
from planner.report.page_headline import headline
from planner.report.page_horizon import horizon
from planner.report.page_html import View, anchor, document, esc
from planner.report.page_levels import limits
from planner.report.page_traffic import traffic
from planner.report.plan_section import plan

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

__all__ = ["AFTER_VARIANTS", "BEFORE_VARIANTS", "page"]

Section = Callable[["Result"], "str | None"]

BEFORE_VARIANTS: tuple[Section, ...] = (plan, side_by_side)
"""Sections of the result as a whole, above its variants; None = it has no such part."""
AFTER_VARIANTS: tuple[Section, ...] = (sources, again)
"""Sections of the result as a whole, below its variants."""
_ANSWER = (answer, fleet, limits, headline)
_EVIDENCE = (traffic, evidence, left_out)


def page(
    result: Result,
    *,
    figures: Sequence[registry.Figure] | None = None,
    frames: Mapping[str, pl.DataFrame] | None = None,
) -> str:
    """The page, whole. `figures` are those to show (the six by default), `frames` theirs where they are made."""
    chosen = registry.select(None, result) if figures is None else figures
    rows = registry.frames(result, chosen) if frames is None else frames
    first = next(iter(result.variants.values()))
    body = [_one(section, result) for section in BEFORE_VARIANTS]
    body += [_variant(result, name, chosen, rows) for name in result.variants]
    body += [_one(section, result) for section in AFTER_VARIANTS]
    return document(
        first["title"],
        "".join(body),
        eyebrow="Capacity review",
        head=f"{question(shared_question(result))}{_contents(result)}",
        foot="Made by planner from a finished result; nothing on this page was computed anew.",
        has_script=True,
    )


def _one(section: Section, result: Result) -> str:
    return section(result) or ""


def _contents(result: Result) -> str:
    """Links to the variants, where there are several."""
    if len(result.variants) == 1:
        return ""
    links = "".join(f'<li><a href="#{anchor(name, "variant")}">{esc(name)}</a></li>' for name in result.variants)
    return f'<nav aria-label="Variants"><ul>{links}</ul></nav>\n'


def _variant(result: Result, name: str, chosen: Sequence[registry.Figure], rows: Mapping[str, pl.DataFrame]) -> str:
    look = registry.look_of(result)
    view = View(result, name, result.variants[name], look)
    if result.plan is not None and name != result.plan["shown"]:
        return _article(view, [*(section(view) for section in _ANSWER), _elsewhere(result.plan["shown"])])
    made = [registry.drawn(figure, rows[figure.name], name, look) for figure in chosen]
    parts = [section(view) for section in _ANSWER]
    parts += [horizon(view, made), figures(view, made)]
    parts += [section(view) for section in _EVIDENCE]
    return _article(view, parts)


def _article(view: View, parts: Sequence[str | None]) -> str:
    at = anchor(view.name, "variant")
    head = f'<h2 id="{at}">{esc(view.name)}</h2>' if view.is_one_of_several else ""
    label = f'aria-labelledby="{at}"' if head else 'aria-label="The review"'
    return f'<article class="variant" {label}>{head}{"".join(part for part in parts if part)}</article>'


def _elsewhere(shown: str) -> str:
    """Of a plan one variant has all figures: the peak that is dearest to meet."""
    link = f'<a href="#{anchor(shown, "variant")}">{esc(shown)}</a>'
    return (
        f'<p class="note">Figures and evidence are shown for {link}; the rows of all are in <code>figures/</code>.</p>'
    )

"""A result in a notebook: the answer, the limits and the headline, in a few styled lines; the page has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.errors import Fault, ScenarioError, near
from planner.report.figures import registry, style
from planner.report.page_answer import sentences
from planner.report.page_compare import side_by_side
from planner.report.page_fleet import fleet
from planner.report.page_headline import headline, price
from planner.report.page_html import View, esc
from planner.report.page_levels import limits
from planner.report.verdict import word

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["chart", "html"]

_STYLE = """<style>
.planner-result{font-variant-numeric:tabular-nums;max-width:64rem;line-height:1.45}
.planner-result table{border-collapse:collapse;margin:.5rem 0;font-size:.92em}
.planner-result th,.planner-result td{padding:.25rem .8rem .25rem 0;text-align:left;border-bottom:1px solid #8884}
.planner-result h2,.planner-result h3{text-align:left;font-size:1em;font-weight:600;margin:.6rem 0 0}
.planner-result .n{text-align:right}.planner-result .sub,.planner-result .note,.planner-result .unit,
.planner-result .between,.planner-result .q{opacity:.72;font-size:.9em}
.planner-result .cards{display:flex;flex-wrap:wrap;gap:.3rem 1.6rem}.planner-result .cards dd{margin:0}
.planner-result .big{font-weight:650;font-size:1.15em}.planner-result caption{display:none}
.planner-result .mark,.planner-result .verdict strong{font-weight:700}
</style>"""


def html(result: Result) -> str:
    """The short form of the page, for `Result._repr_html_`."""
    look = registry.look_of(result)
    parts = [side_by_side(result) or ""]
    for name, tree in result.variants.items():
        view = View(result, name, tree, look)
        head = f"{esc(tree['title'])} [{esc(name)}]" if view.is_one_of_several else esc(tree["title"])
        lead = word(tree) if tree["requests"]["completed"] else "Nothing completed"
        parts.append(
            f'<h2>{head}</h2><p class="verdict"><strong>{lead}.</strong> {" ".join(sentences(view))}</p>{price(view)}'
        )
        if not view.is_one_of_several:
            parts += [part for part in (fleet(view), limits(view), headline(view)) if part]
    return f'{_STYLE}<div class="planner-result">{"".join(parts)}</div>'


def chart(result: Result, name: str, variant: str | None = None) -> Any:
    """A figure as an Altair chart; see `Result.figure`."""
    figure = registry.select([name])[0] if name != "all" else None
    if figure is None:
        raise ScenarioError(Fault("'all' is no single figure", f"name one of {', '.join(registry.FIGURES)}"))
    of = next(iter(result.variants)) if variant is None else variant
    if of not in result.variants:
        raise ScenarioError(Fault(f"no variant '{of[:60]}'{near(of, result.variants)}"))
    drawn = registry.drawn(figure, figure.part("frame")(result), of, registry.look_of(result))
    if drawn.chart is None:
        raise ScenarioError(Fault(f"the result has nothing for the figure '{name}'", drawn.why))
    import altair

    titled = {**drawn.chart, "title": figure.title, "config": style.config()}
    return altair.Chart.from_dict(titled)

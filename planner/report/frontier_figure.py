"""The figure of a frontier: three charts, a curve for each chip and stack, as a web page or a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import units
from planner.errors import Fault, RunError
from planner.report import page_live
from planner.report.figures import style
from planner.report.figures.frames import decades
from planner.report.figures.live import picked, spot, with_signals
from planner.report.figures.sheet import plainly
from planner.report.page_figures import block
from planner.report.page_html import document, item_list, section, sheet_table

if TYPE_CHECKING:
    import polars as pl

    from planner.study.frontier import Frontier

__all__ = ["FORMATS", "page", "save"]

FORMATS = (".html", ".png", ".svg")
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_WIDTH, _HEIGHT = 330, 260
_LABEL = "datum.value >= 1000 ? format(datum.value, '~s') : format(datum.value, '~r')"
_CHARTS = (
    ("chip_rated", "Yield a kW of rated chips", "tok_s_user", "tok/s a user", "mixed_tok_s_kw_chip_rated",
     "mixed tok/s a kW of rated chips"),
    ("usd", "Cost", "tok_s_user", "tok/s a user", "usd_per_mtok", "USD a million tokens, in and out"),
    ("e2e", "Yield a chip", "e2e_s", "end to end, s", "tok_s_chip", "output tok/s a chip"),
)  # fmt: skip
"""Name of the frontier, title, and column and words of either axis."""


def save(found: Frontier, path: Path) -> None:
    """Writes the closed loops' curves to `path`; a page needs no network to be read.

    Raises:
        RunError: the ending is unknown, the libraries for figures are not installed, or the file cannot be written.
    """
    if path.suffix not in FORMATS:
        raise RunError(Fault(f"'{path.name}' does not end in {', '.join(FORMATS)}", "the ending says what is drawn"))
    try:
        import altair  # noqa: F401
        import vl_convert
    except ImportError:
        way_out = "pip install 'jalapeno-fleet-planner[figure]'"
        raise RunError(Fault("the libraries for figures are not installed", way_out)) from None
    if path.suffix == ".html":
        made: bytes = page(found).encode("utf-8")
    else:
        whole = with_signals(style.hconcat(*(_panel(found, each) for each in _CHARTS), spacing=28))
        made = style.png(whole) if path.suffix == ".png" else vl_convert.vega_to_svg(style.on_white(whole)).encode()
    try:
        path.write_bytes(made)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error}; name a place that can be written") from None


def page(found: Frontier) -> str:
    """The three figures as a page by itself, live where a script runs."""
    look = _look(found)
    figures = "".join(_figure(found, each) for each in _CHARTS)
    pools = page_live.pools(look, list(look.pools))
    body = section(
        "Figures", f'<div class="figures" data-pools="{pools}" data-one="Chip">{figures}</div>', at="figures"
    )
    if found.notices:
        body += section("What to know", item_list(notice.message for notice in found.notices), at="notices")
    lengths = f"{found.lengths.mean_input:,.0f} and answers of {found.lengths.mean_output:,.0f} tokens in the mean"
    return document(
        f"{found.model}: latency against yield",
        body,
        eyebrow="Frontier",
        head=f'<p class="question">Prompts of {lengths}, in closed loops.</p>',
        foot="Made by planner frontier; nothing on this page asks a network for anything.",
        has_script=True,
    )


def _look(found: Frontier) -> style.Look:
    return style.look(found.points["chip"].unique(maintain_order=True).to_list())


def _rows(found: Frontier, each: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    name, _, x, _, y, _ = each
    points = found.points.filter(pl.col("regime") == "closed_loop")
    return points.filter(pl.col("pareto_of").list.contains(name) & pl.col(y).is_not_null()).sort(x, maintain_order=True)


def _panel(found: Frontier, each: Sequence[str], *, title: bool = True) -> dict[str, Any]:
    import altair as alt

    _, name, x_name, x_title, y_name, y_title = each
    look = _look(found)
    rows = [
        {"pool": row["chip"], "stack": row["stack"], "line": f"{row['chip']}, {row['stack']}"}
        | {"x": row[x_name], "y": row[y_name], "words": _words(row, each)}
        for row in _rows(found, each).iter_rows(named=True)
    ]
    stacks = found.points["stack"].unique(maintain_order=True).to_list()
    x = alt.X("x:Q", title=x_title, **_axis([row["x"] for row in rows]))
    y = alt.Y("y:Q", title=y_title, **_axis([row["y"] for row in rows]))
    legend = alt.Legend(orient="bottom", title=None, columns=3, symbolType="stroke", symbolStrokeWidth=2)
    color = alt.Color("pool:N", scale=alt.Scale(domain=look.domain, range=look.colours), legend=legend)
    dashes = alt.Scale(domain=stacks, range=[_DASHES[ix % len(_DASHES)] for ix in range(len(stacks))])
    dash = alt.StrokeDash("stack:N", scale=dashes, legend=legend if len(stacks) > 1 else None)
    told = style.chart(rows)
    return style.layer(
        told.mark_line(aria=False).encode(
            x=x, y=y, color=color, strokeDash=dash, detail=alt.Detail("line:N"), opacity=picked()
        ),
        told.mark_point(filled=True, size=16, aria=False).encode(x=x, y=y, color=color, opacity=picked()),
        spot(rows, x=x, y=y, size=70),
        width=_WIDTH,
        height=_HEIGHT,
        title=style.head(name) if title else None,
    )


def _axis(values: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis that holds the values with some room, a tick a decade."""
    import altair as alt

    ends, ticks = decades(values)
    scale = alt.Scale(type="log", domain=ends, nice=False)
    return {"scale": scale, "axis": alt.Axis(values=ticks, labelExpr=_LABEL)}


def _figure(found: Frontier, each: Sequence[str]) -> str:
    name, title, x, x_title, y, y_title = each
    rows = [
        row | {x: units.figures(row[x]), y: units.figures(row[y])}
        for row in _rows(found, each).select("chip", "stack", "mode", "tp", "dp", x, y).iter_rows(named=True)
    ]
    heads = [("chip", "Chip", ""), ("stack", "Stack", ""), ("mode", "Prompts", ""), ("tp", "tp", "count")]
    told = plainly(rows, [*heads, ("dp", "dp", "count"), (x, x_title, "count"), (y, y_title, "count")])
    with style.unchecked():
        drawing = with_signals(_panel(found, each, title=False))
    return block(
        drawing,
        at=f"figure--{name}",
        title=title,
        level=3,
        alt=f"{y_title} against {x_title}, a curve for each chip and stack.",
        caption=f"{y_title[0].upper()}{y_title[1:]}, against {x_title}. No layout of its stack beats a point in both.",
        told=sheet_table(title, told),
    )


def _words(row: Mapping[str, Any], each: Sequence[str]) -> str:
    _, _, x, x_title, y, y_title = each
    layout = f"tp{row['tp']} dp{row['dp']}, {row['mode']}"
    return (
        f"{row['chip']}, {row['stack']}\n{layout}\n{units.figures(row[x])} {x_title}\n{units.figures(row[y])} {y_title}"
    )

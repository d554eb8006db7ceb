"""The figure of a break-even: what a token costs in both plans over the varied value, for the whole and each class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.report.drawing import save_drawing
from planner.report.figures import style
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.study.breakeven import BreakEven

__all__ = ["frame", "save"]

NAME = "break-even"


def frame(found: BreakEven) -> pl.DataFrame:
    """A row for each figure, plan and value: what is drawn. `value` is in the unit of the column `unit`."""
    import polars as pl

    schema = {"figure": pl.String, "plan": pl.String, "value": pl.Float64, "unit": pl.String}
    schema |= {"usd_per_mtok": pl.Float64, "verdict": pl.String, "break_even": pl.Float64}
    schema |= {"break_even_low": pl.Float64, "break_even_high": pl.Float64}
    at = {each.figure: each for each in found.crossings}
    unit = found.vary.text(0).partition(" ")[2]
    rows = [
        [
            row["figure"],
            row["plan"],
            row["value"],
            unit,
            row["usd_per_mtok"],
            row["verdict"],
            at[row["figure"]].values[0] if at[row["figure"]].values else None,
            at[row["figure"]].low,
            at[row["figure"]].high,
        ]
        for row in found.curve
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def chart(rows: pl.DataFrame, path: str) -> dict[str, Any]:
    """The drawing of the frame: a panel for each figure, a line for each plan, the break-even and its interval."""
    import altair as alt

    panels = []
    look = style.look(list(dict.fromkeys(rows["plan"].to_list())))
    for (name,), part in rows.group_by(["figure"], maintain_order=True):
        told = [row | {"plan": plain(row["plan"])} for row in part.to_dicts()]
        title = ", ".join(word for word in (plain(path), told[0]["unit"]) if word)
        x = alt.X("value:Q", title=title, axis=alt.Axis(format="~s"))
        lines = (
            style.chart(told)
            .mark_line()
            .encode(
                x=x,
                y=alt.Y("usd_per_mtok:Q", title="USD a million tokens", scale=alt.Scale(zero=True)),
                color=alt.Color("plan:N", title="plan", scale=alt.Scale(domain=look.domain, range=look.colours)),
                strokeDash=alt.StrokeDash("plan:N", title="plan", scale=alt.Scale(domain=look.domain)),
            )
        )
        layers = [lines]
        first = told[0]
        if first["break_even_low"] is not None:
            band = style.chart([{"low": first["break_even_low"], "high": first["break_even_high"]}])
            layers.insert(
                0,
                band.mark_rect(opacity=0.15, color=style.LIGHT["mark"]).encode(
                    x=alt.X("low:Q", title=title), x2="high:Q"
                ),
            )
        if first["break_even"] is not None:
            mark = style.chart([{"value": first["break_even"]}])
            layers.append(mark.mark_rule(color=style.LIGHT["mark"], strokeDash=[4, 3]).encode(x="value:Q"))
        panels.append(alt.layer(*layers).properties(width=style.WIDTH, height=220, title=plain(str(name))))
    return style.vconcat(*panels, spacing=24)


def save(found: BreakEven, folder: Path) -> list[Path]:
    """Write `break-even.parquet`, `.svg` and `.png` below `folder`/figures; the paths. Raises as `save_drawing`."""
    rows = frame(found)
    return save_drawing(rows, lambda: chart(rows, found.vary.path), folder, NAME)

"""The figure of a sweep: over the first axis what it costs, which racks that takes, and the carbon of plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.report.drawing import save_drawing
from planner.report.figures import style
from planner.study.points import TCO
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.study.sweep import Sweep

__all__ = ["frame", "save"]

NAME = "sweep"
_COST = {
    TCO: "TCO, USD",
    "usd_per_h": "USD an hour",
    "usd_per_mtok_out_whole": "USD a million output tokens",
}
_NUMBER = re.compile(r"\s*([+-]?\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(.*?)\s*")


def frame(sweep: Sweep) -> pl.DataFrame:
    """A row for each point and pool: where it lies on the first axis, the values of the others, cost, racks, carbon."""
    import polars as pl

    first = sweep.axes[0]
    found = numbers(first.values)
    where = {value: None if found is None else found[ix] for ix, value in enumerate(first.values)}
    pools = list(dict.fromkeys(pool for row in sweep.rows for pool in row.fleet)) or [""]
    is_several = len({row.point.variant for row in sweep.rows}) > 1
    rows = []
    for row in sweep.rows:
        pairs = zip(sweep.axes[1:], row.point.values[1:], strict=True)
        others = [f"{axis.path.rpartition('.')[2]}={value}" for axis, value in pairs]
        line = ", ".join([*([row.point.variant] if is_several else []), *others])
        value = row.point.values[0]
        for pool in pools:
            told = [row.point.ix, line, value, where[value], row.verdict, row.figures[sweep.ranked_by]]
            carbon = row.figures["carbon_kgco2e"]
            rows.append([*told, pool, row.fleet.get(pool, 0) if row.fleet else None, carbon])
    schema = {"point": pl.Int64, "line": pl.String, "value": pl.String, "at": pl.Float64, "verdict": pl.String}
    schema |= {"cost_usd": pl.Float64, "pool": pl.String, "racks": pl.Int64, "carbon_kgco2e": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def numbers(values: Sequence[str]) -> list[float] | None:
    """The values as numbers of their unit, where they all have one and the same.

    >>> numbers(["0.35 MUSD/rack", "1.6 MUSD/rack"])
    [0.35, 1.6]
    >>> numbers(["1 kW", "1 MW"]) is None
    True
    """
    found = [_NUMBER.fullmatch(value) for value in values]
    if not all(found) or len({match[2] for match in found if match}) != 1:
        return None
    return [float(match[1].replace("_", "")) for match in found if match]


def unit(values: Sequence[str]) -> str:
    """The unit that all the values have; nothing where they have none in common."""
    match = _NUMBER.fullmatch(values[0]) if values and numbers(values) is not None else None
    return match[2] if match else ""


def chart(rows: pl.DataFrame, sweep: Sweep) -> dict[str, Any]:
    """The drawing of the frame: cost, racks by pool as a staircase, and the carbon of plans, one above the other."""
    import altair as alt

    first = sweep.axes[0]
    told = [
        row | {"line": plain(row["line"]), "pool": plain(row["pool"]), "value": plain(row["value"])}
        for row in rows.to_dicts()
    ]
    title = plain(f"{first.path}, {unit(first.values)}" if unit(first.values) else first.path)
    is_number = rows["at"].null_count() == 0
    x = (
        alt.X("at:Q", title=title, scale=alt.Scale(zero=False))
        if is_number
        else alt.X("value:N", title=title, sort=[plain(value) for value in first.values])
    )
    lines = list(dict.fromkeys(row["line"] for row in told))
    points = [row for row in told if row["pool"] == told[0]["pool"]]
    dash = alt.StrokeDash("line:N", title=None, sort=lines) if len(lines) > 1 else alt.Undefined
    size = {"width": style.WIDTH, "height": 150}

    def panel(field: str, name: str) -> Any:
        there = [row for row in points if row[field] is not None]
        y = alt.Y(f"{field}:Q", title=name, axis=alt.Axis(labelExpr=style.SI_LABEL), scale=alt.Scale(zero=True))
        colour = style.LIGHT["mark"]
        mark = style.chart(there).mark_line(point=alt.OverlayMarkDef(color=colour), color=colour)
        return mark.encode(x=x, y=y, strokeDash=dash).properties(**size)

    panels = [panel("cost_usd", _COST[sweep.ranked_by])]
    look = style.look(list(dict.fromkeys(rows["pool"].to_list())))
    there = [row for row in told if row["racks"] is not None]
    steps = style.chart(there).mark_line(interpolate="step-after", point=True)
    colour = alt.Color("pool:N", title="pool", scale=alt.Scale(domain=look.domain, range=look.colours))
    racks = alt.Y("racks:Q", title="racks", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(zero=True))
    panels.append(steps.encode(x=x, y=racks, color=colour, strokeDash=dash).properties(**size))
    if any(row["carbon_kgco2e"] is not None for row in points):
        panels.append(panel("carbon_kgco2e", "kgCO2e of the plan"))
    return style.vconcat(*panels, spacing=24)


def save(sweep: Sweep, folder: Path) -> list[Path]:
    """Write `sweep.parquet`, `.svg` and `.png` below `folder`/figures; the paths. Raises as `save_drawing`."""
    rows = frame(sweep)
    return save_drawing(rows, lambda: chart(rows, sweep), folder, NAME)

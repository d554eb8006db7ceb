"""Figures over time, a line or an area for each pool or class: power, cache, bandwidth, requests in the system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import schema, time_unit
from planner.report.figures.series import bins, by_bin, mean, rows_of
from planner.report.figures.style import LIGHT, SI_LABEL, Look, chart
from planner.report.text import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

POWER = {"variant": "str", "pool": "str", "start_s": "f64", "facility_w": "f64", "limit_w": "f64", "limit": "str"}
ENDS = ("completed", "rejected", "timed_out", "cancelled")
_FRAC = {"variant": "str", "start_s": "f64"}


def power_frame(result: Result) -> pl.DataFrame:
    """Mean draw at the meter of each pool and stretch, and the site's limit, or else what racks are provisioned for."""
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        what = bins(tree["run"])
        found = by_bin(rows_of(result, "windows", name), what, ["pool"], "facility_w")
        fleet = tree["fleet"]
        word = "provisioned" if fleet["power_limit_w"] is None else "site limit"
        limit = fleet["provisioned_w"] if fleet["power_limit_w"] is None else fleet["power_limit_w"]
        for (pool,), values in found.items():
            for ix, each in enumerate(values):
                watts = mean(each)
                rows.append(
                    {
                        "variant": name,
                        "pool": pool,
                        "start_s": what.start_s(ix),
                        "facility_w": watts,
                        "limit_w": limit,
                        "limit": word,
                    }
                )
    return pl.DataFrame(rows, schema=schema(POWER), orient="row")


def power_draw(rows: pl.DataFrame, look: Look) -> Any:
    """Areas upon each other in the pools' colours, the limit as a line."""
    import altair as alt

    values, unit = _timed(rows, "facility_w", 1000.0)
    limit = {"y": rows["limit_w"][0] / 1000, "words": f"{rows['limit'][0]} {units.format(rows['limit_w'][0], 'power')}"}
    area = (
        chart(values)
        .mark_area(opacity=0.75, interpolate="step-after")
        .encode(
            x=alt.X("t:Q", title=f"time, {unit}", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=6)),
            y=alt.Y("value:Q", title="kW at the meter", stack="zero"),
            color=_pools(look).legend(title=None, orient="top", symbolType="square", direction="horizontal", offset=2),
        )
    )
    return alt.layer(area, *_limit(limit, look)).properties(width=look.width - 70, height=180)


def power_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    limit = f"{rows['limit'][0]} {units.format(rows['limit_w'][0], 'power')}"
    return f"Power at the meter over time, by pool; {limit}. " + _ranges(rows, "pool", "facility_w", "power")


def kv_frame(result: Result) -> pl.DataFrame:
    """Share of the KV cache that is in use, by pool and stretch."""
    return _fractions(result, "kv_frac")


def kv_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A line for each pool."""
    return _lines(rows, "pool", "kv_frac", "KV cache in use, %", look)


def kv_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "KV cache in use over time. " + _ranges(rows, "pool", "kv_frac", "frac")


def mbu_frame(result: Result) -> pl.DataFrame:
    """Share of the data sheet's memory bandwidth that is in use, by pool and stretch."""
    return _fractions(result, "mbu_frac")


def mbu_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A line for each pool."""
    return _lines(rows, "pool", "mbu_frac", "memory bandwidth in use, %", look)


def mbu_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "Memory bandwidth in use over time. " + _ranges(rows, "pool", "mbu_frac", "frac")


def attainment_frame(result: Result) -> pl.DataFrame:
    """Requests inside the limits / requests that ended, by class and the stretch of their end; null where none did."""
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        what = bins(tree["run"], most=60)
        tables = {
            column: by_bin(rows_of(result, "class_windows", name), what, ["class"], column)
            for column in ("attained", *ENDS)
        }
        for (each,), counts in tables["attained"].items():
            if not tree["classes"][each]["limits"]:
                continue
            for ix, values in enumerate(counts):
                ended = sum(sum(tables[end].get((each,), [[]] * what.n)[ix]) for end in ENDS)
                share = sum(values) / ended if ended else None
                rows.append({"variant": name, "class": each, "start_s": what.start_s(ix), "attainment_frac": share})
    return pl.DataFrame(rows, schema=schema({**_FRAC, "class": "str", "attainment_frac": "f64"}), orient="row")


def attainment_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A panel for each class."""
    return _class_panels(rows, "attainment_frac", "% inside", look, scale=100.0, top=100.0)


def attainment_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "Requests inside their limits over time. " + _ranges(rows, "class", "attainment_frac", "frac")


def in_flight_frame(result: Result) -> pl.DataFrame:
    """Requests offered so far less those that ended, by class, at the end of each stretch; mean over the seeds."""
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        what = bins(tree["run"])
        tables = {
            column: by_bin(rows_of(result, "class_windows", name), what, ["class"], column)
            for column in ("offered", *ENDS)
        }
        for (each,), counts in tables["offered"].items():
            inside = 0.0
            for ix in range(what.n):
                inside += sum(counts[ix]) - sum(sum(tables[end].get((each,), [[]] * what.n)[ix]) for end in ENDS)
                at = min(what.start_s(ix + 1), what.length_s)
                rows.append({"variant": name, "class": each, "start_s": at, "in_system": inside / tree["run"]["seeds"]})
    return pl.DataFrame(rows, schema=schema({**_FRAC, "class": "str", "in_system": "f64"}), orient="row")


def in_flight_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A panel for each class."""
    return _class_panels(rows, "in_system", "requests in the system", look)


def in_flight_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "Requests in the system over time. " + _ranges(rows, "class", "in_system", "count")


def _fractions(result: Result, column: str) -> pl.DataFrame:
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        what = bins(tree["run"])
        found = by_bin(rows_of(result, "windows", name), what, ["pool"], column)
        for (pool,), values in found.items():
            for ix, each in enumerate(values):
                n = what.n_windows(ix) * tree["run"]["seeds"]
                rows.append({"variant": name, "pool": pool, "start_s": what.start_s(ix), column: sum(each) / n})
    return pl.DataFrame(rows, schema=schema({**_FRAC, "pool": "str", column: "f64"}), orient="row")


def _timed(rows: pl.DataFrame, column: str, divided_by: float) -> tuple[list[dict[str, Any]], str]:
    unit, seconds = time_unit(max(rows["start_s"].to_list()))
    values = [
        {
            **{key: value for key, value in row.items() if isinstance(value, str)},
            "t": row["start_s"] / seconds,
            "value": None if row[column] is None else row[column] / divided_by,
        }
        for row in rows.iter_rows(named=True)
    ]
    return values, unit


def _pools(look: Look) -> Any:
    import altair as alt

    return alt.Color("pool:N", scale=alt.Scale(domain=list(look.pools), range=look.colours), legend=None)


def _limit(limit: Mapping[str, Any], look: Look) -> Sequence[Any]:
    import altair as alt

    at = chart([limit])
    return [
        at.mark_rule(color=LIGHT["limit"], strokeDash=[5, 3]).encode(
            y=alt.Y("y:Q"), description=alt.Description("words:N")
        ),
        at.mark_text(align="right", baseline="bottom", dy=-3, color=LIGHT["limit"]).encode(
            y=alt.Y("y:Q"), x=alt.value(look.width - 70), text=alt.Text("words:N")
        ),
    ]


def _lines(rows: pl.DataFrame, by: str, column: str, title: str, look: Look) -> Any:
    import altair as alt

    values, unit = _timed(rows, column, 0.01)
    top = max((row["value"] for row in values if row["value"] is not None), default=1.0)
    ends = [
        [row for row in values if row[by] == name][-1] | {"label": plain(name)}
        for name in dict.fromkeys(row[by] for row in values)
    ]
    x = alt.X("t:Q", title=f"time, {unit}", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=6))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(domain=[0, min(100.0, top * 1.25) or 1.0], nice=False))
    line = chart(values).mark_line(interpolate="step-after").encode(x=x, y=y, color=_pools(look))
    label = (
        chart(ends)
        .mark_text(align="right", baseline="bottom", dy=-4)
        .encode(x=x, y=y, text=alt.Text("label:N"), color=_pools(look))
    )
    return alt.layer(line, label).properties(width=look.width - 70, height=180)


def _class_panels(
    rows: pl.DataFrame, column: str, title: str, look: Look, *, scale: float = 1.0, top: float | None = None
) -> Any:
    import altair as alt

    values, unit = _timed(rows, column, 1 / scale)
    names = list(dict.fromkeys(row["class"] for row in values))[:8]
    panels = []
    for name in names:
        mine = [row for row in values if row["class"] == name]
        domain = alt.Undefined if top is None else alt.Scale(domain=[0, top * 1.05], nice=False)
        panels.append(
            chart(mine)
            .mark_line(color=LIGHT["ink"], interpolate="step-after")
            .encode(
                x=alt.X(
                    "t:Q",
                    title=f"time, {unit}" if name == names[-1] else None,
                    scale=alt.Scale(nice=False),
                    axis=alt.Axis(grid=False, tickCount=6),
                ),
                y=alt.Y("value:Q", title=None, scale=domain, axis=alt.Axis(tickCount=3, labelExpr=SI_LABEL)),
            )
            .properties(width=look.width - 60, height=70, title=alt.TitleParams(plain(f"{name}: {title}"), offset=4))
        )
    return alt.vconcat(*panels, spacing=8)


def _ranges(rows: pl.DataFrame, by: str, column: str, kind: str) -> str:
    parts = []
    for name in dict.fromkeys(rows[by].to_list()):
        values = [value for value in rows.filter(rows[by] == name)[column].to_list() if value is not None]
        if values:
            parts.append(f"{name}: from {units.format(min(values), kind)} to {units.format(max(values), kind)}")
    return "; ".join(parts)

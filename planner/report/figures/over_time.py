"""Figures over time, a line or an area for each pool or class: power, cache, bandwidth, requests in the system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import schema
from planner.report.figures.live import Time, picked, span, time_of, with_signals, words
from planner.report.figures.series import bins, by_bin, mean
from planner.report.figures.sheet import Sheet, over_time
from planner.report.figures.style import LIGHT, SI_LABEL, Look, chart, head, layer, vconcat
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

POWER = {
    "variant": "str",
    "pool": "str",
    "start_s": "f64",
    "end_s": "f64",
    "facility_w": "f64",
    "limit_w": "f64",
    "limit": "str",
}
MOST_PANELS = 8
ENDS = ("completed", "rejected", "timed_out", "cancelled")
_FRAC = {"variant": "str", "start_s": "f64", "end_s": "f64"}


def power_frame(result: Result) -> pl.DataFrame:
    """Mean draw at the meter of each pool and stretch, and the site's limit, or else what racks are provisioned for."""
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        what = bins(tree["run"])
        found = by_bin(result, "windows", name, what, ["pool"], "facility_w")
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
                        "end_s": what.end_s(ix),
                        "facility_w": watts,
                        "limit_w": limit,
                        "limit": word,
                    }
                )
    return pl.DataFrame(rows, schema=schema(POWER), orient="row")


def power_draw(rows: pl.DataFrame, look: Look) -> Any:
    """Areas upon each other in the pools' colours, the limit as a line."""
    import altair as alt

    time = time_of_rows(rows)
    limit = {"y": rows["limit_w"][0] / 1000, "words": f"{rows['limit'][0]} {units.format(rows['limit_w'][0], 'power')}"}
    area = (
        chart(_steps(rows, "pool", "facility_w", 1000.0, time))
        .mark_area(interpolate="step-after", clip=True, aria=False)
        .encode(
            x=time.x(f"time, {time.unit}"),
            y=alt.Y("value:Q", title="kW at the meter", stack="zero"),
            color=_pools(look).legend(
                title=None,
                orient="top",
                symbolType="square",
                direction="horizontal",
                offset=2,
                columns=4,
                labelLimit=110,
            ),
            opacity=picked(0.75),
        )
    )
    layers = [area, *_limit(limit, look), span(_told(rows, "pool", "facility_w", "power", time), time)]
    return with_signals(layer(*layers, width=look.width - 70, height=180), time)


def power_sheet(rows: pl.DataFrame) -> Sheet:
    """Draw of each pool over time."""
    return over_time(rows, time_of_rows(rows), "facility_w", "power", _pool)


def time_of_rows(rows: pl.DataFrame) -> Time:
    """The axis of time."""
    return time_of(max(rows["end_s"].to_list()))


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


def kv_sheet(rows: pl.DataFrame) -> Sheet:
    """A column for each pool."""
    return over_time(rows, time_of_rows(rows), "kv_frac", "frac", _pool)


def kv_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "KV cache in use over time. " + _ranges(rows, "pool", "kv_frac", "frac")


def mbu_frame(result: Result) -> pl.DataFrame:
    """Share of the data sheet's memory bandwidth that is in use, by pool and stretch."""
    return _fractions(result, "mbu_frac")


def mbu_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A line for each pool."""
    return _lines(rows, "pool", "mbu_frac", "memory bandwidth in use, %", look)


def mbu_sheet(rows: pl.DataFrame) -> Sheet:
    """A column for each pool."""
    return over_time(rows, time_of_rows(rows), "mbu_frac", "frac", _pool)


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
            column: by_bin(result, "class_windows", name, what, ["class"], column) for column in ("attained", *ENDS)
        }
        for (each,), counts in tables["attained"].items():
            if not tree["classes"][each]["limits"]:
                continue
            for ix, values in enumerate(counts):
                ended = sum(sum(tables[end].get((each,), [[]] * what.n)[ix]) for end in ENDS)
                share = sum(values) / ended if ended else None
                at = {"variant": name, "class": each, "start_s": what.start_s(ix), "end_s": what.end_s(ix)}
                rows.append(at | {"attainment_frac": share})
    return pl.DataFrame(rows, schema=schema({**_FRAC, "class": "str", "attainment_frac": "f64"}), orient="row")


def attainment_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A panel for each class."""
    return _class_panels(rows, "attainment_frac", "% inside", look, "frac", scale=100.0, top=100.0)


def attainment_sheet(rows: pl.DataFrame) -> Sheet:
    """A column for each class."""
    return over_time(rows, time_of_rows(rows), "attainment_frac", "frac", _class)


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
            column: by_bin(result, "class_windows", name, what, ["class"], column) for column in ("offered", *ENDS)
        }
        for (each,), counts in tables["offered"].items():
            inside = 0.0
            for ix in range(what.n):
                inside += sum(counts[ix]) - sum(sum(tables[end].get((each,), [[]] * what.n)[ix]) for end in ENDS)
                at = {"variant": name, "class": each, "start_s": what.start_s(ix), "end_s": what.end_s(ix)}
                rows.append(at | {"in_system": inside / tree["run"]["seeds"]})
    return pl.DataFrame(rows, schema=schema({**_FRAC, "class": "str", "in_system": "f64"}), orient="row")


def in_flight_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A panel for each class."""
    return _class_panels(rows, "in_system", "requests in the system", look, "count")


def in_flight_sheet(rows: pl.DataFrame) -> Sheet:
    """A column for each class."""
    return over_time(rows, time_of_rows(rows), "in_system", "count", _class)


def in_flight_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "Requests in the system over time. " + _ranges(rows, "class", "in_system", "count")


def _fractions(result: Result, column: str) -> pl.DataFrame:
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        what = bins(tree["run"])
        found = by_bin(result, "windows", name, what, ["pool"], column)
        for (pool,), values in found.items():
            for ix, each in enumerate(values):
                n = what.n_windows(ix) * tree["run"]["seeds"]
                at = {"variant": name, "pool": pool, "start_s": what.start_s(ix), "end_s": what.end_s(ix)}
                rows.append(at | {column: sum(each) / n})
    return pl.DataFrame(rows, schema=schema({**_FRAC, "pool": "str", column: "f64"}), orient="row")


def _pool(row: Mapping[str, Any]) -> str:
    return str(row["pool"])


def _class(row: Mapping[str, Any]) -> str:
    return str(row["class"])


def _steps(rows: pl.DataFrame, by: str, column: str, divided_by: float, time: Time) -> list[dict[str, Any]]:
    """Values at the begin of each stretch, and once more at the end of the last."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        value = None if row[column] is None else row[column] / divided_by
        steps = found.setdefault(row[by], [])
        steps.append({by: row[by], "t": time.at(row["start_s"]), "value": value, "end": time.at(row["end_s"])})
    told = [each for steps in found.values() for each in (*steps, steps[-1] | {"t": steps[-1]["end"]})]
    return [{key: value for key, value in each.items() if key != "end"} for each in told]


def _told(rows: pl.DataFrame, by: str, column: str, kind: str, time: Time) -> list[dict[str, Any]]:
    """What is shown where the pointer is: everything at that time."""
    found: dict[tuple[float, float], list[tuple[str, float | None, str]]] = {}
    for row in rows.iter_rows(named=True):
        found.setdefault((row["start_s"], row["end_s"]), []).append((plain(row[by]), row[column], kind))
    return [
        {"t": time.at(start), "t2": time.at(end), "words": words(time.between(start, end), *lines)}
        for (start, end), lines in found.items()
    ]


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
        at.mark_text(align="right", baseline="bottom", dy=-3, color=LIGHT["limit"], aria=False).encode(
            y=alt.Y("y:Q"), x=alt.value(look.width - 70), text=alt.Text("words:N")
        ),
    ]


def _lines(rows: pl.DataFrame, by: str, column: str, title: str, look: Look) -> Any:
    import altair as alt

    time = time_of_rows(rows)
    values = _steps(rows, by, column, 0.01, time)
    top = max((row["value"] for row in values if row["value"] is not None), default=1.0)
    ends = [
        [row for row in values if row[by] == name][-1] | {"label": plain(name)}
        for name in dict.fromkeys(row[by] for row in values)
    ]
    x = time.x(f"time, {time.unit}")
    y = alt.Y("value:Q", title=title, scale=alt.Scale(domain=[0, min(100.0, top * 1.25) or 1.0], nice=False))
    line = chart(values).mark_line(interpolate="step-after", clip=True, aria=False)
    label = chart(ends).mark_text(align="right", baseline="bottom", dy=-4, aria=False)
    layers = [
        line.encode(x=x, y=y, color=_pools(look), opacity=picked()),
        label.encode(x=x, y=y, text=alt.Text("label:N"), color=_pools(look), opacity=picked()),
        span(_told(rows, by, column, "frac", time), time),
    ]
    return with_signals(layer(*layers, width=look.width - 70, height=180), time)


def _class_panels(
    rows: pl.DataFrame,
    column: str,
    title: str,
    look: Look,
    kind: str,
    *,
    scale: float = 1.0,
    top: float | None = None,
) -> Any:
    import altair as alt

    time = time_of_rows(rows)
    names = list(dict.fromkeys(rows["class"].to_list()))[:MOST_PANELS]
    panels = []
    for ix, name in enumerate(names):
        mine = rows.filter(rows["class"] == name)
        domain = alt.Undefined if top is None else alt.Scale(domain=[0, top * 1.05], nice=False)
        y = alt.Y("value:Q", title=None, scale=domain, axis=alt.Axis(tickCount=3, labelExpr=SI_LABEL))
        line = chart(_steps(mine, "class", column, 1 / scale, time)).mark_line(
            color=LIGHT["ink"], interpolate="step-after", clip=True, aria=False
        )
        told = span(_told(mine, "class", column, kind, time), time, ix=ix)
        last = f"time, {time.unit}" if name == names[-1] else None
        panels.append(
            layer(
                line.encode(x=time.x(last), y=y), told, width=look.width - 60, height=70, title=head(f"{name}: {title}")
            )
        )
    return with_signals(vconcat(*panels, spacing=8), time)


def _ranges(rows: pl.DataFrame, by: str, column: str, kind: str) -> str:
    parts = []
    for name in dict.fromkeys(rows[by].to_list()):
        values = [value for value in rows.filter(rows[by] == name)[column].to_list() if value is not None]
        if values:
            parts.append(f"{name}: from {units.format(min(values), kind)} to {units.format(max(values), kind)}")
    return "; ".join(parts)

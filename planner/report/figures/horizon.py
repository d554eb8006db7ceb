"""How full each pool is over a long horizon: the fullest hour of each stretch of days against what the pool holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import schema
from planner.report.figures.live import Time, picked, span, with_signals, words
from planner.report.figures.series import MOST_BINS, rows_of
from planner.report.figures.sheet import Sheet, over_time
from planner.report.figures.style import LIGHT, Look, chart, layer
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

DAY_H, DAY_S = 24, 86_400.0
COLUMNS = {
    "variant": "str",
    "pool": "str",
    "start_day": "f64",
    "end_day": "f64",
    "peak_load_frac": "f64",
    "mean_load_frac": "f64",
}


def frame(result: Result) -> pl.DataFrame:
    """Load over what holds the limits, by pool: the fullest hour and the mean of each stretch of whole days.

    Null where an hour lies beyond the last sample of the pool's surface.
    """
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        if not tree.get("horizon") or "horizon_pools" not in result.tables:
            continue
        found: dict[str, list[float | None]] = {}
        for row in rows_of(result, "horizon_pools", name):
            found.setdefault(row["pool"], []).append(row["load_frac"])
        for pool, loads in found.items():
            each = DAY_H * -(-len(loads) // (MOST_BINS * DAY_H))
            for at in range(0, len(loads), each):
                part = loads[at : at + each]
                there = [load for load in part if load is not None]
                whole = there if len(there) == len(part) else []
                rows.append(
                    {
                        "variant": name,
                        "pool": pool,
                        "start_day": at / DAY_H,
                        "end_day": min(at + each, len(loads)) / DAY_H,
                        "peak_load_frac": max(whole, default=None),
                        "mean_load_frac": sum(whole) / len(whole) if whole else None,
                    }
                )
    return pl.DataFrame(rows, schema=schema(COLUMNS), orient="row")


def draw(rows: pl.DataFrame, look: Look) -> Any:
    """A band from the mean to the fullest hour for each pool, the limit as a line at 100 %."""
    import altair as alt

    time = time_of_rows(rows)
    values = [
        {
            "t": row["start_day"],
            "t2": row["end_day"],
            "pool": row["pool"],
            "peak": None if row["peak_load_frac"] is None else row["peak_load_frac"] * 100,
            "mean": None if row["mean_load_frac"] is None else row["mean_load_frac"] * 100,
        }
        for row in rows.iter_rows(named=True)
    ]
    ends = [
        [row for row in values if row["pool"] == pool and row["peak"] is not None][-1:]
        for pool in dict.fromkeys(row["pool"] for row in values)
    ]
    labels = [row[0] | {"label": plain(row[0]["pool"])} for row in ends if row]
    color = alt.Color("pool:N", scale=alt.Scale(domain=list(look.pools), range=look.colours), legend=None)
    x = time.x("time, d")
    y = alt.Y("peak:Q", title="% of what holds the limits", scale=alt.Scale(domainMin=0))
    base = chart(values)
    limit = chart([{"y": 100, "words": "what holds the limits"}])
    layers = [
        base.mark_area(clip=True, aria=False).encode(x=x, y=y, y2=alt.Y2("mean:Q"), color=color, opacity=picked(0.25)),
        base.mark_line(clip=True, aria=False).encode(x=x, y=y, color=color, opacity=picked()),
        limit.mark_rule(color=LIGHT["limit"], strokeDash=[5, 3]).encode(
            y=alt.Y("y:Q"), description=alt.Description("words:N")
        ),
        chart(labels)
        .mark_text(align="right", baseline="bottom", dy=-5, aria=False)
        .encode(x=x, y=y, color=color, text=alt.Text("label:N"), opacity=picked()),
        span(_told(rows, time), time),
    ]
    return with_signals(layer(*layers, width=look.width - 70, height=200), time)


def time_of_rows(rows: pl.DataFrame) -> Time:
    """The axis of time: days."""
    return Time("d", DAY_S, max(rows["end_day"].to_list()) * DAY_S)


def _told(rows: pl.DataFrame, time: Time) -> list[dict[str, Any]]:
    """What is shown where the pointer is: every pool at that time."""
    found: dict[tuple[float, float], list[tuple[str, float | None, str]]] = {}
    for row in rows.iter_rows(named=True):
        lines = found.setdefault((row["start_day"], row["end_day"]), [])
        lines.append((f"{plain(row['pool'])}, fullest hour", row["peak_load_frac"], "frac"))
        lines.append((f"{plain(row['pool'])}, mean", row["mean_load_frac"], "frac"))
    return [
        {"t": start, "t2": end, "words": words(time.between(start * DAY_S, end * DAY_S), *lines)}
        for (start, end), lines in found.items()
    ]


def sheet(rows: pl.DataFrame) -> Sheet:
    """The fullest hour of each pool over time."""
    name = "{pool}, fullest hour".format_map
    return over_time(rows, time_of_rows(rows), "peak_load_frac", "frac", name, start="start_day", seconds=DAY_S)


def alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    parts = []
    for pool in dict.fromkeys(rows["pool"].to_list()):
        peaks = [load for load in rows.filter(rows["pool"] == pool)["peak_load_frac"].to_list() if load is not None]
        if peaks:
            first, most = units.format(peaks[0], "frac"), units.format(max(peaks), "frac")
            parts.append(f"{pool}: {first} in the fullest hour at first, {most} at most")
    return "Load over what holds the limits, over the horizon. " + "; ".join(parts)

"""How busy each pool was, hour by hour (or in equal stretches of a shorter run)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.report.figures.frames import schema
from planner.report.figures.live import Time, picked, time_of, with_signals, words
from planner.report.figures.series import Bins, bins, by_bin
from planner.report.figures.sheet import Sheet, over_time
from planner.report.figures.style import LIGHT, Look, chart, layer
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

HOUR_S = 3600.0
LEAST_HOURS, MOST_CELLS, MOST_WITH_WORDS, MOST_WIDE = 6, 72, 13, 130
COLUMNS = {"variant": "str", "pool": "str", "start_s": "f64", "end_s": "f64", "busy_frac": "f64"}


def frame(result: Result) -> pl.DataFrame:
    """Share of chip time with a step running, for each pool and stretch; a window without a row had no step."""
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        what = stretches(tree["run"])
        found = by_bin(result, "windows", name, what, ["pool"], "busy_frac")
        for pool in tree["pools"]:
            for ix in range(what.n):
                n = what.n_windows(ix) * tree["run"]["seeds"]
                busy = sum(found.get((pool,), [[]] * what.n)[ix]) / n
                start, end = what.start_s(ix), what.end_s(ix)
                rows.append({"variant": name, "pool": pool, "start_s": start, "end_s": end, "busy_frac": busy})
    return pl.DataFrame(rows, schema=schema(COLUMNS), orient="row")


def stretches(run: Mapping[str, Any]) -> Bins:
    """Hours where a run has at least six of them and its windows divide an hour, else a dozen equal parts."""
    per_hour = HOUR_S / run["window_s"]
    if run["length_s"] >= LEAST_HOURS * HOUR_S and per_hour.is_integer():
        hours = int(per_hour)
        whole = bins(run, most=10**9)
        n_hours = -(-whole.n // hours)
        each = hours * -(-n_hours // MOST_CELLS)
        return Bins(run["window_s"], each, -(-whole.n // each), run["length_s"])
    return bins(run, most=12)


def draw(rows: pl.DataFrame, look: Look) -> Any:
    """A row of cells for each pool, in its colour: the fuller, the busier."""
    import altair as alt

    time = time_of_rows(rows)
    values = [
        {
            "t": time.at(row["start_s"]),
            "t2": time.at(row["end_s"]),
            "pool": row["pool"],
            "busy_frac": row["busy_frac"],
            "name": plain(row["pool"]),
            "label": f"{row['busy_frac'] * 100:.0f}",
            "words": _words(row, time),
        }
        for row in rows.iter_rows(named=True)
    ]
    n_cells = len({row["t"] for row in values})
    pools = list(dict.fromkeys(row["name"] for row in values))
    wide = min(MOST_WIDE, max(50.0, 6.2 * max(len(name) for name in pools)))
    y = alt.Y(
        "name:N", sort=pools, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False, labelLimit=MOST_WIDE)
    )
    title = f"time, {time.unit}; figures are % of chip time"
    base = chart(values)
    layers = [
        base.mark_rect(height={"band": 0.9}, stroke=LIGHT["line"], strokeWidth=0.5, clip=True).encode(
            x=time.x(title),
            x2=alt.X2("t2:Q"),
            y=y,
            color=alt.Color("pool:N", scale=alt.Scale(domain=list(look.pools), range=look.colours), legend=None),
            fillOpacity=alt.FillOpacity("busy_frac:Q", scale=alt.Scale(domain=[0, 1], range=[0, 0.45]), legend=None),
            opacity=picked(),
            description=alt.Description("words:N"),
        )
    ]
    if n_cells <= MOST_WITH_WORDS:
        layers.append(
            base.transform_calculate(mid="(datum.t + datum.t2) / 2")
            .mark_text(color=LIGHT["ink"], aria=False, clip=True)
            .encode(x=alt.X("mid:Q"), y=y, text=alt.Text("label:N"))
        )
    return with_signals(layer(*layers, width=look.width - 30 - wide, height=34 * len(pools)), time)


def time_of_rows(rows: pl.DataFrame) -> Time:
    """The axis of time."""
    return time_of(max(rows["end_s"].to_list()))


def _words(row: Mapping[str, Any], time: Time) -> str:
    return words(
        f"{plain(row['pool'])}, {time.between(row['start_s'], row['end_s'])}", ("busy", row["busy_frac"], "frac")
    )


def sheet(rows: pl.DataFrame) -> Sheet:
    """Busy time of each pool over time."""
    return over_time(rows, time_of_rows(rows), "busy_frac", "frac", lambda row: str(row["pool"]))


def alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    parts = []
    for pool in dict.fromkeys(rows["pool"].to_list()):
        values = rows.filter(rows["pool"] == pool)["busy_frac"].to_list()
        parts.append(f"{pool}: from {min(values) * 100:.0f} to {max(values) * 100:.0f} % busy")
    return "Busy time of each pool over the run. " + "; ".join(parts)

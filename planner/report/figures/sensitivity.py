"""What the cost hangs on: the facts that move it most, from their low to their high."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import schema
from planner.report.figures.live import with_signals
from planner.report.figures.series import rows_of
from planner.report.figures.sheet import Sheet, plainly
from planner.report.figures.style import LIGHT, Look, chart, layer
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

MOST_BARS = 10
FIGURE = "cost.usd_per_h"
COLUMNS = {
    "variant": "str",
    "path": "str",
    "grade": "str",
    "is_assumed": "i64",
    "usd_per_h_low": "f64",
    "usd_per_h_high": "f64",
    "usd_per_h": "f64",
    "swing_usd_per_h": "f64",
}


def frame(result: Result) -> pl.DataFrame:
    """Each fact that swings: the cost of an hour with it at its low, at its high, and as it stands; widest first.

    Of the first seed, whose swings stand for all, with the simulation held; where a run drew samples of its facts
    (`run.samples`), facts that change the speed were simulated anew.
    """
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        if tree.get("uncertainty"):
            rows += _run_anew(name, tree["uncertainty"])
            continue
        seed = tree["run"]["seed"]
        usd = tree["seeds"][0]["cost"]["usd_per_h"]
        for row in rows_of(result, "facts", name):
            if row["seed"] == seed and row["swing_usd_per_h"]:
                kept = {column: row[column] for column in COLUMNS if column in row and column != "is_assumed"}
                rows.append(kept | {"is_assumed": int(row["is_assumed"]), "usd_per_h": usd})
    return pl.DataFrame(rows, schema=schema(COLUMNS), orient="row")


def _run_anew(variant: str, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "variant": variant,
            "path": bar["path"],
            "grade": bar["grade"],
            "is_assumed": int(bar["is_assumed"]),
            "usd_per_h_low": bar["figure_low"],
            "usd_per_h_high": bar["figure_high"],
            "usd_per_h": found["figures"][FIGURE]["value"],
            "swing_usd_per_h": bar["swing"],
        }
        for bar in found["tornado"].get(FIGURE, ())
        if bar["swing"]
    ]


def draw(rows: pl.DataFrame, look: Look) -> Any:
    """Bars on both sides of the cost as it stands; facts that are assumed are filled less and said to be."""
    import altair as alt

    values = []
    for row in rows.head(MOST_BARS).iter_rows(named=True):
        low, high = row["usd_per_h_low"] - row["usd_per_h"], row["usd_per_h_high"] - row["usd_per_h"]
        name = plain(short(row["path"]))
        words = f"{plain(row['path'])}\n{plain(row['grade'])}\n{low:+.3g} to {high:+.3g} USD an hour"
        for end, value in (("at its low", low), ("at its high", high)):
            values.append({"name": name, "usd": value, "zero": 0, "end": end, "words": words})
    names = list(dict.fromkeys(row["name"] for row in values))
    widest = max((abs(row["usd"]) for row in values), default=1.0) or 1.0
    base = chart(values)
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False, labelLimit=190))
    scale = alt.Scale(domain=[-widest * 1.3, widest * 1.3], nice=False)
    x = alt.X("usd:Q", title="change of the cost, USD an hour", scale=scale, axis=alt.Axis(tickCount=5, format="+~s"))
    ends = alt.Color(
        "end:N",
        scale=alt.Scale(domain=["at its low", "at its high"], range=[LIGHT["soft"], LIGHT["ink"]]),
        legend=alt.Legend(
            title=None, orient="top", symbolType="square", direction="horizontal", offset=2, columns=4, labelLimit=110
        ),
    )
    layers = [
        base.mark_bar(height={"band": 0.66}).encode(
            x=x, x2=alt.X2("zero:Q"), y=y, color=ends, description=alt.Description("words:N")
        ),
        chart([{"zero": 0}]).mark_rule(color=LIGHT["ink"], aria=False).encode(x=alt.X("zero:Q")),
    ]
    return with_signals(layer(*layers, width=look.width - 210, height=max(60, 22 * len(names))))


def sheet(rows: pl.DataFrame) -> Sheet:
    """A row for each fact: the cost of an hour with it at its low and at its high."""
    heads = [("path", "Fact", ""), ("grade", "Grade", ""), ("usd_per_h_low", "An hour at its low", "money")]
    return plainly(rows.iter_rows(named=True), [*heads, ("usd_per_h_high", "An hour at its high", "money")], most=40)


def short(path: str) -> str:
    """The end of a fact's path that tells it: `racks.jalapeno-rack.capex_usd` -> `jalapeno-rack capex_usd`."""
    parts = path.split(".")
    return " ".join(parts[-2:]) if len(parts) > 1 else path


def alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    parts = [
        f"{row['path']} ({row['grade']}) {units.format(row['swing_usd_per_h'], 'money')}"
        for row in rows.head(MOST_BARS).iter_rows(named=True)
    ]
    return "Swing of the cost of an hour, fact by fact, from low to high. " + "; ".join(parts)

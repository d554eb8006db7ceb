"""The cost of an hour, part by part, as a waterfall; each part split by pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import units
from planner.aggregate.cost_parts import PARTS
from planner.report.figures.frames import schema
from planner.report.figures.live import picked, with_signals
from planner.report.figures.series import mean, rows_of
from planner.report.figures.sheet import Sheet, plainly
from planner.report.figures.style import LIGHT, Look, chart, layer
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

COLUMNS = {"variant": "str", "part": "str", "pool": "str", "usd_per_h": "f64", "from_usd_per_h": "f64"}


def frame(result: Result) -> pl.DataFrame:
    """USD an hour of each part and pool, means over the seeds, and where its bar begins: at the sum of those before."""
    import polars as pl

    rows = []
    for name in result.variants:
        found: dict[tuple[str, str], list[float]] = {}
        for row in rows_of(result, "costs", name):
            found.setdefault((row["part"], row["pool"]), []).append(row["usd_per_h"])
        at = 0.0
        for part in dict.fromkeys((*PARTS, *(part for part, _ in found))):
            for (each, pool), values in found.items():
                usd = mean(values) or 0.0
                if each == part and usd:
                    rows.append({"variant": name, "part": part, "pool": pool, "usd_per_h": usd, "from_usd_per_h": at})
                    at += usd
    return pl.DataFrame(rows, schema=schema(COLUMNS), orient="row")


def draw(rows: pl.DataFrame, look: Look) -> Any:
    """Bars from where the last one ended, in the pools' colours; each part's sum beside it, the whole at the foot."""
    import altair as alt

    values = [
        {name: row[name] for name in ("part", "pool", "from_usd_per_h", "usd_per_h")}
        | {"to": row["from_usd_per_h"] + row["usd_per_h"], "words": _words(row)}
        for row in rows.iter_rows(named=True)
    ]
    parts = list(dict.fromkeys(row["part"] for row in values))
    whole = max((row["to"] for row in values), default=0.0)
    sums = []
    for part in parts:
        mine = [row for row in values if row["part"] == part]
        end = max(row["to"] for row in mine)
        sums.append({"part": part, "to": end, "label": units.format(sum(row["usd_per_h"] for row in mine), "money")})
    sums.append({"part": "all", "to": whole, "label": f"{units.format(whole, 'money')} an hour"})
    y = alt.Y("part:N", sort=[*parts, "all"], title=None, axis=alt.Axis(grid=False, ticks=False, domain=False))
    scale = alt.Scale(domain=[0, whole * 1.22 or 1.0], nice=False)
    x = alt.X("from_usd_per_h:Q", title="USD an hour", scale=scale, axis=alt.Axis(tickCount=5))
    legend = alt.Legend(
        title=None, orient="top", symbolType="square", direction="horizontal", offset=2, columns=4, labelLimit=110
    )
    color = alt.Color("pool:N", scale=alt.Scale(domain=list(look.pools), range=look.colours), legend=legend)
    layers = [
        chart(values)
        .mark_bar(height={"band": 0.72})
        .encode(x=x, x2=alt.X2("to:Q"), y=y, color=color, opacity=picked(), description=alt.Description("words:N")),
        chart([{"part": "all", "from_usd_per_h": 0, "to": whole, "words": f"all\n{sums[-1]['label']}"}])
        .mark_bar(height={"band": 0.72}, color=LIGHT["mark"])
        .encode(x=x, x2=alt.X2("to:Q"), y=y, description=alt.Description("words:N")),
        chart(sums)
        .mark_text(align="left", dx=5, aria=False)
        .encode(x=alt.X("to:Q", scale=scale), y=y, text=alt.Text("label:N")),
    ]
    return with_signals(layer(*layers, width=look.width - 90, height=26 * (len(parts) + 1)))


def _words(row: dict[str, Any]) -> str:
    return f"{plain(row['part'])}, {plain(row['pool'])}\n{units.format(row['usd_per_h'], 'money')} an hour"


def sheet(rows: pl.DataFrame) -> Sheet:
    """A row for each part and pool."""
    heads = [("part", "Part", ""), ("pool", "Pool", ""), ("usd_per_h", "An hour", "money")]
    return plainly(rows.iter_rows(named=True), heads)


def alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "Cost of an hour by part. " + "; ".join(
        _words(row).replace("\n", ": ") for row in rows.iter_rows(named=True)
    )

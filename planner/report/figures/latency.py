"""Latency by quantile: a panel for each limited metric of each class, the limit as a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.report.figures.frames import decades, schema
from planner.report.figures.live import spot, with_signals, words
from planner.report.figures.sheet import Sheet, plainly
from planner.report.figures.style import LIGHT, TIME_LABEL, Look, chart, hconcat, head, layer, vconcat
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

QUANTILES = (
    0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9,
    0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.992, 0.994, 0.995, 0.996, 0.997, 0.998, 0.999,
)  # fmt: skip
MOST_CLASSES, A_ROW = 5, 3
IN_TABLE = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
SHOWN_WITHOUT_LIMITS = ("ttft", "tpot", "e2e")
COLUMNS = {
    "variant": "str",
    "class": "str",
    "metric": "str",
    "quantile": "f64",
    "value_s": "f64",
    "limit_quantile": "f64",
    "limit_s": "f64",
}


def frame(result: Result) -> pl.DataFrame:
    """Quantiles of every class, over all seeds together; in the row of a limit's quantile the limit stands beside.

    The quantile of a limit is over all offered requests (`limits[]`), those of the curve over those that have a value.
    """
    import polars as pl

    rows = [row for name, tree in result.variants.items() for row in _of_variant(result, name, tree)]
    return pl.DataFrame(rows, schema=schema(COLUMNS), orient="row")


def _of_variant(result: Result, name: str, tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    from planner import core

    sketches = result.tables["sketches"]
    mine = sketches.filter(sketches["variant"] == name)
    asked = []
    for ix, (each, figures) in enumerate(tree["classes"].items()):
        metrics = list(dict.fromkeys(limit["metric"] for limit in figures["limits"])) or list(SHOWN_WITHOUT_LIMITS)
        asked += [(ix, each, metric, quantile) for metric in metrics for quantile in QUANTILES]
    core_columns = mine.select("class_ix", "pool_ix", "metric_ix", "is_bucket", "key_ns", "count", "sum_s", "sum_fs")
    values = core.quantiles(core_columns, [core.Query(ix, metric, quantile) for ix, _, metric, quantile in asked])
    rows = []
    for (_, each, metric, quantile), value in zip(asked, values, strict=True):
        row = {"variant": name, "class": each, "metric": metric, "quantile": quantile, "value_s": value}
        limit = next(
            (
                limit
                for limit in tree["classes"][each]["limits"]
                if limit["metric"] == metric and abs(float(limit["quantile"][1:]) / 100 - quantile) < 1e-9
            ),
            None,
        )
        rows.append(row | {"limit_quantile": quantile if limit else None, "limit_s": limit["limit"] if limit else None})
    return rows


def draw(rows: pl.DataFrame, look: Look) -> Any:
    """Small panels, a row for each class: the quantile to the right in nines, the time upwards, both logarithmic."""

    panels_of: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows.iter_rows(named=True):
        panels_of.setdefault(row["class"], {}).setdefault(row["metric"], []).append(row)
    tightest = sorted(panels_of, key=lambda each: _spare(panels_of[each]))[:MOST_CLASSES]
    a_row = min(A_ROW, max(len(panels_of[each]) for each in tightest))
    bands = []
    for nr, each in enumerate(each for each in panels_of if each in tightest):
        panels = [_panel(mine, look, a_row, 10 * nr + ix) for ix, mine in enumerate(panels_of[each].values())]
        bands += [hconcat(*panels[at : at + a_row], spacing=14) for at in range(0, len(panels), a_row)]
    return with_signals(vconcat(*bands, spacing=12))


def _spare(metrics: Mapping[str, list[dict[str, Any]]]) -> float:
    """Value over limit of the tightest limit, downwards: what is tightest comes first."""
    found = [row for rows in metrics.values() for row in rows if row["limit_s"]]
    over = [float("inf") if row["value_s"] is None else row["value_s"] / row["limit_s"] for row in found]
    return -max(over, default=0.0)


def _panel(mine: list[dict[str, Any]], look: Look, a_row: int, ix: int) -> Any:
    import altair as alt

    first = mine[0]
    told = [{"tail": 1 - row["quantile"], "s": row["value_s"], "words": _words(row)} for row in mine if row["value_s"]]
    limits = [
        {"tail": 1 - row["quantile"], "s": row["limit_s"], "words": _limit_words(row)}
        for row in mine
        if row["limit_s"] is not None
    ]
    width = (look.width - 62 * a_row) / a_row
    x = alt.X(
        "tail:Q",
        title=None,
        scale=alt.Scale(type="log", domain=[1, 0.001], nice=False),
        axis=alt.Axis(
            values=[0.5, 0.1, 0.01, 0.001],
            labelExpr="'p' + format(100 - datum.value * 100, '~r')",
            labelFontSize=10.5,
            labelFlush=True,
        ),
    )
    ends, ticks = decades([row["s"] for row in (*told, *limits)])
    y = alt.Y(
        "s:Q",
        title=None,
        scale=alt.Scale(type="log", domain=ends, nice=False),
        axis=alt.Axis(values=ticks, labelExpr=TIME_LABEL),
    )
    layers = [
        chart(told or [{"tail": 1, "s": None}])
        .mark_line(color=LIGHT["ink"], interpolate="monotone", aria=False)
        .encode(x=x, y=y)
    ]
    if limits:
        at = chart(limits)
        layers += [
            at.mark_rule(color=LIGHT["limit"], strokeDash=[5, 3], aria=False).encode(y=alt.Y("s:Q")),
            at.mark_point(color=LIGHT["limit"], filled=True, size=46, shape="diamond", opacity=1).encode(
                x=alt.X("tail:Q"), y=alt.Y("s:Q"), description=alt.Description("words:N")
            ),
        ]
    if told:
        layers.append(spot(told, x=alt.X("tail:Q"), y=alt.Y("s:Q"), ix=ix))
    title = head(f"{first['metric']} of {first['class']}", limit=width + 20)
    return layer(*layers, width=width, height=104, title=title)


def _limit_words(row: Mapping[str, Any]) -> str:
    from planner import units

    where = f"p{row['quantile'] * 100:g}"
    return f"limit {units.format(row['limit_s'], 'time')} at {where}; {units.format(row['value_s'], 'time')} found"


def _words(row: Mapping[str, Any]) -> str:
    return words(
        f"p{row['quantile'] * 100:g} of {plain(row['class'])}",
        (row["metric"], row["value_s"], "time"),
        ("limit", row["limit_s"], "time"),
    )


def sheet(rows: pl.DataFrame) -> Sheet:
    """A row for each class and metric, a column for each of the usual quantiles."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.iter_rows(named=True):
        mine = found.setdefault((row["class"], row["metric"]), {"class": row["class"], "metric": row["metric"]})
        mine[f"{row['quantile']:g}"] = row["value_s"]
        if row["limit_s"] is not None:
            name = f"p{row['quantile'] * 100:g}"
            mine["limits"] = ", ".join([*filter(None, [mine.get("limits")]), f"{name} {_time(row['limit_s'])}"])
    columns = [("class", "Class", ""), ("metric", "Metric", "")]
    columns += [(f"{quantile:g}", f"p{quantile * 100:g}", "time") for quantile in IN_TABLE]
    filled = [{"limits": "-", **{f"{quantile:g}": None for quantile in IN_TABLE}, **mine} for mine in found.values()]
    return plainly(filled, [*columns, ("limits", "Limit", "")])


def _time(seconds: float) -> str:
    from planner import units

    return units.format(seconds, "time")


def alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    from planner import units

    parts = [
        f"{row['class']} {row['metric']} p{row['quantile'] * 100:g}: {units.format(row['value_s'], 'time')}, limit "
        f"{units.format(row['limit_s'], 'time')}"
        for row in rows.iter_rows(named=True)
        if row["limit_s"] is not None
    ]
    return "Latency by quantile. " + ("; ".join(parts) or "No limits are set.")

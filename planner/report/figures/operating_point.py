"""Tokens a user against tokens a kilowatt: each deployment's curve, and where the run was on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import decades, schema
from planner.report.figures.series import mean, rows_of
from planner.report.figures.style import LIGHT, SI_LABEL, Look, chart
from planner.report.text import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

USER, YIELD = "tokens_per_s_per_user", "tokens_per_s_out_per_kw_chip_rated"
HEIGHT = 250
DASHES = ((1, 0), (5, 3), (2, 2), (8, 3, 2, 3))
COLUMNS = {
    "variant": "str",
    "pool": "str",
    "model": "str",
    "what": "str",
    "class": "str",
    "n_seqs": "i64",
    "tokens_per_s_per_user": "f64",
    "tokens_per_s_out_per_kw_chip_rated": "f64",
}


def frame(result: Result) -> pl.DataFrame:
    """Rows `curve`, a batch each, and rows `run`, a class each: 1 / its median TPOT, and the deployment's output rate.

    Both are per kW of rated chips, the basis of published frontiers. A prefill pool has no tokens a user, so no row.
    """
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        rows += _curves(result, name)
        rows += _points(result, name, tree)
    return pl.DataFrame(rows, schema=schema(COLUMNS), orient="row")


def _curves(result: Result, variant: str) -> list[dict[str, Any]]:
    if "curves" not in result.tables:
        return []
    rows = list(rows_of(result, "curves", variant))
    first = rows[0]["seed"] if rows else None
    return [
        {
            "variant": variant,
            "pool": row["pool"],
            "model": row["model"],
            "what": "curve",
            "class": "",
            "n_seqs": row["n_seqs"],
            "tokens_per_s_per_user": 1 / row["tpot_s"],
            "tokens_per_s_out_per_kw_chip_rated": row["tokens_per_s_out"] / row["chip_rated_w"] * 1000,
        }
        for row in rows
        if row["seed"] == first and row["tpot_s"]
    ]


def _points(result: Result, variant: str, tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where the classes of each deployment were."""
    from planner import core

    if "curves" not in result.tables:
        return []
    span_s = tree["run"]["length_s"] - tree["run"]["warmup_s"]
    rated = {(row["pool"], row["model"]): row["chip_rated_w"] for row in rows_of(result, "curves", variant)}
    sketches = result.tables["sketches"]
    mine = sketches.filter(sketches["variant"] == variant)
    columns = ("class_ix", "pool_ix", "metric_ix", "is_bucket", "key_ns", "count", "sum_s", "sum_fs")
    deployments = list(rows_of(result, "deployments", variant))
    rows = []
    for (pool, model), watts in rated.items():
        of_pool = mine.filter(mine["pool"] == pool).select(columns)
        rates = [row["output_tokens"] / span_s for row in deployments if (row["pool"], row["model"]) == (pool, model)]
        rate = mean([sum(rates) / tree["run"]["seeds"]]) or 0.0
        for ix, (each, figures) in enumerate(tree["classes"].items()):
            if figures["model"] != model:
                continue
            tpot = core.quantiles(of_pool, [core.Query(ix, "tpot", 0.5)])[0]
            if tpot and rate:
                rows.append(
                    {
                        "variant": variant,
                        "pool": pool,
                        "model": model,
                        "what": "run",
                        "class": each,
                        "n_seqs": None,
                        "tokens_per_s_per_user": 1 / tpot,
                        "tokens_per_s_out_per_kw_chip_rated": rate / watts * 1000,
                    }
                )
    return rows


def draw(rows: pl.DataFrame, look: Look) -> Any:
    """Curves in the pools' colours, named at their end; the run as a dot on each."""
    import altair as alt

    values = [
        row | {"line": f"{row['pool']}, {row['model']}", "x": row[USER], "y": row[YIELD]}
        for row in rows.iter_rows(named=True)
    ]
    curve = [row for row in values if row["what"] == "curve"]
    dots = [row | {"label": plain(row["class"]), "words": _words(row)} for row in values if row["what"] == "run"]
    x_ends, y_ends = (_ends([row[axis] for row in values]) for axis in ("x", "y"))
    x_scale, y_scale = (alt.Scale(type="log", domain=list(ends), nice=False) for ends in (x_ends, y_ends))
    x_axis, y_axis = (alt.Axis(values=decades(ends)[1], labelExpr=SI_LABEL) for ends in (x_ends, y_ends))
    x = alt.X("x:Q", title="output tok/s a user", scale=x_scale, axis=x_axis)
    y = alt.Y("y:Q", title="output tok/s a kW of rated chips", scale=y_scale, axis=y_axis)
    color = alt.Color("pool:N", scale=alt.Scale(domain=list(look.pools), range=look.colours), legend=None)
    models = list(dict.fromkeys(row["model"] for row in curve))
    dashes = alt.Scale(domain=models, range=[DASHES[ix % len(DASHES)] for ix in range(len(models))])
    lines = chart(curve).mark_line()
    labels = chart(_labels(curve, x_ends, y_ends, look.width - 70))
    layers = [
        lines.encode(
            x=x,
            y=y,
            color=color,
            strokeDash=alt.StrokeDash("model:N", scale=dashes, legend=None),
            detail=alt.Detail("line:N"),
        ),
        *(
            labels.transform_filter(alt.datum.side == side)
            .mark_text(align=side, dx=4 if side == "left" else -4)
            .encode(x=x, y=y, color=color, text=alt.Text("label:N"))
            for side in ("left", "right")
        ),
    ]
    if dots:
        at = chart(dots)
        layers += [
            at.mark_point(filled=True, size=90, opacity=1, stroke=LIGHT["ink"], strokeWidth=1).encode(
                x=x, y=y, color=color, description=alt.Description("words:N")
            ),
            at.mark_text(align="right", dx=-9, dy=5, fontWeight=600, color=LIGHT["ink"]).encode(
                x=x, y=y, text=alt.Text("label:N")
            ),
        ]
    return alt.layer(*layers).properties(width=look.width - 70, height=HEIGHT)


def _ends(values: list[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis with some room."""
    return min(values) / 1.3, max(values) * 1.9


def _labels(
    curve: list[dict[str, Any]], x_ends: tuple[float, float], y_ends: tuple[float, float], width: float
) -> list[dict[str, Any]]:
    """Names of the lines at their left ends, those that would lie upon each other moved apart."""
    from math import exp, log

    def place(value: float, ends: tuple[float, float], size: float) -> float:
        return (log(value) - log(ends[0])) / (log(ends[1]) - log(ends[0])) * size

    found: list[dict[str, Any]] = []
    taken: list[tuple[float, float]] = []
    lines = dict.fromkeys(row["line"] for row in curve)
    ends = [max((row for row in curve if row["line"] == line), key=lambda row: row["n_seqs"]) for line in lines]
    for end in sorted(ends, key=lambda row: row["y"]):
        line = end["line"]
        across, up = place(end["x"], x_ends, width), place(end["y"], y_ends, HEIGHT) + 10
        room = len(line) * 6.2
        side = "left" if across + room < width else "right"
        while any(abs(up - y) < 13 and abs(across - x) < 220 for x, y in taken):
            up += 13
        taken.append((across, up))
        y = exp(up / HEIGHT * (log(y_ends[1]) - log(y_ends[0])) + log(y_ends[0]))
        found.append({"x": end["x"], "y": min(y, y_ends[1]), "label": plain(line), "pool": end["pool"], "side": side})
    return found


def _words(row: Mapping[str, Any]) -> str:
    return (
        f"{row['class']} on {row['pool']}: {units.figures(row['tokens_per_s_per_user'])} tok/s a user, "
        f"{units.figures(row['tokens_per_s_out_per_kw_chip_rated'])} tok/s a kW"
    )


def alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    words = [_words(row) for row in rows.iter_rows(named=True) if row["what"] == "run"]
    return "Output tokens a user against output tokens a kilowatt of rated chips. " + "; ".join(words)

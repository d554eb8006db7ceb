"""Tokens a user against tokens a kilowatt: each deployment's curve, and where the run was on it."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import decades, schema
from planner.report.figures.live import picked, spot, with_signals
from planner.report.figures.series import mean, rows_of
from planner.report.figures.sheet import Sheet, plainly
from planner.report.figures.style import LIGHT, SI_LABEL, Look, chart, layer
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

USER, YIELD = "tokens_per_s_per_user", "tokens_per_s_out_per_kw_chip_rated"
HEIGHT, MOST_WIDE = 250, 190
_STEPS = tuple(float(step) for step in (-10, -23, -36, -49, 10, 23, 36, 49, -62, -75, 62, 75))
"""Where a line's name may stand, above or below its fast end."""
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
    """Curves in the pools' colours, named at their fast end; the run as a dot on each."""
    import altair as alt

    values = [
        {"line": f"{row['pool']}, {row['model']}", "pool": row["pool"], "model": row["model"], "x": row[USER]}
        | {"y": row[YIELD], "n_seqs": row["n_seqs"], "class": row["class"], "what": row["what"], "words": _words(row)}
        for row in rows.iter_rows(named=True)
    ]
    curve = [row for row in values if row["what"] == "curve"]
    dots = [row for row in values if row["what"] == "run"]
    x_ends, y_ends = _ends([row["x"] for row in values], 1.3), _ends([row["y"] for row in values], 3.0)
    x_scale, y_scale = (alt.Scale(type="log", domain=list(ends), nice=False) for ends in (x_ends, y_ends))
    x_axis, y_axis = (alt.Axis(values=decades(ends)[1], labelExpr=SI_LABEL) for ends in (x_ends, y_ends))
    x = alt.X("x:Q", title="output tok/s a user", scale=x_scale, axis=x_axis)
    y = alt.Y("y:Q", title="output tok/s a kW of rated chips", scale=y_scale, axis=y_axis)
    color = alt.Color("pool:N", scale=alt.Scale(domain=list(look.pools), range=look.colours), legend=None)
    models = list(dict.fromkeys(row["model"] for row in curve))
    dashes = alt.Scale(domain=models, range=[DASHES[ix % len(DASHES)] for ix in range(len(models))])
    points = [_only(row, "line", "pool", "model", "x", "y", "words") for row in curve]
    lines = chart(points).mark_line(aria=False)
    at_dots = _dot_labels(dots, x_ends, y_ends, look.width - 70)
    labels = chart(_labels(curve, at_dots, x_ends, y_ends, look.width - 70)) if curve else None
    layers = [
        lines.encode(
            x=x,
            y=y,
            color=color,
            strokeDash=alt.StrokeDash("model:N", scale=dashes, legend=None),
            detail=alt.Detail("line:N"),
            opacity=picked(),
        )
    ]
    if labels is not None:
        named = labels.mark_text(align="center", aria=False, limit=MOST_WIDE)
        layers.append(named.encode(x=x, y=y, color=color, text=alt.Text("label:N"), opacity=picked()))
    if curve:
        layers.append(spot(points, x=x, y=y, size=70))
    if dots:
        at = chart([_only(row, "pool", "x", "y", "words") for row in dots])
        layers += [
            at.mark_point(filled=True, size=90, stroke=LIGHT["ink"], strokeWidth=1).encode(
                x=x, y=y, color=color, description=alt.Description("words:N"), opacity=picked()
            ),
            chart(at_dots)
            .mark_text(align="right", dx=-9, dy=5, fontWeight=600, color=LIGHT["ink"], aria=False, limit=MOST_WIDE)
            .encode(x=x, y=y, text=alt.Text("label:N"), opacity=picked()),
        ]
    return with_signals(layer(*layers, width=look.width - 70, height=HEIGHT))


def _only(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _ends(values: list[float], below: float) -> tuple[float, float]:
    """Ends of a logarithmic axis with some room."""
    return min(values) / below, max(values) * 1.3


def _place(value: float, ends: tuple[float, float], size: float) -> float:
    """Where a value stands on a logarithmic axis of some length."""
    return (log(value) - log(ends[0])) / (log(ends[1]) - log(ends[0])) * size


def _value(place: float, ends: tuple[float, float], size: float) -> float:
    return exp(place / size * (log(ends[1]) - log(ends[0])) + log(ends[0]))


def _wide(label: str, a_letter: float) -> float:
    return min(len(label) * a_letter, MOST_WIDE)


def _dot_labels(
    dots: list[dict[str, Any]], x_ends: tuple[float, float], y_ends: tuple[float, float], width: float
) -> list[dict[str, Any]]:
    """The names of the classes at their dots; of those that lie upon each other the first, and how many more."""
    found: list[tuple[float, float, list[dict[str, Any]]]] = []
    for dot in dots:
        x, y = _place(dot["x"], x_ends, width), _place(dot["y"], y_ends, HEIGHT)
        near = next((group for at_x, at_y, group in found if abs(at_x - x) < 60 and abs(at_y - y) < 13), None)
        if near is None:
            found.append((x, y, [dot]))
        else:
            near.append(dot)
    return [
        _only(group[0], "x", "y", "pool")
        | {"label": plain(group[0]["class"]) + (f" and {len(group) - 1} more" if len(group) > 1 else "")}
        for _, _, group in found
    ]


def _labels(
    curve: list[dict[str, Any]],
    dots: list[dict[str, Any]],
    x_ends: tuple[float, float],
    y_ends: tuple[float, float],
    width: float,
) -> list[dict[str, Any]]:
    """Names of the lines below their fast ends; those that would lie upon each other, or on a dot, are moved."""
    found: list[dict[str, Any]] = []
    taken: list[tuple[float, float, float]] = []
    for dot in dots:
        half = _wide(dot["label"], 6.8) / 2 + 9
        taken.append((_place(dot["x"], x_ends, width) - half + 6, _place(dot["y"], y_ends, HEIGHT), half))
    lines = dict.fromkeys(row["line"] for row in curve)
    ends = [min((row for row in curve if row["line"] == line), key=lambda row: row["n_seqs"]) for line in lines]
    for end in sorted(ends, key=lambda row: -row["y"]):
        half = _wide(end["line"], 6.2) / 2
        across = min(max(_place(end["x"], x_ends, width), half), width - half)
        at = _place(end["y"], y_ends, HEIGHT)
        up = next(
            (
                up
                for up in (at + step for step in _STEPS)
                if 6 <= up <= HEIGHT - 6
                and not any(abs(up - y) < 13 and abs(across - x) < half + other for x, y, other in taken)
            ),
            max(6.0, at - 10),
        )
        taken.append((across, up, half))
        x, y = _value(across, x_ends, width), _value(up, y_ends, HEIGHT)
        found.append({"x": x, "y": y, "label": plain(end["line"]), "pool": end["pool"]})
    return found


def _words(row: Mapping[str, Any]) -> str:
    batch = "" if row["n_seqs"] is None else f"{units.format(row['n_seqs'], 'count')} sequences\n"
    name = f"{row['class']} on {row['pool']}" if row["class"] else f"{row['pool']}, {row['model']}"
    return (
        f"{plain(name)}\n{batch}{units.figures(row[USER])} tok/s a user\n"
        f"{units.figures(row[YIELD])} tok/s a kW of rated chips"
    )


def sheet(rows: pl.DataFrame) -> Sheet:
    """Where the run was, then each curve from one sequence to its largest batch."""
    told = [
        {
            "what": f"run, {row['class']}" if row["what"] == "run" else "could give",
            "where": f"{row['pool']}, {row['model']}",
            "n": "-" if row["n_seqs"] is None else f"{row['n_seqs']:,}",
            "user": units.figures(row[USER]),
            "kw": units.figures(row[YIELD]),
        }
        for what in ("run", "curve")
        for row in rows.filter(rows["what"] == what).iter_rows(named=True)
    ]
    heads = [("what", "What", ""), ("where", "Deployment", ""), ("n", "Sequences", "count")]
    return plainly(told, [*heads, ("user", "tok/s a user", "count"), ("kw", "tok/s a kW", "count")], most=60)


def alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    told = [_words(row).replace("\n", ", ") for row in rows.iter_rows(named=True) if row["what"] == "run"]
    return "Output tokens a user against output tokens a kilowatt of rated chips. " + "; ".join(told)

"""Demand against capacity over time, a panel for each deployment of each pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import schema
from planner.report.figures.live import Time, picked, span, time_of, with_signals, words
from planner.report.figures.series import bins, by_bin, mean, rows_of
from planner.report.figures.sheet import Sheet, over_time
from planner.report.figures.style import LIGHT, SI_LABEL, Look, chart, head, layer, vconcat

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

MOST_PANELS = 6
COLUMNS = {
    "variant": "str",
    "pool": "str",
    "model": "str",
    "tokens": "str",
    "start_s": "f64",
    "end_s": "f64",
    "demand_tokens_per_s": "f64",
    "capacity_tokens_per_s": "f64",
    "tpot_limit_s": "f64",
}


def frame(result: Result) -> pl.DataFrame:
    """Tokens a second that are asked of each deployment, and what it gives in a steady stream inside the TPOT limit.

    Demand is the class's offered requests x its mean length x the share of the class that the pool served. Capacity is
    the largest point of `curves` whose time between tokens is inside the tightest TPOT limit of the model's classes; a
    prefill pool counts prompt tokens, any other output tokens.
    """
    import polars as pl

    rows = [row for name, tree in result.variants.items() for row in _of_variant(result, name, tree)]
    return pl.DataFrame(rows, schema=schema(COLUMNS), orient="row")


def _of_variant(result: Result, name: str, tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "curves" not in result.tables:
        return []
    what = bins(tree["run"])
    offered = by_bin(result, "class_windows", name, what, ["class"], "offered")
    curves = list(rows_of(result, "curves", name))
    shares = _shares(result, name)
    n_seeds = tree["run"]["seeds"]
    rows = []
    for pool, model, role in dict.fromkeys((row["pool"], row["model"], row["role"]) for row in curves):
        mine = [row for row in curves if (row["pool"], row["model"], row["role"]) == (pool, model, role)]
        is_prompt = role == "prefill"
        limit = tpot_limit_s(tree, model)
        capacity = capacity_tokens_per_s(mine, limit)
        lengths = mean([row["prompt_tokens"] if is_prompt else row["mean_output_tokens"] for row in mine]) or 0.0
        classes = [each for each, figures in tree["classes"].items() if figures["model"] == model]
        for ix in range(what.n):
            seconds = what.n_windows(ix) * what.window_s * n_seeds
            asked = 0.0
            for each in classes:
                count = sum(offered.get((each,), [[]] * what.n)[ix])
                asked += count / seconds * lengths * shares.get((each, pool, is_prompt), 0.0)
            rows.append(
                {
                    "variant": name,
                    "pool": pool,
                    "model": model,
                    "tokens": "prompt" if is_prompt else "output",
                    "start_s": what.start_s(ix),
                    "end_s": what.end_s(ix),
                    "demand_tokens_per_s": asked,
                    "capacity_tokens_per_s": capacity,
                    "tpot_limit_s": None if is_prompt else limit,
                }
            )
    return rows


def tpot_limit_s(tree: Mapping[str, Any], model: str) -> float | None:
    """The tightest TPOT limit of the classes of a model."""
    limits = [
        limit["limit"]
        for figures in tree["classes"].values()
        if figures["model"] == model
        for limit in figures["limits"]
        if limit["metric"] == "tpot"
    ]
    return min(limits, default=None)


def capacity_tokens_per_s(rows: list[dict[str, Any]], limit_s: float | None) -> float | None:
    """The most that the deployments of one role, pool and model give inside the limit; means over the seeds."""
    by_seed: dict[int, dict[str, float]] = {}
    for row in rows:
        best = by_seed.setdefault(row["seed"], {})
        if row["role"] == "prefill":
            best[row["layout"]] = max(best.get(row["layout"], 0.0), row["tokens_per_s_in"])
        elif limit_s is None or row["tpot_s"] <= limit_s:
            best[row["layout"]] = max(best.get(row["layout"], 0.0), row["tokens_per_s_out"])
    return mean([sum(best.values()) for best in by_seed.values()])


def _shares(result: Result, variant: str) -> dict[tuple[str, str, bool], float]:
    """Share of a class that began (prompts) and ended (answers) on each pool, of what did."""
    counts: dict[tuple[str, str, bool], int] = {}
    for row in rows_of(result, "sketches", variant):
        if row["metric"] in {"ttft", "e2e"}:
            key = (row["class"], row["pool"], row["metric"] == "ttft")
            counts[key] = counts.get(key, 0) + row["count"]
    sums: dict[tuple[str, bool], int] = {}
    for (each, _, is_prompt), count in counts.items():
        sums[each, is_prompt] = sums.get((each, is_prompt), 0) + count
    return {key: count / sums[key[0], key[2]] for key, count in counts.items() if sums[key[0], key[2]]}


def draw(rows: pl.DataFrame, look: Look) -> Any:
    """A panel for each deployment, demand as an area in the pool's colour, capacity as a dashed line."""

    keys = list(dict.fromkeys(rows.select("pool", "model", "tokens").iter_rows()))
    keys = sorted(keys, key=lambda key: -_load(rows, key))[:MOST_PANELS]
    time = time_of_rows(rows)
    panels = []
    for ix, key in enumerate(keys):
        mine = [row for row in rows.iter_rows(named=True) if (row["pool"], row["model"], row["tokens"]) == key]
        title = f"time, {time.unit}" if key == keys[-1] else None
        panels.append(_panel(mine, look, time, title, ix))
    return with_signals(vconcat(*panels, spacing=8), time)


def time_of_rows(rows: pl.DataFrame) -> Time:
    """The axis of time."""
    return time_of(max(rows["end_s"].to_list()))


def _panel(mine: list[dict[str, Any]], look: Look, time: Time, below: str | None, ix: int) -> Any:
    import altair as alt

    first = mine[0]
    colour = look.pools[first["pool"]]
    capacity = first["capacity_tokens_per_s"]
    top = max([row["demand_tokens_per_s"] for row in mine] + [capacity or 0.0]) * 1.15 or 1.0
    steps = [{"t": time.at(row["start_s"]), "v": row["demand_tokens_per_s"], "pool": first["pool"]} for row in mine]
    steps.append(steps[-1] | {"t": time.at(mine[-1]["end_s"])})
    scale = alt.Scale(domain=[0, top], nice=False)
    y = alt.Y("v:Q", title=None, scale=scale, axis=alt.Axis(labelExpr=SI_LABEL, tickCount=3))
    base = chart(steps).mark_area(
        color=colour, line={"color": colour, "clip": True}, interpolate="step-after", clip=True, aria=False
    )
    layers = [base.encode(x=time.x(below), y=y, opacity=picked(0.3))]
    if capacity is not None:
        label = _capacity_words(capacity, first["tpot_limit_s"])
        rule = chart([{"y": capacity, "words": label}])
        layers += [
            rule.mark_rule(color=LIGHT["limit"], strokeDash=[5, 3]).encode(
                y=alt.Y("y:Q"), description=alt.Description("words:N")
            ),
            rule.mark_text(align="right", baseline="bottom", color=LIGHT["limit"], aria=False).encode(
                y=alt.value(-5), x=alt.value(look.width - 70), text=alt.Text("words:N")
            ),
        ]
    layers.append(span([_told(row, time) for row in mine], time, ix=ix))
    title = head(f"{first['pool']}, {first['model']} ({first['tokens']} tok/s)", color=colour, limit=look.width - 70)
    return layer(*layers, width=look.width - 70, height=66, title=title)


def _told(row: Mapping[str, Any], time: Time) -> dict[str, Any]:
    """What is shown where the pointer is."""
    asked, capacity = row["demand_tokens_per_s"], row["capacity_tokens_per_s"]
    lines = [("asked", asked, "tokens_per_s"), ("of its capacity", asked / capacity if capacity else None, "frac")]
    return {
        "t": time.at(row["start_s"]),
        "t2": time.at(row["end_s"]),
        "words": words(time.between(row["start_s"], row["end_s"]), *lines),
    }


def _capacity_words(capacity: float, limit_s: float | None) -> str:
    if not capacity:
        return f"no batch reaches {units.format(limit_s, 'time')} a token"
    inside = "" if limit_s is None else f" at {units.format(limit_s, 'time')} a token"
    return f"capacity {units.format(capacity, 'tokens_per_s')}{inside}"


def sheet(rows: pl.DataFrame) -> Sheet:
    """What is asked of each deployment over time; its capacity stands in the head."""

    def name(row: Mapping[str, Any]) -> str:
        capacity = units.format(row["capacity_tokens_per_s"], "tokens_per_s")
        return f"{row['pool']}, {row['model']}, {row['tokens']} (capacity {capacity})"

    return over_time(rows, time_of_rows(rows), "demand_tokens_per_s", "tokens_per_s", name)


def _load(rows: pl.DataFrame, key: tuple[Any, ...]) -> float:
    """Highest demand over capacity of a panel: the fullest come first."""
    loads = [
        row["demand_tokens_per_s"] / row["capacity_tokens_per_s"]
        if row["capacity_tokens_per_s"]
        else float(row["demand_tokens_per_s"] > 0) * 1e9
        for row in rows.iter_rows(named=True)
        if (row["pool"], row["model"], row["tokens"]) == key
    ]
    return max(loads, default=0.0)


def alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    parts = []
    for pool, model, tokens in dict.fromkeys(rows.select("pool", "model", "tokens").iter_rows()):
        mine = rows.filter((rows["pool"] == pool) & (rows["model"] == model) & (rows["tokens"] == tokens))
        peak = max(mine["demand_tokens_per_s"].to_list(), default=0.0)
        capacity = mine["capacity_tokens_per_s"][0]
        parts.append(
            f"{pool}, {model}: at most {units.format(peak, 'tokens_per_s')} {tokens} tokens asked, "
            f"capacity {units.format(capacity, 'tokens_per_s')}"
        )
    return "Demand against capacity over time. " + "; ".join(parts)

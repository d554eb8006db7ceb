"""Figures of the work itself: energy a token against load, what step time went to, prompts and answers, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import schema
from planner.report.figures.live import clock, picked, time_of, with_signals, words
from planner.report.figures.series import bins, by_bin, mean, rows_of
from planner.report.figures.sheet import Sheet, plainly
from planner.report.figures.style import LIGHT, Look, chart, head, layer, vconcat
from planner.words import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

KINDS = ("memory", "compute", "network", "launch")
PHASES = ("prefill", "decode")
_SHARE = ("share_frac", "Share of busy time", "frac")
_SHADES = {"memory": "p0", "compute": "p1", "network": "p2", "launch": "p4", "prefill": "p5", "decode": "p3"}
ENERGY = {"variant": "str", "start_s": "f64", "tokens_per_s_out": "f64", "j_per_token_out_whole": "f64"}
SHARES = {"variant": "str", "pool": "str", "model": "str", "what": "str", "chip_s": "f64", "share_frac": "f64"}
BATCH = {"variant": "str", "pool": "str", "n_decoding": "i64", "busy_s": "f64", "share_frac": "f64"}


def energy_frame(result: Result) -> pl.DataFrame:
    """Facility energy a second over output tokens a second, for each stretch in which every pool worked."""
    import polars as pl

    rows = []
    for name, tree in result.variants.items():
        what = bins(tree["run"], most=60)
        watts = by_bin(result, "windows", name, what, ["pool"], "facility_w")
        tokens = by_bin(result, "windows", name, what, [], "output_tokens").get((), [[]] * what.n)
        for ix in range(what.n):
            means = [mean(values[ix]) for values in watts.values()]
            rate = sum(tokens[ix]) / (what.n_windows(ix) * what.window_s * tree["run"]["seeds"])
            if rate and len(means) == len(tree["pools"]) and None not in means:
                drawn = sum(watt for watt in means if watt is not None)
                rows.append(
                    {
                        "variant": name,
                        "start_s": what.start_s(ix),
                        "tokens_per_s_out": rate,
                        "j_per_token_out_whole": drawn / rate,
                    }
                )
    return pl.DataFrame(rows, schema=schema(ENERGY), orient="row")


def energy_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A dot for each stretch."""
    import altair as alt

    time = time_of(max(rows["start_s"].to_list()))
    told = [
        {"x": row["tokens_per_s_out"], "y": row["j_per_token_out_whole"]}
        | {
            "words": words(
                f"from {clock(row['start_s'], time)}",
                ("out", row["tokens_per_s_out"], "tokens_per_s"),
                ("a token", row["j_per_token_out_whole"], "energy"),
            )
        }
        for row in rows.iter_rows(named=True)
    ]
    dots = (
        chart(told)
        .mark_point(filled=True, color=LIGHT["mark"], opacity=0.75, size=36)
        .encode(
            x=alt.X("x:Q", title="output tok/s", axis=alt.Axis(format="~s")),
            y=alt.Y("y:Q", title="J a token out, facility"),
            description=alt.Description("words:N"),
        )
    )
    return with_signals(layer(dots, width=look.width - 70, height=180))


def energy_sheet(rows: pl.DataFrame) -> Sheet:
    """A row for each stretch, from the lightest load to the heaviest."""
    told = sorted(rows.iter_rows(named=True), key=lambda row: row["tokens_per_s_out"])
    heads = [("tokens_per_s_out", "Output", "tokens_per_s"), ("j_per_token_out_whole", "A token", "energy")]
    return plainly(told, heads, most=30)


def energy_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    values = rows["j_per_token_out_whole"].to_list()
    return (
        f"Energy a token against load: from {units.figures(min(values))} to {units.figures(max(values))} J a token out."
    )


def steps_frame(result: Result) -> pl.DataFrame:
    """Busy chip seconds of each deployment by what bounds a step, and their share; all seeds together."""
    return _shares(result, KINDS)


def steps_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A bar for each deployment."""
    return _share_bars(rows, look, KINDS)


def steps_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "What step time went to. " + _share_words(rows)


def balance_frame(result: Result) -> pl.DataFrame:
    """Busy chip seconds of each deployment for prompts and for answers, and their share; all seeds together."""
    return _shares(result, PHASES)


def balance_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A bar for each deployment."""
    return _share_bars(rows, look, PHASES)


def balance_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    return "Busy time for prompts and answers. " + _share_words(rows)


def batch_frame(result: Result) -> pl.DataFrame:
    """Time of each pool's replicas by how many sequences they decoded, from the timeline; empty where none was kept."""
    import polars as pl

    found: dict[tuple[str, str], dict[int, int]] = {}
    if "timeline" in result.tables:
        for row in result.tables["timeline"].iter_rows(named=True):
            times = found.setdefault((row["variant"], row["pool"]), {})
            times[row["n_decoding"]] = times.get(row["n_decoding"], 0) + row["end_ns"] - row["begin_ns"]
    rows = []
    for (variant, pool), times in found.items():
        whole = sum(times.values())
        for n in sorted(times):
            rows.append(
                {
                    "variant": variant,
                    "pool": pool,
                    "n_decoding": n,
                    "busy_s": times[n] / 1e9,
                    "share_frac": times[n] / whole if whole else None,
                }
            )
    return pl.DataFrame(rows, schema=schema(BATCH), orient="row")


def batch_draw(rows: pl.DataFrame, look: Look) -> Any:
    """A panel for each pool, bars from zero."""
    import altair as alt

    panels = []
    for pool in dict.fromkeys(rows["pool"].to_list()):
        mine = [
            {
                "n_decoding": row["n_decoding"],
                "percent": row["share_frac"] * 100,
                "pool": pool,
                "words": _batch_words(row),
            }
            for row in rows.iter_rows(named=True)
            if row["pool"] == pool and row["share_frac"] is not None
        ]
        bars = (
            chart(mine)
            .mark_bar(color=look.pools[pool])
            .encode(
                x=alt.X("n_decoding:Q", title="sequences in a step", axis=alt.Axis(grid=False, tickCount=6)),
                y=alt.Y("percent:Q", title="% of busy time", axis=alt.Axis(tickCount=3)),
                opacity=picked(),
                description=alt.Description("words:N"),
            )
        )
        panels.append(layer(bars, width=look.width - 70, height=90, title=head(pool, color=look.pools[pool])))
    return with_signals(vconcat(*panels, spacing=8))


def _batch_words(row: dict[str, Any]) -> str:
    return words(f"{row['n_decoding']:,} sequences", ("busy time", row["share_frac"], "frac"))


def batch_sheet(rows: pl.DataFrame) -> Sheet:
    """The sizes that took most of the time, first."""
    told = sorted(rows.iter_rows(named=True), key=lambda row: -(row["share_frac"] or 0.0))
    return plainly(told, [("pool", "Pool", ""), ("n_decoding", "Sequences", "count"), _SHARE], most=30)


def batch_alt(rows: pl.DataFrame) -> str:
    """What the figure shows, in words."""
    parts = []
    for pool in dict.fromkeys(rows["pool"].to_list()):
        mine = rows.filter(rows["pool"] == pool).to_dicts()
        most = max(mine, key=lambda row: row["share_frac"] or 0.0)
        parts.append(f"{pool}: most often {most['n_decoding']}, at most {mine[-1]['n_decoding']}")
    return "Sequences in a step. " + "; ".join(parts)


def _shares(result: Result, names: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    rows = []
    for variant in result.variants:
        found: dict[tuple[str, str], dict[str, float]] = {}
        for row in rows_of(result, "deployments", variant):
            sums = found.setdefault((row["pool"], row["model"]), dict.fromkeys(names, 0.0))
            for name in names:
                sums[name] += row[f"{name}_chip_s"]
        for (pool, model), sums in found.items():
            whole = sum(sums.values())
            for name, chip_s in sums.items():
                share = chip_s / whole if whole else None
                rows.append(
                    {
                        "variant": variant,
                        "pool": pool,
                        "model": model,
                        "what": name,
                        "chip_s": chip_s,
                        "share_frac": share,
                    }
                )
    return pl.DataFrame(rows, schema=schema(SHARES), orient="row")


def _share_bars(rows: pl.DataFrame, look: Look, names: tuple[str, ...]) -> Any:
    import altair as alt

    values = [
        {
            "name": plain(f"{row['pool']}, {row['model']}"),
            "pool": row["pool"],
            "what": row["what"],
            "percent": (row["share_frac"] or 0.0) * 100,
            "order": names.index(row["what"]),
            "words": words(f"{plain(row['pool'])}, {plain(row['model'])}", (row["what"], row["share_frac"], "frac")),
        }
        for row in rows.iter_rows(named=True)
    ]
    bars = list(dict.fromkeys(row["name"] for row in values))
    colours = alt.Scale(domain=list(names), range=[LIGHT[_SHADES[name]] for name in names])
    shares = (
        chart(values)
        .mark_bar(height={"band": 0.66})
        .encode(
            x=alt.X("percent:Q", title="% of busy chip time", scale=alt.Scale(domain=[0, 100])),
            y=alt.Y(
                "name:N", sort=bars, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False, labelLimit=190)
            ),
            color=alt.Color(
                "what:N", scale=colours, legend=alt.Legend(title=None, orient="top", direction="horizontal")
            ),
            order=alt.Order("order:Q"),
            opacity=picked(),
            description=alt.Description("words:N"),
        )
    )
    return with_signals(layer(shares, width=look.width - 190, height=34 * len(bars)))


def steps_sheet(rows: pl.DataFrame) -> Sheet:
    """A row for each deployment and bound."""
    return plainly(
        rows.iter_rows(named=True), [("pool", "Pool", ""), ("model", "Model", ""), ("what", "Of", ""), _SHARE]
    )


balance_sheet = steps_sheet


def _share_words(rows: pl.DataFrame) -> str:
    return "; ".join(
        f"{row['pool']} {row['model']} {row['what']} {units.format(row['share_frac'], 'frac')}"
        for row in rows.iter_rows(named=True)
    )

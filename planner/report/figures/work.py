"""Figures of the work itself: energy a token against load, what step time went to, prompts and answers, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures.frames import schema
from planner.report.figures.series import bins, by_bin, mean, rows_of
from planner.report.figures.style import LIGHT, Look, chart
from planner.report.text import plain

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

KINDS = ("memory", "compute", "network", "launch")
PHASES = ("prefill", "decode")
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
        watts = by_bin(rows_of(result, "windows", name), what, ["pool"], "facility_w")
        tokens = by_bin(rows_of(result, "windows", name), what, [], "output_tokens").get((), [[]] * what.n)
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

    return (
        chart(rows.to_dicts())
        .mark_point(filled=True, color=LIGHT["mark"], opacity=0.75, size=36)
        .encode(
            x=alt.X("tokens_per_s_out:Q", title="output tok/s", axis=alt.Axis(format="~s")),
            y=alt.Y("j_per_token_out_whole:Q", title="J a token out, facility"),
        )
        .properties(width=look.width - 70, height=180)
    )


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
        mine = [row | {"percent": row["share_frac"] * 100} for row in rows.iter_rows(named=True) if row["pool"] == pool]
        panels.append(
            chart(mine)
            .mark_bar(color=look.pools[pool])
            .encode(
                x=alt.X("n_decoding:Q", title="sequences in a step", axis=alt.Axis(grid=False, tickCount=6)),
                y=alt.Y("percent:Q", title="% of busy time", axis=alt.Axis(tickCount=3)),
            )
            .properties(
                width=look.width - 70, height=90, title=alt.TitleParams(plain(pool), color=look.pools[pool], offset=4)
            )
        )
    return alt.vconcat(*panels, spacing=8)


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
        row
        | {
            "name": plain(f"{row['pool']}, {row['model']}"),
            "percent": (row["share_frac"] or 0.0) * 100,
            "order": names.index(row["what"]),
            "words": f"{row['what']}: {(row['share_frac'] or 0.0) * 100:.1f} %",
        }
        for row in rows.iter_rows(named=True)
    ]
    bars = list(dict.fromkeys(row["name"] for row in values))
    colours = alt.Scale(domain=list(names), range=[LIGHT[_SHADES[name]] for name in names])
    return (
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
            description=alt.Description("words:N"),
        )
        .properties(width=look.width - 190, height=34 * len(bars))
    )


def _share_words(rows: pl.DataFrame) -> str:
    return "; ".join(
        f"{row['pool']} {row['model']} {row['what']} {units.format(row['share_frac'], 'frac')}"
        for row in rows.iter_rows(named=True)
    )

"""The hours of a horizon as tables, and what is to be said of those without figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.aggregate.power import Book, rack_it_w
from planner.errors import Notice
from planner.study.horizon import Tree, Walked, load_frac

if TYPE_CHECKING:
    import polars as pl

SHOWN = ("ttft_s.p95", "tpot_s.p95", "e2e_s.p95")


def tables_of(walked: Walked, variant: str, seed: int) -> dict[str, pl.DataFrame]:
    """`horizon_classes` and `horizon_pools`: a row an hour and class, and an hour and pool."""
    import numpy as np
    import polars as pl

    from planner.aggregate import clock
    from planner.aggregate.columns import HORIZON_CLASSES, HORIZON_POOLS, schema_of

    numbers = np.arange(walked.n_hours)
    keys = {"variant": variant, "seed": seed}
    frames: dict[str, list[pl.DataFrame]] = {"horizon_classes": [], "horizon_pools": []}

    def put(table: str, columns: Mapping[str, Any], **words: str) -> None:
        schema = schema_of(HORIZON_CLASSES if table == "horizon_classes" else HORIZON_POOLS)
        frame = pl.DataFrame({"hour": numbers, **columns}).with_columns(
            *(pl.lit(value).alias(key) for key, value in {**keys, **words}.items())
        )
        floats = [name for name, kind in schema.items() if kind == pl.Float64]
        frame = frame.select(pl.col(name).cast(kind) for name, kind in schema.items())
        frames[table].append(frame.with_columns(pl.col(floats).fill_nan(None)))

    for name in walked.scenario.traffic:
        found = walked.classes[name]
        none = np.full(walked.n_hours, np.nan)
        has_limits = walked.scenario.traffic[name].slo is not None
        state = np.where(~walked.inside, "beyond", np.where(found.is_met, "met", "missed"))
        columns = {
            "rate_req_per_s": walked.rates[name],
            "state": state if has_limits else np.where(walked.inside, "no limits", "beyond"),
            "attainment_frac": found.attainment_frac,
            **{key.replace("_s.", "_") + "_s": found.latencies.get(key, none) for key in SHOWN},
            "margin_frac": found.margin_frac,
        }
        put("horizon_classes", columns, **{"class": name})
    for power in walked.powers:
        mine = [one for one in walked.hours if one.stage.surface.pool == power.pool.name]
        watts = np.full(walked.n_hours, np.nan)
        watts[power.window_ix] = rack_it_w(power, power.windows, Book())
        pue = clock.pue(walked.fleet.at(power.pool), walked.span, Book())
        zero = np.zeros(walked.n_hours)
        columns = {
            "load_frac": np.max([load_frac(one) for one in mine], axis=0) if mine else zero,
            "rack_it_w": watts,
            "facility_w": watts * pue,
            "tokens_per_s_in": sum((one.tokens_per_s_in for one in mine), start=zero),
            "tokens_per_s_out": sum((one.tokens_per_s_out for one in mine), start=zero),
        }
        put("horizon_pools", columns, pool=power.pool.name)
    return {name: pl.concat(found) for name, found in frames.items()}


def notices(tree: Tree) -> list[Notice]:
    """Hours without figures, by the pool whose surface ends before them."""
    return [
        Notice(
            "horizon_beyond",
            f"{one['pool']}: in {one['hours']:,} of {tree['hours']:,} hours its load is beyond the last sample of "
            f"{one['model']} "
            f"({one['last_sample_req_per_s']:.4g} req/s a replica, the highest is {one['highest_req_per_s']:.4g}); "
            "they have no figures, and are left out of energy, money and carbon",
        )
        for one in tree["beyond"]
    ]

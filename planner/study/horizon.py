"""Months and years: the load of every hour walked over response surfaces, and some hours simulated to check them.

Per hour and class the limits, per hour and pool the draw; over the horizon hours in which every limit holds, energy,
money and carbon. Hours whose load is beyond the last sample of a surface have no figures: they are counted and named,
and energy, money and carbon are of the other hours. Some hours are then simulated (`horizon_check`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.aggregate.cost import Terms, by_part, charges, total_usd_per_h
from planner.aggregate.inputs import NS_PER_S, Span
from planner.aggregate.per_token import MTOK, over
from planner.aggregate.power import Activity, Book, PoolPower, draws, mean_w, resting
from planner.study.routed import level, routed
from planner.study.scaled import hourly_rates
from planner.study.walk import StageHours, has_choice, stages, walk_all
from planner.traffic.hours import HOUR_S, HOURS_PER_YEAR

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from planner.aggregate.inputs import VariantRun
    from planner.aggregate.result import Result
    from planner.fleet.fleet import Fleet, PoolLayout
    from planner.scenario import Scenario
    from planner.study.horizon_classes import ClassHours
    from planner.study.work import Simulate

    Array = NDArray[np.float64]

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Walked:
    """A fleet hour by hour."""

    scenario: Scenario
    fleet: Fleet
    rates: Mapping[str, Array]
    """Requests per second of each class in each hour."""
    hours: tuple[StageHours, ...]
    powers: tuple[PoolPower, ...]
    """Of each pool, windows being hours; the span's means are over the hours that no surface is beyond."""
    span: Span
    inside: NDArray[np.bool_]
    """Hours that no surface is beyond."""
    classes: Mapping[str, ClassHours]
    """What each class gets."""

    @property
    def n_hours(self) -> int:
        """Hours of the horizon."""
        return int(self.inside.size)

    @property
    def peak_hour(self) -> int:
        """The hour in which a deployment has the most load for what it holds."""
        return int(_strain(self.hours).argmax())


def with_horizon(
    result: Result,
    runs: Sequence[VariantRun],
    simulate: Callable[[str], Simulate],
    *,
    folder: Path | None = None,
    workers: int | None,
) -> Result:
    """The result with `horizon` of each variant that asks for one, and the tables of its hours.

    `simulate` gives what does a list of work of the name it is told.
    """
    asked = [run for run in runs if run.scenario.run.horizon_years is not None]
    if not asked:
        return result
    import polars as pl

    from planner.study.horizon_check import check
    from planner.study.horizon_tables import notices, tables_of

    trees, tables = dict(result.variants), dict(result.tables)
    frames: dict[str, list[pl.DataFrame]] = {"horizon_classes": [], "horizon_pools": []}
    walks = [
        walk_over(run.scenario, run.fleet, simulate(f"routed-{ix}"), folder=folder, workers=workers)
        for ix, run in enumerate(asked)
    ]
    for run, walked, checked in zip(asked, walks, check(walks, simulate("horizon")), strict=True):
        tree = figures(walked) | {"checked": checked}
        name = run.scenario.name
        said = [{"code": notice.code, "message": notice.message} for notice in notices(tree)]
        trees[name] = {**trees[name], "horizon": tree, "notices": [*trees[name]["notices"], *said]}
        for table, frame in tables_of(walked, name, run.scenario.run.seed).items():
            frames[table].append(frame)
    return replace(result, variants=trees, tables=tables | {name: pl.concat(found) for name, found in frames.items()})


def walk_over(
    scenario: Scenario, fleet: Fleet, simulate: Simulate, *, folder: Path | None = None, workers: int | None = None
) -> Walked:
    """The load of every hour of the horizon on the surfaces of the fleet. Raises as `surface.surfaces` does.

    Where the router has a choice, `simulate` shows what it does.
    """
    import numpy as np

    from planner.study.horizon_classes import class_hours
    from planner.study.run import mean_lengths

    assert scenario.run.horizon_years is not None
    n_hours = max(1, round(scenario.run.horizon_years * HOURS_PER_YEAR))
    rates = {name: np.array(found) for name, found in hourly_rates(scenario, n_hours).items()}
    load = level(rates, mean_lengths(scenario))
    seen = routed(scenario, fleet, rates, load, simulate) if has_choice(scenario, fleet) else {}
    hours = walk_all(stages(scenario, fleet, seen, folder=folder, workers=workers), rates, load)
    inside = ~np.any([one.beyond for one in hours], axis=0)
    hour_ns = round(HOUR_S * NS_PER_S)
    return Walked(
        scenario=scenario,
        fleet=fleet,
        rates=rates,
        hours=hours,
        powers=tuple(_power(pool, hours, inside) for pool in fleet.pools),
        span=Span(warmup_ns=0, length_ns=n_hours * hour_ns, window_ns=hour_ns),
        inside=inside,
        classes={name: class_hours(scenario, hours, inside, name) for name in scenario.traffic},
    )


def _power(pool: PoolLayout, hours: Sequence[StageHours], inside: NDArray[np.bool_]) -> PoolPower:
    """A pool's draw by the hour; what serves nothing is parked."""
    import numpy as np

    mine = [one for one in hours if one.stage.surface.pool == pool.name]
    serving = {one.stage.surface.entry: one.stage.n_replicas * one.stage.surface.n_chips for one in mine}
    at_rest = pool.n_chips - pool.idle_chips - sum(serving.values())
    steps_w = sum((one.steps_w for one in mine), start=np.zeros(inside.size))
    parked = sum((one.parked_chips for one in mine), start=np.zeros(inside.size))
    window_ix = np.nonzero(inside)[0]
    windows = Activity(steps_w[inside], parked[inside] + at_rest, np.zeros(window_ix.size))
    empty = not window_ix.size
    span = Activity(
        np.array([0.0 if empty else mean(windows.steps_w)]),
        np.array([float(pool.n_chips - pool.idle_chips) if empty else mean(windows.parked_chips)]),
    )
    return replace(resting(pool), span=span, windows=windows, window_ix=window_ix)


def mean(values: Array) -> float:
    """The mean, rounded once: the same on every machine."""
    return math.fsum(values) / len(values)


def _strain(hours: Sequence[StageHours]) -> Array:
    """The highest load over what a replica holds, of all deployments, in each hour."""
    import numpy as np

    return np.max([load_frac(one) for one in hours], axis=0)  # type: ignore[no-any-return]


def load_frac(one: StageHours) -> Array:
    """Load over the most at which every class of the mix holds its limits (over the last sample if none is known)."""
    surface = one.stage.surface
    most = surface.limit_req_per_s or surface.samples[-1].load_req_per_s
    return one.load / most


# -- figures -----------------------------------------------------------------------------------------------------------


def figures(walked: Walked) -> Tree:
    """The section `horizon` of a result, but for what was simulated."""
    import numpy as np

    from planner.facts import catalog

    scenario, fleet, span, book = walked.scenario, walked.fleet, walked.span, Book()
    n_inside = int(walked.inside.sum())
    classes: Tree = {}
    for name in scenario.traffic:
        found = walked.classes[name]
        requests = walked.rates[name] * HOUR_S
        sure = walked.inside & ~np.isnan(found.attainment_frac)
        weight = math.fsum(requests[sure])
        has_limits = scenario.traffic[name].slo is not None
        worst = np.where(walked.inside, found.margin_frac, np.inf)
        worst_hour = int(np.nanargmin(worst)) if has_limits and np.isfinite(worst).any() else None
        classes[name] = {
            "requests": round(math.fsum(requests)),
            "mean_req_per_s": mean(walked.rates[name]),
            "peak_req_per_s": float(walked.rates[name].max()),
            "hours_met": int(found.is_met.sum()) if has_limits else None,
            "hours_missed": int((walked.inside & ~found.is_met).sum()) if has_limits else None,
            "attainment_frac": math.fsum(requests[sure] * found.attainment_frac[sure]) / weight if weight else None,
            "worst_hour": worst_hour,
            "worst_margin_frac": None if worst_hour is None else float(found.margin_frac[worst_hour]),
        }
    terms = Terms.of(
        scenario.cost, catalog.load().finance(), has_allowance=any(pool.new_silicon for pool in fleet.pools)
    )
    made = charges(fleet, terms, walked.powers, span, book)
    usd_per_h = total_usd_per_h(made)
    drawn = draws(walked.powers, fleet, span, book)
    tokens_out = math.fsum(rate for one in walked.hours for rate in one.tokens_per_s_out[walked.inside]) * HOUR_S
    kwh = drawn["facility_w"]["mean"] * n_inside / 1000
    return {
        "hours": walked.n_hours,
        "hours_beyond": walked.n_hours - n_inside,
        "peak_hour": walked.peak_hour,
        "beyond": [_beyond(one) for one in walked.hours if one.beyond.any()],
        "classes": classes,
        "pools": {power.pool.name: _pool(walked, power) for power in walked.powers},
        "fleet": {
            "facility_w": drawn["facility_w"],
            "facility_kwh": kwh,
            "usd": usd_per_h * walked.n_hours,
            "usd_per_h": usd_per_h,
            "usd_per_mtok_out_whole": over(usd_per_h * n_inside, tokens_out / MTOK),
            "parts": by_part(made, terms.without_figure),
            "operational_kgco2e": _operational(walked, n_inside, book),
        },
    }


def _beyond(one: StageHours) -> Tree:
    surface = one.stage.surface
    return {
        "pool": surface.pool,
        "model": surface.model,
        "hours": int(one.beyond.sum()),
        "first_hour": int(one.beyond.argmax()),
        "last_sample_req_per_s": surface.samples[-1].load_req_per_s,
        "highest_req_per_s": float(one.load.max()),
    }


def _pool(walked: Walked, power: PoolPower) -> Tree:
    mine = [one for one in walked.hours if one.stage.surface.pool == power.pool.name]
    drawn = draws([power], walked.fleet, walked.span, Book())
    return {
        "peak_load_frac": max((float(load_frac(one).max()) for one in mine), default=None),
        "mean_load_frac": max((mean(load_frac(one)) for one in mine), default=None),
        "facility_w": drawn["facility_w"],
    }


def _operational(walked: Walked, n_inside: int, book: Book) -> float:
    from planner.aggregate import clock

    total = 0.0
    for power in walked.powers:
        site = walked.fleet.at(power.pool)
        kwh = mean_w(power, book) * clock.pue(site, walked.span, book) * n_inside / 1000
        total += kwh * clock.kgco2e_per_kwh(site, power, walked.span, book)
    return total

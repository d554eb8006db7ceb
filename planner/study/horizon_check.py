"""How far the surfaces of a horizon are off: the hour of the peak and all hours of some days, simulated.

The days are that of the peak, then days spread evenly over the range of daily load (`run.days`). Every hour is
simulated by itself, with a warm-up before it, so that all of them run side by side; of a busy hour only so much time as
has about `horizon_hour.HOUR_REQUESTS` requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.aggregate.inputs import Span
from planner.aggregate.judged import judged_classes
from planner.aggregate.power import Book, mean_w, pool_power, rack_it_w
from planner.study.horizon import Tree, Walked
from planner.study.horizon_hour import hour_of, is_thin
from planner.study.work import Asked, Simulate

if TYPE_CHECKING:
    from planner.aggregate.inputs import VariantRun
    from planner.aggregate.power import PoolPower

HOURS_PER_DAY = 24


def days_of(walked: Walked) -> list[int]:
    """The days that are simulated: that of the peak, then days spread evenly over the range of daily load."""
    import numpy as np

    n_days = walked.n_hours // HOURS_PER_DAY
    n = min(walked.scenario.run.days, n_days)
    if not n:
        return []
    load = np.sum(list(walked.rates.values()), axis=0)[: n_days * HOURS_PER_DAY].reshape(n_days, HOURS_PER_DAY)
    order = [int(day) for day in np.argsort(load.sum(axis=1), kind="stable")]
    chosen = [min(walked.peak_hour // HOURS_PER_DAY, n_days - 1)]
    for k in range(n - 1):
        place = (2 * k + 1) * n_days // (2 * (n - 1))
        chosen.append(next(day for day in order[place:] + order[:place][::-1] if day not in chosen))
    return chosen


def check(walks: Sequence[Walked], simulate: Simulate) -> list[Tree]:
    """The hours of the peak and of some days simulated, beside what the surfaces say of them, of each walk."""
    days = [days_of(walked) for walked in walks]
    hours = [_hours(*each) for each in zip(walks, days, strict=True)]
    made = iter(
        simulate(
            [
                Asked(hour_of(walked.scenario, walked.rates, hour, seed=walked.scenario.run.seed), walked.fleet)
                for walked, mine in zip(walks, hours, strict=True)
                for hour in mine
            ]
        )
    )
    rows = [[_compared(walked, hour, next(made)) for hour in mine] for walked, mine in zip(walks, hours, strict=True)]
    return [_checked(*each) for each in zip(days, rows, strict=True)]


def _hours(walked: Walked, days: Sequence[int]) -> list[int]:
    """The peak, then the hours of the days, but for those in which hardly a request comes."""
    found = dict.fromkeys([walked.peak_hour])
    for day in days:
        found |= dict.fromkeys(range(day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY))
    return [hour for hour in found if not all(is_thin(float(own[hour])) for own in walked.rates.values())]


def _checked(days: Sequence[int], rows: Sequence[Tree]) -> Tree:
    found: dict[tuple[str, str, str], list[tuple[float, int]]] = {}
    for row in rows:
        for (name, metric, label), ratio in row["ratios"].items():
            found.setdefault((name, metric, label), []).append((ratio - 1, row["hour"]))
    differences = [
        {
            "class": name,
            "metric": metric,
            "quantile": label,
            "hours": len(offs),
            "median_frac": sorted(off for off, _ in offs)[(len(offs) - 1) // 2],
            "worst_frac": max(offs, key=lambda each: (abs(each[0]), -each[1]))[0],
            "worst_hour": max(offs, key=lambda each: (abs(each[0]), -each[1]))[1],
        }
        for (name, metric, label), offs in found.items()
    ]
    power = sorted(row["power_frac"] for row in rows if row["power_frac"] is not None)
    return {
        "days": list(days),
        "hours": len(rows),
        "simulated_s": sum(row["length_s"] for row in rows),
        "differences": differences,
        "power_median_frac": power[(len(power) - 1) // 2] if power else None,
        "power_worst_frac": max(power, key=abs) if power else None,
        "verdicts_differ": sum(row["is_met"] != row["was_met"] for row in rows if row["was_met"] is not None),
        "missed": [row["hour"] for row in rows if row["is_met"] is False],
        "peak": next({k: row[k] for k in ("hour", "is_met", "was_met")} for row in rows),
    }


def _compared(walked: Walked, hour: int, run: VariantRun) -> Tree:
    """What a simulated hour has over what the surfaces say, by class and limit, and its power likewise."""
    import numpy as np

    from planner.aggregate.work import chip_work, pool_sums, pool_windows

    (seed,) = run.seeds
    judged = judged_classes(run.scenario, seed)
    ratios: dict[tuple[str, str, str], float] = {}
    verdicts, said = [], []
    for name, got in judged.items():
        hours = walked.classes[name]
        for row in got["limits"]:
            there = hours.latencies.get(f"{row['metric']}_s.{row['quantile']}")
            value = None if there is None else float(there[hour])
            if value and not np.isnan(value) and row["value"] is not None:
                ratios[name, row["metric"], row["quantile"]] = row["value"] / value
        if got["verdict"] in {"met", "missed"}:
            verdicts.append(got["verdict"] == "met")
            said.append(bool(hours.is_met[hour]))
    span = Span.of(run.scenario, seed)
    whole, windows = chip_work(seed.sim.deployments, run.fleet), chip_work(seed.sim.windows, run.fleet)
    drawn = sum(
        mean_w(pool_power(pool, pool_sums(whole, ix), pool_windows(windows, ix), span), Book())
        for ix, pool in enumerate(run.fleet.pools)
    )
    is_inside = bool(walked.inside[hour])
    walked_w = sum(_watts(power, hour) for power in walked.powers) if is_inside else None
    return {
        "hour": hour,
        "length_s": span.span_s,
        "ratios": ratios,
        "power_frac": drawn / walked_w - 1 if walked_w else None,
        "is_met": all(verdicts) if verdicts else None,
        "was_met": all(said) if said and is_inside else None,
    }


def _watts(power: PoolPower, hour: int) -> float:
    import numpy as np

    at = int(np.searchsorted(power.window_ix, hour))
    return float(rack_it_w(power, power.windows, Book())[at])

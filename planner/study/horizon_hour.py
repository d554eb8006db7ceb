"""One hour of a horizon as a scenario of its own, to be simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.study.scaled import at_rate
from planner.traffic.hours import HOUR_S, in_hour

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from planner.scenario import Scenario

HOUR_REQUESTS = 30_000
LEAST_S = 120.0
"""So long is simulated of an hour at least."""
LEAST_REQUESTS = 20
"""A recorded class with fewer in an hour is left out of it."""
WARMUP_S = 60.0
"""Warm-up of a simulated hour where the scenario has none."""


def is_thin(rate_req_per_s: float) -> bool:
    """Whether so few requests come in an hour that a trace thinned to them might have none."""
    return rate_req_per_s * HOUR_S < LEAST_REQUESTS


def hour_of(scenario: Scenario, rates: Mapping[str, NDArray[np.float64]], hour: int, *, seed: int) -> Scenario:
    """One hour, or as much of it as has about `HOUR_REQUESTS`; `rates` are those of each class in each hour.

    A drawn class has the shape of that hour, a recorded one the trace's own requests of it, as many as the hour has.
    """
    rate = sum(float(found[hour]) for found in rates.values())
    warmup_s = scenario.run.warmup_s or WARMUP_S
    length_s = float(round(min(HOUR_S, max(LEAST_S, HOUR_REQUESTS / rate)) if rate > 0 else LEAST_S))
    run = scenario.run.model_copy(
        update={
            "warmup_s": warmup_s,
            "length_s": warmup_s + length_s,
            "seed": seed,
            "seeds": 1,
            "samples": None,
            "horizon_years": None,
            "split_s": None,
            "start": None,
        }
    )
    fleet = scenario.fleet.model_copy(update={"spare_frac": None, "survive": None})
    traffic = {}
    for name, cls in scenario.traffic.items():
        if cls.trace is None:
            traffic[name] = in_hour(cls, hour, lead_s=warmup_s)
            continue
        own = float(rates[name][hour])
        if not is_thin(own):
            begun = cls.model_copy(update={"start_s": cls.start_s + hour * HOUR_S - warmup_s})
            traffic[name] = at_rate(
                begun, own, name=name, seed=run.seed, lead_s=warmup_s, length_s=length_s, base_dir=scenario.base_dir
            )
    return replace(scenario, name=f"hour {hour}", traffic=traffic, run=run, fleet=fleet)

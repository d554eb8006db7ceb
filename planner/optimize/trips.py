"""What a longer way to the clients leaves of a limit: where they turn out to be farther, a replica may hold less.

A surface is sampled with the way as it is in use. TTFT and E2E grow by what the way is longer, at every load; all else
is as it was. So the load at which the class breaks its first limit is read off the same samples, moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.scenario.sites import round_trips
from planner.study.curves import Surface, crossing
from planner.study.walk import OF_PHASE

if TYPE_CHECKING:
    from planner.facts.fact import Fact
    from planner.scenario import Scenario
    from planner.scenario.schema import Limit

_WAITS = ("ttft", "e2e")
"""The latencies that hold the way to the clients."""

Trips = Mapping[str, Mapping[str, "Fact"]]


def trips_of(scenario: Scenario) -> Trips:
    """By pool and class the way to the clients, of pools that have one."""
    found = {name: round_trips(name, scenario.traffic, scenario.site, scenario.sites) for name in scenario.fleet.pools}
    return {name: by_class for name, by_class in found.items() if by_class}


def more_s(trips: Trips, pool: str, cls: str, values: Mapping[str, float]) -> float:
    """How much longer than in use the way is where facts have such values."""
    fact = trips.get(pool, {}).get(cls)
    return 0.0 if fact is None else values.get(fact.path, fact.number) - fact.number


def left_frac(surface: Surface, name: str, limits: Sequence[Limit], longer_s: float) -> float:
    """The load up to which a class holds with its clients so much farther away, over that at which they are."""
    if not longer_s:
        return 1.0
    base, now = (crossing(_moved(surface, name, limits, by_s), name) for by_s in (0.0, longer_s))
    return now / base if base > 0 else 1.0


def _moved(surface: Surface, name: str, limits: Sequence[Limit], by_s: float) -> Surface:
    """The samples with the strain of a class as it is with a way that is longer by that."""
    own = [limit for limit in limits if limit.metric in OF_PHASE[surface.phase]]

    def strain(figures: Mapping[str, float | None]) -> float | None:
        known = figures["strain"]
        if known is None:
            return None
        values = [(limit, figures[f"{limit.metric}_s.{limit.label}"]) for limit in own]
        here = [(limit, value) for limit, value in values if value is not None]
        as_it_was = max((value / limit.limit_s for limit, value in here), default=0.0)
        moved = [(value + by_s * (limit.metric in _WAITS)) / limit.limit_s for limit, value in here]
        return max([*moved, *([known] if known > as_it_was else []), 0.0])  # the attainment may be what is strained

    samples = tuple(
        replace(sample, classes={**sample.classes, name: {**figures, "strain": strain(figures)}})
        for sample in surface.samples
        for figures in (sample.classes[name],)
    )
    return replace(surface, samples=samples)

"""A class of traffic at another load: the same requests more or less often, and without its hours of the day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import Fault, ScenarioError
from planner.traffic import hours
from planner.traffic.demand import DAY_S
from planner.traffic.requests import for_class

if TYPE_CHECKING:
    from pathlib import Path

    from planner.scenario import Scenario
    from planner.scenario.schema import TrafficClass

MINUTE_NS = 60 * 10**9
COPIES = 20.0
"""Copies of a trace that are enough to see its own ups and downs."""
RATE_SEED = 0
"""The mean rate of a trace is read off this seed, so that it does not hang on a run's own."""


def scaled(cls: TrafficClass, factor: float) -> TrafficClass:
    """The class with `factor` times its requests in each second: a drawn one by its rate, a recorded one by its scale.

    Raises:
        ScenarioError: its arrivals are closed, so that no rate says its load.
    """
    if cls.arrivals == "closed":
        what = "closed arrivals have no rate: their load is what the fleet makes of it"
        raise ScenarioError(Fault(what, "write arrivals: poisson and a rate, or a trace", path="traffic"))
    if cls.trace is not None:
        return cls.model_copy(update={"scale": cls.scale * factor})
    assert cls.rate_req_per_s is not None
    return cls.model_copy(update={"rate_req_per_s": cls.rate_req_per_s * factor})


def flat(cls: TrafficClass) -> TrafficClass:
    """The class at its mean rate at all hours, for ever: no shape, no growth, a recorded one repeated."""
    if cls.trace is not None:
        return cls.model_copy(update={"repeat": True})
    return cls.model_copy(update={"shape": None, "regions": {}, "growth_frac_per_year": None})


def mean_rate(cls: TrafficClass, *, name: str, length_s: float | None, base_dir: Path) -> float:
    """Requests per second of the class: as it is written, or counted over the trace's span or `length_s`."""
    if cls.trace is None:
        scaled(cls, 1.0)
        assert cls.rate_req_per_s is not None
        return cls.rate_req_per_s
    length_ns = None if length_s is None else round(length_s * 1e9)
    one = cls.model_copy(update={"scale": 1.0})
    made = for_class(one, name=name, seed=RATE_SEED, length_ns=length_ns, base_dir=base_dir)
    return made.frame.height / (made.span_ns / 1e9) * cls.scale


def mean_rates(scenario: Scenario) -> dict[str, float]:
    """Requests per second of each class of `scenario`."""
    return {
        name: mean_rate(cls, name=name, length_s=scenario.run.length_s, base_dir=scenario.base_dir)
        for name, cls in scenario.traffic.items()
    }


def hourly_rates(scenario: Scenario, n_hours: int) -> dict[str, list[float]]:
    """Requests per second of each class in each hour of a horizon: by its shape and growth, or as its trace has them.

    A trace goes on again after its span, hour by hour on its own clock. Of more than `COPIES` copies so many are looked
    at: all but the first are turned round the span, so that they even out.
    """
    found = {}
    for name, cls in scenario.traffic.items():
        if cls.trace is None:
            mean = mean_rate(cls, name=name, length_s=scenario.run.length_s, base_dir=scenario.base_dir)
            found[name] = [mean * factor for factor in hours.factors(cls, n_hours)]
            continue
        scale = min(cls.scale, COPIES)
        some = cls.model_copy(update={"scale": scale, "repeat": False})
        made = for_class(some, name=name, seed=RATE_SEED, length_ns=None, base_dir=scenario.base_dir)
        own = hours.recorded(made.frame["arrival_ns"].to_list(), made.span_ns, n_hours)
        grown = hours.growth(cls, n_hours)
        found[name] = [rate * cls.scale / scale * factor for rate, factor in zip(own, grown, strict=True)]
    return found


def at_rate(
    cls: TrafficClass, rate: float, *, name: str, seed: int, lead_s: float, length_s: float, base_dir: Path
) -> TrafficClass:
    """A recorded class, repeated, so scaled that the `length_s` seconds after its first `lead_s` have about that rate.

    Below one copy the recorded requests are thinned. Every further copy is turned round the span, so what it brings
    there is the trace's mean; as far as copies are few, what they bring under this seed is counted.
    """
    first_ns, last_ns = round(lead_s * 1e9), round((lead_s + length_s) * 1e9)

    def again(scale: float) -> TrafficClass:
        return cls.model_copy(update={"repeat": True, "scale": scale})

    def got(scale: float) -> float:
        made = for_class(again(scale), name=name, seed=seed, length_ns=last_ns, base_dir=base_dir)
        return int((made.frame["arrival_ns"] >= first_ns).sum()) / length_s

    one = got(1.0)
    if rate <= one:
        return again(rate / one) if rate > 0 else cls
    each = mean_rate(again(1.0), name=name, length_s=None, base_dir=base_dir)
    scale = 1.0 + (rate - one) / each
    if scale <= COPIES:
        scale = max(1.0, scale + (rate - got(scale)) / each)
    return again(scale)


def peak_frac(cls: TrafficClass, *, name: str, length_s: float | None, base_dir: Path) -> float:
    """The busiest stretch of a class over its mean: the highest hour of its shape, or the highest minute of its trace
    within the run (all copies of a profile have the same clock); 1 for a class without either.
    """
    if cls.trace is None:
        return max(day_fracs(cls), default=1.0)
    some = cls.model_copy(update={"scale": min(cls.scale, COPIES), "repeat": False})
    length_ns = None if length_s is None else round(length_s * 1e9)
    made = for_class(some, name=name, seed=RATE_SEED, length_ns=length_ns, base_dir=base_dir)
    n_minutes = made.span_ns // MINUTE_NS
    if n_minutes < 2:
        return 1.0
    minutes = (made.frame["arrival_ns"].cast(int) // MINUTE_NS).to_list()
    counts = [0] * n_minutes
    for minute in minutes:
        if minute < n_minutes:
            counts[minute] += 1
    return max(counts) * n_minutes / sum(counts)


def day_fracs(cls: TrafficClass) -> tuple[float, ...]:
    """The rate in each hour of the class's mean day over its mean rate; empty without a shape."""
    if cls.shape is None:
        return ()
    values, step_s = _shape(cls)
    n_hours = 24
    regions = [(r.share_frac, r.shift_s) for r in cls.regions.values()] or [(1.0, 0.0)]
    mean = sum(values) / len(values)
    period_s = step_s * len(values)
    days = max(1, round(period_s / DAY_S))
    hours = []
    for hour in range(n_hours):
        total = 0.0
        for share, shift_s in regions:
            for day in range(days):
                total += share * _mean_over(values, step_s, day * DAY_S + hour * 3600.0 - shift_s) / days
        hours.append(total / mean)
    return tuple(hours)


def _shape(cls: TrafficClass) -> tuple[tuple[float, ...], float]:
    from planner.traffic import demand

    assert cls.shape is not None
    if cls.shape.factors is not None:
        return cls.shape.factors, cls.shape.step_s
    assert cls.shape.demand is not None
    found = demand.load(cls.shape.demand)
    return found.rate_req_per_s, found.window_s


def _mean_over(values: tuple[float, ...], step_s: float, start_s: float) -> float:
    """Mean of the shape over the hour that begins at `start_s`, read in twelve places."""
    n = 12
    at = [int((start_s + (k + 0.5) * 3600.0 / n) // step_s) % len(values) for k in range(n)]
    return sum(values[ix] for ix in at) / n

"""The load of a class by the hour over months and years: its shape, its regions and its growth; nothing is drawn."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from planner.traffic import demand

if TYPE_CHECKING:
    from planner.scenario.schema import TrafficClass

HOUR_S = 3600.0
HOUR_NS = 3600 * 10**9
HOURS_PER_YEAR = 8760
_EXACT = Context(prec=40)


def factors(cls: TrafficClass, n_hours: int) -> list[float]:
    """The rate in each hour from the begin of the run on, over the mean rate that the class is written with.

    The shape is constant over its steps and repeats; its mean is 1. Growth is that of the middle of the hour, in
    decimal arithmetic, so that it is the same on every machine. A class without a shape is even.
    """
    shape = _by_hour(cls, n_hours)
    grown = growth(cls, n_hours)
    return [a * b for a, b in zip(shape, grown, strict=True)]


def recorded(arrivals_ns: Sequence[int], span_ns: int, n_hours: int) -> list[float]:
    """Requests per second in each hour of a trace that begins again after each span; arrivals are in order."""

    def upto(time_ns: int) -> int:
        turns, rest = divmod(time_ns, span_ns)
        return turns * len(arrivals_ns) + bisect.bisect_left(arrivals_ns, rest)

    edges = [upto(hour * HOUR_NS) for hour in range(n_hours + 1)]
    return [(after - before) / HOUR_S for before, after in pairwise(edges)]


def growth(cls: TrafficClass, n_hours: int) -> list[float]:
    """How many times its first load the class has in the middle of each hour."""
    share = cls.growth_frac_per_year
    if not share:
        return [1.0] * n_hours
    base = _EXACT.add(Decimal(1), Decimal(share))
    step = _EXACT.power(base, _EXACT.divide(Decimal(1), Decimal(HOURS_PER_YEAR)))
    here = _EXACT.power(base, _EXACT.divide(Decimal(1), Decimal(2 * HOURS_PER_YEAR)))
    found = []
    for _ in range(n_hours):
        found.append(float(here))
        here = _EXACT.multiply(here, step)
    return found


def _by_hour(cls: TrafficClass, n_hours: int) -> list[float]:
    if cls.shape is None:
        return [1.0] * n_hours
    values, step_s, start_s = _shape(cls)
    regions = [(r.share_frac, r.shift_s) for r in cls.regions.values()] or [(1.0, 0.0)]
    period_s = step_s * len(values)
    mean = sum(values) / len(values)
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value * step_s)
    n_own = round(period_s / HOUR_S) if period_s % HOUR_S == 0 else n_hours
    own = [
        sum(
            share * _area(values, sums, step_s, (start_s - shift + hour * HOUR_S) % period_s, HOUR_S)
            for share, shift in regions
        )
        / HOUR_S
        / mean
        for hour in range(min(n_own, n_hours))
    ]
    return [own[hour % len(own)] for hour in range(n_hours)]


def _area(values: Sequence[float], sums: Sequence[float], step_s: float, from_s: float, length_s: float) -> float:
    """The integral of a shape from a time inside its period on, over a length that may go beyond its end."""
    period_s = step_s * len(values)

    def upto(time_s: float) -> float:
        turns, rest = divmod(time_s, period_s)
        ix = min(int(rest // step_s), len(values) - 1)
        return turns * sums[-1] + sums[ix] + values[ix] * (rest - ix * step_s)

    return upto(from_s + length_s) - upto(from_s)


def _shape(cls: TrafficClass) -> tuple[Sequence[float], float, float]:
    assert cls.shape is not None
    if cls.shape.factors is not None:
        return cls.shape.factors, cls.shape.step_s, cls.shape.start_s
    assert cls.shape.demand is not None
    found = demand.load(cls.shape.demand)
    return found.rate_req_per_s, found.window_s, cls.shape.start_s


def in_hour(cls: TrafficClass, hour: int, *, lead_s: float) -> TrafficClass:
    """A drawn class in an hour of the horizon, from `lead_s` before it on: the same shape, the growth of that hour."""
    assert cls.rate_req_per_s is not None
    grown = growth(cls, hour + 1)[hour]
    update: dict[str, object] = {"rate_req_per_s": cls.rate_req_per_s * grown, "growth_frac_per_year": None}
    if cls.shape is not None:
        values, step_s, start_s = _shape(cls)
        begin_s = (start_s + hour * HOUR_S - lead_s) % (step_s * len(values))
        update["shape"] = cls.shape.model_copy(update={"start_s": begin_s})
    return cls.model_copy(update=update)

"""What differs by hour of the day and month of the year: PUE, price and carbon of the electricity that was drawn.

A run with `run.start` has a place in the calendar: the energy of each of its hours is weighed with that hour's price
and carbon, its time in each month with that month's PUE. A run without stands for any time: the plain means over the
24 hours and the 12 months hold. Windows are the grain: within one, power is its mean.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from planner.aggregate.inputs import NS_PER_S
from planner.aggregate.power import rack_it_w

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from planner.aggregate.inputs import Span
    from planner.aggregate.power import Book, PoolPower
    from planner.facts.fact import Fact
    from planner.fleet.fleet import Fleet, SiteLayout

HOURS, MONTHS = 24, 12
_HOUR_S = 3600.0


def pue(site: Fleet | SiteLayout, span: Span, book: Book) -> float:
    """Facility energy per IT energy over the span."""
    table = site.times.pue
    if table is None:
        return book(site.pue)
    return _weighed(table, _month_shares(site.times.start, span), book)


def usd_per_kwh(site: Fleet | SiteLayout, power: PoolPower, span: Span, book: Book) -> float:
    """Price of the electricity that a pool drew, by when it drew it."""
    table = site.times.usd_per_kwh
    if table is None:
        return book(site.electricity_usd_per_kwh)
    return _weighed(table, hour_shares(site.times.start, power, span, book), book)


def kgco2e_per_kwh(site: Fleet | SiteLayout, power: PoolPower, span: Span, book: Book) -> float:
    """Carbon of the electricity that a pool drew, by when it drew it."""
    table = site.times.kgco2e_per_kwh
    if table is None:
        return book(site.carbon_kgco2e_per_kwh)
    return _weighed(table, hour_shares(site.times.start, power, span, book), book)


def _weighed(table: tuple[Fact, ...], shares: list[float], book: Book) -> float:
    """The mean of a table's values, neighbours of one span weighed together, so that a flat table is its value."""
    weights: dict[int, float] = {}
    facts: dict[int, Fact] = {}
    for fact, share in zip(table, shares, strict=True):
        facts[id(fact)] = fact
        weights[id(fact)] = weights.get(id(fact), 0.0) + share
    whole = sum(weights.values())
    return sum(weight / whole * book(facts[key]) for key, weight in weights.items())


def hour_shares(start: datetime | None, power: PoolPower, span: Span, book: Book) -> list[float]:
    """Share of a pool's energy over the span in each hour of the local day."""
    if start is None or span.span_s <= 0:
        return [1 / HOURS] * HOURS
    import numpy as np

    edges, hours = _hour_edges(start, span)
    drawn = np.diff(_energy_j(power, span, book, edges))
    if not drawn.sum() > 0:
        drawn = np.diff(edges)
    return [float(drawn[hours == hour].sum()) for hour in range(HOURS)]


def _hour_edges(start: datetime, span: Span) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Where the span is cut at full hours, in seconds of the run, and the hour of the day of each piece."""
    import numpy as np

    begin_s, end_s = span.warmup_ns / NS_PER_S, span.length_ns / NS_PER_S
    offset_s = start.hour * _HOUR_S + start.minute * 60.0
    first = int((begin_s + offset_s) // _HOUR_S)
    last = int(-(-(end_s + offset_s) // _HOUR_S))
    inner = np.arange(first + 1, last) * _HOUR_S - offset_s
    edges = np.concatenate([[begin_s], inner, [end_s]])
    return edges, np.arange(first, first + edges.size - 1) % HOURS


def _energy_j(power: PoolPower, span: Span, book: Book, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Energy of a pool's racks from the begin of the run up to some times; parked where a window had no work."""
    import numpy as np

    parked_w = float(rack_it_w(power, None, book)[0])
    more_w = rack_it_w(power, power.windows, book) - parked_w
    starts = power.window_ix * span.window_s
    times = np.stack([starts, starts + span.window_s], axis=1).ravel()
    sums = np.repeat(np.concatenate([[0.0], np.cumsum(more_w * span.window_s)]), 2)[1:-1]
    worked = np.interp(at_s, times, sums) if times.size else np.zeros_like(at_s)
    return parked_w * at_s + worked


def _month_shares(start: datetime | None, span: Span) -> list[float]:
    """Share of the span in each month of the year."""
    shares = [0.0] * MONTHS
    if start is None or span.span_s <= 0:
        return [1 / MONTHS] * MONTHS
    here = start + timedelta(seconds=span.warmup_ns / NS_PER_S)
    end = start + timedelta(seconds=span.length_ns / NS_PER_S)
    while here < end:
        after = datetime(here.year + here.month // MONTHS, here.month % MONTHS + 1, 1)
        shares[here.month - 1] += (min(after, end) - here) / (end - start)
        here = after
    return shares

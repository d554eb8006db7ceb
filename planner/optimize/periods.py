"""The periods of a plan as spans of years, what a year in each is worth, and when racks can come."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING

from planner import units
from planner.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from planner.facts.fact import Fact
    from planner.scenario import Scenario
    from planner.scenario.schema import Pool

DAYS_PER_YEAR = 365
_EXACT = Context(prec=40)
WHOLE = "plan"
"""The name of the one period of a scenario without periods."""


@dataclass(frozen=True, slots=True)
class When:
    """One period on the plan's clock."""

    name: str
    start_years: float
    end_years: float
    """The last one ends with the horizon."""
    start: date | None
    """None where the scenario gives no dates."""


def worth_years(start_years: float, end_years: float, discount_frac: float) -> float:
    """What a dollar a year from `start` to `end` is worth at the begin of the plan, paid at the end of each year.

        worth = ((1 + r)^-start - (1 + r)^-end) / r

    So a rack's annuity over its whole life is worth its price less the discounted residual. Decimal arithmetic: it is
    the same on every machine.

    >>> worth_years(0, 2, 0.0)
    2.0
    >>> round(worth_years(0, 1, 0.25), 12), round(worth_years(1, 2, 0.25), 12)
    (0.8, 0.64)
    """
    start, end, rate = (Decimal(str(x)) for x in (start_years, end_years, discount_frac))
    if rate < Decimal("1e-12"):
        return float(end - start)
    growth = _EXACT.add(Decimal(1), rate)
    first = _EXACT.divide(Decimal(1), _EXACT.power(growth, start))
    last = _EXACT.divide(Decimal(1), _EXACT.power(growth, end))
    return float(_EXACT.divide(_EXACT.subtract(first, last), rate))


def whens(scenario: Scenario, life_years: float) -> list[When]:
    """The periods in order; the last is drawn out to the horizon.

    Raises:
        ScenarioError: they are out of order, overlap or leave a gap, or one starts after the horizon.
    """
    goal = scenario.goal
    horizon = goal.horizon_years if goal is not None else None
    if not scenario.periods:
        return [When(WHOLE, 0.0, horizon or life_years, _date(goal.order) if goal and goal.order else None)]
    faults: list[Fault] = []
    first = scenario.periods[0].start
    begin = _date(first) if first is not None else None
    found: list[When] = []
    at = 0.0
    for ix, period in enumerate(scenario.periods):
        path = f"periods[{ix}].start"
        late = _days_late(scenario, period.start, begin, at, path, faults) if period.start is not None else 0.0
        if abs(late) > 1:
            word = "leaves a gap after" if late > 0 else "begins before the end of"
            before = scenario.periods[ix - 1].name if ix else "the plan's start"
            what = f"{period.name} {word} {before}"
            faults.append(_fault(scenario, path, what, "periods stand in order, without a gap: leave start out"))
        start = None if begin is None else _date(period.start or "") or day_after(begin, at)
        found.append(When(period.name, at, at + period.length_years, start))
        at += period.length_years
    if horizon is not None and found[-1].start_years >= horizon:
        what = f"{found[-1].name} starts {found[-1].start_years:g} years into a plan of {horizon:g} years"
        faults.append(_fault(scenario, "goal.horizon", what, "lengthen the horizon or take the period away"))
    if faults:
        raise ScenarioError(*faults)
    last = found[-1]
    return [*found[:-1], When(last.name, last.start_years, horizon or last.end_years, last.start)]


def first_period(
    scenario: Scenario, name: str, pool: Pool, periods: Sequence[When], *, available: Fact | None, lead_s: Fact | None
) -> int:
    """The first period in which a bought rack of a pool can stand; as many as there are where it comes too late.

    The catalogue's date counts where periods have dates; a lead time where `goal.order` says when orders begin.
    """
    path = f"fleet.pools.{name}"
    earliest: date | None = None
    offset: float | None = None
    if pool.available_from is not None:
        faults: list[Fault] = []
        earliest = _date(pool.available_from)
        if earliest is None:
            offset = _offset_years(scenario, pool.available_from, f"{path}.available_from", faults)
        elif periods[0].start is None:
            way_out = "give the first period a date, as start: 2026-07-01, or write a time after the start (6 months)"
            faults.append(_fault(scenario, f"{path}.available_from", "the periods have no dates", way_out))
        if faults:
            raise ScenarioError(*faults)
    elif available is not None and isinstance(available.used, (str, date)):
        earliest = _date(str(available.used))
    order = _order_date(scenario, path, pool, periods)
    lead = pool.lead_time_s if pool.lead_time_s is not None else (lead_s.number if lead_s and lead_s.used else None)
    if order is not None and lead is not None:
        arrives = order + timedelta(days=-(-lead // 86_400))
        earliest = arrives if earliest is None else max(earliest, arrives)
    for ix, when in enumerate(periods):
        late = earliest is not None and when.start is not None and when.start < earliest
        if not late and (offset is None or when.start_years >= offset - 1e-9):
            return ix
    if pool.lead_time_s is not None and order is not None and pool.available_from is None:
        what = f"a lead time of {units.format(pool.lead_time_s, 'time')} passes the last period"
        raise ScenarioError(_fault(scenario, f"{path}.lead_time", what, "order earlier, or lengthen the plan"))
    return len(periods)


def _order_date(scenario: Scenario, path: str, pool: Pool, periods: Sequence[When]) -> date | None:
    """When orders begin; a lead time that is written needs it, and it needs periods with dates."""
    written = scenario.goal.order if scenario.goal is not None else None
    if pool.lead_time_s is not None and written is None:
        way_out = "say when orders begin, as goal.order: 2026-07-01, or write available_from"
        raise ScenarioError(_fault(scenario, f"{path}.lead_time", "nothing says when racks are ordered", way_out))
    if written is not None and periods[0].start is None:
        way_out = "give the first period a date, as start: 2027-01-01"
        raise ScenarioError(_fault(scenario, "goal.order", "the periods have no dates", way_out))
    return _date(written) if written is not None else None


def _fault(scenario: Scenario, path: str, what: str, way_out: str) -> Fault:
    origin = scenario.origins.get(path)
    if origin is None:
        return Fault(what, way_out, path=path)
    return Fault(what, way_out, path=path, file=origin.file, line=origin.line, col=origin.col)


def day_after(begin: date, years: float) -> date:
    """The day so much later, by the calendar as far as that is whole months; a day that a month lacks is its last.

    >>> day_after(date(2026, 7, 1), 0.5), day_after(date(2028, 1, 31), 1 / 12)
    (datetime.date(2027, 1, 1), datetime.date(2028, 2, 29))
    """
    months = round(years * 12, 6)
    whole = int(months)
    year, month = divmod(begin.year * 12 + begin.month - 1 + whole, 12)
    day = min(begin.day, monthrange(year, month + 1)[1])
    return date(year, month + 1, day) + timedelta(days=round((months - whole) * DAYS_PER_YEAR / 12))


def _days_late(scenario: Scenario, text: str, begin: date | None, at: float, path: str, faults: list[Fault]) -> float:
    """By how many days a period starts after the one before it ends, as its start is written."""
    given = _date(text)
    if given is not None and begin is not None:
        return float((given - day_after(begin, at)).days)
    if given is not None:
        faults.append(_fault(scenario, path, "the first period has no date", "give it one, or leave start out"))
        return 0.0
    years = _offset_years(scenario, text, path, faults)
    return 0.0 if years is None else (years - at) * DAYS_PER_YEAR


def _date(text: str) -> date | None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text.strip()):
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None


def _offset_years(scenario: Scenario, text: str, path: str, faults: list[Fault]) -> float | None:
    """Years after the plan's start, from a length of time."""
    try:
        return float(units.parse(text, "years"))
    except units.UnitError:
        pass
    faults.append(_fault(scenario, path, f"{text} is neither a date nor a time", "write 2027-01-01, or 6 months"))
    return None

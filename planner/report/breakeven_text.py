"""A break-even as lines of text."""

from __future__ import annotations

from planner import units
from planner.report.text import figure, percent
from planner.study.breakeven import BreakEven, Crossing
from planner.study.plans import Plan
from planner.study.spread import LEVEL_FRAC
from planner.words import plain, table

_POINTS = 9
"""Points of the curve that are listed; JSON and the figure have all."""


def report(found: BreakEven) -> str:
    """The answer for the whole and each class, whether both plans hold their limits, and the curve of the whole."""
    base, other = found.base, found.other
    head = f"{plain(found.vary.path)} at which {plain(base.name)} costs as much per token as {plain(other.name)}"
    lines = [head]
    if found.given is not None:
        lines.append(f"  the scenario has {_value(found, found.given)}")
    lines += [f"  {_in_words(found, each)}" for each in found.crossings]
    lines += _slo(found)
    if found.infeasible:
        lines.append(f"  {found.infeasible} of {found.samples} samples have chips that do not hold the replicas")
    if found.is_simulated:
        lines.append("  every value was simulated; an interval over uncertain facts is made for prices only")
    return "\n".join([*lines, *_curve(found)])


def _in_words(found: BreakEven, each: Crossing) -> str:
    name = plain(each.figure)
    if not each.values:
        if each.winner is None:
            return f"{name}: no break-even, since {_why(found, each)}"
        text = f"no break-even in the range: {plain(each.winner)} is cheaper from {_value(found, found.low)} to "
        return f"{name}: {text}{_value(found, found.high)}{_samples(found, each)}"
    values = " and ".join(_value(found, value) for value in each.values)
    below = f", {plain(each.cheaper_below)} cheaper below" if each.cheaper_below and len(each.values) == 1 else ""
    return f"{name}: {values}{below}{_samples(found, each)}"


def _why(found: BreakEven, each: Crossing) -> str:
    """Why neither plan wins."""
    is_missing = any(row["usd_per_mtok"] is None for row in found.curve if row["figure"] == each.figure)
    return "a plan has no such figure" if is_missing else "both plans cost the same everywhere"


def _samples(found: BreakEven, each: Crossing) -> str:
    if not each.n and not each.n_without:
        return ""
    parts = []
    if each.low is not None and each.high is not None:
        inside = percent(LEVEL_FRAC)
        parts.append(f"{inside} of {each.n} samples: {_value(found, each.low)} to {_value(found, each.high)}")
    parts += [f"in {n} of {found.samples} {plain(plan)} is cheaper throughout" for plan, n in each.n_without.items()]
    return f" ({'; '.join(parts)})"


def _slo(found: BreakEven) -> list[str]:
    if found.is_equal_slo:
        return ["  both plans hold their limits"]
    return [
        f"  NOT at equal service: {plain(plan.name)} {_misses(plan)}"
        for plan in (found.base, found.other)
        if plan.verdict not in {"met", None}
    ]


def _misses(plan: Plan) -> str:
    return f"misses {plain(', '.join(plan.missed))}" if plan.missed else "was offered nothing"


def _curve(found: BreakEven) -> list[str]:
    """Both plans' cost of a token over the range."""
    whole = [row for row in found.curve if row["figure"] == found.crossings[0].figure]
    plans = [found.base.name, found.other.name]
    values = list(dict.fromkeys(row["value"] for row in whole))
    step = max(1, (len(values) - 1) // (_POINTS - 1))
    usd = {(row["plan"], row["value"]): row["usd_per_mtok"] for row in whole}
    rows = [[found.vary.path, *(f"{name}, USD/Mtok" for name in plans)]]
    rows += [[_value(found, x), *(figure(usd[name, x]) for name in plans)] for x in values[::step]]
    return ["", *table(rows, left=())]


def _value(found: BreakEven, value: float) -> str:
    return units.format(value, found.vary.kind)

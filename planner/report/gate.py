"""Rules that a figure has to hold, for pipelines: `usd_per_mtok_out <= +2 %`, `classes.chat.limits.ttft.p95 < 500 ms`.

    RULE   := FIGURE OPERATOR LIMIT  |  verdict == met
    FIGURE := a path (`cost.usd_per_h`) or the end of one: the whole fleet's, else that of every class or pool
    OPERATOR := <= | < | >= | >
    LIMIT  := a signed percentage of the base (`+2 %`, `-5 %`), `base`, or a quantity with its unit (`0.7 USD/Mtok`)

The values themselves are compared, not the ends of intervals: a rule with room for noise says so in its limit. A figure
that is missing on either side breaks its rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner import units
from planner.aggregate.leaves import Leaf, leaves, matching, near_names, shown
from planner.aggregate.metrics import Metric, require_same_basis
from planner.errors import Fault, ScenarioError

__all__ = ["Check", "Rule", "check", "rules"]

_RULE = re.compile(r"(?P<figure>.+?)\s*(?P<operator><=|>=|==|=|<|>)\s*(?P<limit>.+)", re.DOTALL)
_SHARE = re.compile(r"[+-]\s*\d+(\.\d+)?\s*%", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_KINDS = {
    "s": "time",
    "W": "power",
    "USD": "money",
    "USD/Mtok": "usd_per_mtok",
    "kgCO2e": "mass_co2",
    "tok/s": "tokens_per_s",
}
_VERDICT = "verdict"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, read."""

    text: str
    figure: str
    operator: str
    frac: float | None = None
    """The limit as a share of the base: 1.02 for +2 %."""
    value: float | None = None
    """The limit itself, in the figure's unit."""


@dataclass(frozen=True, slots=True)
class Check:
    """A rule tried on one figure."""

    rule: str
    path: str
    base: float | str | None
    value: float | str | None
    limit: float | str | None
    is_held: bool
    shown: str
    """The figure and its limit in words."""

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "rule": self.rule,
            "path": self.path,
            "base": self.base,
            "value": self.value,
            "limit": self.limit,
            "is_held": self.is_held,
        }


def rules(texts: Sequence[str], tree: Mapping[str, Any]) -> list[Rule]:
    """The rules read, for figures that `tree` has.

    Raises:
        ScenarioError: with every fault of every rule.
    """
    known = leaves(tree)
    found: list[Rule] = []
    faults: list[Fault] = []
    for text in texts:
        try:
            found.append(_read(text, known))
        except ScenarioError as error:
            faults += [Fault(fault.what, fault.way_out, path=f"--gate '{text[:80]}'") for fault in error.faults]
    if faults:
        raise ScenarioError(*faults)
    return found


def _read(text: str, known: Mapping[str, Leaf]) -> Rule:
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ScenarioError(Fault("is no rule", "write such as 'usd_per_mtok_out <= +2 %'"))
    figure, operator, limit = (match[part].strip() for part in ("figure", "operator", "limit"))
    if figure == _VERDICT:
        if (operator, limit) != ("==", "met"):
            raise ScenarioError(Fault("a verdict is only met or not", "write 'verdict == met'"))
        return Rule(text, figure, operator)
    if operator in {"==", "="}:
        raise ScenarioError(Fault("figures are hardly ever equal", "write <= or >="))
    leaves_meant = matching(figure, known)
    if not leaves_meant:
        raise ScenarioError(Fault(f"no figure '{figure[:80]}'{near_names(figure[:80], known)}"))
    metric = leaves_meant[0].metric
    if limit == "base":
        return Rule(text, figure, operator, frac=1.0)
    if _SHARE.fullmatch(limit):
        return Rule(text, figure, operator, frac=1 + float(limit.replace(" ", "").rstrip("%")) / 100)
    other = matching(limit, known)
    if other:
        require_same_basis(metric.path, other[0].metric.path)
        raise ScenarioError(Fault("a figure is compared with itself in the base", "write base, or +0 %"))
    return Rule(text, figure, operator, value=_value(limit, metric))


def _value(limit: str, metric: Metric) -> float:
    """A limit in the unit of its figure. Raises `ScenarioError` for another unit."""
    kind = "frac" if metric.unit == "1" and metric.name.endswith("_frac") else _KINDS.get(metric.unit)
    try:
        if kind is not None:
            return units.parse(limit, kind)
    except units.UnitError as error:
        raise ScenarioError(Fault(error.what, error.way_out)) from None
    unit = "" if metric.unit == "1" else metric.unit
    number = limit.removesuffix(unit).strip() if unit else limit
    if not _NUMBER.fullmatch(number) or (unit and number == limit):
        example = f"0.7 {unit}" if unit else "12"
        raise ScenarioError(Fault(f"'{limit[:40]}' is no limit for {metric.name}", f"write +2 %, base, or {example}"))
    return float(number)


def check(found: Sequence[Rule], base: Mapping[str, Any], other: Mapping[str, Any]) -> list[Check]:
    """Every rule tried on every figure that it means, in the order of the rules."""
    checks = []
    known = leaves(base) | leaves(other)
    for rule in found:
        if rule.figure == _VERDICT:
            verdict, before = other["verdict"], base["verdict"]
            is_held = verdict == "met"
            checks.append(Check(rule.text, _VERDICT, before, verdict, "met", is_held, f"verdict is {verdict}"))
            continue
        for leaf in matching(rule.figure, known):
            checks.append(_try(rule, leaf, leaf.of(base), leaf.of(other)))
    return checks


def _try(rule: Rule, leaf: Leaf, base: float | None, value: float | None) -> Check:
    limit = rule.value
    if rule.frac is not None:
        limit = None if base is None else base * rule.frac
    is_held = value is not None and limit is not None and _holds(rule.operator, value, limit)
    words = f"{leaf.path} is {shown(value, leaf.metric)}, limit {rule.operator} {shown(limit, leaf.metric)}"
    return Check(rule.text, leaf.path, base, value, limit, is_held, words)


def _holds(operator: str, value: float, limit: float) -> bool:
    match operator:
        case "<=":
            return value <= limit
        case "<":
            return value < limit
        case ">=":
            return value >= limit
    return value > limit

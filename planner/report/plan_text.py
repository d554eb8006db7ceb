"""A plan as text: what to buy when, where each class runs, what it costs, how sure that is, and what binds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner import units

if TYPE_CHECKING:
    from planner.aggregate.result import Result


def plan_report(result: Result) -> str:
    """The lines of `planner optimize`."""
    plan = result.plan
    assert plan is not None
    tree = result.variants[plan["shown"]]
    lines = [f"{tree['title']}", *_answer(plan)]
    lines += _periods(plan)
    lines += _limits(tree, plan["shown"])
    lines += _fixed(plan)
    lines += _binding(plan)
    under = plan.get("uncertainty")
    if under and under["regret"]:
        mean, worth = _money(under["expected_usd"]), _money(under["perfect_information_usd"])
        none = f"{under['impossible_frac'] * 100:.0f} % of {under['samples']} samples cannot be served"
        lines.append(f"  uncertain facts: {under['chosen']} costs {mean} in the mean; knowing is worth {worth}; {none}")
    for up in plan.get("runner_ups", []):
        racks = ", ".join(f"{n} {name}" for name, n in up["racks"].items())
        lines.append(f"runner-up: {racks} costs {_money(up['more'])} more ({up['more_frac'] * 100:.2f} %)")
    return "\n".join(lines)


def _money(usd: float) -> str:
    return units.format(usd, "money")


def _answer(plan: Mapping[str, Any]) -> list[str]:
    proof = "verified by simulation" if plan["verified"] else "NOT verified: a limit is missed in the simulation"
    stopped = ", search stopped early" if plan["stopped"] else ""
    tried = f"{plan['simulated']} plans simulated, {plan['cheaper_tried']} of them cheaper than the surfaces allow"
    if plan["cheaper_left"]:
        tried += "; cheaper ones may be left (goal.tries)"
    cost = f"{_money(plan['tco_usd'])} discounted over {plan['horizon_years']:g} years"
    return [
        f"{cost}, {_money(plan['capex_usd'])} of cash at order: {proof}",
        f"{gap(plan)}{stopped}; {tried}",
    ]


def gap(plan: Mapping[str, Any]) -> str:
    """How far the plan is proven."""
    if plan["gap_frac"] is None:
        return "how much better a plan could be by the surfaces the search had no time to say"
    return f"no plan can be more than {plan['gap_frac'] * 100:.2g} % better by the surfaces"


def _periods(plan: Mapping[str, Any]) -> list[str]:
    lines = []
    for period in plan["periods"]:
        buys = ", ".join(f"{n} {name}" for name, n in period["buy"].items() if n) or "nothing"
        start = period["start"] or f"year {period['start_years']:g}"
        power = period["power_w"]
        lines.append(
            f"  {period['name']} ({start}, {period['years']:g} yr): buy {buys}; "
            f"{_money(period['usd_per_year'])} a year, "
            f"{units.format(power['mean'], 'power')} mean of {units.format(power['provisioned'], 'power')} provisioned"
        )
        for own, pool in period["carved"].items():
            per_rack = ", ".join(f"{n} x {what}" for what, n in pool["per_rack"].items()) or "nothing that is used"
            lines.append(f"    {own}: {pool['racks']} rack{'s' * (pool['racks'] != 1)} of {per_rack}")
        for name, route in period["routes"].items():
            where = ", ".join(pool if share is None else f"{pool} {share * 100:.4g} %" for pool, share in route.items())
            lines.append(f"    {name}: {where}")
    return lines


def _limits(tree: Mapping[str, Any], shown: str) -> list[str]:
    lines = [f"  {shown}, the dearest to meet:"]
    for name, figures in tree["classes"].items():
        for limit in figures["limits"]:
            word = "met" if limit["met"] else "MISSED"
            value = units.format(limit["value"], "time")
            asked = units.format(limit["limit"], "time")
            lines.append(f"    {name} {limit['metric']} {limit['quantile']}: {value} of {asked}, {word}")
    for check in tree.get("checks") or []:
        lines.append(f"    with {check['label']}: {'met' if check['verdict'] == 'met' else 'MISSED'}")
    assumed = tree["evidence"]["assumed_frac"]
    if assumed is not None:
        lines.append(f"    {assumed * 100:.0f} % of its cost's swing is from assumed facts")
    return lines


def _fixed(plan: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, usd in plan.get("fixed_fleets", {}).items():
        reason = plan["fixed_reasons"].get(name)
        if usd is None:
            lines.append(f"  {name}: none ({reason})")
            continue
        racks = fixed_racks(plan, name)
        more = usd - plan["tco_usd"]
        word = reason or f"{_money(abs(more))} {'more' if more >= 0 else 'less'}"
        lines.append(f"  {name}: {_money(usd)} ({racks}), {word}")
    return lines


def fixed_racks(plan: Mapping[str, Any], name: str) -> str:
    """What a fixed fleet has, and where that is more than the scenario allows."""
    lifted = plan.get("fixed_lifted", {}).get(name, {})  # plans of before it was kept have none
    return ", ".join(
        f"{n} {pool}" + (f" where {lifted[pool]} are allowed" if pool in lifted else "")
        for pool, n in plan["fixed_racks"][name].items()
    )


def _binding(plan: Mapping[str, Any]) -> list[str]:
    lines = []
    for one in plan.get("binding", []):
        more = "-" if one["one_more"] is None else _signed(one["one_more"])
        less = "no plan" if one["one_less"] is None else _signed(one["one_less"])
        dual = one["lp_dual_per_unit"]
        beside = "" if dual is None else f" (racks in parts: {_signed(dual)})"
        lines.append(f"  {one['limit']}: {one['unit']} more {more}, less {less}{beside}")
    return lines


def _signed(usd: float) -> str:
    return f"{'+' if usd > 0 else '-' if usd < 0 else ''}{_money(abs(usd))}"

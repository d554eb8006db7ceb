"""Fleets that somebody might buy without a search: one kind of rack alone, and what a greedy by cost per token buys.

Each is proved as the plan is, under the same limits. A pool alone may have as many racks as it takes: `max` is lifted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.optimize.build import Question
from planner.optimize.carve import TYPICAL, scenario_of
from planner.optimize.instance import HOURS_PER_YEAR, Decision, Instance, rates
from planner.optimize.linear import Stop
from planner.optimize.program import solve
from planner.optimize.verify import Proof, Proved, prove

GREEDY = "greedy"
MOST_RACKS = 2000
_ROUNDS, _TRIES = 6, 1


@dataclass(frozen=True, slots=True)
class Alone:
    """What a fixed fleet costs, or why there is none."""

    tco_usd: float | None
    racks: dict[str, int]
    reason: str = ""


def fixed_fleets(asked: Question, proved: Proved, proof: Proof, stop: Stop, plan_usd: float) -> dict[str, Any]:
    """`fixed_fleets`: the TCO of each, or None; `fixed_reasons` why; `fixed_racks` what they buy in the last period."""
    assert proved.decision is not None
    names = [f"all_{name}" for name in asked.pools if _is_buyable(asked, name)]
    found: dict[str, Alone] = {}
    for name in names:
        proof.note(f"fixed fleet {name}")
        found[name] = _priced(_alone(asked, name.removeprefix("all_")), proved, proof, stop, plan_usd)
    proof.note("fixed fleet greedy")
    found[GREEDY] = _priced(_greedy(asked), proved, proof, stop, plan_usd)
    return {
        "fixed_fleets": {name: one.tco_usd for name, one in found.items()},
        "fixed_racks": {name: one.racks for name, one in found.items()},
        "fixed_reasons": {name: one.reason for name, one in found.items() if one.reason},
    }


def _is_buyable(asked: Question, name: str) -> bool:
    pool = asked.scenario.fleet.pools[name]
    return pool.count_range is not None and any(entry.role != "prefill" for entry in pool.deploy)


def _alone(asked: Question, name: str) -> Question | str:
    """Only racks of one pool, as many as it takes; or why that cannot be."""
    instance = asked.instance
    kinds = tuple(
        replace(kind, most=MOST_RACKS, least=max(kind.existing, default=0))
        if pool == name
        else replace(kind, most=max(kind.existing, default=0), least=0)
        for kind, pool in zip(instance.kinds, asked.pools, strict=True)
    )
    own = asked.pools.index(name)
    served = {way.cls for way in instance.ways if all(k == own for k, _, _ in way.takes)}
    missing = [cls for cls in instance.classes if cls not in served]
    if missing and not any(kind.most for pool, kind in zip(asked.pools, kinds, strict=True) if pool != name):
        return f"{' and '.join(missing)} holds its limits there at no load"
    return replace(asked, instance=replace(instance, kinds=kinds, vendors=()))


def _greedy(asked: Question) -> Question | str:
    """Each class on the way that costs least per request in the last period, racks bought as they are needed."""
    instance = asked.instance
    last = len(instance.spans) - 1
    cost = rates(instance, "tco")
    best: dict[str, int] = {}
    for name in instance.classes:
        own = [w for w, way in enumerate(instance.ways) if way.cls == name]
        best[name] = min(own, key=lambda w: (_usd_per_request(instance, w, last, cost.standing, cost.share), w))
    kept = tuple(way for w, way in enumerate(instance.ways) if w in best.values())
    uses = tuple(use for w, use in enumerate(asked.uses) if w in best.values())
    return replace(asked, instance=replace(instance, ways=kept), uses=uses)


def _usd_per_request(
    instance: Instance, w: int, t: int, standing: Sequence[Sequence[float]], share: Sequence[Sequence[float]]
) -> float:
    way = instance.ways[w]
    racks = 0.0
    for k, o, need in way.takes:
        kind = instance.kinds[k]
        option = kind.options[o]
        chips = option.chips * option.per_rack if option.per_rack else sum(kind.domains)
        per_rack = option.per_rack or chips // option.chips
        racks += need * standing[k][t] / per_rack
    return racks + share[w][t] / instance.spans[t].peak_req_per_s[way.cls]


def _priced(asked: Question | str, plan: Proved, proof: Proof, stop: Stop, plan_usd: float) -> Alone:
    if isinstance(asked, str):
        return Alone(None, {}, asked)
    own = Proof(asked, proof.simulate, proof.known, note=proof.note)
    if _is_the_plan(asked, plan):
        assert plan.decision is not None
        return Alone(plan_usd, _racks(asked, plan.decision), "the plan itself")
    first = solve(asked.instance, stop)
    if first.decision is None:
        return Alone(None, {}, _why_not(asked, stop))
    found = prove(asked, own, stop, rounds=_ROUNDS, tries=_TRIES)
    proof.n_simulated += own.n_simulated
    if found.decision is None or not found.is_verified:
        missed = " and ".join(dict.fromkeys(miss.cls for miss in found.misses)) or "some class"
        return Alone(None, {}, f"{missed} misses a limit in the simulation of every fleet tried")
    return Alone(tco(asked, found.decision, proof), _racks(asked, found.decision))


def _is_the_plan(asked: Question, plan: Proved) -> bool:
    """Whether the plan is such a fleet already: then it is the cheapest of them."""
    decision = plan.decision
    if decision is None:
        return False
    spans = range(len(asked.instance.spans))
    names = {way.name for way in asked.instance.ways}
    used = {
        way.name
        for way, shares in zip(plan.question.instance.ways, decision.shares, strict=True)
        if any(share > 0 for share in shares)
    }
    return used <= names and all(
        decision.racks(asked.instance, k, t) <= kind.most for k, kind in enumerate(asked.instance.kinds) for t in spans
    )


def tco(asked: Question, decision: Decision, proof: Proof) -> float:
    """Discounted cost of a decision, by the simulation of its typical days."""
    spans = asked.instance.spans
    result = proof.simulate([scenario_of(asked, decision, t, TYPICAL) for t, _ in enumerate(spans)])
    return math.fsum(
        result.variants[f"{span.name}.{TYPICAL}"]["cost"]["usd_per_h"] * HOURS_PER_YEAR * span.discounted_years
        for span in spans
    )


def _racks(asked: Question, decision: Decision) -> dict[str, int]:
    last = len(asked.instance.spans) - 1
    return {name: n for k, name in enumerate(asked.pools) if (n := decision.racks(asked.instance, k, last))}


def _why_not(asked: Question, stop: Stop) -> str:
    """Which limit alone stands in the way."""
    instance = asked.instance
    freer = {
        "the power limit": replace(instance, places=tuple(replace(p, power_w=None) for p in instance.places)),
        "the space": replace(instance, places=tuple(replace(p, racks=None) for p in instance.places)),
        "the budget": replace(
            instance, budget_usd=None, spans=tuple(replace(s, budget_usd=None) for s in instance.spans)
        ),
        "the deliveries": replace(
            instance, kinds=tuple(replace(k, first_span=0, most_bought=()) for k in instance.kinds)
        ),
        "the carbon limit": replace(instance, carbon_kgco2e=None),
        "the link": replace(instance, links=()),
    }
    ways = [name for name, one in freer.items() if solve(one, stop).decision is not None]
    return f"{' or '.join(ways)} does not allow it" if ways else "several limits together do not allow it"

"""Fleets that somebody might buy without a search: one kind of rack alone, and what a greedy by cost per token buys.

Each is proved as the plan is, under the same limits. A pool alone may have as many racks as it takes: `max` is lifted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.optimize.build import Question
from planner.optimize.carve import TYPICAL, scenario_of
from planner.optimize.instance import HOURS_PER_YEAR, Decision, Instance, Way, rates, total
from planner.optimize.linear import Stop
from planner.optimize.search import solve
from planner.optimize.verify import Proof, Proved, prove

GREEDY = "greedy"
THE_PLAN = "the plan itself"
MOST_RACKS = 2000


@dataclass(frozen=True, slots=True)
class Search:
    """How far a plan is searched: the same for every fleet."""

    rounds: int
    tries: int


@dataclass(frozen=True, slots=True)
class Alone:
    """What a fixed fleet costs, or why there is none."""

    tco_usd: float | None
    racks: dict[str, int]
    reason: str = ""
    lifted: dict[str, int] = field(default_factory=dict)
    """Pools of which it has more racks than the scenario allows, and how many that allows."""
    proved: Proved | None = None


def fixed_fleets(
    asked: Question, proved: Proved, proof: Proof, stop: Stop, search: Search, plan_usd: float
) -> dict[str, Alone]:
    """Every fixed fleet, proved as hard as the plan was: in as many rounds, with as many cheaper ones tried."""
    assert proved.decision is not None
    names = [f"all_{name}" for name in asked.pools if _is_buyable(asked, name)]
    found: dict[str, Alone] = {}
    for name in names:
        proof.note(f"fixed fleet {name}")
        found[name] = _priced(_alone(asked, name.removeprefix("all_")), asked, proved, proof, stop, search, plan_usd)
    proof.note("fixed fleet greedy")
    found[GREEDY] = _priced(_greedy(asked), asked, proved, proof, stop, search, plan_usd)
    return found


def told(found: Mapping[str, Alone]) -> dict[str, Any]:
    """`fixed_fleets`: the TCO of each, or None; `fixed_reasons` why; `fixed_racks` what they buy in the last period;
    `fixed_lifted` where one has more racks than the scenario allows.
    """
    return {
        "fixed_fleets": {name: one.tco_usd for name, one in found.items()},
        "fixed_racks": {name: one.racks for name, one in found.items()},
        "fixed_reasons": {name: one.reason for name, one in found.items() if one.reason},
        "fixed_lifted": {name: one.lifted for name, one in found.items() if one.lifted},
    }


def cheaper(
    asked: Question, plan: Proved, plan_usd: float, found: Mapping[str, Alone]
) -> tuple[Proved, dict[str, Alone]] | None:
    """The cheapest fixed fleet that the scenario allows, where cost is the goal and it is below the plan's: then it is
    the plan.

    The search for the plan may have given up a fleet for a miss on the way, which the narrower search never met.
    """
    if asked.instance.goal.keys() != {"tco"}:
        return None
    allowed = {name: one for name, one in found.items() if one.tco_usd is not None and _is_allowed(asked, one.proved)}
    name = min(allowed, key=lambda name: allowed[name].tco_usd or 0.0, default="")
    best = allowed.get(name)
    if best is None or best.proved is None or best.tco_usd is None or best.tco_usd >= plan_usd:
        return None
    theirs = best.proved
    assert theirs.decision is not None
    assert theirs.solved.decision is not None
    own, known = (_in_ways(asked, theirs.question, one) for one in (theirs.decision, theirs.solved.decision))
    bound = min(plan.solved.bound, total(asked.instance, known))
    word = "stopped" if plan.solved.status in {"stopped", "none"} else theirs.solved.status
    solved = replace(theirs.solved, status=word, decision=known, bound=bound)
    others = {n: replace(one, reason="") if one.reason == THE_PLAN else one for n, one in found.items()}
    made = replace(plan, solved=solved, decision=own, is_verified=True, misses=())
    return made, others | {name: replace(best, reason=THE_PLAN)}


def _in_ways(asked: Question, theirs: Question, decision: Decision) -> Decision:
    """A decision among some of the ways as one among all of them."""
    shares = {way_key(way): row for way, row in zip(theirs.instance.ways, decision.shares, strict=True)}
    nothing = (0.0,) * len(asked.instance.spans)
    return replace(decision, shares=tuple(shares.get(way_key(way), nothing) for way in asked.instance.ways))


def way_key(way: Way) -> tuple[str, tuple[tuple[int, int], ...]]:
    """What a way is, however much it takes."""
    return way.cls, tuple((k, o) for k, o, _ in way.takes)


def _is_allowed(asked: Question, proved: Proved | None) -> bool:
    """Whether the scenario allows a fixed fleet's racks: what bounds them is lifted where one is searched for."""
    if proved is None or proved.decision is None:
        return False
    instance, decision = asked.instance, proved.decision
    for t, _ in enumerate(instance.spans):
        stands = [decision.racks(instance, k, t) for k, _ in enumerate(instance.kinds)]
        if not all(kind.least <= n <= kind.most for kind, n in zip(instance.kinds, stands, strict=True)):
            return False
        worth = [n * kind.capex_usd for n, kind in zip(stands, instance.kinds, strict=True)]
        for share in instance.vendors:
            own = math.fsum(w for w, kind in zip(worth, instance.kinds, strict=True) if kind.vendor == share.vendor)
            whole = math.fsum(worth)
            if not share.least_frac * whole - 1e-6 <= own <= share.most_frac * whole + 1e-6:
                return False
    return True


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
        routes = asked.scenario.fleet.routes
        away = [cls for cls in missing if cls in routes and name not in routes[cls]]
        if away:
            return f"{' and '.join(away)} is not sent there by fleet.routes"
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


def _priced(
    alone: Question | str, asked: Question, plan: Proved, proof: Proof, stop: Stop, search: Search, plan_usd: float
) -> Alone:
    if isinstance(alone, str):
        return Alone(None, {}, alone)
    own = Proof(alone, proof.simulate, proof.known, note=proof.note, memory=proof.memory)
    if _is_the_plan(alone, plan):
        assert plan.decision is not None
        return Alone(plan_usd, _racks(alone, plan.decision), THE_PLAN)
    first = proof.memory.solve(alone.instance, stop)
    if first.decision is None:
        return Alone(None, {}, _why_not(alone, stop))
    found = prove(alone, own, stop, rounds=search.rounds, tries=search.tries)
    proof.n_simulated += own.n_simulated
    if found.decision is None or not found.is_verified:
        missed = " and ".join(dict.fromkeys(miss.cls for miss in found.misses)) or "some class"
        return Alone(None, {}, f"{missed} misses a limit in the simulation of every fleet tried")
    usd = tco(alone, found.decision, proof)
    return Alone(usd, _racks(alone, found.decision), lifted=_lifted(asked, found.decision), proved=found)


def _lifted(asked: Question, decision: Decision) -> dict[str, int]:
    """Pools that have more racks than the scenario allows in some span, each with what it allows."""
    spans = range(len(asked.instance.spans))
    return {
        name: kind.most
        for k, (name, kind) in enumerate(zip(asked.pools, asked.instance.kinds, strict=True))
        if any(decision.racks(asked.instance, k, t) > kind.most for t in spans)
    }


def _is_the_plan(asked: Question, plan: Proved) -> bool:
    """Whether the plan is such a fleet already: then it is the cheapest of them."""
    decision = plan.decision
    if decision is None or not plan.is_verified:
        return False
    spans = range(len(asked.instance.spans))
    known = {way_key(way) for way in asked.instance.ways}
    used = {
        way_key(way)
        for way, shares in zip(plan.question.instance.ways, decision.shares, strict=True)
        if any(share > 0 for share in shares)
    }
    return used <= known and all(
        decision.racks(asked.instance, k, t) <= kind.most for k, kind in enumerate(asked.instance.kinds) for t in spans
    )


def tco(asked: Question, decision: Decision, proof: Proof) -> float:
    """Discounted cost of a decision, by the simulation of its typical days."""
    spans = asked.instance.spans
    scenarios = [scenario_of(asked, decision, t, TYPICAL) for t, _ in enumerate(spans)]

    def simulated() -> list[float]:
        result = proof.simulate(scenarios)
        return [result.variants[f"{span.name}.{TYPICAL}"]["cost"]["usd_per_h"] for span in spans]

    usd_per_h = proof.memory.of(f"usd_per_h {' '.join(one.digest() for one in scenarios)}", simulated)
    return math.fsum(usd * HOURS_PER_YEAR * span.discounted_years for usd, span in zip(usd_per_h, spans, strict=True))


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
    return f"not within {' or '.join(ways)}" if ways else "not within several limits together"

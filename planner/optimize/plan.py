"""`optimize`: the racks to buy and where each class runs, proved by simulation, as a Result with a plan.

The result's variants are each period's peak and typical day; its plan says what is bought when, what it costs, how sure
that is, what binds, and what fixed fleets would cost. Every figure of the plan is made of the counts and shares by our
own code: money and power by the simulations of the typical days, the solver's own objective is only compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, Infeasible, ScenarioError
from planner.optimize.build import Question, question
from planner.optimize.carve import PEAK, TYPICAL, scenario_of, sub_pools
from planner.optimize.fixed import Search, cheaper, fixed_fleets, told
from planner.optimize.instance import HOURS_PER_YEAR, Decision, parts, total
from planner.optimize.linear import Stop
from planner.optimize.memory import Memory, Notes
from planner.optimize.menu import written_out
from planner.optimize.reading import loads
from planner.optimize.uncertain import Risk, uncertainty
from planner.optimize.verify import Proof, Proved, Run, prove, simulated
from planner.optimize.why import relaxations, why
from planner.scenario import refuse_unsupported
from planner.study.run import run

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.scenario import Scenario

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done beside the plan itself."""

    has_fixed_fleets: bool = True
    has_reasons: bool = True


class NoPlan(Infeasible):
    """No fleet meets the scenario; it says what would have to give, and by how much."""

    code = "no_plan"

    def __init__(self, *faults: Fault, relaxations: list[Tree]) -> None:
        super().__init__(*faults)
        self.relaxations = relaxations


def optimize(
    scenario: Scenario,
    *,
    workers: int | None = None,
    simulate: Run | None = None,
    folder: Path | None = None,
    effort: Effort | None = None,
    notes: Notes | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Result:
    """The cheapest fleet that holds the limits of `scenario` in every period, with the proof.

    `simulate` runs scenarios (default: `study.run.run` on `workers` threads); `folder` keeps response surfaces, `notes`
    what an interrupted search found: verdicts, costs, solved programs. The same with and without.

    Raises:
        ScenarioError, FactError, TrafficError: the input is wrong; each names all its faults.
        Infeasible: a class cannot be served at any load.
        NoPlan: no fleet meets every limit; its `relaxations` say which smallest changes would do, and what they buy.
    """
    refuse_unsupported(scenario, "optimize")
    effort = effort or Effort()
    simulate = simulate or (lambda scenarios: run(scenarios, workers=workers))
    goal = scenario.goal
    if goal is None:
        what, way_out = "the scenario has no goal", "say what to minimise, as goal: {minimise: tco, horizon: 4 yr}"
        raise ScenarioError(Fault(what, way_out, path="goal", file=str(scenario.tree.origin.file)))
    asked = question(
        written_out(scenario),
        folder=folder,
        workers=workers,
        progress=lambda done, n: note(f"sampling response surfaces: {done} of {n}"),
    )
    stop = Stop(goal.gap_frac, goal.nodes, goal.time_limit_s)
    memory = Memory(notes)
    proof = Proof(asked, simulate, note=note, memory=memory)
    proved = prove(asked, proof, stop, rounds=goal.rounds, tries=goal.tries)
    if proved.decision is None:
        raise _no_plan(asked, proved, stop, proof)
    note("simulating the plan")
    result = simulated(asked, proved.decision, simulate)
    plan = _plan(asked, proved, result, proof)
    if effort.has_fixed_fleets:
        search = Search(goal.rounds, goal.tries)
        fleets = fixed_fleets(asked, proved, proof, stop, search, plan["tco_usd"])
        better = cheaper(asked, proved, plan["tco_usd"], fleets)
        if better is not None:
            note("simulating the fixed fleet that is cheaper")
            proved, fleets = better
            assert proved.decision is not None
            result = simulated(asked, proved.decision, simulate)
            plan = _plan(asked, proved, result, proof) | {"simulated": plan["simulated"]}
        plan |= told(fleets)
    if effort.has_reasons:
        note("weighing limits")
        plan |= memory.of("why", lambda: why(asked, proved, stop, memory))
    if goal.samples is not None:
        note("weighing uncertain facts")
        n, risk = goal.samples, Risk(goal.cvar_frac, goal.risk_frac)
        plan["uncertainty"] = memory.of("uncertainty", lambda: uncertainty(asked, proved, stop, n=n, risk=risk))
    return replace(result, plan=plan)


def _no_plan(asked: Question, proved: Proved, stop: Stop, proof: Proof) -> Infeasible:
    if proved.solved.status == "none":
        way_out = "raise goal.time_limit" if proved.solved.is_timed_out else "raise goal.nodes"
        return Infeasible(Fault("the search ended before it found any plan", way_out, path="goal"))
    found = relaxations(proved.question, stop)  # with what misses tightened
    if proved.rounds > 1:
        what = f"every plan that the surfaces allow misses a limit in the simulation ({proof.n_simulated} simulated)"
    else:
        what = "no fleet meets every limit"
    ways = "; or ".join(f"{each['what']}, which buys {each['buys']}" for each in found if each["buys"])
    return NoPlan(Fault(what, ways or "widen the limits, power, budget or dates", path="goal"), relaxations=found)


def _plan(asked: Question, proved: Proved, result: Result, proof: Proof) -> Tree:
    """What is bought and what it comes to."""
    instance, decision = asked.instance, proved.decision
    assert decision is not None
    periods = [_period(asked, decision, result, t) for t, _ in enumerate(instance.spans)]
    assert proved.solved.decision is not None
    predicted = total(instance, proved.solved.decision)
    spans = instance.spans
    trees = [result.variants[f"{span.name}.{TYPICAL}"] for span in spans]
    shown = min((f"{span.name}.{PEAK}" for span in spans), key=lambda name: _margin(result.variants[name]))
    met = all(result.variants[f"{span.name}.{PEAK}"]["verdict"] in ("met", None) for span in spans)
    bound = proved.solved.bound if isfinite(proved.solved.bound) else None  # a search that had no time for one
    return {
        "goal": dict(instance.goal),
        "then": instance.then,
        "horizon_years": spans[-1].end_years,
        "shown": shown,
        "verified": bool(proved.is_verified and met),
        "status": proved.solved.status,
        "stopped": proved.solved.status == "stopped",
        "tco_usd": sum(period["tco_usd"] for period in periods),
        "capex_usd": sum(period["capex_usd"] for period in periods),
        "energy_kwh": sum(
            tree["fleet"]["facility_w"]["mean"] / 1000 * HOURS_PER_YEAR * span.years
            for tree, span in zip(trees, spans, strict=True)
        ),
        "carbon_kgco2e": sum(_carbon_per_year(tree) * span.years for tree, span in zip(trees, spans, strict=True)),
        "predicted": predicted,
        "predicted_parts": {name: parts(instance, proved.solved.decision, name) for name in instance.goal},
        "bound": bound,
        "gap_frac": None if bound is None else max(0.0, (predicted - bound) / predicted) if predicted else 0.0,
        "nodes": proved.solved.nodes,
        "rounds": proved.rounds,
        "simulated": proof.n_simulated,
        "cheaper_tried": proved.n_tried,
        "cheaper_left": proved.cheaper_left,
        "periods": periods,
        "surfaces": _surfaces(asked),
    }


def _margin(tree: Mapping[str, Any]) -> float:
    """The least margin of any limit of a variant or its checks; minus one where a limit has no value."""
    found: list[float] = [1.0]
    for classes in [tree["classes"], *(check.get("classes") or {} for check in tree.get("checks") or [])]:
        for figures in classes.values():
            for limit in figures["limits"]:
                margin: float | None = limit["margin_frac"]
                found.append((0.0 if limit["met"] else -1.0) if margin is None else margin)
    return min(found)


def _carbon_per_year(tree: Mapping[str, Any]) -> float:
    span_s = tree["run"]["length_s"] - tree["run"]["warmup_s"]
    return float(tree["carbon"]["kgco2e"] / span_s * 3600.0 * HOURS_PER_YEAR)


def _period(asked: Question, decision: Decision, result: Result, t: int) -> Tree:
    instance = asked.instance
    span, when = instance.spans[t], asked.periods[t]
    peak, typical = (result.variants[f"{span.name}.{which}"] for which in (PEAK, TYPICAL))
    yearly = typical["cost"]["usd_per_h"] * HOURS_PER_YEAR
    used = loads(instance, decision, t)
    scenario = scenario_of(asked, decision, t, PEAK)
    return {
        "name": span.name,
        "start": when.start.isoformat() if when.start is not None else None,
        "start_years": span.start_years,
        "years": span.years,
        "buy": {name: decision.bought[k][t] for k, name in enumerate(asked.pools)},
        "fleet": {name: decision.racks(instance, k, t) for k, name in enumerate(asked.pools)},
        "carved": {
            own: {"pool": name, "racks": rack.n}
            | {"per_rack": {o.name: n for o, n in zip(instance.kinds[k].options, rack.counts, strict=True) if n}}
            for k, name in enumerate(asked.pools)
            for own, rack in sub_pools(asked, decision, k, t).items()
        },
        "routes": {name: dict(route) for name, route in scenario.fleet.routes.items()},
        "shares": {
            name: {
                way.name: decision.shares[w][t]
                for w, way in enumerate(instance.ways)
                if way.cls == name and decision.shares[w][t] > 0
            }
            for name in instance.classes
        },
        "demand_req_per_s": {"peak": dict(span.peak_req_per_s), "mean": dict(span.mean_req_per_s)},
        "load_frac": {
            f"{asked.pools[k]}: {instance.kinds[k].options[o].name}": value
            for (k, o), value in sorted(used.items())
            if decision.replicas[k][o][t]
        },
        "capacity_req_per_s": _capacity(asked, decision, t),
        "cost_usd": yearly * span.years,
        "usd_per_year": yearly,
        "tco_usd": yearly * span.discounted_years,
        "capex_usd": sum(decision.bought[k][t] * kind.capex_usd for k, kind in enumerate(instance.kinds)),
        "parts_usd_per_year": {
            part: None if usd is None else usd * HOURS_PER_YEAR for part, usd in typical["cost"]["parts"].items()
        },
        "power_w": {
            "provisioned": peak["fleet"]["provisioned_w"],
            "peak": peak["fleet"]["facility_w"]["peak"],
            "mean": typical["fleet"]["facility_w"]["mean"],
        },
        "verdict": peak["verdict"],
        "margin_frac": _margin(peak),
    }


def _capacity(asked: Question, decision: Decision, t: int) -> dict[str, float]:
    """The load of each class at which the first deployment that it uses is full, all classes growing alike."""
    instance = asked.instance
    used = loads(instance, decision, t)
    found = {}
    for name in instance.classes:
        most = max(
            (
                used[k, o]
                for w, way in enumerate(instance.ways)
                if way.cls == name and decision.shares[w][t] > 0
                for k, o, _ in way.takes
            ),
            default=0.0,
        )
        if most > 0:
            found[name] = instance.spans[t].peak_req_per_s[name] / most
    return found


def _surfaces(asked: Question) -> list[Tree]:
    return [
        {
            "pool": s.pool,
            "model": s.model,
            "chips": s.n_chips,
            "phase": s.phase,
            "mix": dict(s.mix),
            "replicas": s.n_replicas,
            "samples": len(s.samples),
            "limit_req_per_s": s.limit_req_per_s,
            "low_req_per_s": s.low_req_per_s,
            "high_req_per_s": s.high_req_per_s,
        }
        for s in asked.surfaces
    ]

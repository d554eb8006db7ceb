"""From a scenario and its response surfaces to the instance that is decided: rack kinds priced, ways to serve weighed.

A rack is priced by the very code that prices a run: one rack of the pool, at rest, bought or owned, part by part. What
a request adds in power is the slope of its surface. How many replicas a request per second takes is the inverse of the
surface's limit; classes that share a deployment were sampled together at the traffic's proportions and each alone, and
any mix of them is bound by the straight rule

    sum over classes of load x s / own limit <= replicas,    s = max(1, 1 / (joint limit x sum of share / own limit))

which is exact at the traffic's proportions, and careful where a class has the deployment to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from planner import units
from planner.aggregate.cost import Terms
from planner.errors import Fault, Infeasible, Notice, ScenarioError, near
from planner.facts import catalog
from planner.fleet.layout import rack_and_chip
from planner.optimize.instance import Instance, Span, VendorShare, Way
from planner.optimize.links import links_of
from planner.optimize.periods import When, whens, worth_years
from planner.optimize.racks import SHARED, kind_of, parked_w, places_of, probe_of, pue_of, rack_w_per_chip_w
from planner.scenario.unsupported import fault_at
from planner.study.curves import Surface
from planner.study.group import Part, entry_of
from planner.study.run import mean_inputs, mean_lengths
from planner.study.scaled import mean_rates, peak_frac
from planner.study.surface import Wanted, decoders, surfaces

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet
    from planner.fleet.layout import Lengths
    from planner.scenario import Scenario

_SLOPE_AT = 0.7
"""The share of a surface's limit at which its power is read."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a way of the instance stands for."""

    cls: str
    part: Part
    """Where the class's prompts go."""
    partner: Part | None
    """Where its answers are made, if elsewhere."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The load of one replica up to which a class holds, alone on it, with the interval from seed to seed."""

    req_per_s: float
    low_req_per_s: float
    high_req_per_s: float
    factor: float
    """What sharing the deployment with its other classes multiplies the load by (s)."""
    surface: Surface


@dataclass(frozen=True, slots=True)
class Question:
    """A scenario made ready to be decided."""

    scenario: Scenario
    """Menus written out."""
    instance: Instance
    periods: tuple[When, ...]
    pools: tuple[str, ...]
    """Of each kind."""
    parts: tuple[tuple[Part, ...], ...]
    """Of each kind's options."""
    uses: tuple[Use, ...]
    """Of each way."""
    limits: Mapping[tuple[str, Part, str], Limit]
    """By class, deployment and phase."""
    mean_rates: Mapping[str, float]
    peak_fracs: Mapping[str, float]
    lengths: Mapping[str, Lengths]
    terms: Terms
    surfaces: tuple[Surface, ...]
    notices: tuple[Notice, ...]


def question(
    scenario: Scenario,
    *,
    folder: Path | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Question:
    """Sample the surfaces of `scenario` (read from `folder` where they are kept) and build its instance.

    Raises:
        ScenarioError: periods, dates or limits contradict each other; closed arrivals have no load to plan for.
        Infeasible: a class cannot be served by any deployment at any load; it is named with its best latency.
    """
    if scenario.goal is None:
        raise ScenarioError(Fault("goal is missing", "write goal: {minimise: tco, horizon: 4 yr}", path="goal"))
    _check_vendors(scenario)
    rates = mean_rates(scenario)
    lengths = mean_lengths(scenario)
    finance = catalog.load().finance()
    has_allowance = any(pool.new_silicon for pool in scenario.fleet.pools.values())
    terms = Terms.of(scenario.cost, finance, has_allowance=has_allowance)
    periods = whens(scenario, terms.life_years.number)
    asked = _wanted(scenario, rates)
    found = surfaces(scenario, asked, folder=folder, workers=workers, progress=progress)
    limits, notices = _limits(scenario, rates, found)
    _check_served(scenario, found, limits)
    peaks = {
        name: peak_frac(cls, name=name, length_s=scenario.run.length_s, base_dir=scenario.base_dir)
        for name, cls in scenario.traffic.items()
    }
    pools = tuple(scenario.fleet.pools)
    kinds, parts, probes = [], [], []
    for name in pools:
        probe = probe_of(scenario, name, lengths)
        kinds.append(kind_of(scenario, name, probe, terms, periods))
        parts.append(tuple(Part(name, ix) for ix, _ in enumerate(scenario.fleet.pools[name].deploy)))
        probes.append(probe)
    ways, uses = _ways(scenario, limits, parts, probes)
    links = links_of(scenario, uses, parts, probes, mean_inputs(scenario) if any(u.partner for u in uses) else {})
    spans = tuple(
        Span(
            when.name,
            when.start_years,
            when.end_years,
            worth_years(when.start_years, when.end_years, terms.discount_frac.number),
            {name: rates[name] * peaks[name] * _growth(scenario, when, name) for name in scenario.traffic},
            {name: rates[name] * _growth(scenario, when, name) for name in scenario.traffic},
            budget_usd=(scenario.goal.budget_by_period_usd or {}).get(when.name),
        )
        for when in periods
    )
    instance = Instance(
        kinds=tuple(kinds),
        ways=ways,
        spans=spans,
        places=places_of(scenario, probes, terms),
        goal=_goal(scenario),
        then=scenario.goal.then,
        spare_frac=scenario.fleet.spare_frac or 0.0,
        racks_down=scenario.fleet.survive.racks if scenario.fleet.survive else 0,
        budget_usd=scenario.goal.budget_usd,
        carbon_kgco2e=scenario.goal.carbon_limit_kgco2e,
        links=links,
        vendors=tuple(VendorShare(n, v.min_frac, v.max_frac) for n, v in scenario.goal.vendors.items()),
        fixed_usd_per_year=sum(
            fact.number for part in SHARED if (fact := getattr(terms, f"{part}_usd_per_year")) is not None
        ),
    )
    return Question(
        scenario, instance, tuple(periods), pools, tuple(parts), uses, limits, rates, peaks, lengths, terms,
        tuple(found), notices,
    )  # fmt: skip


def _check_vendors(scenario: Scenario) -> None:
    """Refuse a share of a vendor that makes none of the racks."""
    assert scenario.goal is not None
    known = {rack_and_chip(pool, scenario.base_dir)[1].vendor for pool in scenario.fleet.pools.values()}
    faults = []
    for name in scenario.goal.vendors:
        at = ("goal", "vendors", name)
        here = scenario.tree.at(at)
        if name not in known and here is not None:
            what = f"no pool has racks of {name}{near(name, sorted(known))}"
            faults.append(fault_at(here, at, what, "take it away", at_key=True))
    if faults:
        raise ScenarioError(*faults)


def _goal(scenario: Scenario) -> dict[str, float]:
    assert scenario.goal is not None
    weights = scenario.goal.weights
    if weights is None:
        return {scenario.goal.minimise or "tco": 1.0}
    found = {
        "tco": weights.tco,
        "capex": weights.capex,
        "energy": weights.energy_usd_per_kwh,
        "carbon": weights.carbon_usd_per_tco2e / 1000,
    }
    return {name: weight for name, weight in found.items() if weight}


def _growth(scenario: Scenario, when: When, name: str) -> float:
    period = next((p for p in scenario.periods if p.name == when.name), None)
    return 1.0 if period is None else period.growth.get(name, 1.0)


# -- surfaces ----------------------------------------------------------------------------------------------------------


def classes_of(scenario: Scenario, part: Part) -> list[str]:
    """The classes that a deployment may serve: of its model, and sent to its pool by their routes."""
    model = entry_of(scenario, part).model
    return [
        name
        for name, cls in scenario.traffic.items()
        if cls.model == model and (name not in scenario.fleet.routes or part.pool in scenario.fleet.routes[name])
    ]


def _wanted(scenario: Scenario, rates: Mapping[str, float]) -> list[Wanted]:
    """The classes of each deployment together, and where there are several each alone."""
    asked: list[Wanted] = []
    for name, pool in scenario.fleet.pools.items():
        for ix, entry in enumerate(pool.deploy):
            part = Part(name, ix)
            takers = [part] if entry.role != "decode" else []
            phases: list[tuple[str, Part | None, list[str]]] = []
            if entry.role == "mixed":
                phases.append(("mixed", None, classes_of(scenario, part)))
            for other in decoders(scenario, part) if entry.role == "prefill" else []:
                phases.append(("prefill", other, classes_of(scenario, takers[0])))
            for giver in _givers(scenario, part):
                phases.append(("decode", giver, classes_of(scenario, giver)))
            for phase, partner, names in phases:
                total = sum(rates[one] for one in names)
                mixes = [tuple((one, rates[one] / total) for one in names)] if names else []
                mixes += [((one, 1.0),) for one in names] if len(names) > 1 else []
                asked += [Wanted(part, mix, phase=phase, partner=partner) for mix in mixes]
    return asked


def _givers(scenario: Scenario, part: Part) -> list[Part]:
    return [
        Part(name, ix)
        for name, pool in scenario.fleet.pools.items()
        for ix, entry in enumerate(pool.deploy)
        if entry.role == "prefill" and part in decoders(scenario, Part(name, ix))
    ]


def _limits(
    scenario: Scenario, rates: Mapping[str, float], found: Sequence[Surface]
) -> tuple[dict[tuple[str, Part, str], Limit], tuple[Notice, ...]]:
    """What a class takes of each deployment, by the surfaces of it alone and together with others."""
    limits: dict[tuple[str, Part, str], Limit] = {}
    notices: list[Notice] = []
    by_place: dict[tuple[Part, str, Part | None], list[Surface]] = {}
    for surface in found:
        by_place.setdefault((surface.part, surface.phase, surface.partner), []).append(surface)
    for (part, phase, _), mine in by_place.items():
        joint = max(mine, key=lambda s: len(s.mix))
        alone = {next(iter(s.mix)): s for s in mine if len(s.mix) == 1}
        able = {name: s for name, s in alone.items() if s.limit_req_per_s > 0}
        factor = 1.0
        if len(joint.mix) > 1:
            straight = sum(share / able[name].limit_req_per_s for name, share in joint.mix.items() if name in able)
            if joint.limit_req_per_s > 0 and straight > 0:
                factor = max(1.0, 1 / (joint.limit_req_per_s * straight))
            elif len(able) > 1:
                names = " and ".join(able)
                message = (
                    f"{names} hold their limits on {part.pool} each alone and at no load together: give them pools of "
                    "their own by fleet.routes"
                )
                notices.append(Notice("no_sharing", message))
                able = {}
        for name, surface in able.items():
            limits[name, part, phase] = Limit(
                surface.limit_req_per_s, surface.low_req_per_s, surface.high_req_per_s, factor, surface
            )
    return limits, tuple(notices)


def _check_served(scenario: Scenario, found: Sequence[Surface], limits: Mapping[tuple[str, Part, str], Limit]) -> None:
    """Refuse a class that no deployment serves at any load, with the best that it gets anywhere."""
    faults = []
    for name, cls in scenario.traffic.items():
        served = {(part, phase) for one, part, phase in limits if one == name}
        if any(phase == "mixed" for _, phase in served) or ({"prefill", "decode"} <= {p for _, p in served}):
            continue
        mine = [s for s in found if name in s.mix and len(s.mix) == min(len(o.mix) for o in found if name in o.mix)]
        best = []
        for limit in scenario.slo[cls.slo].limits if cls.slo else ():
            key = f"{limit.metric}_s.{limit.label}"
            values = [(v, s) for s in mine for m in s.samples if (v := m.classes[name].get(key)) is not None]
            if values:
                value, where = min(values, key=lambda pair: pair[0])
                reached, asked = units.format(value, "time"), units.format(limit.limit_s, "time")
                best.append(f"{limit.metric} {limit.label} {reached} on {where.pool} (limit {asked})")
        what = f"no deployment holds its limits at any load; the best reached: {', '.join(best) or 'nothing'}"
        if not mine:
            what = f"no pool deploys {cls.model} for it"
        faults.append(
            Fault(what, "deploy it on more chips or other racks, or widen its limits", path=f"traffic.{name}")
        )
    if faults:
        raise Infeasible(*faults)


# -- ways --------------------------------------------------------------------------------------------------------------


def _ways(
    scenario: Scenario,
    limits: Mapping[tuple[str, Part, str], Limit],
    parts: Sequence[Sequence[Part]],
    probes: Sequence[Fleet],
) -> tuple[tuple[Way, ...], tuple[Use, ...]]:
    at = {part: (k, o) for k, row in enumerate(parts) for o, part in enumerate(row)}
    ways: list[Way] = []
    uses: list[Use] = []
    for name in scenario.traffic:
        for part in at:
            mixed = limits.get((name, part, "mixed"))
            if mixed is not None:
                ways.append(_way(name, [(part, mixed)], at, probes))
                uses.append(Use(name, part, None))
            first = limits.get((name, part, "prefill"))
            if first is None:
                continue
            for other in decoders(scenario, part):
                second = limits.get((name, other, "decode"))
                if second is not None:
                    ways.append(_way(name, [(part, first), (other, second)], at, probes))
                    uses.append(Use(name, part, other))
    return tuple(ways), tuple(uses)


def _way(
    name: str, legs: Sequence[tuple[Part, Limit]], at: Mapping[Part, tuple[int, int]], probes: Sequence[Fleet]
) -> Way:
    takes, watts = [], []
    for part, limit in legs:
        k, o = at[part]
        takes.append((k, o, limit.factor / limit.req_per_s))
        watts.append((k, _w_per_req_s(limit, probes[k])))
    return Way(f"{name} by {' and '.join(part.pool for part, _ in legs)}", name, tuple(takes), tuple(watts))


def _w_per_req_s(limit: Limit, probe: Fleet) -> float:
    """Power at the meter that a request per second adds, off its surface."""
    load = limit.req_per_s * _SLOPE_AT
    figures = limit.surface.at(load)
    assert figures is not None
    [layout] = probe.pools
    parked = parked_w(layout)
    chips_w = figures.steps_w + figures.parked_chips * parked - limit.surface.n_chips * parked
    return max(0.0, chips_w) * rack_w_per_chip_w(layout) * pue_of(probe) / load


def tightened(question: Question, factors: Mapping[tuple[str, Part], float]) -> Question:
    """The question with the load that some classes may put on some deployments multiplied by a factor."""
    limits = {
        key: replace(limit, req_per_s=limit.req_per_s * factors.get((key[0], key[1]), 1.0))
        for key, limit in question.limits.items()
    }
    at = {part: (k, o) for k, row in enumerate(question.parts) for o, part in enumerate(row)}
    back = {place: part for part, place in at.items()}
    ways = tuple(
        replace(
            way,
            takes=tuple((k, o, need / factors.get((way.cls, back[k, o]), 1.0)) for k, o, need in way.takes),
        )
        for way in question.instance.ways
    )
    return replace(question, limits=limits, instance=replace(question.instance, ways=ways))

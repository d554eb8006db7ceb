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
from planner.aggregate import clock
from planner.aggregate.carbon import embodied_kgco2e_per_h
from planner.aggregate.cost import HOURS_PER_YEAR, MONTHS_PER_YEAR, NANO, Terms, charges
from planner.aggregate.inputs import Span as Measured
from planner.aggregate.power import Activity, Book, rack_it_w, resting
from planner.errors import Fault, Infeasible, Notice, ScenarioError
from planner.facts import catalog
from planner.fleet.layout import domains_of, pack
from planner.fleet.site import highest_pue
from planner.optimize.instance import Instance, Kind, Option, Place, Span, VendorShare, Way
from planner.optimize.periods import When, first_period, whens, worth_years
from planner.scenario.sites import place_of
from planner.study.curves import Surface
from planner.study.group import Part, entry_of, group_of
from planner.study.run import mean_lengths
from planner.study.scaled import mean_rates, peak_frac
from planner.study.surface import Wanted, decoders, surfaces

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet, PoolLayout
    from planner.fleet.layout import Lengths
    from planner.scenario import Scenario
    from planner.scenario.schema import Site

_HOUR = Measured(0, 3600 * NANO, 60 * NANO)
_SLOPE_AT = 0.7
"""The share of a surface's limit at which its power is read."""
_SHARED = ("staff", "software")


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
        probe = _probe(scenario, name, lengths)
        kinds.append(_kind(scenario, name, probe, terms, periods))
        parts.append(tuple(Part(name, ix) for ix, _ in enumerate(scenario.fleet.pools[name].deploy)))
        probes.append(probe)
    ways, uses = _ways(scenario, limits, parts, probes)
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
        places=_places(scenario, probes, terms),
        goal=_goal(scenario),
        then=scenario.goal.then,
        spare_frac=scenario.fleet.spare_frac or 0.0,
        racks_down=scenario.fleet.survive.racks if scenario.fleet.survive else 0,
        budget_usd=scenario.goal.budget_usd,
        carbon_kgco2e=scenario.goal.carbon_limit_kgco2e,
        vendors=tuple(VendorShare(n, v.min_frac, v.max_frac) for n, v in scenario.goal.vendors.items()),
        fixed_usd_per_year=sum(
            fact.number for part in _SHARED if (fact := getattr(terms, f"{part}_usd_per_year")) is not None
        ),
    )
    return Question(
        scenario, instance, tuple(periods), pools, tuple(parts), uses, limits, rates, peaks, lengths, terms,
        tuple(found), notices,
    )  # fmt: skip


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


# -- racks -------------------------------------------------------------------------------------------------------------


def _probe(scenario: Scenario, name: str, lengths: Mapping[str, Lengths]) -> Fleet:
    """One rack of a pool at its site, each deployment once, whatever fits: prices and powers are read off it."""
    pool = scenario.fleet.pools[name]
    site = scenario.sites[place_of(name, scenario.sites)] if scenario.sites else scenario.site
    site = site.model_copy(update={"power_limit_w": None, "positions": None})
    placed = []
    whole = None
    for ix, entry in enumerate(pool.deploy):
        classes = {n: c for n, c in scenario.traffic.items() if c.model == entry.model}
        if not classes:
            continue
        group = group_of(
            replace(scenario, site=site), Part(name, ix), {n: 1 / len(classes) for n in classes}, 1,
            lengths=lengths, rates=dict.fromkeys(classes, 1.0), phase="mixed",
        )  # fmt: skip
        whole = group.fleet
        placed.append(whole.placed[0])
    if whole is None:
        raise ScenarioError(
            Fault("no class asks for a model that it deploys", "take the pool away", path=f"fleet.pools.{name}")
        )
    return replace(whole, placed=tuple(placed))


def _rack(layout: PoolLayout, *, n_existing: int) -> PoolLayout:
    """One rack of the pool with nothing on it."""
    n_chips = int(layout.rack.n_chips.number)
    return replace(layout, n_racks=1, n_existing=n_existing, n_chips=n_chips, idle_chips=n_chips)


def _kind(scenario: Scenario, name: str, probe: Fleet, terms: Terms, periods: Sequence[When]) -> Kind:
    pool = scenario.fleet.pools[name]
    [layout] = probe.pools
    rack, chip = layout.rack, layout.chip
    domains = domains_of(rack, chip)
    open_entries = [ix for ix, entry in enumerate(pool.deploy) if entry.per_rack is None]
    is_menu = len(open_entries) > 1
    wants = [
        (entry.chips, entry.per_rack if entry.per_rack is not None else (0 if is_menu else None))
        for entry in pool.deploy
    ]
    counts, free = pack(domains, wants)
    for ix, entry in enumerate(pool.deploy):
        if entry.per_rack is not None and counts[ix] < entry.per_rack:
            what = f"{entry.per_rack} replicas of {entry.chips} chips do not fit a rack"
            raise Infeasible(
                Fault(what, f"use per_rack: {counts[ix]}", path=f"fleet.pools.{name}.deploy[{ix}].per_rack")
            )
    pue = highest_pue(probe.pue, probe.times)
    options = tuple(
        Option(
            name=_label(scenario, Part(name, ix)),
            chips=entry.chips,
            per_rack=None if is_menu and entry.per_rack is None else counts[ix],
            parked_w=_slope(layout) * (_parked_w(layout) - chip.idle_w.number) * entry.chips * _pue(probe),
        )
        for ix, entry in enumerate(pool.deploy)
    )
    fixed_chips = sum(option.chips * option.per_rack for option in options if option.per_rack)
    fixed_w = sum(option.parked_w * option.per_rack for option in options if option.per_rack)
    bare = _rack(layout, n_existing=0)
    rest = float(rack_it_w(resting(bare), resting(bare).span, Book())[0]) * _pue(probe)
    most = pool.count if pool.count_range is None else pool.count_range.max
    least = pool.count if pool.count_range is None else pool.count_range.min
    spans = range(len(periods))
    gone = [sum(pool.retire.get(periods[s].name, 0) for s in range(t + 1)) for t in spans]
    existing = tuple(max(0, pool.existing - n) for n in gone)
    limit = pool.deliveries_by_period
    new_parts, owned_parts = (_yearly(probe, _rack(layout, n_existing=n), terms) for n in (0, 1))
    cash = _cash(layout, terms)
    embodied = embodied_kgco2e_per_h([resting(bare)], terms.life_years, Book())
    assert fixed_chips <= sum(domains)
    return Kind(
        name=name,
        domains=tuple(free if is_menu else [0]),
        options=options,
        site=place_of(name, scenario.sites) if scenario.sites else "",
        rated_w=rack.rated_w.number * pue,
        rest_w=rest + fixed_w,
        places=rack.footprint.number if rack.footprint is not None and rack.footprint.used is not None else 1.0,
        capex_usd=cash,
        new_usd_per_year=new_parts,
        owned_usd_per_year=owned_parts,
        embodied_kgco2e_per_year=(embodied or 0.0) * HOURS_PER_YEAR,
        existing=existing,
        least=least,
        most=most,
        first_span=first_period(scenario, name, pool, periods, available=rack.available_from, lead_s=rack.lead_time_s),
        most_bought=tuple(pool.deliveries if limit is None else limit.get(when.name, None) for when in periods),
        vendor=chip.vendor,
    )


def _label(scenario: Scenario, part: Part) -> str:
    entry = entry_of(scenario, part)
    role = "" if entry.role == "mixed" else f" {entry.role}"
    return f"{entry.model} x{entry.chips}{role}"


def _cash(layout: PoolLayout, terms: Terms) -> float:
    """Cash at order of a rack: the rack, its network and storage; nothing for a rented one."""
    if layout.rent_usd_per_chip_h is not None:
        return 0.0
    price = layout.capex_usd_per_rack.number
    once = [terms.installation_frac, terms.spares_frac]
    return (
        price * (1 + terms.storage_frac.number + sum(fact.number for fact in once if fact is not None))
        + layout.rack.n_chips.number * terms.network_usd_per_chip.number
    )


def _yearly(probe: Fleet, rack: PoolLayout, terms: Terms) -> dict[str, float]:
    """What a rack costs a year by part, without energy, demand charge and what the whole fleet shares."""
    alone = replace(probe, pools=(rack,), placed=())
    sums: dict[str, float] = {}
    for charge in charges(alone, terms, [resting(rack)], _HOUR):
        if charge.part not in ("energy", "demand", *_SHARED):
            sums[charge.part] = sums.get(charge.part, 0.0) + charge.nano_usd_per_h / NANO * HOURS_PER_YEAR
    return {part: usd for part, usd in sums.items() if usd}


def _pue(probe: Fleet) -> float:
    return clock.pue(probe, _HOUR, Book())


def _parked_w(layout: PoolLayout) -> float:
    return resting(layout).chip_parked_w.number


def _slope(layout: PoolLayout) -> float:
    """What a rack draws more for each watt that its chips draw more."""
    import numpy as np

    bare = _rack(layout, n_existing=0)
    power = resting(bare)
    chips = float(bare.n_chips)
    none = replace(power, pool=replace(bare, idle_chips=0))
    idle, parked = (
        float(rack_it_w(none, Activity(np.array([watts]), np.zeros(1)), Book())[0])
        for watts in (bare.chip.idle_w.number * chips, (bare.chip.idle_w.number + 1.0) * chips)
    )
    return (parked - idle) / chips


def _places(scenario: Scenario, probes: Sequence[Fleet], terms: Terms) -> tuple[Place, ...]:
    sites: Mapping[str, Site] = scenario.sites or {"": scenario.site}
    found = []
    for name, site in sites.items():
        probe = next((p for p in probes if not name or place_of(p.pools[0].name, scenario.sites) == name), None)
        if probe is None:
            continue
        book = Book()
        power = resting(_rack(probe.pools[0], n_existing=0))
        price = clock.usd_per_kwh(probe, power, _HOUR, book)
        if terms.demand_usd_per_kw_month is not None:  # as if the peak were the mean
            price += terms.demand_usd_per_kw_month.number * MONTHS_PER_YEAR / HOURS_PER_YEAR
        found.append(
            Place(
                name=name,
                power_w=site.power_limit_w,
                racks=None if site.positions is None else float(site.positions),
                usd_per_kwh=price,
                kgco2e_per_kwh=clock.kgco2e_per_kwh(probe, power, _HOUR, book),
            )
        )
    return tuple(found)


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
    parked = _parked_w(layout)
    chips_w = figures.steps_w + figures.parked_chips * parked - limit.surface.n_chips * parked
    return max(0.0, chips_w) * _slope(layout) * _pue(probe) / load


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

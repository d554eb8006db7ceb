"""Racks -> replicas: which deployment goes on how many chips of which rack, and whether the site can feed them.

A rack is a row of scale-up domains. A replica stands inside one domain, or each of its pipeline stages does. The list
`deploy` of a pool is placed rack by rack, in its order: an entry with `per_rack: N` gives N replicas, the one entry
without it takes what is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner import units
from planner.errors import Fault, Infeasible, Notice
from planner.facts import catalog
from planner.fleet import drafts
from planner.fleet.contract import contract
from planner.fleet.fleet import Fleet, Placed, PoolLayout, SiteLayout
from planner.fleet.racks import with_its_chips
from planner.fleet.site import highest_pue, new_silicon, site_facts, site_times
from planner.scenario.sites import place_of, round_trips, written

if TYPE_CHECKING:
    from planner.facts.schema import Chip, Fact, Rack
    from planner.model.wish import Choice, Wish
    from planner.scenario import Scenario
    from planner.scenario.schema import Deploy, Pool, Site


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean prompt and output of a class, in tokens: what a layout is chosen for."""

    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry of a deploy list is written, for messages."""

    scenario: Scenario
    pool: str
    entry: int

    def fault(self, what: str, way_out: str, key: str = "") -> Fault:
        entry = f"fleet.pools.{written(self.pool, self.scenario.sites)}.deploy[{self.entry}]"
        path = f"{entry}.{key}" if key else entry
        origin = self.scenario.origins.get(path) or self.scenario.origins.get(f"{entry}.model")
        if origin is None:
            return Fault(what, way_out, path=path)
        return Fault(what, way_out, path=path, file=origin.file, line=origin.line, col=origin.col)


def lay_out(scenario: Scenario, lengths: Mapping[str, Lengths]) -> Fleet:
    """The fleet that `scenario` describes, checked to fit; `lengths` are the mean lengths of each class.

    Raises:
        Infeasible: a replica does not fit its chips, a rack its replicas, the site its racks, or a class has no
            replica; each fault names what binds and the nearest change that fits.
        FactError: a file or name is wrong.
    """
    faults: list[Fault] = []
    notices: list[Notice] = []
    pools: list[PoolLayout] = []
    for name, pool in scenario.fleet.pools.items():
        rack, chip = rack_and_chip(pool, scenario.base_dir)
        placed = _place(scenario, name, pool, rack, chip, lengths, faults, notices)
        n_chips = int(rack.n_chips.number) * pool.count
        used = sum(p.n_replicas * p.n_chips for p in placed)
        capex = pool.capex_usd_per_rack or rack.capex_usd
        pools.append(
            PoolLayout(
                name=name,
                rack=rack,
                chip=chip,
                n_racks=pool.count,
                n_existing=pool.existing,
                placed=tuple(placed),
                n_chips=n_chips,
                idle_chips=n_chips - used,
                capex_usd_per_rack=capex,
                rent_usd_per_chip_h=pool.rent_usd_per_chip_h or contract(scenario, name, pool, chip, faults),
                new_silicon=new_silicon(chip) if pool.new_silicon else None,
            )
        )
    several = [_site(scenario, name, site, pools) for name, site in scenario.sites.items()]
    one = several[0] if several else _site(scenario, "site", scenario.site, pools)
    for site in several or [one]:
        faults += _power_faults(scenario, site, pools)
    for name, spec in scenario.sites.items() or {"": scenario.site}.items():
        mine = [pool for pool in pools if not name or place_of(pool.name, scenario.sites) == name]
        faults += _space_faults(scenario, f"sites.{name}" if name else "site", spec.positions, mine)
    if not faults:
        faults += _unserved(scenario, pools)
    if faults:
        raise Infeasible(*faults)
    trips = {
        name: found
        for name in scenario.fleet.pools
        if (found := round_trips(name, scenario.traffic, scenario.site, scenario.sites))
    }
    return Fleet(
        pools=tuple(pools),
        placed=tuple(p for pool in pools for p in pool.placed),
        pue=one.pue,
        electricity_usd_per_kwh=one.electricity_usd_per_kwh,
        carbon_kgco2e_per_kwh=one.carbon_kgco2e_per_kwh,
        rated_w=sum(site.rated_w for site in several or [one]),
        power_limit_w=scenario.site.power_limit_w if not several else _limit_of_all(several),
        notices=(*dict.fromkeys(notices), *_ways(several or [one], trips)),
        times=one.times,
        sites=tuple(several),
        round_trips_s=trips,
        kv_link_bytes_per_s=scenario.fleet.kv_link_bytes_per_s,
    )


def _site(scenario: Scenario, name: str, site: Site, pools: Sequence[PoolLayout]) -> SiteLayout:
    """A site with the pools that stand there: all of them where there is one site."""
    mine = [pool for pool in pools if not scenario.sites or place_of(pool.name, scenario.sites) == name]
    pue, price, carbon = site_facts(site, scenario.base_dir)
    times = site_times(site, scenario.run.start)
    return SiteLayout(
        name=name,
        pools=tuple(pool.name for pool in mine),
        pue=pue,
        electricity_usd_per_kwh=price,
        carbon_kgco2e_per_kwh=carbon,
        rated_w=sum(pool.n_racks * pool.rack.rated_w.number for pool in mine) * highest_pue(pue, times),
        power_limit_w=site.power_limit_w,
        times=times,
    )


def _ways(sites: Sequence[SiteLayout], trips: Mapping[str, Mapping[str, Fact]]) -> list[Notice]:
    """That clients wait for the way to a site too, with whose figure it is."""
    said = []
    for site in sites:
        facts = {fact.path: fact for name in site.pools for fact in trips.get(name, {}).values()}
        for fact in facts.values():
            who = fact.path.rpartition("round_trip_by_class.")[2] if "round_trip_by_class" in fact.path else ""
            to = f"{who} to {site.name}" if who else site.name
            said.append(f"{to} {units.format(fact.number, 'time')} ({fact.grade})")
    message = f"ttft and e2e include the way to the site and back: {', '.join(said)}"
    return [Notice("round_trip", message)] if said else []


def _limit_of_all(sites: Sequence[SiteLayout]) -> float | None:
    """What all sites bear together; None if one of them has no limit."""
    limits = [site.power_limit_w for site in sites if site.power_limit_w is not None]
    return sum(limits) if len(limits) == len(sites) else None


def rack_and_chip(pool: Pool, base_dir: Path) -> tuple[Rack, Chip]:
    """The rack of a pool and the chip in it."""
    facts = catalog.load()
    rack = with_its_chips(facts.rack(pool.rack, base=base_dir))
    return rack, facts.chip(rack.chip, base=base_dir)


def domains_of(rack: Rack, chip: Chip) -> list[int]:
    """Chips of each scale-up domain of a rack; a domain never leaves the rack."""
    n_chips = int(rack.n_chips.number)
    size = min(int(chip.scale_up.domain_chips.number), n_chips)
    return [size] * (n_chips // size) + ([n_chips % size] if n_chips % size else [])


def pack(
    domains: Sequence[int], wants: Sequence[tuple[int, int | None]], stages: Sequence[int] = ()
) -> tuple[list[int], list[int]]:
    """Replicas of each entry on one rack, and the chips then free in each domain.

    `wants` are (chips of a replica, replicas or None for what is left), placed in order, each replica in the first
    domain that has room; the entry that takes what is left comes last whatever its place. A replica of several `stages`
    that is wider than a domain begins in an empty one and has whole stages in each.
    """
    free = list(domains)
    counts = [0] * len(wants)
    for ix in sorted(range(len(wants)), key=lambda ix: wants[ix][1] is None):
        chips, wanted = wants[ix]
        if stages and stages[ix] > 1 and chips > max(domains):
            counts[ix] = _across(free, domains, chips // stages[ix], stages[ix], wanted)
            continue
        for domain, room in enumerate(free):
            n = room // chips if wanted is None else min(room // chips, wanted - counts[ix])
            counts[ix] += n
            free[domain] -= n * chips
    return counts, free


def _across(free: list[int], domains: Sequence[int], chips: int, stages: int, wanted: int | None) -> int:
    """Replicas of `stages` stages of so many chips over empty domains, whose chips are taken from `free`."""
    n = 0
    while wanted is None or n < wanted:
        left, taken = stages, []
        for domain, room in enumerate(free):
            here = min(left, room // chips) if room == domains[domain] else 0
            taken += [(domain, here * chips)] if here else []
            left -= here
            if not left:
                break
        if left:
            return n
        for domain, used in taken:
            free[domain] -= used
        n += 1
    return n


def _place(
    scenario: Scenario,
    name: str,
    pool: Pool,
    rack: Rack,
    chip: Chip,
    lengths: Mapping[str, Lengths],
    faults: list[Fault],
    notices: list[Notice],
) -> list[Placed]:
    domains = domains_of(rack, chip)
    before = len(faults)
    for ix, entry in enumerate(pool.deploy):
        stages = entry.pp or 1
        if entry.chips > stages * max(domains):
            place = Place(scenario, name, ix)
            part = f"{'stage' if stages > 1 else 'replica'} of {entry.chips // stages} chips"
            what = f"a {part} is larger than the {max(domains)}-chip domain of {rack.name}"
            way_out = f"use at most {max(domains)} chips, or pipeline stages (pp) that each fit a domain"
            faults.append(place.fault(what, way_out, "chips"))
    if len(faults) > before:
        return []
    wants = [(entry.chips, entry.per_rack) for entry in pool.deploy]
    counts, free = pack(domains, wants, [entry.pp or 1 for entry in pool.deploy])
    for ix, (entry, count) in enumerate(zip(pool.deploy, counts, strict=True)):
        place = Place(scenario, name, ix)
        if entry.per_rack is not None and count < entry.per_rack:
            what = f"{entry.per_rack} replicas of {entry.chips} chips do not fit the {sum(domains)} chips of a rack"
            faults.append(
                place.fault(
                    what,
                    f"use per_rack: {count}" if count else "place fewer before it, or use fewer chips a replica",
                    "per_rack",
                )
            )
        elif count == 0:
            what = (
                f"no chips are left in the rack for a replica of {entry.chips} ({sum(free)} of {sum(domains)} are free)"
            )
            faults.append(place.fault(what, "lower the per_rack of the entries before, or the chips", "chips"))
    if len(faults) > before:
        return []
    placed = []
    for ix, (entry, count) in enumerate(zip(pool.deploy, counts, strict=True)):
        try:
            placed.append(_deploy(scenario, name, entry, chip, count * pool.count, lengths, notices))
        except Infeasible as error:
            place = Place(scenario, name, ix)
            faults += [place.fault(fault.what, fault.way_out) for fault in error.faults]
    return placed


def _deploy(
    scenario: Scenario,
    pool: str,
    entry: Deploy,
    chip: Chip,
    n_replicas: int,
    lengths: Mapping[str, Lengths],
    notices: list[Notice],
) -> Placed:
    from planner.model import stack, trust

    facts = catalog.load()
    model = facts.model(entry.model, base=scenario.base_dir)
    wish = entry_wish(scenario, entry, lengths)
    if entry.engine is None:
        names = stack.candidates(chip, model)
        chosen = stack.best(chip, model, names, facts.serving(), wish, role=entry.role)
    else:
        engine = facts.engine(entry.engine, base=scenario.base_dir)
        names = ()
        chosen = stack.of(chip, model, engine, facts.serving(), wish, role=entry.role)
    choice = chosen.choice
    notices += choice.notices
    notices += stack.notices(chip, model, chosen, names)
    notices += drafts.notices(entry, choice.plan)
    notices += _stage_notices(entry, choice, chip)
    return Placed(
        pool=pool,
        model=entry.model,
        n_replicas=n_replicas,
        n_chips=entry.chips,
        tp=choice.tp,
        dp=choice.dp,
        pp=choice.pp,
        ep=choice.ep,
        engine=chosen.engine,
        precision=choice.precision,
        spec=choice.spec,
        plan=choice.plan,
        facts=drafts.facts(entry),
        trust=trust.of(chip, stack.row_of(chip, model, chosen, entry.role)),
    )


def _stage_notices(entry: Deploy, choice: Choice, chip: Chip) -> list[Notice]:
    """What a reader should know of a replica in pipeline stages."""
    if choice.pp == 1:
        return []
    what = f"{entry.model} on {entry.chips} {chip.name}"
    why = "" if entry.pp is not None else ", as no layout in one fits,"
    text = f"{what} is in {choice.pp} pipeline stages{why} and no measured point has any"
    found = [Notice("pipeline_stages", text)]
    if entry.chips > (domain := int(chip.scale_up.domain_chips.number)):
        found.append(Notice("crosses_domains", f"replicas of {what} cross domains of {domain} between stages"))
    return found


def entry_wish(scenario: Scenario, entry: Deploy, lengths: Mapping[str, Lengths]) -> Wish:
    """What a deployment is chosen for: what the entry fixes, and the load and limit of the classes of its model."""
    from planner.model.wish import Wish

    classes = [name for name, traffic in scenario.traffic.items() if traffic.model == entry.model]
    limits = [
        limit.limit_s
        for name in classes
        if (slo := scenario.traffic[name].slo) is not None
        for limit in scenario.slo[slo].limits
        if limit.metric == "tpot"
    ]
    n = len(classes)
    return Wish(
        n_chips=entry.chips,
        tp=entry.tp,
        dp=entry.dp,
        pp=entry.pp,
        ep=entry.ep,
        precision=entry.precision,
        kv_dtype=entry.kv_dtype,
        max_batch=entry.max_batch,
        chunk_tokens=entry.chunk_tokens,
        speculation=drafts.spec(entry),
        tpot_limit_s=min(limits, default=None),
        mean_input_tokens=sum(lengths[name].input_tokens for name in classes) / n if n else None,
        mean_output_tokens=sum(lengths[name].output_tokens for name in classes) / n if n else None,
    )


def _power_faults(scenario: Scenario, site: SiteLayout, pools: Sequence[PoolLayout]) -> list[Fault]:
    limit, need = site.power_limit_w, site.rated_w
    if limit is None or need <= limit:
        return []
    pue = highest_pue(site.pue, site.times)
    fits = []
    for pool in (pool for pool in pools if pool.name in site.pools):
        per_rack = pool.rack.rated_w.number * pue
        keep = pool.n_racks - -int(-(need - limit) // per_rack)
        if 0 <= keep < pool.n_racks:
            fits.append(f"{pool.name}: {keep} racks")
    path = f"sites.{site.name}.power_limit" if scenario.sites else "site.power_limit"
    short = units.format(need - limit, "power")
    what = (
        f"the racks are rated at {need / 1000:,.7g} kW at the meter (rated power x PUE), "
        f"{short} above the limit of {limit / 1000:,.7g} kW"
    )
    way_out = "keep " + " or ".join(fits) if fits else "take racks of several pools away"
    way_out += f", or raise the limit to {math.ceil(need / 100) / 10:,.10g} kW"
    return [_at(scenario, path, what, way_out)]


def _space_faults(scenario: Scenario, where: str, positions: int | None, pools: Sequence[PoolLayout]) -> list[Fault]:
    """Racks that do not stand on the floor of a site."""
    if positions is None:
        return []
    path = f"{where}.positions"
    each: dict[str, float] = {}
    for pool in pools:
        footprint = pool.rack.footprint
        if footprint is None or footprint.used is None:
            what = f"nobody says how many positions a rack of {pool.rack.name} takes"
            return [_at(scenario, path, what, "give `footprint` in a rack file of your own, or take the limit away")]
        each[pool.name] = footprint.number
    need = sum(pool.n_racks * each[pool.name] for pool in pools)
    if need <= positions:
        return []
    fits = []
    for pool in pools:
        keep = pool.n_racks - -int(-(need - positions) // each[pool.name])
        if 0 <= keep < pool.n_racks:
            fits.append(f"{pool.name}: {keep} racks")
    what = f"the racks take {need:,.7g} positions, {need - positions:,.7g} more than the {positions:,} of the floor"
    way_out = "keep " + " or ".join(fits) if fits else "take racks of several pools away"
    return [_at(scenario, path, what, f"{way_out}, or find room for {math.ceil(need):,}")]


def _at(scenario: Scenario, path: str, what: str, way_out: str) -> Fault:
    """A fault where the value at a path was written."""
    origin = scenario.origins.get(path)
    if origin is None:
        return Fault(what, way_out, path=path)
    return Fault(what, way_out, path=path, file=origin.file, line=origin.line, col=origin.col)


def _unserved(scenario: Scenario, pools: Sequence[PoolLayout]) -> list[Fault]:
    """Classes that have no replica: their pools have no racks."""
    faults = []
    for name, traffic in scenario.traffic.items():
        route = scenario.fleet.routes.get(name)
        able = [pool for pool in pools if not route or pool.name in route]
        if not any(p.model == traffic.model and p.n_replicas for pool in able for p in pool.placed):
            what = f"no replica of {traffic.model} in the pools that the class may use"
            faults.append(Fault(what, "give such a pool at least one rack", path=f"traffic.{name}"))
    return faults

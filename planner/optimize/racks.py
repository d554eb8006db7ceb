"""Racks as the program sees them: what one costs and draws, read off the code that prices and powers a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.aggregate import clock
from planner.aggregate.carbon import embodied_kgco2e_per_h
from planner.aggregate.cost import HOURS_PER_YEAR, MONTHS_PER_YEAR, NANO, Terms, charges
from planner.aggregate.inputs import Span as Measured
from planner.aggregate.power import Activity, Book, rack_it_w, resting
from planner.errors import Fault, Infeasible, ScenarioError
from planner.fleet.layout import domains_of, pack
from planner.fleet.site import highest_pue
from planner.optimize.instance import Kind, Option, Place
from planner.optimize.periods import When, first_period
from planner.scenario.sites import place_of
from planner.study.group import Part, entry_of, group_of

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet, PoolLayout
    from planner.fleet.layout import Lengths
    from planner.scenario import Scenario
    from planner.scenario.schema import Site

_HOUR = Measured(0, 3600 * NANO, 60 * NANO)
SHARED = ("staff", "software")
"""Parts that the whole fleet costs, whatever its racks."""


def probe_of(scenario: Scenario, name: str, lengths: Mapping[str, Lengths]) -> Fleet:
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


def kind_of(
    scenario: Scenario, name: str, probe: Fleet, terms: Terms, periods: Sequence[When], book: Book | None = None
) -> Kind:
    """A pool's racks as a kind; `book` says which value each fact has, in money and power."""
    book = book or Book()
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
    counts, free = pack(domains, wants, [entry.pp or 1 for entry in pool.deploy])
    for ix, entry in enumerate(pool.deploy):
        if entry.per_rack is not None and counts[ix] < entry.per_rack:
            what = f"{entry.per_rack} replicas of {entry.chips} chips do not fit a rack"
            raise Infeasible(
                Fault(what, f"use per_rack: {counts[ix]}", path=f"fleet.pools.{name}.deploy[{ix}].per_rack")
            )
        if is_menu and entry.per_rack is None and entry.chips > max(domains):
            what = (
                f"a replica of {entry.chips} chips is wider than a domain of {max(domains)}, and others may stand there"
            )
            path = f"fleet.pools.{name}.deploy[{ix}].per_rack"
            raise Infeasible(Fault(what, "say how many a rack has (per_rack)", path=path))
    pue = highest_pue(probe.pue, probe.times)
    options = tuple(
        Option(
            name=_label(scenario, Part(name, ix)),
            chips=entry.chips,
            per_rack=None if is_menu and entry.per_rack is None else counts[ix],
            parked_w=rack_w_per_chip_w(layout, book)
            * max(0.0, parked_w(layout, book) - book(chip.idle_w))
            * entry.chips
            * pue_of(probe, book),
        )
        for ix, entry in enumerate(pool.deploy)
    )
    fixed_chips = sum(option.chips * option.per_rack for option in options if option.per_rack)
    fixed_w = sum(option.parked_w * option.per_rack for option in options if option.per_rack)
    bare = _rack(layout, n_existing=0)
    rest = float(rack_it_w(resting(bare), resting(bare).span, book)[0]) * pue_of(probe, book)
    most = pool.count if pool.count_range is None else pool.count_range.max
    least = pool.count if pool.count_range is None else pool.count_range.min
    spans = range(len(periods))
    gone = [sum(pool.retire.get(periods[s].name, 0) for s in range(t + 1)) for t in spans]
    existing = tuple(max(0, pool.existing - n) for n in gone)
    limit = pool.deliveries_by_period
    new_parts, owned_parts = (_yearly(probe, _rack(layout, n_existing=n), terms, book) for n in (0, 1))
    cash = _cash(layout, terms)
    embodied = embodied_kgco2e_per_h([resting(bare)], terms.life_years, book)
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


def _yearly(probe: Fleet, rack: PoolLayout, terms: Terms, book: Book) -> dict[str, float]:
    """What a rack costs a year by part, without energy, demand charge and what the whole fleet shares."""
    alone = replace(probe, pools=(rack,), placed=())
    sums: dict[str, float] = {}
    for charge in charges(alone, terms, [resting(rack)], _HOUR, book):
        if charge.part not in ("energy", "demand", *SHARED):
            sums[charge.part] = sums.get(charge.part, 0.0) + charge.nano_usd_per_h / NANO * HOURS_PER_YEAR
    return {part: usd for part, usd in sums.items() if usd}


def pue_of(probe: Fleet, book: Book | None = None) -> float:
    """PUE of the site, in the mean over the year."""
    return clock.pue(probe, _HOUR, book or Book())


def parked_w(layout: PoolLayout, book: Book | None = None) -> float:
    """Draw of a chip whose replica has nothing to do."""
    return (book or Book())(resting(layout).chip_parked_w)


def rack_w_per_chip_w(layout: PoolLayout, book: Book | None = None) -> float:
    """What a rack draws more for each watt that its chips draw more."""
    import numpy as np

    book = book or Book()
    bare = _rack(layout, n_existing=0)
    power = resting(bare)
    idle_w = book(bare.chip.idle_w)
    chips = float(bare.n_chips)
    none = replace(power, pool=replace(bare, idle_chips=0))
    idle, parked = (
        float(rack_it_w(none, Activity(np.array([watts]), np.zeros(1)), book)[0])
        for watts in (idle_w * chips, (idle_w + 1.0) * chips)
    )
    return (parked - idle) / chips


def places_of(scenario: Scenario, probes: Sequence[Fleet], terms: Terms, book: Book | None = None) -> tuple[Place, ...]:
    """The sites with what their electricity costs and emits."""
    book = book or Book()
    sites: Mapping[str, Site] = scenario.sites or {"": scenario.site}
    found = []
    for name, site in sites.items():
        probe = next((p for p in probes if not name or place_of(p.pools[0].name, scenario.sites) == name), None)
        if probe is None:
            continue
        power = resting(_rack(probe.pools[0], n_existing=0))
        price = clock.usd_per_kwh(probe, power, _HOUR, book)
        if terms.demand_usd_per_kw_month is not None:  # as if the peak were the mean
            price += book(terms.demand_usd_per_kw_month) * MONTHS_PER_YEAR / HOURS_PER_YEAR
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

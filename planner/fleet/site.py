"""What a site's electricity costs and emits and what its building adds, flat or over time; what new silicon adds."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from planner.facts import catalog
from planner.fleet.fleet import NewSilicon, Times
from planner.scenario.spans import by_ix

if TYPE_CHECKING:
    from planner.facts.schema import Chip, Fact
    from planner.scenario.schema import Site


def site_facts(site: Site, base_dir: Path) -> tuple[Fact, Fact, Fact]:
    """PUE, price of electricity and carbon of the grid: the scenario's, else the named site's, else the defaults."""
    facts = catalog.load()
    named = facts.site(site.name, base=base_dir) if site.name else None
    grid = facts.site(site.grid, base=base_dir) if site.grid else named
    general, finance = facts.general(), facts.finance()
    pue = site.pue or (named.pue if named else general["pue_default"])
    price = site.power_price_usd_per_kwh or (
        named.electricity_usd_per_kwh if named else finance["electricity_usd_per_kwh"]
    )
    carbon = site.carbon_kgco2e_per_kwh or (
        grid.carbon_kgco2e_per_kwh if grid else general["world_carbon_kgco2e_per_kwh"]
    )
    return pue, price, carbon


def site_times(site: Site, start: str | None) -> Times:
    """What the scenario says of the site by hour of the day and month of the year."""

    def hours(table: dict[str, Fact]) -> tuple[Fact, ...] | None:
        return by_ix(table, 24, first=0) if table else None

    return Times(
        usd_per_kwh=hours(site.power_price_by_hour),
        kgco2e_per_kwh=hours(site.carbon_by_hour),
        pue=by_ix(site.pue_by_month, 12, first=1) if site.pue_by_month else None,
        start=datetime.fromisoformat(start) if start is not None else None,
    )


def highest_pue(pue: Fact, times: Times) -> float:
    """The PUE that a power limit counts with: the year's highest."""
    return pue.number if times.pue is None else max(month.number for month in times.pue)


def new_silicon(chip: Chip) -> NewSilicon:
    """The catalogue's facts of a chip's first year."""
    facts = catalog.load().reliability()
    price = chip.unit_cost_usd
    return NewSilicon(
        failures_per_chip_year=facts["defaults"]["chip_failures_per_year"],
        multiplier=facts["defaults"]["new_silicon_multiplier"],
        replaced_frac=facts["crusoe-h200"]["host_replacement_frac"],
        packaging_yield_frac=facts["yield"]["packaging_yield_frac"],
        usd_per_chip=price if price is not None and price.used is not None else None,
    )

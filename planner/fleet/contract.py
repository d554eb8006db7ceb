"""What a rented chip-hour costs by its contract, where a scenario names one of the catalogue's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import Fault
from planner.facts import catalog

if TYPE_CHECKING:
    from planner.facts.schema import Chip, Fact
    from planner.scenario import Scenario
    from planner.scenario.schema import Pool

CONTRACTS = {
    "3-year": "rental_3y_usd_per_chip_h",
    "hyperscaler": "owner_hyperscaler_usd_per_chip_h",
    "neocloud": "owner_neocloud_usd_per_chip_h",
}
"""Contract of a pool -> the price of its chip in the catalogue."""


def contract(scenario: Scenario, name: str, pool: Pool, chip: Chip, faults: list[Fault]) -> Fact | None:
    """The catalogue's price of a chip-hour by the pool's contract; a fault where no source gives one."""
    if pool.contract is None:
        return None
    shelf = catalog.load()
    prices = shelf.chip_price(chip.name).facts if chip.name in shelf.names("prices") else {}
    fact = prices.get(CONTRACTS[pool.contract])
    if fact is not None and fact.used is not None:
        return fact
    path = f"fleet.pools.{name}.contract"
    origin = scenario.origins.get(path)
    what, way_out = f"no source gives a {pool.contract} price of {chip.name}", "write rent: 2 USD/chip-h, or buy it"
    place = {"file": origin.file, "line": origin.line, "col": origin.col} if origin is not None else {}
    faults.append(Fault(what, way_out, path=path, **place))  # type: ignore[arg-type]
    return None

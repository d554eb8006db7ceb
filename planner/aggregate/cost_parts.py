"""The parts of the cost: their names, which are charged when, and how each is made."""

from __future__ import annotations

PARTS = (
    "racks",
    "network",
    "storage",
    "installation",
    "spares",
    "allowance",
    "space",
    "energy",
    "demand",
    "upkeep",
    "support",
    "insurance",
    "staff",
    "software",
    "rent",
)
"""Parts of the cost, in the order in which they are shown."""
NAMED_PARTS = ("installation", "allowance", "space", "demand", "insurance", "staff", "software")
"""Parts that are charged only where a scenario names them; null and listed as left out otherwise."""
COVERED_PARTS = ("spares", "support")
"""Parts that are charged by themselves only where a scenario names them; `upkeep` covers them otherwise: null."""
ALLOCATIONS = ("busy-time", "tokens", "output")
"""How joint cost is shared between input and output tokens."""

PART_FORMULAS: dict[str, str] = {
    "racks": "racks to pay off x capex x annuity / 8760",
    "network": "their chips x network per chip x annuity / 8760",
    "storage": "their capex x storage share x annuity / 8760",
    "installation": "their capex x installation share x annuity / 8760; only where named",
    "spares": "their capex x spares share x annuity / 8760; in upkeep where not named",
    "allowance": "pools of new silicon: chips x failures a year x (multiplier - 1) x share with a "
    "replacement x price of a chip / 8760 + chips to pay off x price of a chip x (1 / packaging yield - 1) x annuity "
    "/ 8760",
    "space": "rated kW of owned racks x USD/kW-month x 12 / 8760; only where named",
    "energy": "facility kW of owned racks, mean over the span x USD/kWh, by the hour of the day where it differs",
    "demand": "facility kW of owned racks, highest window x USD/kW-month x 12 / 8760; only where named",
    "upkeep": "racks' capex x upkeep share / 8760; owned racks without capex at their price too",
    "support": "racks' capex x support share / 8760; in upkeep where not named",
    "insurance": "racks' capex x insurance share / 8760; only where named",
    "staff": "USD a year / 8760; only where named",
    "software": "USD a year / 8760; only where named",
    "rent": "chips of rented racks x USD/chip-h; power, space and upkeep are in the rent",
}
"""How each part of the cost is made, in USD an hour; a year has 8,760 hours."""

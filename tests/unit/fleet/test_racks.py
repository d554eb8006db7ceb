"""Draws of a rack whose number of chips is not disclosed."""

from __future__ import annotations

from planner.facts import catalog
from planner.fleet.racks import with_its_chips


def test_the_draws_are_those_of_its_chips() -> None:
    # 16 to 128 chips draw 12 to 105 kW: 750 to 820 W a chip, so 64 chips draw 48.0 to 52.5 kW.
    rack = with_its_chips(catalog.load().rack("jalapeno-rack"))
    assert (rack.typical_w.low, rack.typical_w.number, rack.typical_w.high) == (48_000, 48_000, 52_500)
    assert (rack.rated_w.low, rack.rated_w.high) == (60_000, 65_000)
    assert (rack.idle_w.low, rack.idle_w.high) == (12_000, 15_000)
    assert "64 chips" in rack.typical_w.note
    assert rack.capex_usd.low == 350_000  # a price's range is of the rack as it is


def test_a_rack_whose_chips_are_known_stays_as_it_is() -> None:
    rack = catalog.load().rack("gb300-nvl72")
    assert with_its_chips(rack) is rack

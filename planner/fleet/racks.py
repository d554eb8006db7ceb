"""A rack of a given number of chips: what its draws can be where the number itself is not disclosed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.facts.fact import Fact
    from planner.facts.schema import Rack


def with_its_chips(rack: Rack) -> Rack:
    """The rack, its draws' ranges those of as many chips as it is laid out with.

    Where the number of chips has a range, the lows and highs of the draws belong to the smallest and the largest rack:
    12 kW is 16 chips of 750 W, 105 kW is 128 chips of 820 W. A fleet is laid out with one number, so its racks draw
    between as many chips at the lower and at the higher of the two.
    """
    n_chips = rack.n_chips
    if n_chips.low is None or n_chips.high is None or n_chips.low == n_chips.high:
        return rack
    return replace(
        rack,
        idle_w=_at(rack.idle_w, n_chips),
        typical_w=_at(rack.typical_w, n_chips),
        rated_w=_at(rack.rated_w, n_chips),
    )


def _at(fact: Fact, n_chips: Fact) -> Fact:
    low, high = fact.low, fact.high
    if low is None or high is None or n_chips.low is None or n_chips.high is None:
        return fact
    n, value = n_chips.number, fact.number
    ends = (low / n_chips.low * n, high / n_chips.high * n, value)
    note = f"{fact.note}; range of {n:g} chips, from {low:g} of {n_chips.low:g} and {high:g} of {n_chips.high:g} chips"
    return replace(fact, low=min(ends), high=max(ends), note=note.removeprefix("; "))

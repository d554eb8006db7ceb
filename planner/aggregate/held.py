"""Figures that facts move while the simulation is held: money, power, energy and carbon of one simulated seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from planner.aggregate.cost import Terms, charges
from planner.aggregate.inputs import NS_PER_S, Span
from planner.aggregate.power import Book, draws

if TYPE_CHECKING:
    from planner.aggregate.power import PoolPower
    from planner.facts.fact import Fact
    from planner.fleet.fleet import Fleet
    from planner.scenario.schema import CostSpec


def read_at_rest(cost: CostSpec, fleet: Fleet, powers: Sequence[PoolPower], finance: Mapping[str, Fact]) -> list[Fact]:
    """The facts that money, power and carbon of a fleet read, in the order in which they do."""
    book = Book()
    hour = Span(warmup_ns=0, length_ns=3600 * NS_PER_S, window_ns=3600 * NS_PER_S)
    charges(fleet, Terms.of(cost, finance), powers, hour, book)
    draws(powers, fleet, hour, book)
    book(fleet.carbon_kgco2e_per_kwh)
    return list(book.read)

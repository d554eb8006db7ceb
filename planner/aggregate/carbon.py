"""Carbon: of the electricity at the meter, by the grid's intensity when it was drawn, and of making the racks.

Making a rack is spread evenly over its life (`cost.life`), whether it is bought, owned already or rented: who pays
changes nothing of what was emitted. A rack without a figure has none, and the result says so under `left_out`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from planner.aggregate import clock
from planner.aggregate.cost import HOURS_PER_YEAR
from planner.aggregate.per_token import MTOK, S_PER_H, over
from planner.aggregate.power import mean_w

if TYPE_CHECKING:
    from planner.aggregate.inputs import Span
    from planner.aggregate.power import Book, PoolPower
    from planner.facts.fact import Fact
    from planner.fleet.fleet import Fleet


def carbon(
    fleet: Fleet,
    powers: Sequence[PoolPower],
    life_years: Fact,
    tokens: Mapping[str, float],
    span: Span,
    book: Book,
) -> dict[str, float | None]:
    """kgCO2e of the measured span, by source, and all of it per million tokens."""
    operational = 0.0
    for power in powers:
        site = fleet.at(power.pool)
        kwh = mean_w(power, book) * clock.pue(site, span, book) * span.span_s / S_PER_H / 1000
        operational += kwh * clock.kgco2e_per_kwh(site, power, span, book)
    embodied = embodied_kgco2e_per_h(powers, life_years, book)
    made = None if embodied is None else embodied * span.span_s / S_PER_H
    whole = operational + (made or 0.0)
    return {
        "operational_kgco2e": operational,
        "embodied_kgco2e": made,
        "kgco2e": whole,
        "operational_kgco2e_per_mtok_out_whole": over(operational, tokens["output"] / MTOK),
        "kgco2e_per_mtok_all": over(whole, (tokens["input"] + tokens["output"]) / MTOK),
        "kgco2e_per_mtok_out_whole": over(whole, tokens["output"] / MTOK),
    }


def embodied_kgco2e_per_h(powers: Sequence[PoolPower], life_years: Fact, book: Book) -> float | None:
    """What making the racks emitted, an hour of their life; None if no rack has a figure."""
    known = [
        power.pool.n_racks * book(fact)
        for power in powers
        if (fact := power.pool.rack.embodied_kgco2e) is not None and fact.used is not None and power.pool.n_racks
    ]
    return sum(known) / (book(life_years) * HOURS_PER_YEAR) if known else None


def left_out(fleet: Fleet) -> list[str]:
    """Racks of which nobody says what making them emitted."""
    return [
        f"making of {pool.rack.title}"
        for pool in fleet.pools
        if pool.n_racks and (pool.rack.embodied_kgco2e is None or pool.rack.embodied_kgco2e.used is None)
    ]

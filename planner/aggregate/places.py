"""The sites of a fleet: what stands and is drawn at each, and what that costs and emits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.aggregate import clock
from planner.aggregate.cost import NANO, Charge
from planner.aggregate.per_token import S_PER_H
from planner.aggregate.power import draws, mean_w

if TYPE_CHECKING:
    from planner.aggregate.inputs import Span
    from planner.aggregate.power import Book, PoolPower
    from planner.fleet.fleet import Fleet


def places(
    fleet: Fleet, powers: Sequence[PoolPower], charges: Sequence[Charge], span: Span, book: Book
) -> dict[str, dict[str, Any]]:
    """The section `sites` of a result: one entry a site; where there is one site it is called `site`."""
    found = {}
    for site in fleet.places:
        mine = [power for power in powers if power.pool.name in site.pools]
        it_kwh = sum(mean_w(power, book) for power in mine) * span.span_s / S_PER_H / 1000
        pue = clock.pue(site, span, book)
        kgco2e = sum(
            mean_w(power, book) * pue * span.span_s / S_PER_H / 1000 * clock.kgco2e_per_kwh(site, power, span, book)
            for power in mine
        )
        nano = dict.fromkeys(("energy", "all"), 0)
        for charge in charges:
            if charge.pool in site.pools:
                nano["all"] += charge.nano_usd_per_h
                nano["energy"] += charge.nano_usd_per_h if charge.part == "energy" else 0
        found[site.name] = {
            "racks": sum(power.pool.n_racks for power in mine),
            "provisioned_w": site.rated_w,
            "power_limit_w": site.power_limit_w,
            **draws(mine, fleet, span, book),
            "pue": pue,
            "it_kwh": it_kwh,
            "facility_kwh": it_kwh * pue,
            "operational_kgco2e": kgco2e,
            "energy_usd_per_h": nano["energy"] / NANO,
            "usd_per_h": nano["all"] / NANO,
        }
    return found

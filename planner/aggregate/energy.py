"""Energy of the measured span, at the racks and at the meter, and per token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from planner.aggregate.per_token import S_PER_H, j_per_token
from planner.aggregate.power import Book, mean_w

if TYPE_CHECKING:
    from planner.aggregate.power import PoolPower
    from planner.aggregate.work import Sums
    from planner.fleet.fleet import Fleet


def energy(
    fleet: Fleet, powers: Sequence[PoolPower], works: Sequence[Sums], tokens: Mapping[str, float], span_s: float
) -> dict[str, float | None]:
    """kWh of racks and facility, and joules per token; `powers` and `works` are over the pools."""
    book = Book()
    it_w = [mean_w(power, book) for power in powers]
    pue = book(fleet.pue)
    it_kwh = sum(it_w) * span_s / S_PER_H / 1000
    return {
        "it_kwh": it_kwh,
        "facility_kwh": it_kwh * pue,
        **j_per_token(
            [watts * pue * span_s for watts in it_w],
            [work["prefill_j"] for work in works],
            [work["decode_j"] for work in works],
            input_tokens=tokens["input"],
            output_tokens=tokens["output"],
        ),
    }

"""Energy of the measured span on three bases that are never mixed, and per token at the meter.

`chip_rated` is what all packages would draw at their rated power: the basis of published tokens per kW, an upper bound
and no measurement. `rack_it` is what the racks drew, `facility` that times PUE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.aggregate import clock
from planner.aggregate.metrics import BASES
from planner.aggregate.per_token import S_PER_H, j_per_token, over
from planner.aggregate.power import facility_w, mean_w

if TYPE_CHECKING:
    from planner.aggregate.inputs import Span
    from planner.aggregate.power import Book, PoolPower
    from planner.aggregate.work import Sums
    from planner.fleet.fleet import Fleet

J_PER_KWH = 3_600_000


def energy(
    fleet: Fleet,
    powers: Sequence[PoolPower],
    works: Sequence[Sums],
    tokens: Mapping[str, float],
    span: Span,
    book: Book,
) -> dict[str, Any]:
    """kWh by basis, and joules per token; `powers` and `works` are over the pools."""
    span_s = span.span_s
    it_w = [mean_w(power, book) for power in powers]
    pues = [clock.pue(fleet.at(power.pool), span, book) for power in powers]
    it_kwh = sum(it_w) * span_s / S_PER_H / 1000
    facility_kwh = facility_w(it_w, pues) * span_s / S_PER_H / 1000
    rated_w = sum(power.pool.n_chips * book(power.pool.chip.tdp_w) for power in powers)
    kwh = dict(zip(BASES, (rated_w * span_s / S_PER_H / 1000, it_kwh, facility_kwh), strict=True))
    n_all = tokens["input"] + tokens["output"]
    return {
        "it_kwh": it_kwh,
        "facility_kwh": facility_kwh,
        "kwh": kwh,
        "j_per_token_all_on": {basis: over(kwh[basis] * J_PER_KWH, n_all) for basis in BASES},
        "j_per_token_out_whole_on": {basis: over(kwh[basis] * J_PER_KWH, tokens["output"]) for basis in BASES},
        **j_per_token(
            [watts * pue * span_s for watts, pue in zip(it_w, pues, strict=True)],
            [work["prefill_j"] for work in works],
            [work["decode_j"] for work in works],
            input_tokens=tokens["input"],
            output_tokens=tokens["output"],
        ),
    }

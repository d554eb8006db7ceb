"""Money, worked out by hand: the annuity, each part, tokens, and what is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.aggregate.cost import (
    HOURS_PER_YEAR,
    Charge,
    Terms,
    annuity_frac,
    by_part,
    by_pool,
    charges,
    total_usd_per_h,
)
from planner.aggregate.inputs import Span
from planner.aggregate.per_token import j_per_token, phases, usd_per_mtok
from planner.aggregate.power import pool_power
from planner.aggregate.work import chip_work, pool_sums, pool_windows
from planner.fleet.fleet import Fleet
from planner.scenario.schema import CostSpec
from tests.fleets import FINANCE, NS, fact, fleet, no_windows, placed, pool, rack, work

HOUR = Span(warmup_ns=0, length_ns=3600 * NS, window_ns=600 * NS)
TERMS = Terms.of(CostSpec.model_validate({}), FINANCE)


def cost(of: Fleet, terms: Terms = TERMS, *rows: dict[str, float]) -> dict[str, float | None]:
    """Parts in USD an hour; all at rest unless rows of work are given."""
    return by_part(made(of, terms, *rows), terms.without_figure)


def made(of: Fleet, terms: Terms = TERMS, *rows: dict[str, float]) -> list[Charge]:
    whole, windows = chip_work(work(*(rows or ({},))), of), chip_work(no_windows(), of)
    powers = [
        pool_power(each, pool_sums(whole, ix), pool_windows(windows, ix), HOUR) for ix, each in enumerate(of.pools)
    ]
    return charges(of, terms, powers, HOUR)


def test_annuity_by_hand() -> None:
    # g = 1.09^5 = 1.5386239549; 1 - 1/g = 0.3500686139; 0.95 x 0.09 / 0.3500686139 + 0.05 x 0.09 = 0.2487378341.
    assert annuity_frac(5, 0.09, 0.05) == pytest.approx(0.2487378341, rel=1e-9)
    assert annuity_frac(5, 0.09, 0.0) == pytest.approx(0.2570924570, rel=1e-9)  # the textbook capital recovery factor
    assert annuity_frac(4, 0.0, 0.2) == pytest.approx(0.2, rel=1e-15)
    assert annuity_frac(5, 1e-9, 0.0) == pytest.approx(0.2, rel=1e-8)
    assert annuity_frac(5, 0.09, 1.0) == pytest.approx(0.09)  # the price comes back: only interest is paid


def test_annuity_pays_the_price_back() -> None:
    # Present value of five payments and of the residual = 1.
    payment = annuity_frac(5, 0.1, 0.2)
    assert sum(payment / 1.1**year for year in range(1, 6)) + 0.2 / 1.1**5 == pytest.approx(1.0, rel=1e-12)


def test_parts_of_an_owned_rack() -> None:
    yearly = annuity_frac(5, 0.09, 0.05)
    parts = cost(fleet(pool(deployments=[placed()], n_racks=2)))
    assert parts == pytest.approx(
        {
            "racks": 2 * 400_000 * yearly / 8760,
            "network": 16 * 6000 * yearly / 8760,
            "storage": 2 * 400_000 * 0.03 * yearly / 8760,
            "upkeep": 2 * 400_000 * 0.04 / 8760,
            "energy": 2 * 2.0 * 1.2 * 0.08,  # 2 kW of each rack at rest
            "rent": 0.0,
            **dict.fromkeys(
                ("installation", "spares", "allowance", "space", "demand", "support", "insurance", "staff", "software")
            ),
        },
        abs=1e-9,
    )


def test_owned_racks_have_no_capex_and_need_upkeep() -> None:
    some, none = (cost(fleet(pool(deployments=[placed()], n_racks=2, n_existing=n))) for n in (1, 2))
    full = cost(fleet(pool(deployments=[placed()], n_racks=2)))
    for part in ("racks", "network", "storage"):
        assert some[part] == pytest.approx(full[part] / 2, abs=1e-9)  # type: ignore[operator]
        assert none[part] == 0.0
    assert none["upkeep"] == full["upkeep"]
    assert none["energy"] == full["energy"]


def test_rent_is_all_there_is_to_pay() -> None:
    # C29: 16 + 32 chips at 3 USD a chip-hour are 144 USD an hour: power and space are in the rent.
    rented = fleet(
        pool("prefill", [placed("prefill", 2)], n_racks=2, rent=3.0),
        pool("decode", [placed("decode", 4)], n_racks=4, rent=3.0),
    )
    terms = replace(TERMS, space_usd_per_kw_month=fact(100, "space"), demand_usd_per_kw_month=fact(10, "demand"))
    parts = cost(rented, terms)
    assert parts["rent"] == 144.0
    assert sum(usd or 0.0 for usd in parts.values()) == 144.0


def test_idle_racks_are_billed() -> None:
    busy = fleet(pool("a", [placed("a")]))
    with_idle = fleet(pool("a", [placed("a")]), pool("b"))
    assert total_usd_per_h(made(with_idle)) == pytest.approx(2 * total_usd_per_h(made(busy)), rel=1e-9)


def test_what_a_scenario_names_is_charged() -> None:
    named = CostSpec.model_validate(
        {
            "space": "184 USD/kW-month",
            "staff": "0.876 MUSD/yr",
            "software": "87.6 kUSD/yr",
            "demand": "10 USD/kW-month",
            "life": "4 yr",
        }
    )
    terms = Terms.of(named, FINANCE)
    assert terms.left_out == ("installation", "allowance", "insurance")
    parts = cost(fleet(pool("a", [placed("a")]), pool("b", n_racks=3)), terms)
    assert parts["space"] == pytest.approx(4 * 8 * 184 * 12 / 8760)  # rated 8 kW a rack
    assert parts["staff"] == 100.0
    assert parts["software"] == 10.0
    assert parts["demand"] == pytest.approx(4 * 2.0 * 1.2 * 10 * 12 / 8760)  # all at rest: 2 kW a rack, PUE 1.2
    assert TERMS.left_out == ("installation", "allowance", "space", "demand", "insurance", "staff", "software")


def test_shared_charges_go_by_chips() -> None:
    terms = replace(TERMS, staff_usd_per_year=fact(HOURS_PER_YEAR * 10, "staff"))
    of = fleet(pool("a", [placed("a")]), pool("b", n_racks=3))
    staff = {charge.pool: charge.nano_usd_per_h for charge in made(of, terms) if charge.part == "staff"}
    assert staff == {"a": 2_500_000_000, "b": 7_500_000_000}


def test_pools_and_parts_sum_to_the_same_whole() -> None:
    terms = replace(TERMS, staff_usd_per_year=fact(1_000_003, "staff"), demand_usd_per_kw_month=fact(7.77, "demand"))
    of = fleet(pool("a", [placed("a")]), pool("b", n_racks=3), pool("c", n_racks=2, rent=1.23))
    found = made(of, terms)
    whole = sum(charge.nano_usd_per_h for charge in found)
    assert sum(round(usd * 1e9) for usd in by_pool(found, of.pools).values()) == whole
    assert sum(round((usd or 0) * 1e9) for usd in by_part(found, terms.without_figure).values()) == whole


def test_energy_is_the_facilitys() -> None:
    # Chips at 500 W for half of the hour and 100 W for the other: 2400 W, rack 4000 W (see test_power), PUE 1.2.
    steps = {"busy_s": 1800, "decode_s": 1800, "decode_j": 1800 * 8 * 500.0}
    parts = cost(fleet(pool(deployments=[placed()])), TERMS, steps)
    assert parts["energy"] == pytest.approx(4.0 * 1.2 * 0.08)


def test_c29_per_token() -> None:
    # 96,000 tok/s in on 16 chips, 24,000 tok/s out on 32: 144 USD/h, 345.6 Mtok/h in, 86.4 Mtok/h out.
    found = usd_per_mtok(
        [48.0, 96.0],
        [16 * 3600.0, 0.0],
        [0.0, 32 * 3600.0],
        input_tokens=96_000 * 3600,
        output_tokens=24_000 * 3600,
        span_s=3600,
    )
    assert found["usd_per_mtok_out_whole"] == pytest.approx(144 / 86.4)  # 1.667, not 1.11
    assert found["usd_per_mtok_all"] == pytest.approx(144 / 432)  # 0.333
    assert found["usd_per_mtok_in"] == pytest.approx(48 / 345.6)
    assert found["usd_per_mtok_out"] == pytest.approx(96 / 86.4)


def test_c31_joules_per_token() -> None:
    # 1 MW at the meter, 2.4 M tok/s, eight input tokens for an output token.
    found = j_per_token([1e6], [1.0], [1.0], input_tokens=2.4e6 * 8 / 9, output_tokens=2.4e6 / 9)
    assert found["j_per_token_out_whole"] == pytest.approx(3.75)
    assert found["j_per_token_all"] == pytest.approx(0.4167, rel=1e-3)


def test_idle_time_is_shared_in_proportion() -> None:
    # A pool at work 3:1 for prefill costs 10, an idle one costs 30: all 40 are shared 3:1.
    assert phases([10, 30], [3, 0], [1, 0]) == (30.0, 10.0)
    assert phases([10, 30], [0, 0], [0, 0]) is None
    assert phases([0, 30], [3, 0], [1, 0]) == (22.5, 7.5)  # only the idle pool costs anything
    in_and_out = phases([10, 30], [1, 1], [1, 3])
    assert in_and_out == (10 / 2 + 30 / 4, 10 / 2 + 30 * 3 / 4)


def test_without_tokens_there_is_no_cost_per_token() -> None:
    nothing = usd_per_mtok([10.0], [0.0], [0.0], input_tokens=0, output_tokens=0, span_s=3600)
    assert set(nothing.values()) == {None}
    only_prompts = usd_per_mtok([10.0], [5.0], [0.0], input_tokens=10, output_tokens=0, span_s=3600)
    assert only_prompts["usd_per_mtok_in"] is not None
    assert only_prompts["usd_per_mtok_out"] is None
    assert set(j_per_token([5.0], [0.0], [0.0], input_tokens=0, output_tokens=0).values()) == {None}


def test_a_price_of_the_scenario_takes_the_place_of_the_catalogues() -> None:
    cheap = fleet(pool(deployments=[placed()], of_rack=rack(capex=fact(200_000, "fleet.pools.toy.capex"))))
    full = cost(fleet(pool(deployments=[placed()])))
    for part in ("racks", "storage", "upkeep"):
        assert cost(cheap)[part] == pytest.approx(full[part] / 2, abs=1e-9)  # type: ignore[operator]

"""Money beyond the rack: what a scenario names more, prices by the hour, new silicon; each worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.aggregate import clock
from planner.aggregate.carbon import carbon, left_out
from planner.aggregate.cost import Terms, annuity_frac, by_part, charges, total_usd_per_h
from planner.aggregate.energy import energy
from planner.aggregate.inputs import Span
from planner.aggregate.power import Book, PoolPower, mean_w, pool_power
from planner.aggregate.work import chip_work, pool_sums, pool_windows
from planner.errors import ScenarioError
from planner.fleet.fleet import Fleet, NewSilicon, Times
from planner.scenario import load
from planner.scenario.schema import CostSpec
from tests.fleets import FINANCE, NS, SCENARIO, fact, fleet, placed, pool, rack, work

DAY = Span(warmup_ns=0, length_ns=24 * 3600 * NS, window_ns=1800 * NS)


def powers(of: Fleet, span: Span, *windows: dict[str, float]) -> list[PoolPower]:
    """The pools' power with the work of some windows, and of the span their sum."""
    whole = {key: sum(row.get(key, 0) for row in windows) for key in ("busy_s", "decode_s", "decode_j")}
    all_work = chip_work(work(whole), of)
    by_window = chip_work(work(*(windows or ({"window_ix": 0},))), of)
    return [
        pool_power(each, pool_sums(all_work, ix), pool_windows(by_window, ix), span) for ix, each in enumerate(of.pools)
    ]


def full_window(ix: int) -> dict[str, float]:
    """Half an hour of eight chips at 400 W each."""
    return {"window_ix": ix, "busy_s": 1800, "decode_s": 1800, "decode_j": 1800 * 8 * 400.0}


def priced(of: Fleet, spec: dict[str, str], span: Span = DAY, *windows: dict[str, float]) -> dict[str, float | None]:
    has_allowance = any(each.new_silicon for each in of.pools)
    terms = Terms.of(CostSpec.model_validate(spec), FINANCE, has_allowance=has_allowance)
    return by_part(charges(of, terms, powers(of, span, *windows), span), terms.without_figure)


def test_shares_of_capex_by_hand() -> None:
    # Two racks of 400,000 USD, one owned already: 8 % installation and 5 % spares of the one to pay off, by annuity;
    # 4 % support and 1 % insurance a year of both.
    spec = {"installation": "8 %", "spares": "5 %", "support": "4 %", "insurance": "1 %/yr"}
    parts = priced(fleet(pool(deployments=[placed()], n_racks=2, n_existing=1)), spec)
    yearly = annuity_frac(5, 0.09, 0.05)
    assert parts["installation"] == pytest.approx(400_000 * 0.08 * yearly / 8760, abs=1e-9)
    assert parts["spares"] == pytest.approx(400_000 * 0.05 * yearly / 8760, abs=1e-9)
    assert parts["support"] == pytest.approx(800_000 * 0.04 / 8760, abs=1e-9)
    assert parts["insurance"] == pytest.approx(800_000 * 0.01 / 8760, abs=1e-9)


def test_new_silicon_by_hand() -> None:
    # Eight chips of 40,000 USD: 0.1 failures a year, twice as many when new: 0.8 more, half of which need a new chip,
    # 16,000 USD a year;
    # at a yield of 95 % 0.42105 of a chip in eight is paid for in vain: 16,842 USD, by annuity.
    new = NewSilicon(
        failures_per_chip_year=fact(0.1, "failures"),
        multiplier=fact(2.0, "twice"),
        replaced_frac=fact(0.5, "half"),
        packaging_yield_frac=fact(0.95, "yield"),
        usd_per_chip=fact(40_000.0, "chip"),
    )
    of = fleet(replace(pool(deployments=[placed()]), new_silicon=new))
    wanted = (16_000 + 8 * 40_000 * (1 / 0.95 - 1) * annuity_frac(5, 0.09, 0.05)) / 8760
    assert priced(of, {})["allowance"] == pytest.approx(wanted, abs=1e-9)
    by_rack = fleet(replace(pool(deployments=[placed()]), new_silicon=replace(new, usd_per_chip=None)))
    assert priced(by_rack, {})["allowance"] == pytest.approx(wanted * 50 / 40, abs=1e-8)  # 400,000 USD / 8
    owned = fleet(replace(pool(deployments=[placed()], n_existing=1), new_silicon=new))
    assert priced(owned, {})["allowance"] == pytest.approx(16_000 / 8760, abs=1e-9)  # its packages were paid for before
    assert priced(fleet(pool(deployments=[placed()])), {})["allowance"] is None


def by_hour(of: Fleet, night: float, day: float, start: datetime | None) -> Fleet:
    """22:00 to 6:00 at one price, the rest at another; carbon alike, a tenth of it."""
    cheap, dear = fact(night, "site.power_price_by_hour.22-6"), fact(day, "site.power_price_by_hour.6-22")
    low, high = fact(night / 10, "site.carbon_by_hour.22-6"), fact(day / 10, "site.carbon_by_hour.6-22")
    prices = tuple(cheap if hour < 6 or hour >= 22 else dear for hour in range(24))
    grams = tuple(low if hour < 6 or hour >= 22 else high for hour in range(24))
    return replace(of, times=Times(usd_per_kwh=prices, kgco2e_per_kwh=grams, start=start))


def test_energy_is_priced_when_it_is_drawn() -> None:
    # At rest 2 kW. With eight chips at 400 W: 3.2 kW, the rest 1.2 + (3.2 - 0.8) / 4 = 1.8, in all 5 kW.
    # From noon on: 30 minutes of work at 20:00-20:30 (window 16) and at 23:00-23:30 (window 22).
    of = by_hour(fleet(pool(deployments=[placed()])), 0.05, 0.15, datetime(2027, 7, 1, 12))
    windows = (full_window(16), full_window(22))
    night_kwh = 8 * 2.0 + 0.5 * 3.0
    day_kwh = 16 * 2.0 + 0.5 * 3.0
    usd = (night_kwh * 0.05 + day_kwh * 0.15) * 1.2
    assert priced(of, {}, DAY, *windows)["energy"] == pytest.approx(usd / 24, rel=1e-9)
    grams = carbon(of, powers(of, DAY, *windows), FINANCE["life_years"], {"input": 0, "output": 1e6}, DAY, Book())
    assert grams["operational_kgco2e"] == pytest.approx(usd / 10, rel=1e-9)
    assert grams["embodied_kgco2e"] is None
    assert left_out(of) == ["making of Toy rack"]


def test_a_run_without_a_start_stands_for_any_hour() -> None:
    of = by_hour(fleet(pool(deployments=[placed()])), 0.05, 0.15, None)
    mean = (8 * 0.05 + 16 * 0.15) / 24
    assert priced(of, {}, DAY, full_window(16))["energy"] == pytest.approx((48 + 1.5) * mean * 1.2 / 24, rel=1e-9)


@given(st.lists(st.integers(0, 47), unique=True, max_size=8), st.integers(0, 23), st.integers(0, 59))
def test_a_flat_table_is_its_price_whatever_the_load(busy: list[int], hour: int, minute: int) -> None:
    plain = fleet(pool(deployments=[placed()]))
    flat = by_hour(plain, 0.08, 0.08, datetime(2027, 1, 1, hour, minute))
    (power,) = powers(flat, DAY, *(full_window(ix) for ix in sorted(busy)))
    assert clock.usd_per_kwh(flat, power, DAY, Book()) == pytest.approx(0.08, rel=1e-12)
    shares = clock.hour_shares(flat.times.start, power, DAY, Book())
    assert min(shares) > 0
    # The energy of the hours is the integral that the simulator's joules make of the span.
    assert sum(shares) == pytest.approx(mean_w(power, Book()) * 86_400, rel=1e-9)


def test_pue_by_month() -> None:
    # 30 June 12:00 to 1 July 12:00: half of the time each.
    low, high = fact(1.1, "site.pue_by_month.1-6"), fact(1.3, "site.pue_by_month.7-12")
    of = fleet(pool(deployments=[placed()]))
    table = tuple(low if month < 6 else high for month in range(12))
    summer = replace(of, times=Times(pue=table, start=datetime(2027, 6, 30, 12)))
    assert clock.pue(summer, DAY, Book()) == pytest.approx(1.2)
    assert clock.pue(replace(of, times=Times(pue=table)), DAY, Book()) == pytest.approx(1.2)
    winter = replace(of, times=Times(pue=table, start=datetime(2027, 1, 1)))
    assert clock.pue(winter, DAY, Book()) == 1.1
    assert clock.pue(of, DAY, Book()) == 1.2
    twelfth = replace(of, times=Times(pue=table, start=datetime(2027, 12, 31, 18)))
    assert clock.pue(twelfth, DAY, Book()) == pytest.approx(0.25 * 1.3 + 0.75 * 1.1)


def test_embodied_carbon_over_life() -> None:
    # A rack of 43,800 kgCO2e over five years of 8,760 hours: 1 kg an hour, rented or not.
    made = fact(43_800, "racks.toy.embodied_kgco2e")
    of = fleet(
        pool("a", [placed("a")], of_rack=replace(rack(), embodied_kgco2e=made)),
        pool("b", n_racks=2, rent=2.0, of_rack=replace(rack(), embodied_kgco2e=made)),
    )
    found = carbon(of, powers(of, DAY), FINANCE["life_years"], {"input": 3e6, "output": 1e6}, DAY, Book())
    assert found["embodied_kgco2e"] == pytest.approx(72.0)
    assert found["operational_kgco2e"] == pytest.approx(6.0 * 24 * 1.2 * 0.4)  # 2 kW a rack, PUE 1.2, 0.4 kg
    assert found["kgco2e_per_mtok_all"] == pytest.approx((72 + 6 * 24 * 1.2 * 0.4) / 4)


def test_three_bases_are_named_and_not_mixed() -> None:
    of = fleet(pool(deployments=[placed()]))
    found = energy(
        of, powers(of, DAY), [{"prefill_j": 1.0, "decode_j": 1.0}], {"input": 1e6, "output": 1e6}, DAY, Book()
    )
    # 8 packages of 600 W rated; a rack at rest draws 2 kW; PUE 1.2.
    assert found["kwh"] == pytest.approx({"chip_rated": 4.8 * 24, "rack_it": 48.0, "facility": 57.6})
    assert found["j_per_token_all_on"]["chip_rated"] == pytest.approx(4.8 * 24 * 3.6 / 2)  # of two million tokens
    assert found["j_per_token_out_whole_on"]["facility"] == pytest.approx(57.6 * 3.6)
    assert found["facility_kwh"] == found["kwh"]["facility"]


def test_c47_pue_once_and_idle_watts_always() -> None:
    # Ten racks, 80 kW busy for 40 % of one hour and 30 kW idle, PUE 1.2: 500 kWh IT, 600 at the meter.
    big = replace(
        rack(n_chips=100),
        idle_w=fact(30_000, "idle"),
        typical_w=fact(80_000, "typical"),
        rated_w=fact(90_000, "rated"),
    )
    of = fleet(pool(deployments=[placed(n_replicas=10, n_chips=100)], n_racks=10, of_rack=big))
    hour = Span(warmup_ns=0, length_ns=3600 * NS, window_ns=1440 * NS)
    busy = {"window_ix": 0, "busy_s": 14_400, "decode_s": 14_400, "decode_j": 14_400 * 100 * 500.0}
    found = energy(
        of, powers(of, hour, busy), [{"prefill_j": 0.0, "decode_j": 1.0}], {"input": 1, "output": 1}, hour, Book()
    )
    assert found["it_kwh"] == pytest.approx(500)  # not 300, idle left out, nor 800, busy all the time
    assert found["facility_kwh"] == pytest.approx(600)  # not 720: PUE once


def test_uneven_periods_sum_to_the_cent() -> None:
    # A span of 7 h 13 min, three parts with odd prices: nano-dollars sum exactly, so the cents do.
    spec = {"staff": "0.333333 MUSD/yr", "insurance": "0.7 %", "space": "177.77 USD/kW-month"}
    odd = Span(warmup_ns=17 * NS, length_ns=25_997 * NS, window_ns=601 * NS)
    of = fleet(pool("a", [placed("a")]), pool("b", n_racks=3), pool("c", n_racks=2, rent=1.111))
    terms = Terms.of(CostSpec.model_validate(spec), FINANCE)
    found = charges(of, terms, powers(of, odd), odd)
    parts = by_part(found, terms.without_figure)
    cents = round(total_usd_per_h(found) * odd.span_s / 3600 * 100)
    assert sum(round((usd or 0) * 1e9) for usd in parts.values()) == sum(charge.nano_usd_per_h for charge in found)
    assert round(sum((usd or 0) * odd.span_s / 3600 * 100 for usd in parts.values())) == cents


@pytest.mark.parametrize(
    ("sets", "what"),
    [
        (["cost.life=0 yr"], "out of range"),
        (["cost.discount=-100 %"], "out of range"),
        (["fleet.pools.toy.capex=-1 MUSD/rack"], "out of range"),
        (["fleet.pools.toy.capex=1 MEUR/rack"], "convert to USD"),
        (["site.power_price=8 ct/kWh"], "unknown unit"),
        (["site.power_price_by_hour={0-12: 0.05 USD/kWh}"], "hours 12, 13"),
        (["site.power_price_by_hour={0-13: 0.05 USD/kWh, 12-24: 0.1 USD/kWh}"], "hour 12 is in '0-13' too"),
        (["site.power_price_by_hour={0-24: 0.05 USD/kWh}", "site.power_price=0.1 USD/kWh"], "take one of the two away"),
        (["site.pue_by_month={1-13: 1.2}"], "no span of months"),
        (["run.start=2027-01-01"], "no effect"),
        (["fleet.pools.toy.rent=2 USD/chip-h", "fleet.pools.toy.new_silicon=true"], "no effect"),
        (["cost.allocation=by-feel"], "busy-time"),
    ],
)
def test_money_that_cannot_be_is_refused(sets: list[str], what: str) -> None:
    with pytest.raises(ScenarioError, match=what):
        load("-", stdin_text=SCENARIO, sets=sets)

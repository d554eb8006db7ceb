"""Laws of money: parts sum to the whole exactly, more racks cost more, nothing is paid twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from planner.aggregate.cost import (
    NANO,
    Charge,
    Terms,
    annuity_frac,
    by_part,
    by_pool,
    charges,
    share_out,
    total_usd_per_h,
)
from planner.aggregate.inputs import Span
from planner.aggregate.per_token import phases
from planner.aggregate.power import PoolPower, pool_power
from planner.aggregate.work import chip_work, pool_sums, pool_windows
from planner.fleet.fleet import Fleet, PoolLayout
from tests.fleets import FINANCE, NS, fact, fleet, no_windows, placed, pool, rack, work

SPAN = Span(warmup_ns=0, length_ns=3600 * NS, window_ns=600 * NS)
money = st.floats(0, 1e7, allow_nan=False)
shares = st.floats(0, 1, allow_nan=False)


@st.composite
def pools(draw: st.DrawFn, name: str) -> PoolLayout:
    n_racks = draw(st.integers(0, 5))
    return pool(
        name,
        [placed(name, n_replicas=n_racks)] if n_racks else [],
        n_racks=n_racks,
        n_existing=draw(st.integers(0, n_racks)),
        rent=draw(st.none() | st.floats(0, 20)),
        of_rack=rack(capex=fact(draw(money), f"{name}.capex")),
    )


@st.composite
def terms(draw: st.DrawFn) -> Terms:
    maybe = st.none() | money.map(lambda usd: fact(usd, "named"))
    return Terms(
        life_years=fact(draw(st.floats(0.5, 50)), "life"),
        discount_frac=fact(draw(shares), "discount"),
        residual_frac=fact(draw(shares), "residual"),
        upkeep_frac=fact(draw(shares), "upkeep"),
        network_usd_per_chip=fact(draw(money), "network"),
        storage_frac=fact(draw(shares), "storage"),
        space_usd_per_kw_month=draw(maybe),
        staff_usd_per_year=draw(maybe),
        software_usd_per_year=draw(maybe),
        demand_usd_per_kw_month=draw(maybe),
        installation_frac=draw(st.none() | shares.map(lambda share: fact(share, "installation"))),
        spares_frac=draw(st.none() | shares.map(lambda share: fact(share, "spares"))),
        support_frac=draw(st.none() | shares.map(lambda share: fact(share, "support"))),
        insurance_frac=draw(st.none() | shares.map(lambda share: fact(share, "insurance"))),
    )


def powers(of: Fleet, busy: float) -> list[PoolPower]:
    rows = [
        {"deployment_ix": ix, "busy_s": 3600 * busy, "decode_s": 3600 * busy, "decode_j": 3600 * busy * 8 * 400.0}
        for ix in range(len(of.placed))
    ]
    whole = chip_work(work(*rows) if rows else work({}).clear(), of)
    windows = chip_work(no_windows(), of)
    return [pool_power(p, pool_sums(whole, ix), pool_windows(windows, ix), SPAN) for ix, p in enumerate(of.pools)]


@given(st.tuples(pools("a"), pools("b"), pools("c")), terms(), shares)
def test_parts_and_pools_sum_to_the_whole_exactly(laid: tuple[PoolLayout, ...], how: Terms, busy: float) -> None:
    of = fleet(*laid)
    made = charges(of, how, powers(of, busy), SPAN)
    whole = sum(charge.nano_usd_per_h for charge in made)
    assert whole / NANO == total_usd_per_h(made)
    parts = by_part(made, how.without_figure)
    assert _nano(usd for usd in parts.values() if usd is not None) == whole
    assert _nano(by_pool(made, of.pools).values()) == whole
    assert all(charge.nano_usd_per_h >= 0 for charge in made)
    assert all(usd is None for part, usd in parts.items() if part in how.without_figure)


def _nano(values: object) -> int:
    return sum(round(value * NANO) for value in values)  # type: ignore[attr-defined]


@given(st.tuples(pools("a"), pools("b")), terms(), shares)
def test_a_fleet_costs_what_its_pools_cost_alone(laid: tuple[PoolLayout, ...], how: Terms, busy: float) -> None:
    alone = replace(how, staff_usd_per_year=None, software_usd_per_year=None, demand_usd_per_kw_month=None)
    together = charges(fleet(*laid), alone, powers(fleet(*laid), busy), SPAN)
    apart: list[Charge] = []
    for one in laid:
        apart += charges(fleet(one), alone, powers(fleet(one), busy), SPAN)
    assert sorted(map(repr, together)) == sorted(map(repr, apart))


@given(st.floats(0.5, 50), shares, shares, shares)
def test_annuity_grows_with_discount_and_falls_with_residual(life: float, rate: float, low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert annuity_frac(life, rate, high) <= annuity_frac(life, rate, low)
    assert annuity_frac(life, low, rate) <= annuity_frac(life, high, rate) * (1 + 1e-12)
    assert annuity_frac(life, rate, 0.0) >= 1 / life * (1 - 1e-12)


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_shares_are_whole_and_sum(total: int, weights: list[int]) -> None:
    shared = share_out(total, weights)
    assert sum(shared) == total
    if sum(weights):
        assert all(abs(s - total * w / sum(weights)) <= 1 + 1e-9 * total for s, w in zip(shared, weights, strict=True))


@given(st.lists(st.tuples(money, st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=6))
def test_phases_share_out_everything(rows: list[tuple[float, float, float]]) -> None:
    totals, prefill, decode = zip(*rows, strict=True)
    split = phases(totals, prefill, decode)
    if split is None:
        assert not any(prefill)
        assert not any(decode)
    else:
        assert abs(sum(split) - sum(totals)) <= 1e-9 * max(1.0, sum(totals))
        assert min(split) >= -1e-9 * max(1.0, sum(totals))


def test_finance_facts_are_those_of_the_terms() -> None:
    assert set(FINANCE) <= set(Terms.__dataclass_fields__)

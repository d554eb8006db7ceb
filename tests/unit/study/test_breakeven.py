"""Break-evens worked out by hand, where there is none, and what may not be varied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.aggregate.cost import annuity_frac
from planner.errors import ScenarioError
from planner.facts import catalog
from planner.report import breakeven_figure, breakeven_text
from planner.scenario import load
from planner.study.breakeven import BreakEven, break_even
from planner.study.run import run
from planner.study.spread import quantile
from planner.study.uncertainty import _at

TEXT = """
schema: 1
title: Own or rent
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 4 req/s, input: 500 tok, output: 50 tok, slo: fast}
  batch: {model: gpt-oss-120b, arrivals: poisson, rate: 2 req/s, input: 200 tok, output: 100 tok}
slo:
  fast: {ttft: {p95: 5 s}}
  hard: {ttft: {p95: 1 ms}}
fleet:
  pools:
    own: {rack: hgx-h200, count: 1, capex: 1 MUSD/rack, deploy: [{model: gpt-oss-120b, chips: 4, per_rack: 1}]}
site: {power_price: 0 USD/kWh}
cost: {life: 5 yr, discount: 10 %, residual: 5 %, upkeep: 0 %, network: 0 USD/chip, storage: 0 %}
run: {length: 20 s}
overrides:
  rented:
    fleet.pools.own: null
    fleet.pools.let:
      {rack: hgx-h200, count: 1, rent: 2 USD/chip-h, deploy: [{model: gpt-oss-120b, chips: 4, per_rack: 1}]}
  lease: {fleet.pools.own.capex: null, fleet.pools.own.rent: 2 USD/chip-h}
  strict: {traffic.chat.slo: hard}
  busy: {traffic.chat.rate: 8 req/s}
scenarios:
  rented: [rented]
  lease: [lease]
  strict: [rented, strict]
  busy: [busy]
"""
CHIPS = 32
"""Four servers of eight."""


def found(vary: str, against: str = "rented", **more: Any) -> BreakEven:
    return break_even("-", vary=vary, against=against, stdin_text=TEXT, **({"samples": 0} | more))


def test_a_rack_price_by_hand() -> None:
    # Owning costs C x annuity / 8760 an hour, renting 32 chips at 2 USD 64: C = 64 x 8760 / annuity, all else free.
    answer = found("fleet.pools.own.capex", within="0.5..5 MUSD/rack")
    wanted = CHIPS * 2 * 8760 / annuity_frac(5, 0.1, 0.05)
    for each in answer.crossings:  # the two classes share the one deployment, so each has the same break-even
        assert each.values == pytest.approx((wanted,), rel=1e-8)
        assert (each.cheaper_below, each.winner) == ("base", None)
    assert [each.figure for each in answer.crossings] == [
        "cost.usd_per_mtok_out_whole",
        "classes.chat.usd_per_mtok_out_whole",
        "classes.batch.usd_per_mtok_out_whole",
    ]
    assert answer.given == 1e6
    assert answer.is_equal_slo
    assert not answer.is_simulated


def test_plans_are_judged_with_what_their_fleets_have_to_stand() -> None:
    """Each has one rack: alone both hold their limits, with it out neither does."""
    out = found("fleet.pools.own.capex", within="0.5..5 MUSD/rack", sets=["fleet.survive={racks: 1}"])
    assert (out.base.verdict, out.other.verdict, out.is_equal_slo) == ("missed", "missed", False)
    assert out.base.missed == ("every limit with a rack of own out",)
    assert out.crossings[0].values == found("fleet.pools.own.capex", within="0.5..5 MUSD/rack").crossings[0].values
    more = ["fleet.spare=50 %", "fleet.pools.own.deploy[0].max_batch=1", "traffic.batch.slo=hard"]
    busy = found("fleet.pools.own.capex", "lease", within="0.5..5 MUSD/rack", sets=more)
    assert "batch ttft p95" in busy.base.missed
    assert "batch ttft p95 with 50 % kept free" in busy.base.missed


def test_a_fact_of_the_catalogue() -> None:
    # Without a price in the scenario the rack costs what the catalogue says; every pool of such racks is varied.
    text = TEXT.replace("capex: 1 MUSD/rack, ", "")
    asked: dict[str, Any] = {"against": "rented", "stdin_text": text, "samples": 0}
    answer = break_even("-", vary="racks.hgx-h200.capex_usd", within="0.5..5 MUSD/rack", **asked)
    assert answer.crossings[0].values == pytest.approx((CHIPS * 2 * 8760 / annuity_frac(5, 0.1, 0.05),), rel=1e-8)
    assert (answer.base.is_varied, answer.other.is_varied) == (True, False)
    with pytest.raises(ScenarioError, match="neither plan reads a fact"):
        found("racks.hgx-h200.capex_usd", sets=[])  # its price is stated
    with pytest.raises(ScenarioError, match=r"did you mean racks\.hgx-h200\.capex_usd"):
        break_even("-", vary="racks.hgx-h200.capex_us", **asked)


def test_a_fact_that_the_simulator_reads() -> None:
    answer = found("chips.h200-sxm.memory_bytes_per_s", within="4..6 TB/s")
    assert answer.is_simulated
    assert answer.crossings[0].winner == "base"
    usd = [row["usd_per_mtok"] for row in answer.curve if row["plan"] == "base" and row["figure"].startswith("cost.")]
    assert len(set(usd)) > 1  # faster memory, more idle time and less power


def test_the_same_pool_owned_or_rented() -> None:
    # The variant rents the very racks that the base owns: their price has no effect there and stays unsaid.
    answer = found("fleet.pools.own.capex", against="lease", within="0.5..5 MUSD/rack")
    assert answer.crossings[0].values == pytest.approx((CHIPS * 2 * 8760 / annuity_frac(5, 0.1, 0.05),), rel=1e-8)
    assert (answer.base.is_varied, answer.other.is_varied) == (True, False)


def test_a_rent_by_hand() -> None:
    # The same turned round: the rent at which renting costs what a rack of 1 MUSD does.
    answer = found("fleet.pools.let.rent", within="0.1..4 USD/chip-h")
    wanted = 1e6 * annuity_frac(5, 0.1, 0.05) / 8760 / CHIPS
    assert answer.crossings[0].values == pytest.approx((wanted,), rel=1e-8)
    assert answer.crossings[0].cheaper_below == "rented"
    assert (answer.base.is_varied, answer.other.is_varied) == (False, True)


def test_an_electricity_price_by_hand() -> None:
    # Only the owner pays for energy: (64 - capital) / facility kW is the price that takes the gain away.
    answer = found("site.power_price", within="0..20 USD/kWh")
    curve = {
        (row["plan"], row["value"]): row["usd_per_mtok"] for row in answer.curve if row["figure"].startswith("cost.")
    }
    (low, high) = (curve["base", 0.0], curve["base", 20.0])
    rented = curve["rented", 0.0]
    assert curve["rented", 20.0] == rented
    assert answer.crossings[0].values == pytest.approx(((rented - low) / (high - low) * 20,), rel=1e-6)


def test_priced_again_is_what_a_run_of_that_price_costs() -> None:
    answer = found("fleet.pools.own.capex", within="0.5..5 MUSD/rack")
    usd = {
        (row["plan"], row["value"]): row["usd_per_mtok"] for row in answer.curve if row["figure"].startswith("cost.")
    }
    tree = run(load("-", stdin_text=TEXT, sets=["fleet.pools.own.capex=5 MUSD/rack"])).variants["base"]
    assert usd["base", 5e6] == tree["cost"]["usd_per_mtok_out_whole"]


def test_none_in_the_range_says_who_wins() -> None:
    answer = found("fleet.pools.own.capex", within="3..9 MUSD/rack")
    assert answer.crossings[0].values == ()
    assert answer.crossings[0].winner == "rented"
    assert "no break-even in the range: rented is cheaper from 3.00 MUSD/rack to 9.00" in breakeven_text.report(answer)


def test_plans_that_miss_their_limits_are_said() -> None:
    answer = found("fleet.pools.own.capex", against="strict", within="0.5..5 MUSD/rack")
    assert not answer.is_equal_slo
    assert answer.other.missed == ("chat ttft p95",)
    assert "NOT at equal service: strict misses chat ttft p95" in breakeven_text.report(answer)


def test_the_interval_of_uncertain_facts() -> None:
    # With the catalogue's price of a network, 2,500 to 10,000 USD a chip, in place of none: the dearer the network, the
    # less may a rack cost. Same draws each time.
    sets = ["cost.network=null", "run.samples=8", "run.samples_simulated=2"]
    answer = found("fleet.pools.own.capex", within="0.5..5 MUSD/rack", sets=sets, samples=None)
    whole = answer.crossings[0]
    assert answer.samples == 8
    assert whole.n == 8
    without_network = CHIPS * 2 * 8760 / annuity_frac(5, 0.1, 0.05)
    network = catalog.load().finance()["network_usd_per_chip"]
    roots = [without_network - CHIPS * _at(network, (ix + 0.5) / 8) for ix in range(8)]
    ends = [quantile(roots, share) for share in (0.05, 0.5, 0.95)]
    assert [whole.low, whole.median, whole.high] == pytest.approx(ends, rel=1e-3)
    again = found("fleet.pools.own.capex", within="0.5..5 MUSD/rack", sets=sets, samples=None)
    assert again.to_json() == answer.to_json()


def test_what_the_simulator_reads_is_simulated() -> None:
    # Twice the load on the rented racks: a token costs half, the owner's racks at the load of the scenario.
    answer = found("traffic.chat.rate", against="busy", within="2..10 req/s")
    assert answer.is_simulated
    assert answer.crossings[0].values == ()  # both plans have the class, so both are varied alike: the same fleet
    assert answer.crossings[0].winner is None
    assert "both plans cost the same everywhere" in breakeven_text.report(answer)
    load = found("load", within="0.5..2")
    assert load.is_simulated
    assert load.crossings[0].winner == "base"
    assert load.given == 1.0
    assert len(load.curve) >= 2 * 5


def test_the_frame_has_what_is_drawn(tmp_path: Path) -> None:
    answer = found("fleet.pools.own.capex", within="0.5..5 MUSD/rack")
    rows = breakeven_figure.frame(answer)
    assert set(rows["plan"]) == {"base", "rented"}
    assert rows["break_even"].drop_nulls().n_unique() == 3
    assert rows["unit"].unique().to_list() == ["USD/rack"]
    paths = breakeven_figure.save(answer, tmp_path)
    assert [path.name for path in paths] == ["break-even.parquet", "break-even.svg", "break-even.png"]
    assert all(path.stat().st_size > 0 for path in paths)
    assert "<script" not in paths[1].read_text()


@pytest.mark.parametrize(
    ("vary", "more", "what"),
    [
        ("fleet.pools.own.count", {}, "continuous scale"),
        ("fleet.pools.own.rack", {}, "continuous scale"),
        ("fleet.pools.own.price", {}, "a scenario has no"),
        ("fleet.pools.nobody.capex", {}, "no effect in either plan"),
        ("fleet.pools.own.capex", {"against": "base"}, "compared with itself"),
        ("fleet.pools.own.capex", {"against": "nobody"}, "no scenario is named"),
        ("fleet.pools.own.capex", {"within": "cheap"}, "no range"),
        ("fleet.pools.own.capex", {"within": "2..1 MUSD/rack"}, "does not go up"),
        ("fleet.pools.own.capex", {"within": "1..2 MEUR/rack"}, "convert to USD"),
        ("fleet.pools.own.capex", {"within": "1..2 kW"}, "unit of power"),
        ("fleet.pools.own.capex", {"figure": "usd_per_ton"}, "no cost per token"),
        ("site.power_price", {}, "give --range"),
    ],
)
def test_what_cannot_be_asked(vary: str, more: dict[str, Any], what: str) -> None:
    with pytest.raises(ScenarioError, match=what):
        found(vary, **more)


def test_a_price_that_no_scenario_gives_has_the_range_of_its_fact() -> None:
    rack = catalog.load().rack("hgx-h200").capex_usd
    text = TEXT.replace(" capex: 1 MUSD/rack,", "")
    answer = break_even("-", vary="fleet.pools.own.capex", against="rented", stdin_text=text, samples=0)
    assert (answer.low, answer.high) == (rack.low, rack.high)

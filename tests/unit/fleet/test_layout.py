"""Racks -> replicas: what is placed, what is left over, what is refused and with which way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import Infeasible
from planner.fleet.fleet import Fleet
from planner.fleet.layout import Lengths, lay_out, pack
from planner.scenario import load

ONE = """
schema: 1
title: one
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 4 req/s
    input: {{dist: fixed, value: 1000 tok}}
    output: {{dist: fixed, value: 200 tok}}
fleet:
  pools:
    p: {{rack: {rack}, count: {count}, deploy: [{deploy}]}}
run: {{length: 1 min}}
{more}
"""
LENGTHS = {"chat": Lengths(1000.0, 200.0)}
OSS4 = "{model: gpt-oss-120b, chips: 4}"


def scenario(tmp_path: Path, *, rack: str = "hgx-h200", count: int = 1, deploy: str = OSS4, more: str = ""):
    path = tmp_path / "s.yaml"
    path.write_text(ONE.format(rack=rack, count=count, deploy=deploy, more=more))
    return load(path)


@given(
    domains=st.lists(st.integers(1, 16), min_size=1, max_size=6),
    wants=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 5)), max_size=4),
    rest=st.none() | st.integers(1, 8),
)
def test_packing_conserves_chips_and_never_exceeds_a_wish(domains, wants, rest):
    asked = [*wants, (rest, None)] if rest else list(wants)
    counts, free = pack(domains, asked)
    assert all(0 <= left <= room for left, room in zip(free, domains, strict=True))
    assert sum(chips * n for (chips, _), n in zip(asked, counts, strict=True)) + sum(free) == sum(domains)
    assert all(wanted is None or n <= wanted for (_, wanted), n in zip(asked, counts, strict=True))
    if rest:
        assert all(left < rest for left in free)


def test_a_replica_never_leaves_its_domain():
    # 32 chips in four servers of 8: 6 chips fit once a server, so 4 replicas and 4 x 2 idle chips.
    assert pack([8, 8, 8, 8], [(6, None)]) == ([4], [2, 2, 2, 2])


def test_entries_are_placed_in_order_and_the_open_one_takes_the_rest(tmp_path):
    # A Jalapeño rack: 64 chips in one domain; two replicas of 16 leave 32 chips, four replicas of 8.
    made = scenario(
        tmp_path,
        rack="jalapeno-rack",
        count=3,
        deploy="{model: kimi-k2.5, chips: 16, per_rack: 2}, {model: gpt-oss-120b, chips: 8}",
    )
    fleet = lay_out(made, LENGTHS)
    assert [(p.model, p.n_replicas, p.n_chips) for p in fleet.placed] == [("kimi-k2.5", 6, 16), ("gpt-oss-120b", 12, 8)]
    assert (fleet.pools[0].n_chips, fleet.pools[0].idle_chips) == (192, 0)


def test_chips_left_over_are_idle(tmp_path):
    # GB300: 72 chips, two replicas of 16 by per_rack and nothing else: 40 are idle.
    made = scenario(tmp_path, rack="gb300-nvl72", deploy="{model: gpt-oss-120b, chips: 16, per_rack: 2}")
    assert lay_out(made, LENGTHS).pools[0].idle_chips == 40


@pytest.mark.parametrize(
    ("deploy", "says"),
    [
        ("{model: gpt-oss-120b, chips: 16}", "larger than the 8-chip domain of hgx-h200; use at most 8 chips"),
        ("{model: gpt-oss-120b, chips: 8, per_rack: 5}", "do not fit the 32 chips of a rack; use per_rack: 4"),
        ("{model: gpt-oss-120b, chips: 8, per_rack: 4}, {model: llama-3.1-8b, chips: 1}", "no chips are left"),
        ("{model: deepseek-r1, chips: 4}, {model: gpt-oss-120b, chips: 4, per_rack: 1}", "weights"),
    ],
)
def test_what_cannot_be_laid_out_says_where_and_what_would_fit(tmp_path, deploy, says):
    with pytest.raises(Infeasible) as caught:
        lay_out(scenario(tmp_path, deploy=deploy), LENGTHS)
    message = str(caught.value)
    assert says in message
    assert "s.yaml:13:" in message
    assert "fleet.pools.p.deploy" in message


def test_the_power_limit_is_at_the_meter(tmp_path):
    # hgx-h200 is rated at 41.8 kW; 4 racks x 41.8 x PUE 1.25 = 209 kW, 9 above the limit: 3 racks fit.
    with pytest.raises(Infeasible) as caught:
        lay_out(scenario(tmp_path, count=4, more="site: {power_limit: 200 kW, pue: 1.25}"), LENGTHS)
    assert "209 kW at the meter" in str(caught.value)
    assert "keep p: 3 racks, or raise the limit to 209 kW" in str(caught.value)
    fleet = lay_out(scenario(tmp_path, count=3, more="site: {power_limit: 200 kW, pue: 1.25}"), LENGTHS)
    assert fleet.rated_w == pytest.approx(3 * 41_800 * 1.25)
    # 2 x 41.8 x 1.2 = 100.32 kW: a way out that is rounded to 100 kW would be refused again.
    with pytest.raises(Infeasible) as caught:
        lay_out(scenario(tmp_path, count=2, more="site: {power_limit: 100 kW, pue: 1.2}"), LENGTHS)
    assert "rated at 100.32 kW at the meter (rated power x PUE), 320 W above the limit of 100 kW" in str(caught.value)
    assert "or raise the limit to 100.4 kW" in str(caught.value)
    lay_out(scenario(tmp_path, count=2, more="site: {power_limit: 100.4 kW, pue: 1.2}"), LENGTHS)


def test_a_class_without_a_rack_is_infeasible(tmp_path):
    with pytest.raises(Infeasible, match=r"traffic\.chat: no replica of gpt-oss-120b"):
        lay_out(scenario(tmp_path, count=0), LENGTHS)


def test_silent_sites_take_the_defaults_and_a_grid_gives_carbon_only(tmp_path):
    silent = lay_out(scenario(tmp_path), LENGTHS)
    assert (silent.pue.number, silent.electricity_usd_per_kwh.number) == (1.2, 0.08)
    assert silent.carbon_kgco2e_per_kwh.number == 0.475
    grid = lay_out(scenario(tmp_path, more="site: {grid: no}"), LENGTHS)
    assert (grid.pue.number, grid.electricity_usd_per_kwh.number) == (1.2, 0.08)
    assert grid.carbon_kgco2e_per_kwh.number == pytest.approx(0.0301)
    named = lay_out(scenario(tmp_path, more="site: {name: no, pue: 1.3}"), LENGTHS)
    assert (named.pue.number, named.electricity_usd_per_kwh.number) == (1.3, 0.07)


def test_a_contract_takes_the_catalogues_price_of_a_chip_hour() -> None:
    def laid(rack: str, model: str, kind: str) -> Fleet:
        text = f"""
title: t
traffic: {{chat: {{model: {model}, arrivals: poisson, rate: 1 req/s, input: 100 tok, output: 10 tok}}}}
fleet: {{pools: {{a: {{rack: {rack}, count: 1, contract: {kind}, deploy: [{{model: {model}, chips: 4}}]}}}}}}
run: {{length: 1 min}}
"""
        return lay_out(load("-", stdin_text=text), {"chat": Lengths(100, 10)})

    rent = laid("gb300-nvl72", "gpt-oss-120b", "3-year").pools[0].rent_usd_per_chip_h
    assert rent is not None
    assert (rent.number, rent.path, rent.grade) == (3.96, "prices.gb300.rental_3y_usd_per_chip_h", "third-party")
    with pytest.raises(Infeasible, match="no source gives a 3-year price of jalapeno"):
        laid("jalapeno-rack", "gpt-oss-120b", "3-year")
    own = laid("jalapeno-rack", "gpt-oss-120b", "hyperscaler").pools[0].rent_usd_per_chip_h
    assert own is not None
    assert (own.number, own.grade) == (0.55, "undisclosed")


def test_stages_of_a_wide_replica_fill_empty_domains():
    # Four servers of 8: two stages of 8 chips each twice; three stages of 6 leave 2 chips in three servers, 8 in one.
    assert pack([8, 8, 8, 8], [(16, None)], [2]) == ([2], [0, 0, 0, 0])
    assert pack([8, 8, 8, 8], [(18, None)], [3]) == ([1], [2, 2, 2, 8])
    # Six stages of 4: two a server, three servers; what stands in the first is left alone.
    assert pack([8, 8, 8, 8], [(4, 1), (24, None)], [1, 6]) == ([1, 1], [4, 0, 0, 0])
    # A replica in stages that fits a domain is placed as any other.
    assert pack([8, 8], [(4, None)], [2]) == ([4], [0, 0])


def test_a_replica_in_stages_crosses_domains_and_says_so(tmp_path):
    made = scenario(tmp_path, deploy="{model: gpt-oss-120b, tp: 8, pp: 2, chips: 16}")
    fleet = lay_out(made, LENGTHS)
    (placed,) = fleet.placed
    assert (placed.n_replicas, placed.tp, placed.dp, placed.pp) == (2, 8, 1, 2)
    assert placed.label == "gpt-oss-120b tp8 pp2 ep8"
    assert {"crosses_domains", "pipeline_stages"} <= {notice.code for notice in fleet.notices}
    with pytest.raises(Infeasible, match="a stage of 16 chips is larger than the 8-chip domain"):
        lay_out(scenario(tmp_path, deploy="{model: gpt-oss-120b, pp: 2, chips: 32}"), LENGTHS)
    with pytest.raises(Infeasible, match="a replica of 16 chips is larger") as error:
        lay_out(scenario(tmp_path, deploy="{model: gpt-oss-120b, chips: 16}"), LENGTHS)
    assert error.value.faults[0].way_out == "use at most 8 chips, or pipeline stages (pp) that each fit a domain"

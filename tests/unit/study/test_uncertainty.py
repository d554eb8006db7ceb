"""Samples of uncertain facts: strata, common draws, the posterior's members, and what physics does not allow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import Infeasible
from planner.facts import catalog
from planner.fleet.fleet import Fleet
from planner.fleet.layout import lay_out
from planner.model.posterior import shipped
from planner.scenario import Scenario, load
from planner.study.run import mean_lengths
from planner.study.uncertainty import Sample, _at, applied, book, sample, uncertain
from tests.fleets import fact

TEXT = """
schema: 1
title: Both vendors
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 5 req/s, input: 1000 tok, output: 200 tok}
fleet:
  pools:
    jalapeno: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, tp: 4}]}
    gb300: {rack: gb300-nvl72, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, tp: 4}]}
run: {length: 1 min}
"""


def laid_out(*sets: str) -> tuple[Scenario, Fleet]:
    scenario = load("-", stdin_text=TEXT, sets=sets)
    return scenario, lay_out(scenario, mean_lengths(scenario))


SCENARIO, FLEET = laid_out()


def drawn(n: int = 20, **more: int) -> list[Sample]:
    return sample(SCENARIO, n, fleet=FLEET, **more)


@given(share=st.floats(0, 1), mode=st.sampled_from([10.0, 12.0, 17.0, 20.0]))
def test_a_triangular_quantile_is_undone_by_its_distribution(share: float, mode: float) -> None:
    # F(x) = (x - low)^2 / (width (mode - low)) below the mode, 1 - (high - x)^2 / (width (high - mode)) above it.
    value = _at(fact(mode, "x", low=10.0, high=20.0), share)
    if value <= mode and mode > 10:
        back = (value - 10) ** 2 / (10 * (mode - 10))
    else:
        back = 1 - (20 - value) ** 2 / (10 * (20 - mode))
    assert 10 <= value <= 20
    assert back == pytest.approx(share, abs=1e-9)


def test_every_stratum_of_a_fact_is_drawn_once() -> None:
    life = fact(5.0, "prices.finance.life_years", low=3.0, high=6.0)
    expected = sorted(_at(life, (ix + 0.5) / 20) for ix in range(20))
    assert sorted(each.values["prices.finance.life_years"] for each in drawn()) == expected


def test_draws_are_common_to_variants_and_hang_on_the_seed() -> None:
    without = sample(*laid_out("fleet.pools.gb300=null")[:1], 20)
    both = drawn()
    assert [one.member for one in without] == [one.member for one in both]
    for one, other in zip(without, both, strict=True):
        assert all(other.values[path] == value for path, value in one.values.items())
    assert drawn(seed=2)[0].values != both[0].values
    assert drawn() == both


def test_what_is_simulated_is_drawn_a_bounded_number_of_times() -> None:
    found = drawn(40, n_simulated=4)
    facts = uncertain(SCENARIO, FLEET)
    assert {one.simulated_ix for one in found} == {0, 1, 2, 3}
    for fact_ in (*facts.simulated, *facts.members):
        by_ix = {(one.simulated_ix, one.values[fact_.path]) for one in found}
        assert len(by_ix) == 4, fact_.path
    assert len({one.values["prices.finance.life_years"] for one in found}) == 40


def test_a_member_is_taken_whole() -> None:
    one = drawn()[3]
    assert one.member is not None
    member = shipped().members[one.member].values
    assert one.values["chips.jalapeno.memory_bytes_per_s"] == member["chip.memory_bytes_per_s"]
    assert one.values["engines.openai.expert_skew"] == member["engine.expert_skew"]
    assert one.values["chips.jalapeno.flop_per_s.bf16"] == member["chip.flop_per_s.fp4"] / 4
    assert one.values["racks.jalapeno-rack.rated_w"] == pytest.approx(64 * 700 * member["rack.rated_over_chips"])
    nvidia = sample(*laid_out("fleet.pools.jalapeno=null")[:1], 4)
    assert {each.member for each in nvidia} == {None}
    assert not any("jalapeno" in path for each in nvidia for path in each.values)


def test_draws_keep_their_order() -> None:
    for one in drawn(60, n_simulated=60):
        for chip, rack in (("jalapeno", "jalapeno-rack"), ("gb300", "gb300-nvl72")):
            pool = next(each for each in FLEET.pools if each.chip.name == chip)
            watts = [one.values[f"chips.{chip}.{name}"] for name in ("idle_w", "parked_w", "low_load_w", "high_load_w")]
            of_rack = [one.values[f"racks.{rack}.{name}"] for name in ("idle_w", "typical_w", "rated_w")]
            n = pool.rack.n_chips.number
            assert watts == sorted(watts)
            assert of_rack == sorted(of_rack)
            assert of_rack[0] >= n * watts[0]
            assert of_rack[1] >= n * watts[3]


def test_a_sample_reaches_the_simulator_and_the_books() -> None:
    one = drawn()[0]
    changed = applied(FLEET, one, SCENARIO.base_dir)
    jalapeno, gb300 = (placed.spec for placed in changed.placed)
    assert jalapeno["chip"]["memory_bytes_per_s"] == one.values["chips.jalapeno.memory_bytes_per_s"]
    assert jalapeno["engine"]["link_eff_frac"] == one.values["engines.openai.link_eff_frac"]
    assert gb300["engine"]["launch_layer_s"] == one.values[f"engines.{FLEET.placed[1].engine}.launch_layer_s"]
    assert changed.pools[0].placed == changed.placed[:1]
    assert changed.placed[0].plan != FLEET.placed[0].plan  # another memory, another room for keys and values
    assert book(one)(FLEET.pools[0].rack.capex_usd) == one.values["racks.jalapeno-rack.capex_usd"]
    assert applied(FLEET, replace(one, values={}), SCENARIO.base_dir) == FLEET


def test_chips_that_a_replica_does_not_fit_are_infeasible() -> None:
    small = Sample(0, {"chips.jalapeno.memory_bytes": 1e9}, 0, 0)
    with pytest.raises(Infeasible, match="do not fit"):
        applied(FLEET, small, SCENARIO.base_dir)


def test_facts_without_effect_are_not_drawn() -> None:
    facts = uncertain(SCENARIO, FLEET)
    paths = {one.path for one in (*facts.held, *facts.simulated, *facts.members)}
    assert "engines.openai.launch_mla_s" not in paths  # gpt-oss has no latent attention
    assert "engines.openai.launch_moe_s" in paths
    assert "chips.jalapeno.embodied_kgco2e" not in paths  # the rack's counts
    assert "racks.jalapeno-rack.weight_kg" not in paths
    assert len(paths) == len(facts.held) + len(facts.simulated) + len(facts.members)


def test_the_member_in_use_is_one_of_many() -> None:
    # The facts of the chip are those of the best member, so a run without samples is one of the samples' worlds.
    best = shipped().best.values
    assert catalog.load().chip("jalapeno").memory_bytes_per_s.number == best["chip.memory_bytes_per_s"]


@pytest.mark.parametrize("rack", ["hgx-mi300x", "hgx-mi355x", "hgx-h200", "gb200-nvl72"])
def test_every_draw_is_one_that_the_core_takes(rack: str) -> None:
    # MI300X has no parked figure of its own: what stands in is lifted where a draw's idle power is above it.
    text = TEXT.replace("gb300-nvl72", rack)
    scenario = load("-", stdin_text=text, sets=["fleet.pools.jalapeno=null"])
    fleet = lay_out(scenario, mean_lengths(scenario))
    for one in sample(scenario, 32, n_simulated=32, fleet=fleet):
        chip = applied(fleet, one, scenario.base_dir).placed[0].spec["chip"]
        assert chip["idle_w"] <= chip["parked_w"] <= chip["low_load_w"] <= chip["high_load_w"]
        assert one.values[f"chips.{fleet.pools[0].chip.name}.idle_w"] == chip["idle_w"]


def test_the_acceptance_of_drafts_is_drawn_where_it_has_a_range() -> None:
    draft = "{draft: 3, acceptance: {value: 70 %, low: 60 %, high: 80 %}, draft_cost: 2 %}"
    scenario, fleet = laid_out(f"fleet.pools.gb300.deploy[0].speculation={draft}")
    path = "fleet.pools.gb300.deploy[0].speculation.acceptance"
    one = sample(scenario, 8, n_simulated=8, fleet=fleet)[0]
    assert 0.6 < one.values[path] < 0.8
    changed = applied(fleet, one, scenario.base_dir).placed[1]
    assert changed.spec["serving"]["speculation"]["acceptance_frac"] == one.values[path]
    assert changed.plan["tokens_per_step"] != fleet.placed[1].plan["tokens_per_step"]

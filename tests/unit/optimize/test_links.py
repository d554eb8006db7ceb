"""Prompts that are handed over fit the link: in the program, in the shares that are spread, and in a plan that runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.optimize.build import question
from planner.optimize.instance import Decision, Instance, Kind, Link, Option, Span, Way
from planner.optimize.linear import Stop
from planner.optimize.links import GIVEN
from planner.optimize.plan import Effort, NoPlan, optimize
from planner.optimize.reading import balanced
from planner.optimize.search import solve
from planner.optimize.why import relaxations
from planner.scenario import load

GB = 1e9
EXACT = Stop(0.0)


def kind(name: str, usd: float) -> Kind:
    option = Option("a", 8, per_rack=1)
    return Kind(name, (8,), (option,), new_usd_per_year={"racks": usd}, existing=(0,), most=9)


def instance(*links: Link, spare_frac: float = 0.0) -> Instance:
    """4 req/s, 1 GB handed over by each that goes the split way; racks of one side 1 USD a request/s, whole ones 10."""
    kinds = (kind("prefill", 1.0), kind("decode", 1.0), kind("whole", 10.0))
    ways = (Way("split", "c", ((0, 0, 1.0), (1, 0, 1.0))), Way("whole", "c", ((2, 0, 1.0),)))
    spans = (Span("now", 0, 1, 1.0, {"c": 4.0}, {"c": 2.0}),)
    return Instance(kinds, ways, spans, links=links, spare_frac=spare_frac)


def test_a_given_link_bounds_what_is_handed_over() -> None:
    free = solve(instance(), EXACT).decision
    assert free is not None
    assert free.bought == ((4,), (4,), (0,))
    moved = ((0, 1 * GB),)
    found = solve(instance(Link(GIVEN, moved, 2 * GB)), EXACT).decision
    assert found is not None
    assert found.shares[0][0] == pytest.approx(0.5)  # 4 req/s x 1 GB x share <= 2 GB/s
    assert found.bought == ((2,), (2,), (2,))
    tight = solve(instance(Link(GIVEN, moved, 2 * GB), spare_frac=0.2), EXACT).decision
    assert tight is not None
    assert tight.shares[0][0] <= 0.4 + 1e-6  # 4 / (1 - 0.2) x share <= 2


def test_links_of_replicas_add_up() -> None:
    moved = ((0, 1 * GB),)
    side = Link("links of decode", moved, by_replica=((1, 0, 0.25 * GB),))
    found = solve(replace(instance(side), kinds=(kind("p", 1.0), kind("d", 1.0), kind("w", 90.0))), EXACT).decision
    assert found is not None
    # Each decode replica brings a quarter of a GB/s. There are at most nine, so at most 2.25 of the 4 requests go that
    # way, and two whole ones are needed; then two are left for the split way, and eight bring their 2 GB/s.
    assert found.bought == ((2,), (8,), (2,))


def test_shares_are_spread_within_the_link() -> None:
    counts = (((4,),), ((4,),), ((4,),))
    asked = Decision(((4,), (4,), (4,)), counts, ((0.25,), (0.75,)))
    assert balanced(instance(), asked).shares[0] == (0.5,)  # alike, without a link
    assert balanced(instance(Link(GIVEN, ((0, 1 * GB),), 1 * GB)), asked).shares[0] == (0.25,)  # 4 x s <= 1


TEXT = """
schema: 1
title: Handed over on a thin link
traffic:
  chat:
    model: llama-3.1-8b
    arrivals: poisson
    rate: 8 req/s
    input: 1000 tok
    output: 60 tok
    slo: quick
slo:
  quick: {ttft: {p95: 2 s}, tpot: {p95: 50 ms}}
fleet:
  kv_link: 0.5 GB/s
  pools:
    first:
      rack: hgx-h100
      count: 1
      existing: 1
      deploy: [{model: llama-3.1-8b, chips: 8, role: prefill, decode_pool: then}]
    then: {rack: hgx-h100, count: 1, existing: 1, deploy: [{model: llama-3.1-8b, chips: 8, role: decode}]}
    whole: {rack: hgx-h100, count: {min: 0, max: 2}, deploy: [{model: llama-3.1-8b, chips: 8}]}
goal: {minimise: tco, horizon: 4 yr, tries: 0}
run: {length: 60 s, warmup: 10 s, seed: 3}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surfaces")


def test_a_plan_hands_over_no_more_than_the_link_takes(folder: Path) -> None:
    asked = question(load("-", stdin_text=TEXT), folder=folder)
    [link] = asked.instance.links
    # 32 layers x 8 heads x 128 x 2 (keys, values) x 2 B = 131,072 B a token, 1,000 tokens a prompt
    assert link.bytes_by_way == ((link.bytes_by_way[0][0], 131_072_000.0),)
    result = optimize(load("-", stdin_text=TEXT), folder=folder, effort=Effort(has_fixed_fleets=False))
    plan = result.plan
    assert plan is not None
    assert plan["verified"]
    [period] = plan["periods"]
    assert period["fleet"]["whole"] == 1
    assert period["routes"]["chat"]["first"] <= 0.5 / (8 * 0.131072) + 1e-6  # 47.7 %
    assert any(one["limit"] == GIVEN for one in plan["binding"])
    # A link of a GB/s more takes all of it, and no rack is bought.
    scenario = load("-", stdin_text=TEXT, sets=["fleet.kv_link=1.5 GB/s"])
    wide = optimize(scenario, folder=folder, effort=Effort(has_fixed_fleets=False, has_reasons=False))
    assert wide.plan is not None
    assert wide.plan["periods"][0]["fleet"]["whole"] == 0


def test_a_link_that_is_too_thin_is_named_with_the_least_that_would_do(folder: Path) -> None:
    sets = ["fleet.pools.whole=null"]
    asked = question(load("-", stdin_text=TEXT, sets=sets), folder=folder)
    [way] = relaxations(asked, EXACT)[:1]
    assert way["unit"] == "B/s"
    assert way["to"] == pytest.approx(8 * 131_072_000, rel=1e-6)
    with pytest.raises(NoPlan, match=r"a kv link of 1\.05 GB/s"):
        optimize(load("-", stdin_text=TEXT, sets=sets), folder=folder)

"""A cheap site far from the clients: it serves what can wait, and no class whose limit the way eats."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import Infeasible
from planner.optimize.build import question
from planner.optimize.plan import Effort, optimize
from planner.scenario import Scenario, load

TEXT = """
schema: 1
title: Near or cheap
traffic:
  chat:
    model: gpt-oss-20b
    arrivals: poisson
    rate: 15 req/s
    input: 600 tok
    output: 100 tok
    slo: quick
  bulk:
    model: gpt-oss-20b
    arrivals: poisson
    rate: 15 req/s
    input: 600 tok
    output: 100 tok
    slo: slow
slo:
  quick: {ttft: {p95: 300 ms}}
  slow: {ttft: {p95: 2 s}, e2e: {p95: 10 s}}
fleet:
  pools:
    near:
      rack: hgx-h100
      count: {min: 0, max: 2}
      deploy: [{model: gpt-oss-20b, chips: 8, per_rack: 1, max_batch: 8}]
    far:
      rack: hgx-h100
      count: {min: 0, max: 2}
      capex: 0.1 MUSD/rack
      deploy: [{model: gpt-oss-20b, chips: 8, per_rack: 1, max_batch: 8}]
sites:
  home: {pools: [near], power_price: 0.2 USD/kWh}
  away: {pools: [far], power_price: 0.02 USD/kWh, round_trip: 400 ms}
goal: {minimise: tco, horizon: 4 yr, tries: 0}
run: {length: 40 s, warmup: 10 s, seed: 3}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surfaces")


def scenario(*sets: str) -> Scenario:
    return load("-", stdin_text=TEXT, sets=sets)


def fleet(folder: Path, *sets: str) -> tuple[dict[str, int], dict[str, dict[str, float]]]:
    plan = optimize(scenario(*sets), folder=folder, effort=Effort(has_fixed_fleets=False, has_reasons=False)).plan
    assert plan is not None
    assert plan["verified"]
    [period] = plan["periods"]
    return period["fleet"], period["routes"]


def test_the_way_decides_who_is_served_where(folder: Path) -> None:
    # Chat's 300 ms are less than the way of 400 ms, bulk's two seconds are more: a rack for each, at its site.
    racks, routes = fleet(folder)
    assert racks == {"near": 1, "far": 1}
    assert routes == {"chat": {"near": 1.0}, "bulk": {"far": 1.0}}
    # Without the way two cheap racks serve both.
    racks, routes = fleet(folder, "sites.away.round_trip=null")
    assert racks == {"near": 0, "far": 2}
    assert routes == {"chat": {"far": 1.0}, "bulk": {"far": 1.0}}
    # And so it does for chat's own clients, if they are near.
    assert fleet(folder, "sites.away.round_trip_by_class={chat: 10 ms}")[0] == {"near": 0, "far": 2}


def test_what_the_way_leaves_of_a_limit_bounds_the_load(folder: Path) -> None:
    near, far = (
        question(scenario("slo.quick.ttft={p95: 420 ms}", f"sites.away.round_trip={way}"), folder=folder)
        for way in ("0 ms", "400 ms")
    )
    loads = []
    for asked in (near, far):
        part = asked.parts[1][0]
        loads.append(asked.limits["chat", part, "mixed"].req_per_s)
    assert 0 < loads[1] < loads[0]  # 20 ms are left of 420


def test_a_class_that_is_too_far_from_every_site_is_named_with_its_best_latency(folder: Path) -> None:
    with pytest.raises(Infeasible, match=r"traffic\.chat: .* best reached: ttft p95 6\d\d ms on (near|far)"):
        optimize(scenario("sites.home.round_trip=600 ms", "sites.away.round_trip=900 ms"), folder=folder)

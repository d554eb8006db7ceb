"""Shared prefixes from the scenario's key to the replicas: what is found again is not computed."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.core import SimTables, simulate
from planner.fleet.cells import sim_spec
from planner.fleet.layout import lay_out
from planner.study.run import mean_lengths
from planner.traffic.requests import for_scenario

TEXT = """\
title: t
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 20 req/s, input: 4 ktok, output: 50 tok, prefix_reuse: 60 %}
fleet: {pools: {a: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8, per_rack: 1}]}}}
run: {length: 60 s, seed: 3}
"""


def simulated(tmp_path: Path, *sets: str) -> tuple[SimTables, int]:
    """The tables of the scenario, and the prompt tokens that it offers."""
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    s = planner.load(path, sets=sets)
    traffic = for_scenario(s, 3, prefixes=True)
    fleet = lay_out(s, mean_lengths(s))
    spec = sim_spec(
        s, fleet, seed=3, length_ns=traffic.length_ns, keep_requests=False, block_tokens=traffic.block_tokens
    )
    return simulate(spec, traffic.frame, traffic.blocks), int(traffic.frame["input_tokens"].sum())


def test_the_share_asked_for_is_found_in_a_cache_that_is_large_enough(tmp_path: Path) -> None:
    tables, offered = simulated(tmp_path)
    # One replica that forgets nothing in a minute: all that repeats is found (those under way at once find it, too).
    assert int(tables.deployments["cached_input_tokens"].sum()) / offered == pytest.approx(0.6, abs=0.01)
    computed = int(tables.deployments["input_tokens"].sum())
    # Work after the last arrival is outside the span.
    assert computed + int(tables.deployments["cached_input_tokens"].sum()) == pytest.approx(offered, rel=0.01)


def test_without_a_cache_every_token_is_computed(tmp_path: Path) -> None:
    off = "fleet.pools.a.deploy=[{model: gpt-oss-120b, chips: 8, per_rack: 1, prefix_cache: false}]"
    tables, offered = simulated(tmp_path, off)
    assert int(tables.deployments["cached_input_tokens"].sum()) == 0
    assert int(tables.deployments["input_tokens"].sum()) == pytest.approx(offered, rel=0.01)  # in the span


def test_a_run_takes_prefixes_and_is_faster_for_them(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    warm = planner.run(planner.load(path)).to_json()["classes"]["chat"]
    off = "fleet.pools.a.deploy=[{model: gpt-oss-120b, chips: 8, per_rack: 1, prefix_cache: false}]"
    cold = planner.run(planner.load(path, sets=[off])).to_json()["classes"]["chat"]
    assert warm["completed"] == cold["completed"]
    assert warm["ttft_s"]["mean"] < cold["ttft_s"]["mean"]

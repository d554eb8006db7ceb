"""Shared prefixes from the scenario's key to the replicas: what is found again is not computed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import planner
from planner.core import SimTables, simulate
from planner.errors import CoreError
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


SESSIONS = TEXT.replace("rate: 20 req/s", "rate: 40 req/s").replace(
    "prefix_reuse: 60 %", "sessions: {turns: {dist: fixed, value: 20}, think: 1 s}"
)


def test_sessions_are_fed_as_runs_and_found_as_if_they_were_fed_block_by_block(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SESSIONS)
    s = planner.load(path, sets=["traffic.chat.input=1 ktok"])
    traffic = for_scenario(s, 3, prefixes=True)
    assert traffic.runs is not None
    assert traffic.blocks is not None
    # A head that all share and a tail of its own: two rows a turn at most, however long the session is.
    assert traffic.runs.height <= 2 * traffic.frame.height
    assert traffic.blocks.height > 30 * traffic.frame.height
    spec = sim_spec(
        s, lay_out(s, mean_lengths(s)), seed=3, length_ns=traffic.length_ns, keep_requests=True, block_tokens=256
    )
    runs = simulate(spec, traffic.frame, traffic.runs.rename({"first_hash": "hash"}))
    each = simulate(spec, traffic.frame, traffic.blocks)
    assert int(runs.deployments["cached_input_tokens"].sum()) > 0
    for name in ("requests", "deployments", "windows", "classes", "sketches"):
        assert getattr(runs, name).equals(getattr(each, name)), name


def test_runs_longer_than_their_prompt_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    s = planner.load(path)
    traffic = for_scenario(s, 3, prefixes=True)
    spec = sim_spec(
        s, lay_out(s, mean_lengths(s)), seed=3, length_ns=traffic.length_ns, keep_requests=False, block_tokens=32
    )
    of = {"row": pl.UInt64, "hash": pl.UInt64, "n": pl.UInt32}
    for n in (4000 // 32 + 1, 2**32 - 1):
        with pytest.raises(CoreError, match="more than 4000 prompt tokens"):
            simulate(spec, traffic.frame, pl.DataFrame({"row": [0], "hash": [2**64 - 1], "n": [n]}, schema=of))
    none = simulate(spec, traffic.frame, pl.DataFrame({"row": [0], "hash": [5], "n": [0]}, schema=of))
    assert none.deployments["cached_input_tokens"].sum() == 0


def test_cached_tokens_are_counted_apart_and_paid_once(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    tree = planner.run(planner.load(path)).to_json()
    fleet, cost = tree["fleet"], tree["cost"]
    assert fleet["tokens_per_s_cached"] / (fleet["tokens_per_s_in"] + fleet["tokens_per_s_cached"]) == pytest.approx(
        0.6, abs=0.01
    )
    # The whole cost is that of the tokens computed: what was found cached is in no denominator.
    paid = cost["usd_per_mtok_in"] * fleet["tokens_per_s_in"] + cost["usd_per_mtok_out"] * fleet["tokens_per_s_out"]
    assert paid * 3600 / 1e6 == pytest.approx(cost["usd_per_h"], rel=1e-9)

"""A real simulation, summed up: energy is the integral of power, tokens and requests are conserved."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from planner import Result, load, run

TEXT = """
schema: 1
title: Two pools
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 30 req/s
    input: {dist: lognormal, median: 600 tok, p95: 3 ktok}
    output: {dist: lognormal, median: 80 tok, p95: 300 tok}
    slo: s
slo: {s: {ttft: {p95: 1 s}, e2e: {p99: 20 s}, attainment: 50 %}}
fleet:
  pools:
    jalapeno: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8, per_rack: 2}]}
    gb300: {rack: gb300-nvl72, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, per_rack: 3}]}
run: {length: 60 s, window: 10 s, seeds: 2}
"""


@pytest.fixture(scope="module")
def result() -> Result:
    return run(load("-", stdin_text=TEXT), keep_requests=True)


def test_energy_is_the_integral_of_power(result: Result) -> None:
    for seed in result.to_json()["seeds"]:
        joules = []
        for pool in seed["pools"]:
            windows = result.tables["windows"].filter(
                (pl.col("seed") == seed["run"]["seed"]) & (pl.col("pool") == pool) & (pl.col("start_s") < 60)
            )
            assert windows.height == 6
            joules += [watts * 10 for watts in windows["rack_it_w"]]
            assert seed["pools"][pool]["rack_it_w"]["peak"] == max(windows["rack_it_w"])
        assert math.fsum(joules) / 3.6e6 == pytest.approx(seed["energy"]["it_kwh"], rel=1e-9)


def test_tokens_and_requests_are_conserved(result: Result) -> None:
    tree = result.to_json()
    fates = ("completed", "rejected", "timed_out", "cancelled", "unfinished")
    assert tree["requests"]["offered"] == sum(tree["requests"][fate] for fate in fates)
    assert tree["requests"]["offered"] == result.tables["requests"].height
    assert tree["tokens"]["input"] == result.tables["requests"]["input_tokens"].sum()
    served = result.tables["requests"]
    assert set(served["replica_ix"].unique()) == set(range(5))  # two replicas and three, and all were served by one
    windows = result.tables["windows"]
    # Everything completed, so the windows of the whole run, drain included, hold every token once.
    assert tree["requests"]["completed"] == tree["requests"]["offered"]
    assert windows["input_tokens"].sum() == tree["tokens"]["input"]
    assert windows["output_tokens"].sum() == tree["tokens"]["output"]


def test_quantiles_are_those_of_the_kept_requests(result: Result) -> None:
    for seed in result.to_json()["seeds"]:
        rows = result.tables["requests"].filter(pl.col("seed") == seed["run"]["seed"])
        e2e = (rows["end_ns"] - rows["arrival_ns"]) / 1e9
        for name, quantile in (("p50", 0.5), ("p99", 0.99)):
            exact = e2e.quantile(quantile, interpolation="linear")
            assert seed["classes"]["chat"]["e2e_s"][name] == pytest.approx(exact, rel=0.005)
        assert seed["classes"]["chat"]["e2e_s"]["mean"] == pytest.approx(e2e.mean(), rel=1e-9)


def test_the_folder_answers_by_itself(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "r")
    again = Result.load(tmp_path / "r")
    assert again.metric("usd_per_mtok_out_whole").equals(result.metric("usd_per_mtok_out_whole"))
    assert "rack: jalapeno-rack" in again.scenarios["base"]
    costs = again.tables["costs"].filter(pl.col("seed") == 1)
    assert math.fsum(costs["usd_per_h"]) == pytest.approx(result.to_json()["cost"]["usd_per_h"], rel=1e-3)
    facts = again.tables["facts"]
    assert facts.filter(pl.col("path") == "racks.jalapeno-rack.capex_usd")["swing_usd_per_h"][0] > 0
    assert {"models.gpt-oss-120b.n_layers", "chips.gb300.memory_bytes"} <= set(facts["path"])

"""Intervals over the uncertain facts, end to end on a small fleet, and the measures they are made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.aggregate.result import Result
from planner.aggregate.result_schema import result_schema
from planner.errors import ScenarioError
from planner.scenario import load
from planner.study.run import run
from planner.study.spread import N_ALONE, quantile, rank_correlation

TEXT = """
schema: 1
title: Both vendors
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 5 req/s, input: 1000 tok, output: 100 tok, slo: fast}
slo:
  fast: {ttft: {p95: 500 ms}, tpot: {p95: 20 ms}}
fleet:
  pools:
    jalapeno: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, tp: 4, per_rack: 2}]}
run: {length: 20 s, samples: 12, samples_simulated: 3}
overrides:
  dear: {fleet.pools.jalapeno.capex: 2 MUSD/rack}
scenarios:
  dear: [dear]
"""


@pytest.fixture(scope="module")
def found() -> Result:
    return run([load("-", stdin_text=TEXT, variant=name) for name in ("base", "dear")], workers=2)


def spread(result: Result, variant: str = "base") -> dict[str, Any]:
    tree: dict[str, Any] = result.variants[variant]["uncertainty"]
    return tree


def test_every_headline_figure_has_an_interval(found: Result) -> None:
    tree = spread(found)
    assert (tree["samples"], tree["simulated"], tree["seed"]) == (12, 3, 1)
    for figure in (
        "cost.usd_per_mtok_out_whole",
        "energy.j_per_token_all",
        "carbon.kgco2e",
        "classes.chat.limits.ttft.p95",
    ):
        each = tree["figures"][figure]
        assert each["low"] <= each["median"] <= each["high"], figure
        assert each["n"] == 12 - tree["infeasible"]
    of_variant = found.variants["base"]
    assert tree["figures"]["cost.usd_per_h"]["value"] == of_variant["cost"]["usd_per_h"]
    limit = of_variant["classes"]["chat"]["limits"][0]
    assert tree["figures"]["classes.chat.limits.ttft.p95"]["value"] == limit["value"]


def test_the_table_has_every_value(found: Result) -> None:
    table = found.tables["samples"].filter(pl.col("variant") == "base")
    wide = table.filter(pl.col("kind") == "figure").pivot(
        on="name", index=["sample_ix", "simulated_ix"], values="value"
    )
    assert wide.height == 12
    costs = sorted(wide["cost.usd_per_h"].drop_nulls().to_list())
    assert spread(found)["figures"]["cost.usd_per_h"]["median"] == quantile(costs, 0.5)
    # What the simulator gave is the same for samples that share a simulation; money differs.
    for _, group in wide.group_by("simulated_ix", maintain_order=True):
        assert group["classes.chat.limits.ttft.p95"].n_unique() == 1
        assert group["cost.usd_per_h"].n_unique() == group.height


def test_figures_and_facts_over_the_samples(found: Result) -> None:
    cost = found.metric("usd_per_mtok_out_whole", over="sample")
    assert cost.columns == ["variant", "sample_ix", "member", "name", "value"]
    assert cost.filter(pl.col("name") == "cost.usd_per_mtok_out_whole").height == 2 * 12
    price = found.metric("racks.jalapeno-rack.capex_usd", over="sample")
    assert price["variant"].unique().to_list() == ["base"]
    with pytest.raises(ScenarioError, match=r"did you mean cost\.usd_per_mtok_out"):
        found.metric("cost.usd_per_mtok_ou", over="sample")


def test_variants_see_the_same_worlds(found: Result) -> None:
    # The dear racks have a price of their own; everything else is drawn alike, so energy and latency agree.
    table = found.tables["samples"]
    base, dear = (
        table.filter((pl.col("variant") == name) & (pl.col("name") != "cost.usd_per_h")).select(
            "sample_ix", "member", "kind", "name", "value"
        )
        for name in ("base", "dear")
    )
    same = (
        "prices.finance.life_years",
        "energy.facility_kwh",
        "classes.chat.limits.tpot.p95",
        "chips.jalapeno.memory_bytes",
    )
    for name in same:
        assert base.filter(pl.col("name") == name).equals(dear.filter(pl.col("name") == name)), name
    assert spread(found, "dear")["figures"]["cost.usd_per_h"]["low"] > spread(found)["figures"]["cost.usd_per_h"]["low"]


def test_the_tornado_leads_with_the_price(found: Result) -> None:
    first = spread(found)["tornado"]["cost.usd_per_mtok_out_whole"][0]
    assert first["path"] == "racks.jalapeno-rack.capex_usd"
    assert first["rank_correlation"] > 0.5
    assert first["swing"] == pytest.approx(first["figure_high"] - first["figure_low"])
    # A price that the scenario states has no range, so it does not swing.
    paths = {bar["path"] for bar in spread(found, "dear")["tornado"]["cost.usd_per_mtok_out_whole"]}
    assert "racks.jalapeno-rack.capex_usd" not in paths


def test_facts_that_the_simulator_reads_are_swung_by_simulation(found: Result) -> None:
    table = found.tables["swings"].filter((pl.col("variant") == "base") & pl.col("is_simulated"))
    alone = table.filter(pl.col("swing").is_not_null())
    assert 0 < alone["path"].n_unique() <= N_ALONE
    latency = alone.filter(pl.col("figure") == "classes.chat.limits.tpot.p95")
    assert latency["swing"].max() > 0  # type: ignore[operator]


def test_it_is_written_read_and_valid(found: Result, tmp_path: Path) -> None:
    found.save(tmp_path / "r")
    body = json.loads((tmp_path / "r" / "result.json").read_text())
    jsonschema.validate(body, result_schema())
    again = Result.load(tmp_path / "r")
    assert again.variants == found.variants
    assert again.tables["samples"].equals(found.tables["samples"])


def test_the_same_bytes_whatever_the_threads(found: Result) -> None:
    again = run([load("-", stdin_text=TEXT, variant=name) for name in ("base", "dear")], workers=1)
    assert again.variants == found.variants
    assert again.tables["samples"].equals(found.tables["samples"])
    assert again.tables["swings"].equals(found.tables["swings"])


def test_a_sample_is_judged_as_the_run_is() -> None:
    """Its limits hold by themselves, but not with the only rack out, nor with nearly all of the load kept free."""
    few = ("run.samples=3", "run.samples_simulated=1", "run.length=5 s", "traffic.chat.rate=50 req/s")
    plain = load("-", stdin_text=TEXT, sets=few)
    assert spread(run(plain, workers=2))["met_frac"] == 1.0
    for more in ("fleet.survive={racks: 1}", "fleet.spare=99 %"):
        result = run(load("-", stdin_text=TEXT, sets=[*few, more]), workers=2)
        assert result.variants["base"]["verdict"] == "missed", more
        assert spread(result)["met_frac"] == 0.0, more
        assert spread(result)["figures"] == spread(run(plain, workers=2))["figures"], more


def test_without_samples_there_is_none() -> None:
    plain = run(load("-", stdin_text=TEXT, sets=["run.samples=null", "run.samples_simulated=null"]), workers=2)
    assert plain.variants["base"]["uncertainty"] is None
    assert "samples" not in plain.tables
    assert plain.tables["swings"]["is_simulated"].any() is False


def test_a_member_that_does_not_hold_the_replicas_counts_as_a_miss() -> None:
    # Kimi K2.5 is 545 GB: two chips of 192 GB do not hold it, two of 288 GB do.
    sets = ["traffic.chat.model=kimi-k2.5", "run.samples=16", "run.samples_simulated=16", "run.length=2 s"]
    sets += [
        "fleet.pools.jalapeno.deploy[0].model=kimi-k2.5",
        "traffic.chat.input=8 ktok",
        "traffic.chat.rate=1 req/s",
    ]
    sets += ["fleet.pools.jalapeno.deploy[0].chips=2", "fleet.pools.jalapeno.deploy[0].tp=2"]
    tree = spread(run(load("-", stdin_text=TEXT, sets=sets), workers=2))
    assert 0 < tree["infeasible"] < 16
    assert tree["met_frac"] <= 1 - tree["infeasible"] / 16
    assert tree["figures"]["cost.usd_per_h"]["n"] == 16 - tree["infeasible"]


def test_rank_correlation_by_hand() -> None:
    # Ranks 1 2 3 4 and 2 1 3.5 3.5 of 1 2 5 5: products of deviations 0.75 + 0.75 + 0.5 + 1.5 = 3.5;
    # spreads 5 and 4.5: 3.5 / sqrt(22.5) = 0.7379.
    assert rank_correlation([1, 2, 3, 4], [2, 1, 5, 5]) == pytest.approx(3.5 / 22.5**0.5)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == -1.0
    assert rank_correlation([1, 2, 3], [7, 7, 7]) is None
    assert rank_correlation([1, 2], [1, 2]) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=30, unique=True))
def test_rank_correlation_hangs_on_order_alone(values: list[float]) -> None:
    cubes = [float(sorted(values).index(value)) ** 3 for value in values]
    assert rank_correlation(values, cubes) == pytest.approx(1.0)
    assert rank_correlation(values, [-cube for cube in cubes]) == pytest.approx(-1.0)

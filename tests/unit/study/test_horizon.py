"""A horizon on response surfaces: nothing beyond the samples, every hour counted once, sums that agree, and speed."""

from __future__ import annotations

import functools
import math
import time
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import polars as pl
import pytest

from planner import Result, load, run
from planner.aggregate.result_schema import result_schema
from planner.errors import ScenarioError
from planner.report.text import run_report
from planner.study.curves import Surface
from planner.study.group import Measured
from planner.study.horizon_classes import _LEVELS, _quantile
from planner.study.horizon_hour import hour_of
from planner.study.routed import Share
from planner.study.walk import Stage, walk, walk_all
from planner.traffic.hours import recorded
from planner.traffic.requests import for_scenario

LEVELS = list(_LEVELS.values())
TEXT = """
schema: 1
title: small
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 60 req/s
    shape: [5, 3, 2, 2, 2, 3, 5, 8, 11, 13, 14, 14, 13, 14, 14, 14, 14, 14, 15, 16, 17, 15, 11, 8]
    input: 800 tok
    output: {dist: uniform, low: 10 tok, high: 60 tok}
    slo: easy
slo:
  easy: {ttft: {p95: 200 ms}, tpot: {p95: 30 ms}, attainment: 90 %}
fleet:
  pools:
    a: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, per_rack: 2}]}
site: {power_price: 0.1 USD/kWh, carbon: 100 gCO2e/kWh, pue: 1.2}
run: {length: 5 s, horizon: 0.02 yr, days: 1}
"""
HOURS = round(0.02 * 8760)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surfaces")


@pytest.fixture(scope="module")
def results(folder: Path) -> Any:
    @functools.cache
    def made(*sets: str) -> Result:
        return run(load("-", stdin_text=TEXT, sets=sets), surfaces=folder, workers=2)

    return made


def horizon(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = result.to_json()["horizon"]
    return found


def test_every_hour_is_counted_once(results: Any) -> None:
    tree = horizon(results())
    chat = tree["classes"]["chat"]
    assert tree["hours"] == HOURS
    assert chat["hours_met"] + chat["hours_missed"] + tree["hours_beyond"] == HOURS
    assert chat["requests"] == pytest.approx(chat["mean_req_per_s"] * 3600 * HOURS, abs=1)
    assert tree["peak_hour"] % 24 == 20  # the 17 of the shape
    table = results().tables["horizon_classes"]
    assert table.height == HOURS
    assert table["state"].value_counts().sort("state").to_dicts() == [{"state": "met", "count": chat["hours_met"]}]


def test_energy_money_and_carbon_are_sums_of_the_hours(results: Any) -> None:
    result = results()
    fleet = horizon(result)["fleet"]
    hours = result.tables["horizon_pools"]
    kwh = math.fsum(hours["facility_w"].to_list()) / 1000
    assert fleet["facility_kwh"] == pytest.approx(kwh, rel=1e-9)
    assert fleet["operational_kgco2e"] == pytest.approx(kwh * 0.1, rel=1e-9)
    assert fleet["parts"]["energy"] == pytest.approx(kwh * 0.1 / HOURS, rel=1e-6)
    assert fleet["usd"] == pytest.approx(fleet["usd_per_h"] * HOURS)
    assert fleet["facility_w"]["peak"] == pytest.approx(max(hours["facility_w"].to_list()))
    # A fleet costs the same an hour, but for its energy, whatever it serves.
    assert fleet["parts"]["racks"] == result.to_json()["cost"]["parts"]["racks"]


def test_the_peak_and_a_day_are_simulated_and_the_difference_is_said(results: Any) -> None:
    checked = horizon(results())["checked"]
    assert checked["hours"] == 24
    assert checked["days"] == [horizon(results())["peak_hour"] // 24]
    offs = {(off["metric"], off["quantile"]): off for off in checked["differences"]}
    assert set(offs) == {("ttft", "p95"), ("tpot", "p95")}
    assert all(off["hours"] == 24 for off in offs.values())
    assert abs(offs["tpot", "p95"]["median_frac"]) < 0.3
    assert abs(checked["power_worst_frac"]) < 0.1
    assert horizon(results("run.days=0"))["checked"]["hours"] == 1  # the peak alone


def test_growth_never_makes_more_hours_hold(results: Any) -> None:
    met = [
        horizon(results("run.days=0", f"traffic.chat.rate={rate} req/s"))["classes"]["chat"]["hours_met"]
        for rate in (60, 400, 800)
    ]
    assert met[0] == HOURS
    assert met == sorted(met, reverse=True)
    assert met[-1] < HOURS


def test_beyond_the_last_sample_there_is_nothing_and_it_is_said(results: Any) -> None:
    result = results("run.days=0", "traffic.chat.rate=1200 req/s", "run.length=1 s")
    tree = horizon(result)
    (beyond,) = tree["beyond"]
    assert beyond["pool"] == "a"
    assert 0 < beyond["hours"] == tree["hours_beyond"] < HOURS
    assert beyond["highest_req_per_s"] > beyond["last_sample_req_per_s"]
    notice = next(n for n in result.notices if n.code == "horizon_beyond")
    assert f"in {beyond['hours']} of {HOURS} hours its load is beyond the last sample" in notice.message
    table = result.tables["horizon_classes"].filter(pl.col("state") == "beyond")
    assert table.height == beyond["hours"]
    assert table["ttft_p95_s"].null_count() == table.height
    assert tree["fleet"]["facility_kwh"] < 1e9


def test_the_schema_knows_it_and_so_does_the_text(results: Any) -> None:
    result = results()
    body = {"schema": "planner.result/1", "inputs": result.inputs, "warnings": [], "result": result.to_json()}
    jsonschema.Draft202012Validator(result_schema()).validate(body)
    shown = run_report(result)
    assert f"over {HOURS} hours, on response surfaces:" in shown
    assert "simulated over surface, 24 hours: chat ttft p95" in shown


def test_the_same_bytes_again(folder: Path, results: Any, tmp_path: Path) -> None:
    again = run(load("-", stdin_text=TEXT), surfaces=tmp_path, workers=1)
    assert again.to_json() == results().to_json()
    assert all(again.tables[name].equals(table) for name, table in results().tables.items())


def test_a_run_without_a_horizon_has_none(results: Any) -> None:
    result = results("run.horizon=null", "run.days=null")
    assert result.to_json()["horizon"] is None
    assert "horizon_classes" not in result.tables
    with pytest.raises(ScenarioError, match="no horizon is walked"):
        results("run.horizon=null")


# -- stages made by hand -----------------------------------------------------------------------------------------------


def measured(load: float, ttft: float | None, watts: float) -> Measured:
    figures = {"ttft_s.p95": ttft, "attainment_frac": None if ttft is None else 1 - ttft / 10, "strain": ttft}
    return Measured(load, 1, {"x": figures, "y": figures}, watts, 8 - load, 10 * load, load, 100)


def stage(n_replicas: int = 2, **shares: float) -> Stage:
    samples = (
        measured(1.0, 0.1, 100.0),
        measured(2.0, 0.3, 300.0),
        measured(4.0, 0.9, 500.0),
        measured(5.0, None, 550.0),
    )
    surface = Surface(
        "a", 0, "m", "mixed", None, {"x": 0.5, "y": 0.5}, 1, 8, samples, {"x": 3.0, "y": 3.0}, 3.0, 3.0, 3.0
    )
    return Stage(surface, n_replicas, {name: Share.fixed(frac) for name, frac in shares.items()}, {"x": 1.0, "y": 2.0})


def test_hours_are_read_off_the_surface_as_it_says() -> None:
    one = stage(x=1.0)
    loads = np.array([0.0, 0.5, 1.0, 1.7, 2.0, 3.3, 4.0, 4.5, 5.0, 5.01])
    found = walk(one, {"x": loads * 2}, loads)
    for ix, each in enumerate(loads):
        said = one.surface.at(float(each))
        assert found.beyond[ix] == (said is None)
        value = None if said is None else said.classes["x"]["ttft_s.p95"]
        got = found.latencies["x"]["ttft_s.p95"][ix]
        assert (np.isnan(got) and value is None) or got == pytest.approx(value)
        if said is not None:
            assert found.steps_w[ix] == pytest.approx(2 * said.steps_w)
            assert found.parked_chips[ix] == pytest.approx(2 * said.parked_chips)


def test_classes_weigh_what_they_take() -> None:
    # 2 replicas: x brings 1 req/s, half of y's 4 req/s counts twice: (1 + 0.5 x 4 x 2) / 2 = 2.5.
    found = walk(stage(x=1.0, y=0.5), {"x": np.array([1.0]), "y": np.array([4.0])}, np.array([5.0]))
    assert found.load.tolist() == [2.5]


def test_a_year_of_five_pools_is_walked_in_well_under_ten_seconds() -> None:
    rates = {"x": np.linspace(0.0, 6.0, 8760), "y": np.linspace(1.0, 2.0, 8760)}
    start_s = time.process_time()
    for _ in range(5):
        walk(stage(x=1.0, y=0.5), rates, rates["x"])
    assert time.process_time() - start_s < 5.0


# -- traces, and replicas that do two things ---------------------------------------------------------------------------


def test_the_hours_of_a_trace_are_counted() -> None:
    # 90 minutes long: 3 in its first hour, 1 in the half after it; then it begins again.
    span_ns = 90 * 60 * 10**9
    arrivals = [0, 10 * 60 * 10**9, 59 * 60 * 10**9, span_ns - 1]
    found = [round(rate * 3600) for rate in recorded(arrivals, span_ns, 6)]
    assert found == [3, 1 + 2, 1 + 1, 3, 1 + 2, 1 + 1]
    assert sum(recorded(arrivals, span_ns, 3 * 50)) * 3600 == pytest.approx(4 * 100)


def test_a_trace_is_followed_hour_by_hour(folder: Path, tmp_path: Path) -> None:
    """Two hours, the first with three times the requests of the second, over and over."""
    times = [k * 0.2 for k in range(18_000)] + [3600 + k * 0.6 for k in range(6_000)]
    rows = [f"{at:.1f},800,{10 + ix % 50}" for ix, at in enumerate(times)]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows]) + "\n")
    text = TEXT[: TEXT.index("    arrivals:")] + f"    trace: {tmp_path}/t.csv\n" + TEXT[TEXT.index("    slo: easy") :]
    tree = horizon(result := run(load("-", stdin_text=text, sets=["run.length=10 min"]), surfaces=folder, workers=2))
    rates = result.tables["horizon_classes"].sort("hour")["rate_req_per_s"].to_list()
    assert rates[:2] == [pytest.approx(5.0, rel=1e-3), pytest.approx(5 / 3, rel=1e-3)]
    assert rates[100] == pytest.approx(5.0, rel=1e-2)  # its span ends with its last request, 0.6 s before two hours
    assert tree["classes"]["chat"]["requests"] == pytest.approx(18_000 * 88 + 6_000 * 87, rel=1e-3)
    checked = tree["checked"]
    assert checked["hours"] == 24
    assert abs(checked["power_worst_frac"]) < 0.1


def test_an_hour_of_a_trace_has_its_own_requests(tmp_path: Path) -> None:
    """Three hours, told apart by their prompts; the fifth is the second again, grown to twice as much."""
    times = [
        hour * 3600 + k * (1.8 if hour == 1 else 3.6) for hour in range(3) for k in range(2_000 if hour == 1 else 1_000)
    ]
    rows = [f"{at:.1f},{100 + int(at // 3600)},10" for at in times]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows, "10799.9,102,10"]) + "\n")
    text = TEXT[: TEXT.index("    arrivals:")] + f"    trace: {tmp_path}/t.csv\n" + TEXT[TEXT.index("    slo: easy") :]
    scenario = load("-", stdin_text=text, sets=["run.length=10 min", "run.warmup=2 min"])
    rates = {"chat": np.array([0.9, 1.8, 0.9, 0.9, 4.0, 0.9]) / 3.6}
    for hour, n in ((1, 1_800), (4, 4_000), (0, 900)):
        asked = hour_of(scenario, rates, hour, seed=3)
        assert (asked.run.warmup_s, asked.run.length_s) == (120.0, 3720.0)
        found = for_scenario(asked, 3).frame
        before = found.filter(pl.col("arrival_ns") < 120 * 10**9)
        within = found.filter(pl.col("arrival_ns").is_between(121 * 10**9, 3719 * 10**9))
        own = within.filter(pl.col("input_tokens") == 100 + hour % 3).height
        if hour == 4:  # half is the hour as recorded, half a copy of the trace that is turned round its span
            assert 0.5 <= own / within.height < 1.0
        else:  # thinned
            assert own == within.height
            assert set(before["input_tokens"]) == {100 + (hour - 1) % 3}
        assert within.height == pytest.approx(n, rel=0.05)


def shared_stage(phase: str, limit: float, watts: float) -> Stage:
    samples = tuple(measured(load, load / 10, watts * load) for load in (1.0, 2.0, 4.0, 8.0))
    surface = Surface("a", 0, "m", phase, None, {"x": 1.0}, 1, 8, samples, {"x": limit}, limit, limit, limit)
    return Stage(surface, 2, {"x": Share.fixed(0.5)}, {"x": 1.0})


def test_what_decodes_and_serves_whole_is_as_full_as_the_two_make_it() -> None:
    # Each brings 1 req/s a replica: a quarter of 4 and half of 2, so each is read at three quarters of its limit.
    mixed, decode = shared_stage("mixed", 4.0, 100.0), shared_stage("decode", 2.0, 200.0)
    a, b = walk_all([mixed, decode], {"x": np.array([4.0, 0.0])}, np.array([4.0, 0.0]))
    assert a.load.tolist() == [3.0, 0.0]
    assert b.load.tolist() == [1.5, 0.0]
    assert a.latencies["x"]["ttft_s.p95"][0] == pytest.approx(0.3)
    # At three quarters full 300 W either way; they take a third and two thirds of it, on two replicas.
    assert a.steps_w[0] == pytest.approx(2 * 300 / 3)
    assert b.steps_w[0] == pytest.approx(2 * 300 * 2 / 3)
    assert a.parked_chips[1] + b.parked_chips[1] == pytest.approx(2 * 8)
    assert a.tokens_per_s_out[0] == pytest.approx(2 * 1.0)
    (alone,) = walk_all([mixed], {"x": np.array([4.0])}, np.array([4.0]))
    assert alone.load.tolist() == [1.0]


def off(tree: dict[str, Any]) -> dict[tuple[str, str], float]:
    """How far the surfaces are off the simulation, in the middle of the hours that were simulated."""
    return {(each["class"], each["metric"]): each["median_frac"] for each in tree["checked"]["differences"]}


@pytest.mark.slow
def test_a_pool_that_decodes_and_serves_whole_is_followed(folder: Path) -> None:
    """The router of least outstanding tokens sends all to the pool that hands its prompts over at once."""
    more = (
        "fleet.pools.a.deploy[0].role=mixed",
        "fleet.pools.p={rack: hgx-h200, count: 1, "
        "deploy: [{model: gpt-oss-120b, chips: 4, role: prefill, decode_pool: a}]}",
    )
    tree = horizon(run(load("-", stdin_text=TEXT, sets=more), surfaces=folder, workers=2))
    assert set(tree["pools"]) == {"a", "p"}
    chat = tree["classes"]["chat"]
    assert chat["hours_met"] + chat["hours_missed"] + tree["hours_beyond"] == HOURS
    assert abs(off(tree)["chat", "ttft"]) < 0.03
    assert abs(off(tree)["chat", "tpot"]) < 0.05
    assert abs(tree["checked"]["power_worst_frac"]) < 0.05


def test_pools_of_unlike_chips_get_what_the_router_sends_them(folder: Path) -> None:
    more = ("fleet.pools.b={rack: gb300-nvl72, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, per_rack: 3}]}",)
    tree = horizon(run(load("-", stdin_text=TEXT, sets=more), surfaces=folder, workers=2))
    assert abs(off(tree)["chat", "ttft"]) < 0.05
    assert abs(off(tree)["chat", "tpot"]) < 0.08
    assert abs(tree["checked"]["power_worst_frac"]) < 0.05


def test_a_class_has_the_quantiles_of_the_mixture_of_its_deployments() -> None:
    """Against values drawn from each deployment's own distribution and put together."""
    rng = np.random.default_rng(1)
    levels = [0.0, *LEVELS, 1.0]
    own = [[0.0, 1.0, 3.0, 4.0, 9.0], [0.0, 2.0, 2.5, 8.0, 30.0]]  # and on to 1 as from 95 % to 99 %
    for share in (0.0, 0.03, 0.5, 0.9, 1.0):
        weights = np.array([[share], [1 - share]])
        drawn = []
        for values, part in zip(own, (share, 1 - share), strict=True):
            end = values[-1] + (values[-1] - values[-2]) / 4
            drawn.append(np.interp(rng.random(round(part * 1_000_000)), levels, [*values, end]))
        put_together = np.concatenate(drawn)
        known = np.array([[[value] for value in values[1:]] for values in own])
        for ix, level in enumerate(LEVELS):
            (found,) = _quantile(known, weights, ix, level)
            assert found == pytest.approx(np.quantile(put_together, level, method="lower"), rel=0.02)


def test_a_share_lies_between_the_hours_that_were_seen() -> None:
    share = Share((1.0, 3.0), (0.2, 0.6))
    assert share.at(np.array([0.0, 1.0, 2.0, 3.0, 9.0])).tolist() == pytest.approx([0.2, 0.2, 0.4, 0.6, 0.6])
    assert share.times(0.5).at(np.array([2.0])).tolist() == [0.2]
    assert Share.fixed(0.7).at(np.array([0.0, 5.0])).tolist() == [0.7, 0.7]

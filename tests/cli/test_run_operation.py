"""Power of replicas that are down, caps that bind, racks at what they are rated for, tasks and caches in a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from planner.facts import catalog
from tests.cli.test_run_features import BASE, DEPLOY
from tests.commandline import answer, planner

RACK_IDLE_W = 23_000.0
"""What a GB300 rack draws with all its chips idle: the catalogue's `idle`."""
SECOND = DEPLOY + "\n    b: {rack: gb300-nvl72, count: 1, DOWN, deploy: [{model: gpt-oss-120b, chips: 4}]}"


def run(folder: Path, text: str, *more: str) -> dict[str, Any]:
    path = folder / "scenario.yaml"
    path.write_text(text)
    done = planner("run", str(path), "--json", "-o", str(folder / "out"), "--force", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = answer(done)["result"]
    return result


@pytest.mark.parametrize("what", ["outages", "maintenance"])
def test_racks_whose_replicas_are_down_draw_what_idle_racks_draw(what: str, tmp_path: Path) -> None:
    down = f"{what}: [{{at: 0 s, length: 1 h, replicas: 18}}]"
    pools = run(tmp_path, BASE.replace(DEPLOY, SECOND.replace("DOWN", down)))["pools"]
    assert pools["b"]["down_frac"] == 1.0
    assert pools["b"]["rack_it_w"] == {"mean": RACK_IDLE_W, "peak": RACK_IDLE_W}
    # The same racks waiting with their models loaded draw more, and half of them in between.
    half = f"{what}: [{{at: 0 s, length: 10 s, replicas: 18}}]"
    text = BASE.replace(DEPLOY, SECOND.replace("DOWN", half)).replace("fleet:\n", "fleet:\n  routes: {chat: a}\n")
    between = run(tmp_path, text)["pools"]["b"]
    parked = run(tmp_path, text.replace(half, "existing: 0"))["pools"]["b"]
    assert (between["down_frac"], parked["down_frac"]) == (0.5, 0.0)
    assert parked["rack_it_w"]["mean"] > RACK_IDLE_W
    assert between["rack_it_w"]["mean"] == pytest.approx((parked["rack_it_w"]["mean"] + RACK_IDLE_W) / 2)


def test_the_mean_is_the_mean_of_the_windows_whoever_is_down(tmp_path: Path) -> None:
    down = "cold_start: 1 s, outages: [{at: 3 s, length: 4 s, replicas: 9}], maintenance: [{at: 9 s, length: 5 s}]"
    text = BASE.replace("count: 1, deploy", f"count: 1, {down}, deploy").replace(
        "length: 20 s", "length: 20 s, window: 1 s"
    )
    pool = run(tmp_path, text)["pools"]["a"]
    windows = pl.read_parquet(tmp_path / "out" / "windows.parquet").filter(pl.col("start_s") < 20)
    assert windows.height == 20
    assert sum(windows["rack_it_w"].to_list()) / 20 == pytest.approx(pool["rack_it_w"]["mean"])
    assert sum(windows["down_frac"].to_list()) / 20 == pytest.approx(pool["down_frac"])
    # Nine of 18 for 5 s, one for 6 s, over 20 s.
    assert pool["down_frac"] == pytest.approx((9 * 5 + 6) / 18 / 20)


def test_a_power_cap_that_binds_is_the_bottleneck(tmp_path: Path) -> None:
    calm = BASE.replace("rate: 30 req/s", "rate: 8 req/s")
    words = {
        cap: run(tmp_path, calm.replace("count: 1", f"count: 1, power_cap: {cap} W/chip"))["pools"]["a"]["bottleneck"]
        for cap in (260, 1400)
    }
    assert words[260] == "power"
    assert words[1400] != "power"


def test_a_rack_at_what_it_is_rated_for(tmp_path: Path) -> None:
    mine = (catalog.DATA / "racks" / "hgx-h200.yaml").read_text()
    assert mine.count("value: 41.8 kW") == 1
    (tmp_path / "rack.yaml").write_text(mine.replace("value: 41.8 kW", "value: 30.5 kW"))
    text = """
title: Prompts alone
traffic:
  chat: {model: llama-3.1-8b, arrivals: closed, concurrency: 640, input: 8000 tok, output: 1 tok}
fleet: {pools: {a: {rack: ./rack.yaml, count: 1, deploy: [{model: llama-3.1-8b, chips: 1}]}}}
run: {length: 10 s, window: 1 s}
"""
    capped = run(tmp_path, text)
    assert capped["pools"]["a"]["rack_it_w"] == {"mean": 30_500.0, "peak": 30_500.0}
    windows = pl.read_parquet(tmp_path / "out" / "windows.parquet")
    assert windows["rack_it_w"].max() == 30_500.0
    free = run(tmp_path, text.replace("./rack.yaml", "hgx-h200"))["pools"]["a"]["rack_it_w"]
    assert 30_500.0 < free["peak"] < 41_800.0


AGENTS = BASE.replace(
    "    slo: quick\n", "    slo: quick\n    agents: {steps: {dist: fixed, value: 5}, tool: 400 ms}\n"
).replace("tpot: {p95: 20 ms}", "task: {p50: LOW, p95: HIGH}, attainment: 1 %")


def test_limits_on_tasks_are_held_against_tasks(tmp_path: Path) -> None:
    found = {}
    for low, high in [("1 s", "20 s"), ("30 s", "60 s")]:
        chat = run(tmp_path, AGENTS.replace("LOW", low).replace("HIGH", high))["classes"]["chat"]
        tasks = [limit for limit in chat["limits"] if limit["metric"] == "task"]
        assert [limit["quantile"] for limit in tasks] == ["p50", "p95"]
        assert 0 < chat["tasks"] < chat["offered"]
        found[low] = tasks
    # Four times 400 ms of tools at least: none is inside a second.
    assert found["1 s"][0]["met"] is False
    assert found["1 s"][0]["value"] > 1.6
    assert [limit["met"] for limit in found["30 s"]] == [True, True]
    assert found["30 s"][0]["value"] == found["1 s"][0]["value"]


def test_a_limit_on_tasks_of_a_class_without_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(BASE.replace("tpot: {p95: 20 ms}", "task: {p95: 20 s}"))
    done = planner("check", str(path))
    assert done.returncode == 2
    assert "'quick' limits task, and the class has neither sessions nor agents; limit e2e" in done.stderr


def test_what_caches_find_is_in_the_result(tmp_path: Path) -> None:
    shared = BASE.replace("    slo: quick\n", "    slo: quick\n    prefix_reuse: 60 %\n")
    pool = run(tmp_path, shared.replace("count: 1", "count: 1").replace("max_batch: 8", "per_rack: 1"))["pools"]["a"]
    assert pool["cached_frac"] == pytest.approx(0.6, abs=0.03)
    whole = pool["tokens_per_s_in"] + pool["tokens_per_s_cached"]
    assert pool["tokens_per_s_cached"] / whole == pytest.approx(pool["cached_frac"])
    windows = pl.read_parquet(tmp_path / "out" / "windows.parquet")
    assert int(windows["prefix_hit_tokens"].sum()) >= int(windows["cached_input_tokens"].sum()) > 0
    assert run(tmp_path, BASE)["pools"]["a"]["cached_frac"] == 0.0


@pytest.mark.parametrize(
    ("router", "said"),
    [
        ("{policy: random, candidates: 3}", "candidates has no effect here; it belongs to policy: slo-aware"),
        ("{candidates: 3}", "candidates has no effect here"),
        ("{policy: slo-aware, most: 150 %}", "it belongs to policy: prefix-affine or session-affine"),
        ("{policy: session-affine, spill: 50 %}", "it belongs to policy: cheapest-first"),
        ("{policy: slo-aware, reject: true}", "did you mean rejects"),
        ("{policy: slo-aware, candidates: 0}", "candidates"),
        ("[slo-aware]", "a map of keys is meant"),
    ],
)
def test_what_a_router_does_not_listen_to_is_refused(router: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(BASE.replace("router: least-outstanding-tokens", f"router: {router}"))
    done = planner("check", str(path), "--json")
    assert done.returncode == 2
    assert said in json.dumps(json.loads(done.stdout), ensure_ascii=False), done.stdout


def test_rejecting_needs_a_limit_to_miss(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    text = BASE.replace("router: least-outstanding-tokens", "router: {policy: slo-aware, rejects: true}")
    path.write_text(text.replace("ttft: {p95: 500 ms}, ", ""))
    done = planner("check", str(path))
    assert done.returncode == 2
    assert "no class has a limit on ttft that a request could miss" in done.stderr

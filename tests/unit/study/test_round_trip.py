"""The way from the clients to a site and back: part of what they wait, and of nothing that passes at the site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from planner import load
from planner.aggregate.result import Result
from planner.errors import ScenarioError
from planner.study.run import run
from planner.study.uncertainty import sample
from tests.smalls import at_sites

BY_POOL = """sites:
  east: {pools: [a], pue: 1.2}
  west: {pools: [b], pue: 1.2ROUND}"""
ROUTES = "fleet.routes={chat: {a: 60 %, b: 40 %}}"


def served(sites: str, *sets: str) -> Result:
    return run(load("-", stdin_text=at_sites(sites), sets=[ROUTES, *sets]), keep_requests=True)


def figures(sites: str, *sets: str) -> Mapping[str, Any]:
    return served(sites, *sets).to_json()


def share_of_b(result: Result) -> float:
    """Of the requests that are measured, those that the second pool served."""
    rows = result.tables["requests"]
    mine = rows.filter((rows["arrival_ns"] >= 10**9) & (rows["arrival_ns"] < 8 * 10**9))
    n_first = result.to_json()["pools"]["a"]["replicas"]
    return mine.filter(mine["replica_ix"] >= n_first).height / mine.height


def west(round_trip: str) -> str:
    return BY_POOL.replace("ROUND", f", {round_trip}" if round_trip else "")


def test_it_is_added_to_ttft_and_e2e_of_those_who_are_served_there_and_to_nothing_else() -> None:
    whole = served(west(""))
    near, far = whole.to_json(), figures(west("round_trip: 100 ms"))
    chat, chat_far = near["classes"]["chat"], far["classes"]["chat"]
    # Arrivals are open: what passes at the sites is the same. A share of all who are served waits 100 ms more.
    more_s = 0.1 * share_of_b(whole)
    assert 0.03 < more_s < 0.05
    for metric in ("ttft_s", "e2e_s"):
        assert chat_far[metric]["mean"] == pytest.approx(chat[metric]["mean"] + more_s, abs=1e-9), metric
    for metric in ("tpot_s", "itl_s", "queue_s"):
        assert chat_far[metric] == chat[metric], metric
    assert near["cost"] == far["cost"]
    assert near["pools"] == far["pools"]


def test_every_quantile_of_one_far_site_moves_by_the_round_trip() -> None:
    near, far = figures("site: {pue: 1.2}"), figures("site: {pue: 1.2, round_trip: 50 ms}")
    for quantile in ("mean", "p50", "p95", "p99"):
        for metric in ("ttft_s", "e2e_s"):
            moved = far["classes"]["chat"][metric][quantile] - near["classes"]["chat"][metric][quantile]
            assert moved == pytest.approx(0.05, rel=0.02), (metric, quantile)  # a sketch's bucket is 0.8 % wide


def test_a_limit_that_the_way_eats_is_missed_by_all() -> None:
    near = figures("site: {round_trip: 1 ms}")["classes"]["chat"]
    far = figures("site: {round_trip: 301 ms}")["classes"]["chat"]
    assert near["limits"][0]["met"]
    assert far["limits"][0] | {"value": None, "margin_frac": None} == near["limits"][0] | {
        "value": None,
        "margin_frac": None,
        "met": False,
    }
    assert near["attainment_frac"] == 1.0
    assert far["attainment_frac"] == 0.0


def test_a_class_may_be_nearer_than_the_others() -> None:
    near, far = figures("site: {round_trip: 5 ms}"), figures("site: {round_trip_by_class: {chat: 5 ms}}")
    assert far["classes"] == near["classes"]
    with pytest.raises(ScenarioError, match=r"site.round_trip: every class has its own"):
        figures("site: {round_trip: 80 ms, round_trip_by_class: {chat: 5 ms}}")
    with pytest.raises(ScenarioError, match=r"round_trip_by_class.chatt: no class of traffic is named 'chatt'.*chat"):
        figures("site: {round_trip_by_class: {chatt: 5 ms}}")
    with pytest.raises(ScenarioError, match=r"site.round_trip: .*out of range"):
        figures("site: {round_trip: 5 s}")


def test_the_next_request_of_a_session_is_sent_when_the_answer_has_come() -> None:
    sets = [
        "traffic.chat.sessions={turns: {dist: fixed, value: 4}, think: 1 s}",
        "traffic.chat.rate=2 req/s",
        "slo.easy.task.p95=60 s",
        "run.length=60 s",
    ]
    near, far = (figures(f"site: {{pue: 1.2{way}}}", *sets)["classes"]["chat"] for way in ("", ", round_trip: 500 ms"))
    # Four turns, each half a second away: the three pauses between them and the last answer. Little load, so that what
    # passes at the site is nearly the same.
    assert far["task_s"]["mean"] - near["task_s"]["mean"] == pytest.approx(4 * 0.5, rel=0.02)


def test_the_slo_aware_router_knows_how_far_its_pools_are() -> None:
    asked = ["fleet.router=slo-aware", "fleet.routes={chat: [a, b]}", "traffic.chat.rate=20 req/s"]
    near, far = (share_of_b(served(west(way), *asked)) for way in ("", "round_trip: 200 ms"))
    assert near > 0
    assert far == 0  # with so little load a is always sooner


def test_its_fact_is_shown_and_its_range_drawn() -> None:
    sites = west("round_trip: {value: 60 ms, low: 40 ms, high: 100 ms, grade: estimate, source: planner}")
    scenario = load("-", stdin_text=at_sites(sites))
    values = [one.values["sites.west.round_trip"] for one in sample(scenario, 16)]
    assert len(set(values)) == 16
    assert 0.04 < min(values) < 0.06 < max(values) < 0.1
    result = run(scenario)
    assert "sites.west.round_trip" in result.tables["facts"]["path"].to_list()

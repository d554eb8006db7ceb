"""Capacity kept free and racks out: the limits of the scenario with one thing changed, judged beside its own."""

from __future__ import annotations

from typing import Any

import pytest

from planner import load, run
from planner.aggregate import slo
from planner.scenario.schema import TrafficClass
from planner.study.survive import _rerouted
from planner.traffic.load import at_load
from tests.smalls import small

TEXT = small()


def figures(*sets: str, text: str = TEXT) -> dict[str, Any]:
    return run(load("-", stdin_text=text, sets=sets)).to_json()


def test_nothing_kept_free_changes_nothing() -> None:
    base, none = figures(), figures("fleet.spare=0 %")
    assert base == none
    assert base["checks"] == []


def test_kept_free_is_the_run_at_more_load() -> None:
    asked = figures("fleet.spare=20 %")
    loaded = figures("traffic.chat.rate=100 req/s")  # 80 / (1 - 0.2)
    (check,) = asked["checks"]
    assert (check["kind"], check["load_factor"], check["label"]) == ("spare", 1.25, "20 % kept free")
    for key in ("limits", "attainment_frac", "offered", "completed", "verdict"):
        assert check["classes"]["chat"][key] == loaded["classes"]["chat"][key]
    # What the fleet does, draws and costs is that of its own load.
    alone = figures()
    for section in ("requests", "tokens", "classes", "pools", "fleet", "cost", "energy", "carbon"):
        assert asked[section] == alone[section]


def test_a_rack_out_is_the_run_without_it() -> None:
    asked = figures("fleet.survive={racks: 1}")
    alone = figures("fleet.pools.a.count=1")
    (check,) = asked["checks"]
    assert (check["kind"], check["racks_out"], check["label"]) == ("rack", {"a": 1}, "a rack of a out")
    assert check["classes"]["chat"]["limits"] == alone["classes"]["chat"]["limits"]
    assert asked["pools"]["a"]["racks"] == 2


def test_the_verdict_is_that_of_the_worst() -> None:
    tight = ("slo.easy.e2e.p99=540 ms", "slo.easy.attainment=50 %", "traffic.chat.rate=160 req/s")
    alone, less = figures(*tight), figures(*tight, "fleet.pools.a.count=1")
    assert (alone["verdict"], less["verdict"]) == ("met", "missed")
    asked = figures(*tight, "fleet.survive={racks: 1}")
    assert asked["classes"]["chat"]["verdict"] == "met"
    assert asked["verdict"] == "missed"
    worst = slo.tightest(asked)
    assert worst is not None
    assert str(worst) == "chat e2e p99 with a rack of a out"
    assert slo.n_missed_of_all(asked) == slo.n_missed(less["classes"]["chat"])


def test_a_fleet_that_cannot_do_without_a_rack_misses_and_says_why() -> None:
    asked = figures("fleet.survive={racks: 1}", "fleet.pools.a.count=1")
    (check,) = asked["checks"]
    assert (asked["verdict"], check["verdict"], check["classes"]) == ("missed", "missed", {})
    assert "no replica of gpt-oss-120b" in check["reason"]
    assert run(load("-", stdin_text=TEXT, sets=["fleet.survive={racks: 2}"])).n_missed == 1


def test_every_way_to_lose_racks_of_unlike_pools_is_tried() -> None:
    text = TEXT.replace("run:", "    b: {rack: hgx-b200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}\nrun:")
    found = figures("fleet.survive={racks: 2}", "run.length=2 s", text=text)
    assert [check["racks_out"] for check in found["checks"]] == [{"a": 2}, {"a": 1, "b": 1}]


def test_shares_of_what_is_gone_go_to_the_others() -> None:
    assert _rerouted({"a": 0.3, "b": 0.5, "c": 0.2}, {"b"}) == {"a": 0.6, "c": 0.4}
    assert _rerouted({"a": None, "b": None}, {"b"}) == {"a": None}
    assert _rerouted({"a": 1.0}, {"a"}) == {"a": 1.0}  # nothing is left: the layout says so
    text = TEXT.replace(
        "run:",
        "    b: {rack: hgx-b200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}\n"
        "  routes: {chat: {a: 50 %, b: 50 %}}\n  survive: {racks: 1}\nrun:",
    )
    found = figures("run.length=2 s", text=text)
    assert all(check["reason"] is None for check in found["checks"])
    assert all(check["classes"]["chat"]["completed"] > 0 for check in found["checks"])


@pytest.mark.parametrize(
    ("asked", "factor", "key", "value"),
    [
        ({"trace": "azure-conv-2023", "scale": "3"}, 0.5, "scale", 1.5),
        ({"arrivals": "closed", "concurrency": "10", "input": "9 tok", "output": "9 tok"}, 1.26, "concurrency", 13),
        ({"arrivals": "closed", "concurrency": "1", "input": "9 tok", "output": "9 tok"}, 0.1, "concurrency", 1),
        ({"arrivals": "poisson", "rate": "4 req/s", "input": "9 tok", "output": "9 tok"}, 2.5, "rate_req_per_s", 10.0),
    ],
)
def test_traffic_of_any_kind_has_a_load(asked: dict[str, str], factor: float, key: str, value: float) -> None:
    cls = TrafficClass.model_validate({"model": "gpt-oss-120b", **asked})
    assert getattr(at_load({"x": cls}, factor)["x"], key) == value
    assert at_load({"x": cls}, 1.0)["x"] is cls

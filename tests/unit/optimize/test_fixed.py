"""Fixed fleets are searched as hard as the plan, may lift `max` and say so, and never cost less than a plan that may be
one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.optimize.build import Question, question
from planner.optimize.fixed import THE_PLAN, Alone, Search, cheaper, fixed_fleets, told
from planner.optimize.instance import VendorShare
from planner.optimize.linear import Stop
from planner.optimize.plan import optimize
from planner.optimize.uncertain import Risk, uncertainty
from planner.optimize.verify import Proof, Proved, prove
from planner.report.plan_text import plan_report
from planner.scenario import load
from planner.study.run import run
from tests.unit.optimize.test_resume import TEXT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surfaces")


def proved(folder: Path, *sets: str) -> tuple[Question, Proof, Proved]:
    asked = question(load("-", stdin_text=TEXT, sets=["run.seeds=1", *sets]), folder=folder)
    proof = Proof(asked, run)
    return asked, proof, prove(asked, proof, Stop(), rounds=3, tries=1)


def test_a_pool_alone_may_have_more_racks_than_the_scenario_allows_and_it_is_said(folder: Path) -> None:
    sets = ["run.seeds=1", "traffic.chat.rate=700 req/s", "run.length=15 s", "run.warmup=5 s"]
    sets += ["fleet.pools.h100.count.max=1", "fleet.pools.h200.count.max=1", "goal.tries=0"]
    result = optimize(load("-", stdin_text=TEXT, sets=sets), folder=folder)
    plan = result.plan
    assert plan is not None
    assert plan["periods"][0]["fleet"] == {"h100": 1, "h200": 1}
    n = plan["fixed_racks"]["all_h100"]["h100"]
    assert n > 1
    assert plan["fixed_lifted"] == {"all_h100": {"h100": 1}, "all_h200": {"h200": 1}}
    assert f"{n} h100 where 1 are allowed" in plan_report(result)


def test_a_fixed_fleet_that_the_scenario_allows_and_is_cheaper_is_the_plan(folder: Path) -> None:
    asked, _, plan = proved(folder)
    assert plan.is_verified
    assert plan.decision is not None
    narrow = replace(asked, instance=replace(asked.instance, ways=asked.instance.ways[1:]), uses=asked.uses[1:])
    dear = prove(narrow, Proof(narrow, run), Stop(), rounds=3, tries=0)
    assert dear.decision is not None
    # Stand-ins for figures: what the other costs is what matters.
    found = {"all_h100": Alone(5e6, {}, THE_PLAN), "greedy": Alone(4e6, {"h200": 1}, proved=dear)}
    made = cheaper(asked, plan, 5e6, found)
    assert made is not None
    better, fleets = made
    assert better.decision is not None
    assert better.decision.bought == dear.decision.bought
    assert [row[0] for row in better.decision.shares] == [0.0, 1.0]  # among all ways, not only those it knew
    assert told(fleets)["fixed_reasons"] == {"greedy": THE_PLAN}
    # Not if it costs more, has more racks than are allowed, is not what is asked for, or breaks a vendor's share.
    assert cheaper(asked, plan, 3e6, found) is None
    for kinds in (
        [replace(kind, most=0) for kind in asked.instance.kinds],
        [replace(kind, least=1) for kind in asked.instance.kinds],
    ):
        other = replace(asked, instance=replace(asked.instance, kinds=tuple(kinds)))
        assert cheaper(other, plan, 5e6, found) is None
    vendors = (VendorShare("amd", 0.5),)
    assert cheaper(replace(asked, instance=replace(asked.instance, vendors=vendors)), plan, 5e6, found) is None
    carbon = replace(asked, instance=replace(asked.instance, goal={"carbon": 1.0}))
    assert cheaper(carbon, plan, 5e6, found) is None


def test_fixed_fleets_are_searched_as_hard_as_the_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, proof, plan = proved(folder)
    seen = []

    def spy(*args: object, rounds: int, tries: int | None, **more: object) -> Proved:
        seen.append((rounds, tries))
        return prove(*args, rounds=rounds, tries=tries, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("planner.optimize.fixed.prove", spy)
    fixed_fleets(asked, plan, proof, Stop(), Search(9, 2), 1e9)
    assert set(seen) == {(9, 2)}


def test_who_knows_buys_whole_racks_too(folder: Path) -> None:
    asked, _, plan = proved(folder)  # a fourteenth of one rack's load: no knowledge makes it cheaper than one rack
    found = uncertainty(asked, plan, Stop(), n=4, risk=Risk(0.5))
    assert found["perfect_information_usd"] < 0.2 * found["expected_usd"]

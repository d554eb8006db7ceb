"""What the planner writes out before it searches: deployments that are left open, and racks shared out over sites."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import Infeasible, ScenarioError
from planner.optimize.menu import written_out
from planner.optimize.plan import Effort, optimize
from planner.scenario import Scenario, load
from planner.study.run import run
from tests.unit.optimize.test_resume import TEXT

QUICK = Effort(has_fixed_fleets=False, has_reasons=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surfaces")


def scenario(*sets: str) -> Scenario:
    return load("-", stdin_text=TEXT, sets=["run.seeds=1", "goal.tries=0", *sets])


def test_any_offers_each_model_of_the_traffic_in_two_sizes_that_fit(folder: Path) -> None:
    other = "traffic.bulk={model: qwen3-8b, arrivals: poisson, rate: 2 req/s, input: 600 tok, output: 50 tok}"
    asked = written_out(scenario("fleet.pools.h100.deploy=any", other, "fleet.pools.h200=null"))
    menu = [(entry.model, entry.chips) for entry in asked.fleet.pools["h100"].deploy]
    assert [model for model, _ in menu] == ["gpt-oss-20b"] * 2 + ["qwen3-8b"] * 2
    assert all(chips in (1, 2, 4, 8) for _, chips in menu)
    assert written_out(asked) is asked
    result = optimize(asked, folder=folder, effort=QUICK)
    plan = result.plan
    assert plan is not None
    assert plan["verified"]
    [carved] = plan["periods"][0]["carved"].values()
    made = {what.split()[0] for what in carved["per_rack"]}
    assert made == {"gpt-oss-20b", "qwen3-8b"}
    again = run(load("-", stdin_text=result.scenarios["plan.peak"])).to_json()
    assert again["verdict"] == "met"


def test_a_model_that_fits_no_domain_is_said() -> None:
    with pytest.raises(Infeasible, match=r"fleet\.pools\.h100\.deploy: no model of the traffic fits the 8-chip domain"):
        written_out(scenario("fleet.pools.h100.deploy=any", "traffic.chat.model=deepseek-r1", "fleet.pools.h200=null"))


def test_run_refuses_what_only_a_search_can_choose() -> None:
    with pytest.raises(ScenarioError, match=r"fleet\.pools\.h100\.deploy: deployments are not chosen: write a list"):
        run(scenario("fleet.pools.h100={rack: hgx-h100, count: 1, deploy: any}", "fleet.pools.h200=null", "goal=null"))


SITES = "sites={north: {share: 50 %}, south: {share: 50 %}, home: {pools: [h200]}}"


def test_racks_that_are_shared_out_stand_at_their_sites_in_the_plan(folder: Path) -> None:
    sets = [SITES, "fleet.pools.h100={rack: hgx-h100, count: 2, existing: 1, deploy: any}"]
    asked = written_out(scenario(*sets))
    assert {name: asked.fleet.pools[name].count for name in asked.fleet.pools} == {
        "h200": 0,  # a range
        "h100@north": 1,
        "h100@south": 1,
    }
    assert [asked.fleet.pools[f"h100@{site}"].existing for site in ("north", "south")] == [1, 0]
    assert {name: site.pools for name, site in asked.sites.items()} == {
        "north": ("h100@north",),
        "south": ("h100@south",),
        "home": ("h200",),
    }
    result = optimize(scenario(*sets), folder=folder, effort=QUICK)
    plan = result.plan
    assert plan is not None
    assert plan["verified"]
    assert plan["periods"][0]["fleet"] == {"h200": 0, "h100@north": 1, "h100@south": 1}
    assert plan["periods"][0]["buy"] == {"h200": 0, "h100@north": 0, "h100@south": 1}
    sites = result.variants["plan.peak"]["sites"]
    assert {name: site["racks"] for name, site in sites.items()} == {"north": 1, "south": 1, "home": 0}


def test_racks_that_are_chosen_cannot_be_shared_out() -> None:
    with pytest.raises(ScenarioError, match=r"racks to be chosen cannot be shared out over sites; name the pool"):
        scenario("sites={north: {share: 50 %}, south: {share: 50 %}}")


def test_racks_that_nobody_may_use_stand_all_the_same(folder: Path) -> None:
    menu = "[{model: gpt-oss-20b, chips: 1}, {model: gpt-oss-20b, chips: 2}]"
    sets = [f"fleet.pools.h100={{rack: hgx-h100, count: 2, deploy: {menu}}}", "fleet.routes={chat: [h200]}"]
    result = optimize(scenario(*sets), folder=folder)
    plan = result.plan
    assert plan is not None
    assert plan["periods"][0]["fleet"] == {"h100": 2, "h200": 1}
    assert plan["fixed_fleets"]["all_h200"] < plan["tco_usd"]  # without the two: no plan of this scenario


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("goal.budget={a: 1 MUSD}", r"goal\.budget\.a: no period is named 'a'"),
        ("fleet.pools.h100.deliveries={a: 1}", r"fleet\.pools\.h100\.deliveries\.a: no period is named 'a'"),
        ("fleet.pools.h100.retire={plan: 1}", r"1 racks are to retire and 0 are owned already"),
    ],
)
def test_values_by_period_name_periods_that_there_are(value: str, what: str) -> None:
    with pytest.raises(ScenarioError, match=what):
        scenario(value)


def test_shares_of_a_route_are_what_the_search_chooses() -> None:
    with pytest.raises(ScenarioError, match=r"fleet\.routes\.chat: shares are what is chosen: name the pools alone"):
        optimize(scenario("fleet.routes={chat: {h100: 50 %, h200: 50 %}}"))


def test_a_share_of_a_vendor_that_makes_none_of_the_racks_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"goal\.vendors\.nvidiaa: no pool has racks of nvidiaa; did you"):
        optimize(scenario("goal.vendors={nvidiaa: {min: 20 %}}"))

"""`planner optimize` as people run it: a plan, its folder and page, a question nobody can meet, and wrong input."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commandline import answer, planner

TEXT = """\
schema: 1
title: A first purchase
traffic:
  chat:
    model: gpt-oss-20b
    rate: 60 req/s
    arrivals: poisson
    input: {dist: lognormal, median: 600 tok, p95: 2 ktok}
    output: {dist: lognormal, median: 150 tok, p95: 500 tok}
    slo: quick
slo:
  quick: {ttft: {p95: 400 ms}, tpot: {p95: 8 ms}}
fleet:
  pools:
    h100: {rack: hgx-h100, count: {min: 0, max: 2}, deploy: [{model: gpt-oss-20b, chips: 1}]}
site: {power_limit: 100 kW}
goal: {minimise: tco, horizon: 4 yr}
run: {length: 30 s, warmup: 5 s, seed: 3, seeds: 2}
"""


def written(folder: Path, text: str = TEXT) -> str:
    path = folder / "buy.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_plan_is_a_result_that_every_other_verb_reads(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = planner("optimize", written(tmp_path), "-o", str(out), "--json")
    assert done.returncode == 0, done.stderr
    plan = answer(done)["result"]["plan"]
    assert plan["verified"] is True
    assert plan["tco_usd"] > 0
    [period] = plan["periods"]
    assert period["fleet"]["h100"] >= 1
    assert json.loads((out / "result.json").read_text())["result"]["plan"] == plan
    assert "h100" in (out / "report.html").read_text()
    for verb in (["explain", str(out)], ["compare", f"{out}:plan.peak", f"{out}:plan.typical"], ["report", str(out)]):
        assert planner(*verb, "--json").returncode == 0, verb
    again = planner("optimize", written(tmp_path), "-o", str(out), "--json")
    assert answer(again)["result"]["plan"] == plan


def test_what_no_fleet_can_meet_ends_with_4_and_names_the_changes_that_would_do(tmp_path: Path) -> None:
    done = planner(
        "optimize", written(tmp_path), "--set", "site.power_limit=5 kW", "-o", str(tmp_path / "no"), "--json"
    )
    assert done.returncode == 4, done.stderr
    said = answer(done)
    assert said["ok"] is False
    assert said["result"]["plan"] is None
    assert said["result"]["relaxations"]


def test_a_scenario_without_a_goal_is_not_planned(tmp_path: Path) -> None:
    text = TEXT.replace("goal: {minimise: tco, horizon: 4 yr}\n", "")
    done = planner("optimize", written(tmp_path, text), "--json")
    assert done.returncode == 2
    assert "has no goal" in json.dumps(answer(done))


def test_a_lead_time_is_acted_on_or_refused(tmp_path: Path) -> None:
    lead = ("--set", "fleet.pools.h100.lead_time=9 yr")
    unsaid = planner("optimize", written(tmp_path), *lead)
    assert unsaid.returncode == 2
    assert "goal.order" in unsaid.stderr
    late = planner("optimize", written(tmp_path), *lead, "--set", "goal.order=2026-12-01")
    assert late.returncode == 2
    assert "passes the last period" in late.stderr


SEVERAL = (
    TEXT.replace(
        "site:", "    h200: {rack: hgx-h200, count: {min: 0, max: 6}, deploy: [{model: gpt-oss-20b, chips: 2}]}\nsite:"
    )
    .replace("max: 2", "max: 6")
    .replace("100 kW", "200 kW")
    .replace(
        "goal:",
        """periods:
  - {name: first, length: 1 yr, growth: {chat: 3}}
  - {name: second, length: 1 yr, growth: {chat: 17}}
  - {name: third, length: 1 yr, growth: {chat: 26}}
goal:""",
    )
)


def test_a_time_limit_too_short_for_a_proof_says_so_and_keeps_what_was_sampled(tmp_path: Path) -> None:
    """Whether the solver has a plan by then is its own affair; what is said of either is not."""
    scenario = written(tmp_path, SEVERAL)
    short = planner("optimize", scenario, "--set", "goal.time_limit=1 ns", "--json", cwd=tmp_path)
    if short.returncode == 0:
        plan = answer(short)["result"]["plan"]
        assert plan["stopped"]
        assert plan["gap_frac"] is None or plan["gap_frac"] > 0.001
    else:
        assert short.returncode == 4
        assert "the search ended before it found any plan; raise goal.time_limit" in answer(short)["error"]["message"]
    kept = sorted((tmp_path / "runs" / "surfaces").iterdir())
    assert kept
    planner("optimize", scenario, "--set", "goal.time_limit=1 ns", cwd=tmp_path)
    assert sorted((tmp_path / "runs" / "surfaces").iterdir()) == kept

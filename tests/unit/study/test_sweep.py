"""A sweep answers what run answers at each point, knows the cheapest, and never simulates twice what it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from planner.aggregate.result import Result
from planner.errors import RunError, ScenarioError
from planner.report.sweep_text import sweep_report
from planner.scenario import Scenario, load
from planner.study import sweep_answer
from planner.study.answer import answer
from planner.study.points import Point, cheapest
from planner.study.run import run
from planner.study.sweep import Done, _batches, axes_of, sweep
from tests.smalls import small

TEXT = small(
    rate="30 req/s",
    longest=40,
    pools="    a: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}\n",
    more="""overrides:
  half: {traffic.chat.rate: 15 req/s}
scenarios:
  quiet: [half]
sweep:
  axes:
    fleet.pools.a.count: [0, 1, 2]
    site.power_price: [0.05 USD/kWh, "0.12 USD/kWh"]
""",
)
WITHOUT_AXES = TEXT[: TEXT.index("    fleet.pools.a.count")]


@pytest.fixture
def grid(tmp_path: Path) -> Callable[..., Scenario]:
    def make(text: str = TEXT, **more: object) -> Scenario:
        path = tmp_path / "grid.yaml"
        path.write_text(text)
        return load(path, **more)  # type: ignore[arg-type]

    return make


def test_a_point_is_the_same_run_by_set_byte_for_byte(grid: Callable[..., Scenario], tmp_path: Path) -> None:
    found = sweep_answer.answer([grid(), grid(variant="quiet")], out=tmp_path / "sweep")
    assert len(found.sweep.rows) == 12
    for row in (found.sweep.rows[3], found.sweep.rows[10]):
        alone = grid(sets=list(row.point.sets), variant=row.point.variant)
        by_hand = answer([alone], out=tmp_path / f"run{row.point.ix}").folder
        for file in by_hand.iterdir():
            if file.name != "log.txt":
                assert file.read_bytes() == (Path(found.folder_of(row.point)) / file.name).read_bytes(), file.name


def test_an_infeasible_point_is_a_row_with_its_reason(grid: Callable[..., Scenario]) -> None:
    found = sweep(grid())
    assert [row.verdict for row in found.rows[:2]] == ["infeasible"] * 2
    assert "no replica of gpt-oss-120b" in found.rows[0].reason
    assert all(row.verdict in {"met", "missed"} and not row.reason for row in found.rows[2:])
    held = [row for row in found.rows if row.verdict == "met"]
    best = min(held, key=lambda row: row.figures["usd_per_h"] or 0.0)
    assert found.cheapest is best
    assert found.nearest is None
    assert best.point.values == ("1", "0.05 USD/kWh")
    assert found.ranked_by == "usd_per_h"
    low, high = best.figures["usd_per_h_low"], best.figures["usd_per_h_high"]
    assert low is not None
    assert high is not None
    assert low <= (best.figures["usd_per_h"] or 0.0) <= high


def test_values_that_do_not_go_together_are_a_row_too(grid: Callable[..., Scenario]) -> None:
    axes = "run.warmup: [1 s, 5 s]\n    run.length: [8 s, 4 s]"
    found = sweep(grid(WITHOUT_AXES + f"    {axes}\n"))
    assert [row.verdict for row in found.rows] == ["met", "met", "met", "refused"]
    assert "the warm-up is not shorter" in found.rows[3].reason
    assert found.ranked_by == "usd_per_mtok_out_whole"  # the runs serve different requests


def test_where_none_holds_the_nearest_is_named(grid: Callable[..., Scenario]) -> None:
    text = TEXT.replace("300 ms", "1 ms")
    found = sweep(grid(text))
    assert found.cheapest is None
    near = found.nearest
    assert near is not None
    assert near.tightest is not None
    worst = [row.tightest.margin_frac for row in found.rows if row.tightest]
    assert near.tightest.margin_frac == max(worst)  # type: ignore[type-var]


def test_any_value_can_be_an_axis(grid: Callable[..., Scenario]) -> None:
    axes = """fleet.pools.a.deploy:
      - [{model: gpt-oss-120b, chips: 2}]
      - [{model: gpt-oss-120b, chips: 4, tp: 2, dp: 2}]
    title: ["yes: no", ' spaced ']
"""
    s = grid(WITHOUT_AXES + f"    {axes}")
    found = sweep(s, lambda scenario: run([scenario]))
    assert [row.verdict for row in found.rows] == ["met"] * 4
    for row in found.rows:
        assert grid(sets=[*row.point.sets, "sweep=null"]).title == ("yes: no", " spaced ")[row.point.ix % 2]


def test_a_solver_is_asked_once_a_point_and_points_that_differ_in_money_share_a_simulation(
    grid: Callable[..., Scenario],
) -> None:
    asked: list[str] = []

    def solve(scenario: Scenario) -> Result:
        asked.append(scenario.name)
        return run([scenario])

    sweep(grid(), solve)
    assert len(asked) == 6
    s = grid()
    points = [(Point(ix, "base", (), ()), s) for ix in range(3)]
    other = grid(sets=["fleet.pools.a.count=2"])
    groups = list(_batches([*points, (Point(3, "base", (), ()), other)], 1))
    assert [[point.ix for point, _ in group] for group in groups] == [[0], [1], [2], [3]]
    groups = list(_batches([*points, (Point(3, "base", (), ()), other)], 2))
    assert [[point.ix for point, _ in group] for group in groups] == [[0, 1, 2, 3]]
    dear = grid(sets=["site.power_price=1 USD/kWh", "fleet.pools.a.capex=1 MUSD/rack"])
    assert len(list(_batches([points[0], (Point(1, "base", (), ()), dear), (Point(2, "base", (), ()), other)], 2))) == 1


def test_plans_are_ranked_by_what_they_cost_over_their_horizon(grid: Callable[..., Scenario]) -> None:
    def plan(scenario: Scenario) -> Result:
        price = scenario.site.power_price_usd_per_kwh
        assert price is not None
        tight, loose = (replace(scenario, name=name) for name in ("y1.peak", "y1.typical"))
        tco = {"tco_usd": 1e6 * (2 - price.number) * scenario.fleet.pools["a"].count, "shown": "y1.peak"}
        return replace(run([loose, tight]), plan=tco)

    found = sweep(grid(), plan)
    assert found.ranked_by == "tco_usd"
    best = found.cheapest
    assert best is not None
    assert best.point.values == ("1", "0.12 USD/kWh")
    assert best.figures["tco_usd"] == pytest.approx(1.88e6)
    shown = sweep_report(found, title="x")
    assert "TCO of the plan over its horizon" in shown


class _Stop(Exception):
    pass


def test_what_was_done_is_kept_and_resume_does_the_rest(grid: Callable[..., Scenario], tmp_path: Path) -> None:
    whole = sweep_answer.answer([grid()], out=tmp_path / "whole")

    def stop(done: Done) -> None:
        if done.n_done > 2:
            raise _Stop

    calls: list[int] = []

    def count(scenarios: Sequence[Scenario], /, **more: object) -> Result:
        calls.append(len(scenarios))
        return run(scenarios, **more)  # type: ignore[arg-type]

    s = grid()
    with pytest.raises(_Stop):
        sweep_answer.answer([s], lambda each: run([each]), out=tmp_path / "cut", progress=stop)
    kept = sorted(path.name for path in (tmp_path / "cut" / "points").iterdir())
    assert kept == ["00002"]
    with pytest.raises(RunError, match="--resume completes it"):
        sweep_answer.answer([s], out=tmp_path / "cut")
    torn = tmp_path / "cut" / "points" / "00003"
    torn.mkdir()
    (torn / "result.json").write_text("{")
    again = sweep_answer.answer([s], solve_many=count, out=tmp_path / "cut", is_resuming=True)
    assert again.n_known == 1
    assert sum(calls) >= 3
    for name in ("sweep.json", "points.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    calls.clear()
    third = sweep_answer.answer([s], solve_many=count, out=tmp_path / "cut")
    assert third.is_reused
    assert third.sweep.to_json() == whole.sweep.to_json()
    assert calls == [2, 1, 1]  # only the two infeasible ones are asked again
    with pytest.raises(RunError, match="another question"):
        sweep_answer.answer([grid(sets=["run.seed=9"])], out=tmp_path / "cut")


def test_a_sweep_stands_at_any_address(grid: Callable[..., Scenario]) -> None:
    place = "memory://sweeps/one"
    first = sweep_answer.answer([grid()], out=place)
    again = sweep_answer.answer([grid()], out=place)
    assert again.is_reused
    assert again.n_known == 4
    assert again.sweep.to_json() == first.sweep.to_json()
    forced = sweep_answer.answer([grid()], out=place, is_forced=True)
    assert (forced.is_reused, forced.n_known) == (False, 0)


def test_bad_grids(grid: Callable[..., Scenario]) -> None:
    with pytest.raises(ScenarioError, match="no axes to sweep"):
        axes_of(grid(sets=["sweep=null"]))
    twice = TEXT + '    "site.\\"power_price\\"": [0.05 USD/kWh]\n'
    with pytest.raises(ScenarioError, match=r"two axes are site\.power_price"):
        axes_of(grid(twice))
    thirty = "".join(f"    {path}: {list(range(1, 31))}\n" for path in ("fleet.pools.a.count", "run.seed", "run.seeds"))
    with pytest.raises(ScenarioError, match="27,000 points"):
        axes_of(grid(WITHOUT_AXES + thirty))


def test_without_limits_nothing_is_cheapest(grid: Callable[..., Scenario]) -> None:
    found = sweep(grid(sets=["traffic.chat.slo=null"]))
    assert cheapest(found.rows, "usd_per_h") is None
    assert found.nearest is None

"""The figure of a sweep: cost, racks as a staircase, carbon of plans, over the first axis."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from planner.report.figures import style
from planner.report.sweep_figure import chart, frame, numbers, save, unit
from planner.study.points import TCO, Point, Row, _none
from planner.study.sweep import Axis, Sweep

PRICES = ("0.3 MUSD/rack", "1.6 MUSD/rack")


def row(ix: int, values: tuple[str, ...], fleet: dict[str, int], usd: float | None) -> Row:
    figures = _none() | {TCO: usd, "carbon_kgco2e": None if usd is None else usd / 10}
    return Row(Point(ix, "base", values, ()), "met" if fleet else "infeasible", None, figures, fleet=fleet)


def plans(*more: Axis) -> Sweep:
    extra = tuple(axis.values[0] for axis in more)
    rows = (
        row(0, (PRICES[0], *extra), {"j<i>": 2, "gb300": 0}, 5e6),
        row(1, (PRICES[1], *extra), {"j<i>": 0, "gb300": 1}, 9e6),
    )
    return Sweep((Axis("fleet.pools.j.capex", PRICES), *more), rows, TCO)


def test_numbers_of_one_unit() -> None:
    assert numbers(PRICES) == [0.3, 1.6]
    assert unit(PRICES) == "MUSD/rack"
    assert numbers(["1", "2e3"]) == [1.0, 2000.0]
    assert numbers(["1 kW", "1 MW"]) is None
    assert numbers(["[a]", "b"]) is None
    assert unit(["a"]) == ""


def test_a_row_for_each_point_and_pool() -> None:
    rows = frame(plans())
    assert rows.select("point", "at", "pool", "racks", "cost_usd", "carbon_kgco2e").rows() == [
        (0, 0.3, "j<i>", 2, 5e6, 5e5),
        (0, 0.3, "gb300", 0, 5e6, 5e5),
        (1, 1.6, "j<i>", 0, 9e6, 9e5),
        (1, 1.6, "gb300", 1, 9e6, 9e5),
    ]


def test_points_without_a_plan_are_gaps_and_other_axes_are_lines() -> None:
    one = plans(Axis("site.pue", ("1.1",)))
    gap = Sweep(one.axes, (*one.rows, row(2, (PRICES[1], "1.2"), {}, None)), TCO)
    rows = frame(gap)
    assert rows.filter(pl.col("point") == 2)["racks"].to_list() == [None, None]
    assert rows["line"].unique().sort().to_list() == ["pue=1.1", "pue=1.2"]
    drawn = chart(rows, gap)
    assert len(drawn["vconcat"]) == 3
    assert "strokeDash" in json.dumps(drawn)
    style.compiled(drawn)


def test_words_are_an_axis_of_their_own_and_runs_have_no_carbon_panel(tmp_path: Path) -> None:
    rows = tuple(
        Row(Point(ix, "base", (word,), ()), "met", None, _none() | {"usd_per_h": 1.0 + ix}, fleet={"a": ix + 1})
        for ix, word in enumerate(("random", "round-robin"))
    )
    found = Sweep((Axis("fleet.router", ("random", "round-robin")),), rows, "usd_per_h")
    drawn = chart(frame(found), found)
    assert len(drawn["vconcat"]) == 2
    assert '"value"' in json.dumps(drawn)
    paths = save(found, tmp_path)
    assert [path.name for path in paths] == ["sweep.parquet", "sweep.svg", "sweep.png"]
    assert pl.read_parquet(paths[0]).height == 2
    assert paths[1].read_text().startswith("<svg")

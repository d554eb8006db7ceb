"""What is ordered first under uncertain facts: by the mean, by the mean of the worst, by both."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.optimize.instance import Instance, Kind, Option, Span, Way
from planner.optimize.linear import Stop
from planner.optimize.uncertain import Risk, World, _first_stage, cvar
from planner.scenario import load

NO_SAMPLE: Any = None


def world(usd: float) -> World:
    """One rack of either kind serves everybody: the risky one costs `usd`, the safe one 2."""
    kinds = tuple(
        Kind(name, (8,), (Option("a", 8, per_rack=1),), capex_usd=1.0, new_usd_per_year={"racks": cost}, existing=(0,),
             most=2)
        for name, cost in (("risky", usd), ("safe", 2.0))
    )  # fmt: skip
    ways = tuple(Way(f"w{k}", "c", ((k, 0, 1.0),)) for k in range(2))
    spans = (Span("now", 0, 1, 1.0, {"c": 1.0}, {"c": 1.0}),)
    return World(NO_SAMPLE, Instance(kinds, ways, spans))


@pytest.mark.parametrize(
    ("weight", "bought"),
    [
        (0.0, (1, 0)),  # the mean of the risky one is 0.9 x 1 + 0.1 x 10 = 1.9 < 2
        (0.01, (1, 0)),  # 0.99 x 1.9 + 0.01 x 10 = 1.981
        (0.02, (0, 1)),  # 0.98 x 1.9 + 0.02 x 10 = 2.062
        (1.0, (0, 1)),  # the worst tenth costs 10
    ],
)
def test_the_mean_of_the_worst_weighs_in_what_is_ordered(weight: float, bought: tuple[int, int]) -> None:
    worlds = [world(1.0)] * 9 + [world(10.0)]
    assert _first_stage(worlds, 2.0, Stop(1e-6), Risk(0.1, weight)) == bought


def test_what_a_choice_is_weighed_by() -> None:
    costs = [1.0] * 9 + [10.0]
    assert cvar(costs, 0.1) == 10.0
    assert cvar(costs, 0.2) == 5.5
    assert Risk(0.1).of(costs) == pytest.approx(1.9)
    assert Risk(0.1, 0.25).of(costs) == pytest.approx(0.75 * 1.9 + 2.5)


@pytest.mark.parametrize("line", ["cvar: 5 %", "risk: 50 %"])
def test_a_level_without_samples_is_refused(line: str) -> None:
    text = f"""
schema: 1
title: t
traffic: {{c: {{model: gpt-oss-20b, arrivals: poisson, rate: 1 req/s, input: 100 tok, output: 10 tok}}}}
fleet: {{pools: {{p: {{rack: hgx-h100, count: {{min: 0, max: 1}}, deploy: [{{model: gpt-oss-20b, chips: 1}}]}}}}}}
goal: {{minimise: tco, {line}}}
run: {{length: 60 s}}
"""
    with pytest.raises(ScenarioError, match="no samples are drawn"):
        load("-", stdin_text=text)
    assert load("-", stdin_text=text.replace(line, f"samples: 20, {line}")).goal is not None

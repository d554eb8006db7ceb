"""Plans found span by span: their bound is one, they are plans, and a large fleet is proven to 0.1 %."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.optimize.decompose import blocks_of, by_spans
from planner.optimize.instance import Decision, Instance, total
from planner.optimize.linear import Stop
from planner.optimize.program import build
from planner.optimize.reading import loads, read
from planner.optimize.search import solve
from tests.instances import large, scaled

LOOSE = Stop(gap_frac=0.5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("extra", ["", "budget", "carbon", "down"])
def test_the_bound_is_below_the_optimum_and_the_plan_above(seed: int, extra: str) -> None:
    instance = large(2, 3, 3, 1, seed=seed)
    best = solve(instance, Stop(1e-6)).decision
    assert best is not None
    if extra == "budget":
        instance = replace(instance, budget_usd=total(instance, best, "capex") * 1.05)
    if extra == "carbon":
        instance = replace(instance, carbon_kgco2e=total(instance, best, "carbon") * 1.02)
    if extra == "down":
        instance = replace(instance, racks_down=1)
    exact = solve(instance, Stop(1e-6))
    assert exact.decision is not None
    model = build(instance)
    found = by_spans(model, Stop(0.0))
    assert found is not None
    optimum = (total(instance, exact.decision) - model.fixed) / model.scale
    assert found.bound <= optimum * (1 + 1e-5)
    assert found.bound >= model.program.solve(is_relaxed=True).objective * (1 - 1e-9)
    plan = read(model, found.values)
    assert total(instance, plan) >= total(instance, exact.decision) * (1 - 1e-5)
    assert total(instance, plan) <= total(instance, exact.decision) * 1.1
    _holds(instance, plan)


def _holds(instance: Instance, plan: Decision) -> None:
    """Limits hold, but for shares of six digits."""
    for t, _ in enumerate(instance.spans):
        assert all(load <= (1 - instance.spare_frac) * (1 + 2e-3) for load in loads(instance, plan, t).values())


def test_spans_are_told_apart_with_all_that_stands_beside_them() -> None:
    model = build(replace(large(2, 3, 3, 1), racks_down=1))
    blocks = blocks_of(model)
    assert blocks is not None
    assert blocks.n == 3
    assert len(blocks.of) == len(model.program.cost)
    names = {model.program.names[r] for r in blocks.links}
    assert all(name.startswith("racks of ") for name in names)
    assert len(blocks.links) == 2 * 2  # each kind, from a span to the next
    assert blocks.of[model.columns.bought[1][2]] == 2


def test_a_large_plan_is_proven_to_a_thousandth_in_few_nodes() -> None:
    """6 kinds of racks at two sites, 12 class-tiers, 8 spans: 2,400 racks; 728 racks are a line of the bench."""
    instance = scaled(large(), 200)
    found = solve(instance)
    assert found.status == "optimal"
    assert found.decision is not None
    cost = total(instance, found.decision)
    assert (cost - found.bound) / cost <= 1e-3
    assert found.nodes < 1_000
    assert solve(instance) == found
    _holds(instance, found.decision)


def test_what_cannot_be_served_stays_infeasible() -> None:
    instance = scaled(large(), 200)
    none = replace(instance, places=tuple(replace(place, power_w=1e6) for place in instance.places))
    assert by_spans(build(none), LOOSE) is None
    assert solve(none).status == "infeasible"


def test_steps_of_a_search_share_its_time_and_a_time_that_is_up_ends_it_without_a_plan() -> None:
    stop = Stop(time_s=5.0)
    begun = stop.begun()
    assert begun.begun() is begun
    assert begun.left_s() is not None
    assert not begun.is_over()
    assert Stop().begun() == Stop()
    over = replace(stop, until_s=0.0)  # long ago
    assert over.is_over()
    assert over.left_s() == 1e-3
    found = solve(scaled(large(), 60), over)
    assert (found.status, found.decision, found.is_timed_out) == ("none", None, True)

"""The shipped scenarios that buy: each plan is verified, no fixed fleet is cheaper, and each says what it is about."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.aggregate.result import Result
from planner.optimize.plan import NoPlan, optimize
from planner.scenario import load

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
pytestmark = pytest.mark.slow


@cache
def solved(name: str, variant: str = "base") -> Result:
    return optimize(load(SCENARIOS / f"{name}.yaml", variant=variant))


def plan(name: str, variant: str = "base") -> dict[str, Any]:
    found = solved(name, variant).plan
    assert found is not None
    return dict(found)


@pytest.mark.parametrize("name", ["12-growth", "13-power-limited", "14-one-rack-down", "15-carbon-cap"])
def test_the_plan_is_verified_and_no_fixed_fleet_is_cheaper(name: str) -> None:
    found = plan(name)
    assert found["verified"]
    assert found["status"] == "optimal"
    for fleet, usd in found["fixed_fleets"].items():
        assert usd is None or usd >= found["tco_usd"] * (1 - 1e-3), fleet
        assert usd is not None or found["fixed_reasons"][fleet]


def test_growth_buys_jalapeno_from_the_second_half_year_on() -> None:
    found = plan("12-growth")
    bought = [period["buy"]["jalapeno"] for period in found["periods"]]
    assert bought[0] == 0
    assert bought[1] > 0
    assert all(n <= 3 for n in bought)
    assert found["periods"][0]["fleet"]["gb300"] >= 1
    assert found["tco_usd"] < plan("12-growth", "late_jalapeno")["tco_usd"]


def test_the_power_limit_holds_and_half_of_it_is_impossible() -> None:
    [period] = plan("13-power-limited")["periods"]
    assert period["power_w"]["provisioned"] <= 150e3
    with pytest.raises(NoPlan, match="power limit"):
        solved("13-power-limited", "half_the_power")


def test_a_rack_down_costs_racks() -> None:
    found = solved("14-one-rack-down")
    assert {check["kind"] for check in found.variants["plan.peak"]["checks"]} == {"rack"}
    assert plan("14-one-rack-down")["tco_usd"] > plan("14-one-rack-down", "without")["tco_usd"]


def test_the_carbon_cap_moves_racks_to_the_clean_site() -> None:
    capped, free = plan("15-carbon-cap"), plan("15-carbon-cap", "without")
    assert capped["carbon_kgco2e"] <= 2.5e6
    assert free["carbon_kgco2e"] > 2.5e6
    assert capped["tco_usd"] > free["tco_usd"]
    assert capped["periods"][0]["fleet"]["gb300_north"] > 0
    assert any(one["limit"] == "carbon limit" for one in capped["binding"])

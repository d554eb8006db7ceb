"""The glossary."""

from __future__ import annotations

import pytest

from planner.aggregate.cost_parts import NAMED_PARTS, PART_FORMULAS, PARTS
from planner.aggregate.metrics import METRICS, metric, require_same_basis
from planner.errors import ScenarioError

UNITS = {"_s": "s", "_w": "W", "_kwh": "kWh", "_usd_per_h": "USD/h", "_kgco2e": "kgCO2e", "_req_per_s": "req/s"}


def test_paths_are_unique() -> None:
    paths = [row.path for row in METRICS]
    assert len(paths) == len(set(paths))


def test_names_carry_their_units() -> None:
    for row in METRICS:
        for suffix, unit in UNITS.items():
            if row.name.endswith(suffix) and not row.name.endswith("_per_s"):
                assert row.unit == unit, row.path
        if row.name.endswith("_frac"):
            assert row.unit in {"1", "1/yr"}, row.path
        if row.name.startswith("usd_per_mtok"):
            assert row.unit == "USD/Mtok"
        if row.name.startswith("j_per_token"):
            assert row.unit == "J/token"


def test_every_part_has_its_formula() -> None:
    assert set(PART_FORMULAS) == set(PARTS)
    assert set(NAMED_PARTS) <= set(PARTS)


def test_c31_figures_on_different_bases_are_not_compared() -> None:
    require_same_basis("j_per_token_all", "energy.j_per_token_all")
    with pytest.raises(ScenarioError, match="different bases"):
        require_same_basis("j_per_token_all", "j_per_token_out_whole")
    with pytest.raises(ScenarioError, match="different bases"):
        require_same_basis("usd_per_mtok_out", "usd_per_mtok_out_whole")
    with pytest.raises(ScenarioError, match="different bases"):
        require_same_basis("pools.*.rack_it_w", "pools.*.facility_w")


def test_unknown_and_ambiguous_names() -> None:
    with pytest.raises(ScenarioError, match="did you mean"):
        metric("usd_per_mtok_al")
    assert metric("facility_w").path == "fleet.facility_w"  # of the whole fleet, not of a pool
    assert metric("usd_per_h").path == "cost.usd_per_h"

"""Jalapeño's posterior: members in their ranges, weights of one, the same digits again; facts follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from planner.errors import FactError
from planner.facts import catalog
from planner.facts.fact import Fact
from planner.model import posterior
from planner.model.calibration import shipped
from planner.model.infer import infer
from planner.model.unknowns import CHIP, Unknown, chip_spec, unknowns, values_of


def fact_of(path: str) -> Fact:
    head, *rest = path.split(".")
    facts = catalog.load()
    thing: Any = facts.chip(CHIP) if head == "chip" else facts.engine("openai")
    for name in rest:
        thing = thing[name] if isinstance(thing, Mapping) else getattr(thing, name)
    assert isinstance(thing, Fact)
    return thing


def test_weights_sum_to_one() -> None:
    found = posterior.shipped()
    assert 30 <= len(found.members) <= 100
    assert math.fsum(member.weight for member in found.members) == pytest.approx(1.0, abs=1e-12)
    assert all(member.weight > 0 for member in found.members)
    assert found.tree["sample"]["effective_size"] > 80


def test_members_stay_in_the_ranges_of_the_facts() -> None:
    for member in posterior.shipped().members:
        for one in unknowns():
            value = member.values[one.path]
            assert value in one.choices if one.scale == "choice" else one.low <= value <= one.high, one.path
            if one.path.startswith(("chip.", "engine.")):
                fact = fact_of(one.path)
                assert fact.low is not None
                assert fact.high is not None
                assert float(fact.low) * (1 - 1e-9) <= value <= float(fact.high) * (1 + 1e-9), one.path


def test_members_keep_the_floors_of_the_published_figures() -> None:
    headline = catalog.load().headline(CHIP)
    floors = {"gpt-oss-120b": 7.2e12, "deepseek-r1": 13.6e12, "kimi-k2.5": 11.7e12}
    assert {float(str(one.group["value"])) for one in headline.derived_lower_bounds} == set(floors.values())
    for member in posterior.shipped().members:
        # No replica is wider than its domain, so chips x bandwidth can reach the floor; and 1,290 TFLOP/s of R1's peak.
        widest = member.values["chip.scale_up.domain_chips"] * member.values["chip.memory_bytes_per_s"]
        assert widest >= max(floors.values())
        assert member.values["chip.flop_per_s.fp4"] >= 1290e12


def test_the_facts_in_use_are_those_of_the_best_member() -> None:
    best = posterior.shipped().best.values
    for path, value in best.items():
        if path.startswith(("chip.", "engine.")) and not path.endswith("_w"):
            used = fact_of(path).used
            assert isinstance(used, int | float)
            assert used == pytest.approx(value, rel=2e-3), path


def test_the_same_seed_gives_the_same_members() -> None:
    small: dict[str, Any] = {"size": (12, 6, 1), "polish": ((0.3, 4),)}
    first = infer(shipped(), seed=3, workers=1, **small)
    assert infer(shipped(), seed=3, workers=2, **small) == first
    assert infer(shipped(), seed=4, workers=2, **small)["members"] != first["members"]
    assert math.fsum(one["weight"] for one in first["members"]) == pytest.approx(1.0)


def test_shares_of_a_range() -> None:
    assert Unknown("a", "linear", 1.0, 3.0).at(0.25) == 1.5
    assert Unknown("a", "log", 1.0, 100.0).at(0.5) == 10.0
    assert [Unknown("a", "choice", choices=(8.0, 16.0)).at(share) for share in (0.0, 0.49, 0.5, 1.0)] == [8, 8, 16, 16]
    middle = values_of([0.0] * len(unknowns()))
    assert middle["engine.launch_layer_s"] == pytest.approx(3.5e-6)  # half-way between 1 and 6 us


def test_a_member_orders_its_draws() -> None:
    middle = values_of([0.0] * len(unknowns())) | {"chip.idle_w": 200.0, "chip.parked_w": 100.0}
    chip = chip_spec(middle, {"high_load_w": 550.0})
    assert chip["idle_w"] <= chip["parked_w"] <= chip["low_load_w"] <= chip["high_load_w"]
    assert chip["flop_per_s"]["fp4"] == 2 * chip["flop_per_s"]["fp8"] == 4 * chip["flop_per_s"]["bf16"]


def test_quantiles_count_weight() -> None:
    assert posterior.quantile([3.0, 1.0, 2.0], [0.1, 0.5, 0.4], 0.5) == 1.0
    assert posterior.quantile([3.0, 1.0, 2.0], [0.1, 0.5, 0.4], 0.9) == 2.0
    assert posterior.quantile([3.0, 1.0, 2.0], [0.1, 0.5, 0.4], 1.0) == 3.0


def test_a_file_that_is_no_posterior_is_refused(tmp_path: Any) -> None:
    wrong = tmp_path / "x.yaml"
    wrong.write_text("schema: chips/1\n")
    with pytest.raises(FactError, match="not a posterior"):
        posterior.load(wrong)

"""Means and intervals over seeds."""

from __future__ import annotations

import math

import pytest

from planner.aggregate.intervals import T_95, end, half_width, mean, numbers, over_seeds, possible, t_95, total


def density(t: float, degrees: int) -> float:
    log = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    return math.exp(log - (degrees + 1) / 2 * math.log1p(t * t / degrees))


@pytest.mark.parametrize("degrees", [*range(1, 31), 40, 60, 120])
def test_the_table_is_students_t(degrees: int) -> None:
    # Simpson's rule from 0 to t gives 0.45: with the half below zero that is 0.95.
    n, t = 4000, t_95(degrees)
    h = t / n
    weights = [1, *([4, 2] * (n // 2 - 1)), 4, 1]
    area = h / 3 * sum(w * density(i * h, degrees) for i, w in enumerate(weights))
    assert area == pytest.approx(0.45, abs=1.1e-4 if degrees > len(T_95) else 1e-5)


def test_interval_by_hand() -> None:
    # 8, 10, 12: s = 2, half = 2.92 x 2 / sqrt(3).
    half = 2.9200 * 2 / math.sqrt(3)
    assert half_width([8, 10, 12]) == pytest.approx(half)
    assert end(-1)([8, 10, 12]) == pytest.approx(10 - half)
    assert end(1, times=3)([8, 10, 12]) == pytest.approx(3 * (10 + half))


def test_one_seed_has_no_interval() -> None:
    assert half_width([8.0]) is None
    assert end(1)([8.0]) is None


def test_equal_values_are_their_own_mean() -> None:
    values = [0.1] * 7
    assert mean(values) == 0.1
    assert half_width(values) == 0.0
    assert mean([3, 3]) == 3
    assert isinstance(mean([3, 3]), int)


def test_what_is_missing_once_is_missing() -> None:
    assert mean([1.0, None]) is None
    assert half_width([1.0, None]) is None
    assert mean([]) is None
    assert total([1, None]) is None
    assert total([1, 2]) == 3


def test_trees_are_combined_leaf_by_leaf() -> None:
    trees = [
        {"a": {"x": 1, "word": "one"}, "rows": [{"y": 2.0, "met": True}], "none": None},
        {"a": {"x": 3, "word": "two"}, "rows": [{"y": 4.0, "met": False}], "none": 5.0},
    ]
    assert over_seeds(trees, mean) == {"a": {"x": 2.0, "word": "one"}, "rows": [{"y": 3.0, "met": True}], "none": None}


def test_numbers_only() -> None:
    tree = {
        "verdict": None,
        "bottleneck": "kv",
        "busy_frac": None,
        "rows": [{"met": True, "value": 1.0, "metric": "ttft"}],
        "left_out": ["space"],
        "empty": [],
    }
    assert numbers(tree, frozenset({"verdict"})) == {"busy_frac": None, "rows": [{"value": 1.0}]}


def test_an_end_stays_where_its_figure_can_be() -> None:
    # Seeds of 90 % and 100 %: half = 6.3138 x 0.05, so the mean of 95 % has ends at 63 % and 127 %.
    seeds = [{"attainment_frac": one, "ttft_s": (one - 0.9) * 4, "margin_frac": one - 0.9} for one in (0.9, 1.0)]
    low, high = (possible(over_seeds(seeds, end(sign))) for sign in (-1, 1))
    half = 6.3138 * 0.05
    assert low["attainment_frac"] == pytest.approx(0.95 - half)
    assert high["attainment_frac"] == 1.0
    assert low["ttft_s"] == 0.0
    assert low["margin_frac"] == pytest.approx(0.05 - half), "a margin may be below nothing"

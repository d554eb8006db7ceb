"""The fit: a law that is there is found, outliers and penalties do what they say; corrections add up by level."""

from __future__ import annotations

import numpy as np

from planner.model.fit import Target, minimise, weights
from planner.model.stacks import Level, design, effect

ROWS = [
    {
        "backend": "vllm" if i % 2 else "trtllm",
        "model": "m",
        "concurrency": 4.0 * 2 ** (i % 5),
        "isl_mean": 1000.0,
        "osl_mean": 1000.0,
        "chips": 8.0,
        "mode": "agg",
        "harness": None,
    }
    for i in range(40)
]
LEVELS = (Level(("backend",), ("1", "concurrency"), 0.1),)
WIDE = (np.array([0.0]), np.array([-5.0]), np.array([5.0]), np.array([10.0]))


def test_a_coefficient_is_found_through_outliers() -> None:
    x = np.linspace(0.0, 1.0, 40)
    measured = 0.7 * x
    measured[::8] += 2.0
    empty = design(ROWS, ())
    fit = minimise(lambda t: (t[0] * x,), (Target(measured, empty, 0.05),), np.ones(40), prior=WIDE)
    assert abs(fit.theta[0] - 0.7) < 0.02


def test_left_out_rows_and_empty_cells_do_not_count() -> None:
    measured = np.where(np.arange(40) < 20, 0.3, 9.0)
    measured[0] = np.nan
    weight = np.where(np.arange(40) < 20, 1.0, 0.0)
    fit = minimise(lambda t: (t[0] * np.ones(40),), (Target(measured, design(ROWS, ()), 0.05),), weight, prior=WIDE)
    assert abs(fit.theta[0] - 0.3) < 1e-6


def test_a_coefficient_stays_in_its_range() -> None:
    prior = (np.array([0.0]), np.array([-0.1]), np.array([0.1]), np.array([10.0]))
    target = Target(np.full(40, 3.0), design(ROWS, ()), 0.05)
    assert minimise(lambda t: (t[0] * np.ones(40),), (target,), np.ones(40), prior=prior).theta[0] == 0.1


def test_corrections_take_what_is_a_stacks_own() -> None:
    own = np.array([0.1 if row["backend"] == "vllm" else -0.1 for row in ROWS])
    shape = design(ROWS, LEVELS)
    fit = minimise(lambda _: (np.zeros(40),), (Target(own, shape, 0.05),), np.ones(40), prior=WIDE)
    assert np.allclose(shape.matrix @ fit.effects[0], own, atol=0.02)
    # Shrunk: never beyond what was measured.
    assert np.all(np.abs(shape.matrix @ fit.effects[0]) <= 0.1 + 1e-9)
    known: list[dict[str, dict[str, float]]] = [{}]
    for (_, label, feature), value in zip(shape.names, fit.effects[0], strict=True):
        known[0].setdefault(label, {})[feature] = float(value)
    assert np.allclose(effect(ROWS, LEVELS, known), shape.matrix @ fit.effects[0])
    stranger = [{**ROWS[0], "backend": "other"}]
    assert effect(stranger, LEVELS, known)[0] == 0.0


def test_a_coefficient_at_its_end_is_not_moved_beyond_it() -> None:
    asked: list[float] = []

    def predict(theta: np.ndarray) -> tuple[np.ndarray]:
        asked.append(float(theta[0]))
        return (theta[0] * np.ones(40),)

    prior = (np.array([0.1]), np.array([-0.1]), np.array([0.1]), np.array([10.0]))
    minimise(predict, (Target(np.full(40, 3.0), design(ROWS, ()), 0.05),), np.ones(40), prior=prior)
    assert max(asked) <= 0.1


def test_one_stack_far_off_bends_the_rest_less_where_corrections_have_tails() -> None:
    rows = [{**row, "backend": f"engine {i % 8}"} for i, row in enumerate(ROWS)]
    measured = np.array([1.5 if row["backend"] == "engine 0" else 0.0 for row in rows])
    shape = design(rows, (Level(("backend",), ("1",), 0.1),))

    def common(tails: float) -> float:
        target = Target(measured, shape, 0.05, tails)
        return float(minimise(lambda t: (t[0] * np.ones(40),), (target,), np.ones(40), prior=WIDE, nu=1e9).theta[0])

    # Normal corrections of one spread spread it evenly: 1.5 over eight engines.
    assert abs(common(np.inf) - 1.5 / 8) < 0.01
    assert abs(common(2.0)) < 0.02


def test_rows_of_one_deployment_count_less() -> None:
    # Ten rows of a, one of b: 1 / (1 + 9 x 0.1) each, and 1.
    weight = weights(["a"] * 10 + ["b"])
    assert np.allclose(weight, [1 / 1.9] * 10 + [1.0])

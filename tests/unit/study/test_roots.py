"""Zeros of functions of one number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.study.roots import crossings, grid, root


def test_a_line_takes_one_step() -> None:
    calls: list[float] = []

    def line(x: float) -> float:
        calls.append(x)
        return 3 * x - 6

    assert root(line, 0.0, -6.0, 10.0, 24.0, tolerance=1e-9, most=60) == pytest.approx(2.0, abs=1e-12)
    assert len(calls) == 1


@given(st.floats(0.01, 0.99))
def test_a_bent_function_is_found_too(at: float) -> None:
    def f(x: float) -> float:
        return x**5 - at**5

    assert root(f, 0.0, f(0.0), 1.0, f(1.0), tolerance=1e-9, most=100) == pytest.approx(at, abs=1e-6)


def test_every_change_of_sign_on_the_grid() -> None:
    def f(x: float) -> float | None:
        return (x - 1) * (x - 3)

    xs = grid(0.0, 4.0, 8)
    assert crossings(f, xs, [f(x) for x in xs], rel=1e-12, most=60) == pytest.approx([1.0, 3.0])
    assert crossings(f, [0.0, 1.0, 2.0], [3.0, 0.0, -1.0], rel=1e-9, most=9) == [1.0]
    assert crossings(f, [5.0, 6.0], [8.0, 15.0], rel=1e-9, most=9) == []
    assert crossings(f, [0.0, 2.0], [None, -1.0], rel=1e-9, most=9) == []

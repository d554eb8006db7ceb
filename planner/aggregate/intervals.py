"""Several seeds as one: means, and the 90 % interval of each.

The seeds are independent draws of the same fleet and traffic, so the mean of n of them has the interval
mean -+ t(n - 1) x s / sqrt(n) with Student's t at 0.95, one-sided (NIST/SEMATECH e-Handbook of Statistical Methods,
1.3.6.7.2). One seed has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

T_95: tuple[float, ...] = (
    6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125,
    1.7959, 1.7823, 1.7709, 1.7613, 1.7531, 1.7459, 1.7396, 1.7341, 1.7291, 1.7247,
    1.7207, 1.7171, 1.7139, 1.7109, 1.7081, 1.7056, 1.7033, 1.7011, 1.6991, 1.6973,
)  # fmt: skip
"""t at 0.95 for 1, 2, ... 30 degrees of freedom."""
_T_INFINITE = 1.6449

LEVEL_FRAC = 0.9
"""How sure an interval is: so often it holds the figure of endlessly many seeds."""

Number = int | float


def t_95(degrees: int) -> float:
    """Student's t at 0.95; beyond the table linear in 1/degrees up to infinity (at most 0.001 too high)."""
    if degrees <= len(T_95):
        return T_95[degrees - 1]
    return _T_INFINITE + (T_95[-1] - _T_INFINITE) * len(T_95) / degrees


def mean(values: Sequence[Number | None]) -> Number | None:
    """The mean; None if a value is missing; the value itself where all are equal."""
    there = [value for value in values if value is not None]
    if len(there) < len(values) or not there:
        return None
    return there[0] if all(value == there[0] for value in there) else math.fsum(there) / len(there)


def total(values: Sequence[Number | None]) -> Number | None:
    """The sum of whole numbers."""
    there = [value for value in values if value is not None]
    return sum(there) if len(there) == len(values) else None


def half_width(values: Sequence[Number | None]) -> float | None:
    """Half of the mean's 90 % interval; None for one seed or where a value is missing."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    n = len(values)
    variance = math.fsum((value - middle) ** 2 for value in values if value is not None) / (n - 1)
    return t_95(n - 1) * math.sqrt(variance / n)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much one figure is above another, and the 90 % interval of that; the ends are None for one seed."""

    value: float
    low: float | None
    high: float | None

    @property
    def is_sure(self) -> bool | None:
        """Whether the two differ beyond noise; None where there is no interval."""
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


def paired(base: Sequence[Number | None], other: Sequence[Number | None]) -> Difference | None:
    """By how much a figure of `other` is above that of `base`, both by seed, the same seeds in the same order.

    With common random numbers what both owe to the draw cancels in the difference of each seed, so its interval is far
    tighter than those of the two figures (Law, Simulation Modeling and Analysis, 10.2.1: the paired-t interval). None
    where a seed has no value.

    Raises:
        ValueError: the two have not equally many seeds.
    """
    if len(base) != len(other):
        raise ValueError(f"{len(base)} seeds cannot be paired with {len(other)}")
    pairs = [(a, b) for a, b in zip(base, other, strict=True) if a is not None and b is not None]
    if len(pairs) < len(base) or not pairs:
        return None
    differences = [b - a for a, b in pairs]
    value, half = mean(differences), half_width(differences)
    assert value is not None
    return Difference(value, None if half is None else value - half, None if half is None else value + half)


Combine = Callable[[Sequence[Number | None]], Number | None]


def over_seeds(trees: Sequence[Any], combine: Combine) -> Any:
    """One tree of the shape of all `trees`: numbers combined, words and truths of the first."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: over_seeds([tree[key] for tree in trees], combine) for key in first}
    if isinstance(first, list):
        return [over_seeds([tree[ix] for tree in trees], combine) for ix in range(len(first))]
    if any(_is_number(tree) for tree in trees):
        return combine(trees)
    return first


def numbers(tree: Any, words: frozenset[str]) -> Any:
    """The tree with its numbers, and what is missing of them, only; keys that hold `words` are left away."""
    if isinstance(tree, dict):
        kept = {key: numbers(value, words) for key, value in tree.items() if key not in words}
        return {
            key: value for key, value in kept.items() if not isinstance(value, str | bool) and value not in ({}, [])
        }
    if isinstance(tree, list):
        return [numbers(value, words) for value in tree if not isinstance(value, str | bool)]
    return tree


def possible(tree: Any, name: str = "") -> Any:
    """The ends of intervals, none beyond what its figure can be: nothing is below 0 but a margin, no share above 1.

    >>> possible({"attainment_frac": 1.01, "limits": [{"value": -0.2, "margin_frac": -0.2}]})
    {'attainment_frac': 1.0, 'limits': [{'value': 0.0, 'margin_frac': -0.2}]}
    """
    if isinstance(tree, dict):
        return {key: possible(value, key) for key, value in tree.items()}
    if isinstance(tree, list):
        return [possible(value, name) for value in tree]
    if not _is_number(tree):
        return tree
    least = tree if name == "margin_frac" else max(tree, 0.0)
    return min(least, 1.0) if name.endswith("_frac") else least


def first(values: Sequence[Number | None]) -> Number | None:
    """The first value, for what is the same or means the first in all seeds."""
    return values[0]


def first_of_several(values: Sequence[Number | None]) -> Number | None:
    """The ends of the interval of a number that is asked for, not found: itself, where there are intervals at all."""
    return values[0] if len(values) > 1 else None


def end(sign: int, times: int = 1) -> Combine:
    """How the low (-1) or high (1) end is made of the seeds' values: of their mean, or of `times` the mean."""

    def of(values: Sequence[Number | None]) -> Number | None:
        middle, half = mean(values), half_width(values)
        return None if middle is None or half is None else times * (middle + sign * half)

    return of


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

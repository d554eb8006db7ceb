"""How one rack can be carved into replicas of several sizes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

MOST_PATTERNS = 400


def are_nested(sizes: Sequence[int]) -> bool:
    """Whether rising sizes divide each other: replicas of such sizes pack without loss, largest first."""
    return all(b % a == 0 for a, b in itertools.pairwise(sizes))


def patterns(domains: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The fullest ways to carve a rack: counts of each size, none of which could be raised; at most 400 of them."""
    made: set[tuple[int, ...]] = {(0,) * len(sizes)}
    for room in domains:
        ways: set[tuple[int, ...]] = set()
        _fill(room, sizes, 0, (), ways)
        made = _undominated({tuple(a + b for a, b in zip(one, way, strict=True)) for one in made for way in ways})
    return sorted(made, reverse=True)[:MOST_PATTERNS]


def _fill(room: int, sizes: Sequence[int], at: int, so_far: tuple[int, ...], found: set[tuple[int, ...]]) -> None:
    if at == len(sizes):
        if room < min(sizes):
            found.add(so_far)
        return
    for n in range(room // sizes[at], -1, -1):
        _fill(room - n * sizes[at], sizes, at + 1, (*so_far, n), found)


def _undominated(found: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    return {
        one
        for one in found
        if not any(other != one and all(b >= a for a, b in zip(one, other, strict=True)) for other in found)
    }

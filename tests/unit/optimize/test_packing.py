"""Replicas on racks: nothing that fits is left out, whatever the sizes; what does not fit is said."""

from __future__ import annotations

import itertools
import random

import pytest

from planner.errors import CoreError
from planner.optimize.carve import carved
from planner.optimize.instance import Decision, Instance, Kind, Option, Place, Span
from planner.optimize.packing import packed


def test_sizes_that_do_not_divide_each_other_pack_without_loss() -> None:
    # 72 = 24 + 3 x 16, twice. Largest first would put both 24s on the first rack, where only one 16 is then left room.
    found = packed([72], 2, {0: 2, 1: 6}, {0: 24, 1: 16})
    assert found is not None
    assert found.counts == [{0: 1, 1: 3}, {0: 1, 1: 3}]
    assert found.free == [[0], [0]]
    assert packed([72], 2, {0: 2, 1: 7}, {0: 24, 1: 16}) is None


def fits(free: tuple[int, ...], items: tuple[int, ...]) -> bool:
    """By trying everything."""
    if not items:
        return True
    options = {(*free[:at], room - items[0], *free[at + 1 :]) for at, room in enumerate(free) if room >= items[0]}
    return any(fits(tuple(sorted(one)), items[1:]) for one in options)


@pytest.mark.parametrize("seed", range(40))
def test_a_packing_is_found_wherever_there_is_one(seed: int) -> None:
    draw = random.Random(seed)
    domains = draw.choice([(12,), (10, 7), (9, 9)])
    sizes = dict(enumerate(draw.sample(range(2, 8), 3)))
    n_racks = draw.randint(1, 2)
    for counts in itertools.product(range(4), repeat=3):
        wanted = dict(enumerate(counts))
        found = packed(domains, n_racks, wanted, sizes)
        items = tuple(sorted((sizes[o] for o, n in wanted.items() for _ in range(n)), reverse=True))
        assert (found is not None) == fits(tuple(sorted(domains * n_racks)), items), (domains, sizes, counts)
        if found is None:
            continue
        assert {o: sum(row.get(o, 0) for row in found.counts) for o in wanted} == wanted
        for row, free in zip(found.counts, found.free, strict=True):
            assert sum(sizes[o] * n for o, n in row.items()) == sum(domains) - sum(free)
            assert min(free) >= 0


def test_a_plan_with_more_than_its_racks_take_is_a_fault_not_a_smaller_plan() -> None:
    kind = Kind("k", domains=(8,), options=(Option("a", 4),), rated_w=1e3, rest_w=0.0, capex_usd=1.0)
    instance = Instance((kind,), (), (Span("now", 0.0, 1.0, 1.0, {}, {}),), (Place(),))
    assert carved(instance, Decision(((1,),), (((2,),),), ()), 0, 0)[0].counts == (2,)
    with pytest.raises(CoreError, match="more replicas than its racks of k take"):
        carved(instance, Decision(((1,),), (((3,),),), ()), 0, 0)

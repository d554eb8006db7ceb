"""The first fleet that passes is the cheapest of all that pass, whatever the rule by which they pass."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from planner.optimize.carvings import Carving, fits, full, near
from planner.optimize.cheaper import Reach, Search
from planner.optimize.instance import Decision, Instance, Kind, Option, Span, Way, total
from planner.optimize.linear import Stop
from planner.optimize.reading import alike
from tests.instances import small

ALL = Reach(carvings=5_000, gap_frac=0.0, nodes=200_000)


def fleets(instance: Instance) -> list[Decision]:
    """Every number of racks in every span (none is given back), every full carving of them, shares alike."""
    spans = range(len(instance.spans))
    numbers = [list(itertools.product(*(range(kind.most + 1) for kind in instance.kinds))) for _ in spans]
    found = []
    for racks in itertools.product(*numbers):
        owned = [[instance.existing(k, t) for k, _ in enumerate(instance.kinds)] for t in spans]
        new = [[n - have for n, have in zip(racks[t], owned[t], strict=True)] for t in spans]
        before = [[0] * len(instance.kinds), *new[:-1]]
        bought = [[n - b for n, b in zip(new[t], before[t], strict=True)] for t in spans]
        if any(n < 0 for row in bought for n in row) or not _allowed(instance, racks, bought):
            continue
        carved = [full(instance, racks[t], most=5_000) or [] for t in spans]
        laid = [[(one, shares) for one in carved[t] if (shares := alike(instance, one, t))] for t in spans]
        for row in itertools.product(*laid):
            found.append(
                Decision(
                    tuple(tuple(bought[t][k] for t in spans) for k, _ in enumerate(instance.kinds)),
                    tuple(
                        tuple(tuple(row[t][0][k][o] for t in spans) for o, _ in enumerate(kind.options))
                        for k, kind in enumerate(instance.kinds)
                    ),
                    tuple(tuple(row[t][1][w] for t in spans) for w, _ in enumerate(instance.ways)),
                )
            )
    return found


def _allowed(instance: Instance, racks: tuple[tuple[int, ...], ...], bought: list[list[int]]) -> bool:
    [place] = instance.places
    power = max(sum(n * kind.rated_w for n, kind in zip(row, instance.kinds, strict=True)) for row in racks)
    cash = sum(n * kind.capex_usd for row in bought for n, kind in zip(row, instance.kinds, strict=True))
    return (place.power_w is None or power <= place.power_w) and (
        instance.budget_usd is None or cash <= instance.budget_usd
    )


def passes(decision: Decision, seed: int, t: int) -> bool:
    """A rule without rhyme, one fleet in seven; it knows what stands in the span and nothing else."""
    own = tuple(tuple(row[t] for row in rows) for rows in decision.replicas)
    return random.Random(f"{seed} {own}").random() < 1 / 7


def first_that_passes(instance: Instance, hopeful: Instance, seed: int) -> float | None:
    search = Search(instance, hopeful, Stop(0.0), ALL, None, [])
    search.begin(None)
    cost_before = 0.0
    while (fleet := search.cheapest()) is not None:
        decision, cost = fleet
        assert cost == pytest.approx(total(instance, decision), rel=1e-12)
        assert cost >= cost_before * (1 - 1e-12)
        cost_before = cost
        failing = [t for t, _ in enumerate(instance.spans) if not passes(decision, seed, t)]
        if not failing:
            return cost
        search.advance(failing[0])
    assert search.is_whole
    return None


def at_best(instance: Instance) -> Instance:
    """Surfaces that exclude nothing."""
    ways = tuple(replace(way, takes=tuple((k, o, need * 1e-6) for k, o, need in way.takes)) for way in instance.ways)
    return replace(instance, ways=ways)


@pytest.mark.parametrize("seed", range(40))
def test_of_all_fleets_the_cheapest_that_passes_is_found(seed: int) -> None:
    instance = replace(small(seed), spare_frac=0.0)
    instance = replace(instance, kinds=tuple(replace(kind, most=min(kind.most, 2)) for kind in instance.kinds[:3]))
    instance = replace(instance, ways=tuple(way for way in instance.ways if way.takes[0][0] < len(instance.kinds)))
    passing = [total(instance, one) for one in fleets(instance) if passes(one, seed, 0)]
    found = first_that_passes(instance, at_best(instance), seed)
    if not passing:
        assert found is None
    else:
        assert found == pytest.approx(min(passing), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_over_two_spans_each_takes_its_own_carving(seed: int) -> None:
    options = (Option("a", 4, parked_w=50.0), Option("b", 4, parked_w=20.0))
    kinds = tuple(
        Kind(name, (8,), options, capex_usd=1.0, new_usd_per_year={"racks": usd}, existing=(0, 0), most=2, rest_w=1e3)
        for name, usd in (("x", 1e3), ("y", 1.1e3))
    )
    ways = tuple(
        Way(f"{cls} {k}{o}", cls, ((k, o, need),), ((k, watts),))
        for cls, o in (("c", 0), ("d", 1))
        for k, need, watts in ((0, 0.1, 30.0 + seed), (1, 0.15, 20.0))
    )
    spans = tuple(Span(name, t, t + 1, 1.0 - t / 10, {"c": 5.0, "d": 4.0 + t}, {"c": 3.0, "d": 2.0 + t})
                  for t, name in enumerate(("one", "two")))  # fmt: skip
    instance = Instance(kinds, ways, spans, (replace(small(0).places[0], power_w=None),))
    passing = [total(instance, one) for one in fleets(instance) if passes(one, seed, 0) and passes(one, seed, 1)]
    assert first_that_passes(instance, at_best(instance), seed) == pytest.approx(min(passing), rel=1e-9)


def test_carvings_next_to_one_are_found_without_all_of_them() -> None:
    kind = Kind("k", (72,), (Option("a", 16), Option("b", 8), Option("c", 8)), existing=(0,), most=9)
    ways = tuple(Way(str(o), "c", ((0, o, 1.0),)) for o in range(3))
    instance = Instance((kind,), ways, (Span("now", 0, 1, 1.0, {"c": 1.0}, {"c": 1.0}),))
    every = full(instance, [3], most=5_000)
    assert every is not None
    assert all(16 * a + 8 * b + 8 * c == 3 * 72 and a <= 12 for ((a, b, c),) in every)
    assert len(every) == sum(27 - 2 * a + 1 for a in range(13))  # b and c share the chips that a leaves, in eights
    assert full(instance, [3], most=100) is None
    centre: Carving = ((4, 9, 10),)
    few = near(instance, [3], centre, most=7)
    assert few[0] == centre
    assert set(few) == {
        ((4, 10, 9),),
        ((4, 8, 11),),
        ((5, 7, 10),),
        ((5, 9, 8),),
        ((3, 11, 10),),
        ((3, 9, 12),),
        centre,
    }
    assert set(near(instance, [3], centre, most=5_000)) == set(every)
    assert fits(replace(kind, domains=(10,), options=(Option("a", 6), Option("b", 4))), 2, (2, 2), (0, 1))
    assert not fits(replace(kind, domains=(10,), options=(Option("a", 6), Option("b", 4))), 2, (3, 0), (0, 1))

"""The integer program against brute force, and its laws: parts sum, freedom never costs, useless kinds are left."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from planner.optimize.instance import Decision, Instance, Kind, Option, Place, Span, VendorShare, Way, parts, total
from planner.optimize.linear import Program, Stop
from planner.optimize.patterns import patterns
from planner.optimize.program import Failed
from planner.optimize.reading import balanced, loads, rounded
from planner.optimize.search import solve
from tests.instances import large, small

EXACT = Stop(gap_frac=0.0)
SEEDS = range(40)


def brute_force(instance: Instance) -> float | None:
    """The least cost over all counts of racks and replicas, shares by a linear program; None where nothing serves."""
    best: float | None = None
    for counts in itertools.product(*(range(kind.least, kind.most + 1) for kind in instance.kinds)):
        if any(n < instance.existing(k, 0) for k, n in enumerate(counts)) or not _inside(instance, counts):
            continue
        for carved in itertools.product(*(_carvings(kind, n) for kind, n in zip(instance.kinds, counts, strict=True))):
            bought = tuple((n - instance.existing(k, 0),) for k, n in enumerate(counts))
            replicas = tuple(tuple((n,) for n in row) for row in carved)
            empty = Decision(bought, replicas, tuple((0.0,) for _ in instance.ways))
            least = total(instance, empty)
            if best is not None and least >= best:
                continue
            shares = _shares(instance, replicas)
            if shares is not None:
                cost = total(instance, replace(empty, shares=shares))
                best = cost if best is None else min(best, cost)
    return best


def _inside(instance: Instance, counts: tuple[int, ...]) -> bool:
    [place] = instance.places
    power = sum(n * kind.rated_w for n, kind in zip(counts, instance.kinds, strict=True))
    cash = sum(
        (n - instance.existing(k, 0)) * kind.capex_usd
        for k, (n, kind) in enumerate(zip(counts, instance.kinds, strict=True))
    )
    return (place.power_w is None or power <= place.power_w) and (
        instance.budget_usd is None or cash <= instance.budget_usd
    )


def _carvings(kind: Kind, n_racks: int) -> list[tuple[int, ...]]:
    """All counts of replicas that some carving of `n_racks` holds."""
    if kind.options[0].per_rack is not None:
        return [tuple((o.per_rack or 0) * n_racks for o in kind.options)]
    sizes = [o.chips for o in kind.options]
    one = set(itertools.product(*(range(sum(kind.domains) // s + 1) for s in sizes)))
    held = {way for way in one if _fits(kind.domains, sizes, way)}
    found = {(0,) * len(sizes)}
    for _ in range(n_racks):
        found = {tuple(a + b for a, b in zip(x, y, strict=True)) for x in found for y in held}
    return sorted(found)


def _fits(domains: tuple[int, ...], sizes: list[int], way: tuple[int, ...]) -> bool:
    free = list(domains)
    for size, n in sorted(zip(sizes, way, strict=True), reverse=True):
        for _ in range(n):
            place = next((ix for ix, room in enumerate(free) if room >= size), None)
            if place is None:
                return False
            free[place] -= size
    return True


def _shares(instance: Instance, replicas: tuple[tuple[tuple[int, ...], ...], ...]) -> tuple[tuple[float], ...] | None:
    [span] = instance.spans
    program = Program()
    nothing = Decision(tuple((0,) for _ in instance.kinds), replicas, tuple((0.0,) for _ in instance.ways))
    columns = []
    for w, _ in enumerate(instance.ways):
        one = tuple((1.0,) if v == w else (0.0,) for v, _ in enumerate(instance.ways))
        cost = parts(instance, replace(nothing, shares=one), "tco")["requests"]
        columns.append(program.column(0, 1, cost=cost / 1e5))
    for name in instance.classes:
        own = {columns[w]: 1.0 for w, way in enumerate(instance.ways) if way.cls == name}
        if not own:
            return None
        program.row(own, 1.0, 1.0)
    for k, kind in enumerate(instance.kinds):
        for o, _ in enumerate(kind.options):
            terms = {
                columns[w]: way.takes[0][2] * span.peak_req_per_s[way.cls] / (1 - instance.spare_frac)
                for w, way in enumerate(instance.ways)
                if way.takes[0][:2] == (k, o)
            }
            if terms:
                program.row(terms, upper=float(replicas[k][o][0]))
    found = program.solve()
    return tuple((value,) for value in found.values) if found.status == "optimal" else None


@pytest.mark.parametrize("seed", SEEDS)
def test_it_agrees_with_brute_force(seed: int) -> None:
    instance = small(seed)
    found, expected = solve(instance, EXACT), brute_force(instance)
    if expected is None:
        assert (found.status, found.decision) == ("infeasible", None)
        return
    assert found.status == "optimal"
    assert found.decision is not None
    assert total(instance, found.decision) == pytest.approx(expected, rel=2e-5)
    assert found.bound <= expected * (1 + 2e-5)


def cost_of(instance: Instance) -> float:
    """The optimum; infinite where there is none."""
    found = solve(instance, EXACT)
    assert (found.status == "infeasible") == (found.decision is None)
    return float("inf") if found.decision is None else total(instance, found.decision)


@pytest.mark.parametrize("seed", range(12))
def test_freedom_never_costs_and_a_useless_kind_changes_nothing(seed: int) -> None:
    instance = small(seed)
    least = cost_of(instance)
    freer = [
        replace(instance, budget_usd=None),
        replace(instance, places=(replace(instance.places[0], power_w=None),)),
        replace(instance, spare_frac=0.0),
        replace(instance, kinds=tuple(replace(kind, most=kind.most + 1) for kind in instance.kinds)),
    ]
    for other in freer:
        assert cost_of(other) <= least * (1 + 2e-5)
    useless = Kind("useless", (8,), (Option("u", 8),), capex_usd=1e6, new_usd_per_year={"racks": 1e6}, most=4)
    with_it = solve(replace(instance, kinds=(*instance.kinds, useless)), EXACT)
    without = solve(instance, EXACT)
    if without.decision is None:
        assert with_it.decision is None
    else:
        assert with_it.decision is not None
        assert with_it.decision.bought[-1] == (0,)
        assert with_it.decision.bought[:-1] == without.decision.bought


@pytest.mark.parametrize("seed", range(8))
def test_twice_the_demand_and_every_limit_costs_at_most_twice(seed: int) -> None:
    instance = small(seed)
    once = cost_of(instance)
    [span], [place] = instance.spans, instance.places
    double = replace(
        instance,
        spans=(
            replace(
                span,
                peak_req_per_s={n: 2 * v for n, v in span.peak_req_per_s.items()},
                mean_req_per_s={n: 2 * v for n, v in span.mean_req_per_s.items()},
            ),
        ),
        places=(replace(place, power_w=None if place.power_w is None else 2 * place.power_w),),
        budget_usd=None if instance.budget_usd is None else 2 * instance.budget_usd,
        kinds=tuple(
            replace(kind, most=2 * kind.most, existing=tuple(2 * n for n in kind.existing)) for kind in instance.kinds
        ),
    )
    assert cost_of(double) <= 2 * once * (1 + 2e-5)


def test_units_of_money_scale_out_and_the_parts_sum_to_the_goal() -> None:
    instance = small(3)
    found = solve(instance, EXACT).decision
    assert found is not None
    for goal in ("tco", "capex", "energy", "carbon"):
        assert total(instance, found, goal) == pytest.approx(sum(parts(instance, found, goal).values()))
    in_cents = replace(
        instance,
        kinds=tuple(
            replace(
                kind,
                capex_usd=kind.capex_usd * 100,
                new_usd_per_year={n: v * 100 for n, v in kind.new_usd_per_year.items()},
                owned_usd_per_year={n: v * 100 for n, v in kind.owned_usd_per_year.items()},
            )
            for kind in instance.kinds
        ),
        places=(replace(instance.places[0], usd_per_kwh=instance.places[0].usd_per_kwh * 100),),
        budget_usd=None if instance.budget_usd is None else instance.budget_usd * 100,
    )
    again = solve(in_cents, EXACT).decision
    assert again is not None
    assert again.bought == found.bought
    assert total(in_cents, again) == pytest.approx(100 * total(instance, found), rel=1e-6)


def test_the_same_input_gives_the_same_plan() -> None:
    instance = large(3, 6, 3, 1)
    assert solve(instance) == solve(instance)


def test_racks_arrive_in_time_by_delivery_and_retire() -> None:
    kind = Kind(
        "k", (8,), (Option("a", 8, per_rack=1),), capex_usd=1e6, new_usd_per_year={"racks": 3e5},
        existing=(2, 0), most=9, first_span=1, most_bought=(None, 3),
    )  # fmt: skip
    spans = (
        Span("one", 0, 1, 1.0, {"c": 2.0}, {"c": 1.0}),
        Span("two", 1, 2, 0.9, {"c": 3.0}, {"c": 1.0}),
    )
    instance = Instance((kind,), (Way("w", "c", ((0, 0, 1.0),)),), spans)
    found = solve(instance, EXACT).decision
    assert found is not None
    assert found.bought == ((0, 3),)  # the two owned ones serve span one and retire; three come in span two
    assert total(instance, found) == pytest.approx(3 * 3e5 * 0.9)
    late = replace(instance, spans=(replace(spans[0], peak_req_per_s={"c": 2.5}), spans[1]))
    assert solve(late, EXACT).status == "infeasible"
    scarce = replace(instance, kinds=(replace(kind, most_bought=(None, 2)),))
    assert solve(scarce, EXACT).status == "infeasible"


def test_a_rack_down_a_vendor_and_a_carbon_cap_bind() -> None:
    def kind(name: str, usd: float, vendor: str) -> Kind:
        return Kind(
            name, (8,), (Option("a", 8, per_rack=1),), capex_usd=1e6, new_usd_per_year={"racks": usd},
            existing=(0,), most=9, vendor=vendor, rest_w=1e3,
        )  # fmt: skip

    cheap, dear = kind("cheap", 1e5, "x"), kind("dear", 2e5, "y")
    ways = (Way("w0", "c", ((0, 0, 1.0),)), Way("w1", "c", ((1, 0, 0.5),)))
    spans = (Span("now", 0, 1, 1.0, {"c": 2.0}, {"c": 1.0}),)
    place = Place(usd_per_kwh=0.0, kgco2e_per_kwh=1.0)
    plain = Instance((cheap, dear), ways, spans, (place,))
    assert [sum(row) for row in solve(plain, EXACT).decision.bought] == [0, 1]  # type: ignore[union-attr]
    down = solve(replace(plain, racks_down=1), EXACT).decision
    assert down is not None
    assert [sum(row) for row in down.bought] == [3, 0]  # any one of three may go; two dear ones would cost 400,000
    assert [sum(row) for row in solve(replace(plain, vendors=(VendorShare("x", 0.5),)), EXACT).decision.bought] in (  # type: ignore[union-attr]
        [2, 0],
        [1, 1],
    )
    per_rack_kg = 1.0 * 8760
    capped = solve(replace(plain, kinds=(cheap, replace(dear, rest_w=3e3)), carbon_kgco2e=2.5 * per_rack_kg), EXACT)
    assert capped.decision is not None
    assert [sum(row) for row in capped.decision.bought] == [2, 0]


def test_the_second_goal_chooses_among_the_best_in_the_first() -> None:
    def kind(name: str, watts: float) -> Kind:
        return Kind(
            name, (8,), (Option("a", 8, per_rack=1),), capex_usd=1e6, new_usd_per_year={"racks": 1e5},
            existing=(0,), most=2, rest_w=watts,
        )  # fmt: skip

    ways = (Way("w0", "c", ((0, 0, 1.0),)), Way("w1", "c", ((1, 0, 1.0),)))
    spans = (Span("now", 0, 1, 1.0, {"c": 1.0}, {"c": 1.0}),)
    place = Place(usd_per_kwh=0.0, kgco2e_per_kwh=1.0)
    same = Instance((kind("hot", 9e3), kind("cool", 1e3)), ways, spans, (place,))
    assert solve(same, EXACT).decision.bought == ((1,), (0,))  # type: ignore[union-attr]  # the first listed
    then = solve(replace(same, then="energy"), EXACT)
    assert then.decision is not None
    assert then.decision.bought == ((0,), (1,))
    assert then.bound == pytest.approx(total(same, then.decision))  # of the first goal, not of the second


def test_a_fleet_that_failed_is_left_out_with_all_smaller_ones() -> None:
    instance = large(3, 3, 1, 1)
    first = solve(instance, EXACT).decision
    assert first is not None
    n = first.replicas
    every = tuple((k, o, n[k][o][0]) for k, kind in enumerate(instance.kinds) for o, _ in enumerate(kind.options))
    second = solve(instance, EXACT, failed=[Failed(0, every)]).decision
    assert second is not None
    assert any(second.replicas[k][o][0] > count for k, o, count in every)
    assert total(instance, second) >= total(instance, first)
    assert solve(instance, EXACT, below=total(instance, first) * 0.999).status == "infeasible"


def test_balanced_shares_load_every_deployment_alike() -> None:
    kind = Kind("k", (8,), (Option("a", 8, per_rack=1),), new_usd_per_year={"racks": 1.0}, existing=(0,), most=4)
    other = replace(kind, name="other")
    ways = (Way("w0", "c", ((0, 0, 0.5),), ((0, 100.0),)), Way("w1", "c", ((1, 0, 0.25),), ((1, 10.0),)))
    instance = Instance((kind, other), ways, (Span("now", 0, 1, 1.0, {"c": 4.0}, {"c": 1.0}),))
    decision = balanced(instance, Decision(((2,), (1,)), (((2,),), ((1,),)), ((0.0,), (1.0,))))
    assert decision.shares == ((0.5,), (0.5,))  # 4 x 0.5 x s / 2 = 4 x 0.25 x (1 - s) / 1
    assert loads(instance, decision, 0) == {(0, 0): 0.5, (1, 0): 0.5}


def test_patterns_and_rounding() -> None:
    assert patterns((72,), [16, 6]) == [(4, 1), (3, 4), (2, 6), (1, 9), (0, 12)]
    assert patterns((8, 8), [8, 4]) == [(2, 0), (1, 2), (0, 4)]
    instance = Instance(
        (), tuple(Way(str(w), "c", ()) for w in range(3)), (Span("now", 0, 1, 1, {"c": 1.0}, {"c": 1.0}),)
    )
    assert rounded(instance, [[1 / 3], [1 / 3], [1 / 3]]) == ((0.333334,), (0.333333,), (0.333333,))


def test_sizes_that_do_not_divide_each_other_are_carved_by_patterns() -> None:
    kind = Kind("k", (10,), (Option("a", 6), Option("b", 4)), new_usd_per_year={"racks": 1.0}, existing=(0,), most=9)
    ways = (Way("wa", "c", ((0, 0, 1.0),)), Way("wb", "d", ((0, 1, 1.0),)))
    instance = Instance((kind,), ways, (Span("now", 0, 1, 1.0, {"c": 2.0, "d": 3.0}, {"c": 1.0, "d": 1.0}),))
    found = solve(instance, EXACT).decision
    assert found is not None
    assert found.bought == (
        (3,),
    )  # two racks hold 6 + 4 each, the third answer needs another: 24 chips would fit 3 x 10

"""Purchases under uncertain facts: what to order now, when later orders can still react, and what knowing is worth.

Samples of the uncertain facts (`study.uncertainty`: a Latin hypercube, Jalapeño's posterior by whole members) make as
many instances: money and power by the samples' values, performance by the surfaces rescaled with the closed step model
(tokens per second at the largest batch inside the TPOT limit, sample over fact) and, where clients may be farther, by
what that leaves of their limits (`trips`). What is bought in the first period is
the same in all of them; later purchases, carving and shares react (sample average approximation, recourse continuous).
A world in which no purchase serves everybody has no cost: its share is shown (`impossible_frac`). In the others demand
that given purchases cannot serve costs ten times what the plan costs over that period, for all of a class; how many
worlds have such a shortage is shown beside the cost (`shortage_frac`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.aggregate.power import Book
from planner.errors import Infeasible
from planner.fleet.layout import entry_wish
from planner.model.choose import at_best
from planner.optimize.build import Question, Use
from planner.optimize.instance import Instance, Way, total
from planner.optimize.linear import INF, Program, Stop
from planner.optimize.periods import worth_years
from planner.optimize.program import Model, build
from planner.optimize.racks import kind_of, places_of, probe_of
from planner.optimize.trips import Trips, left_frac, more_s, trips_of
from planner.optimize.verify import Proved
from planner.study.group import Part, entry_of, group_of, measure
from planner.study.uncertainty import Sample, applied, sample

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet

SHORTAGE = 10.0
"""What all of a class unserved through a period costs, in multiples of the plan's cost over it."""
N_CHECKED = 5
"""Samples whose rescaled limits are checked by simulation."""
_OUT_OF_SAMPLE = 1 << 20
"""Seeds of the samples that judge the choice lie so far above those that made it."""
_SERVED = 1e-6
_IDLE_TAKES = 1e9
"""Replicas that a request per second takes where a world's replicas hold no request inside the limits."""

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """One sample as an instance."""

    sample: Sample
    instance: Instance


@dataclass(frozen=True, slots=True)
class Risk:
    """What purchases are chosen by: (1 - weight) x expected cost + weight x CVaR."""

    level_frac: float
    """The share of worst samples that the CVaR is the mean of."""
    weight_frac: float = 0.0

    def of(self, costs: Sequence[float]) -> float:
        """The weighted figure of costs by sample."""
        mean = math.fsum(costs) / len(costs)
        return (1 - self.weight_frac) * mean + self.weight_frac * cvar(costs, self.level_frac)


def uncertainty(asked: Question, proved: Proved, stop: Stop, *, n: int, risk: Risk) -> Tree:
    """The section `uncertainty` of a plan: expected cost, CVaR, regret of purchases, value of knowing.

    `n` samples choose by `risk`, as many others judge.
    """
    assert proved.solved.decision is not None
    seed = asked.scenario.run.seed
    question = proved.question
    known = proved.solved.bound
    scale = max(abs(known if math.isfinite(known) else total(question.instance, proved.solved.decision)), 1.0)
    made, n_none = _possible(_worlds(question, n, seed), scale)
    judged, _ = _possible(_worlds(question, n, seed + _OUT_OF_SAMPLE), scale)
    impossible = {"samples": n, "seed": seed, "cvar_level_frac": risk.level_frac, "impossible_frac": n_none / n}
    if not made or not judged:
        return impossible | {"regret": [], "perfect_information_usd": None}
    chosen = _first_stage(made, scale, stop, risk)
    plan = tuple(row[0] for row in proved.solved.decision.bought)
    candidates: dict[str, tuple[int, ...]] = {"the plan": plan}
    if chosen is not None and chosen != plan:
        candidates["best by mean and CVaR" if risk.weight_frac else "best in the mean"] = chosen
    candidates |= _neighbours(question, chosen or plan, candidates)
    tried = {name: [_cost(world, first, scale) for world in made] for name, first in candidates.items()}
    knowing = [
        min(_cost(world, None, scale, is_known=True)[0], *(costs[ix][0] for costs in tried.values()))
        for ix, world in enumerate(made)
    ]
    rows: list[Tree] = []
    for name, first in candidates.items():
        found = tried[name]
        costs = [cost for cost, _ in found]
        rows.append(
            {
                "name": name,
                "buy": {pool: count for pool, count in zip(question.pools, first, strict=True) if count},
                "expected_usd": math.fsum(costs) / len(made),
                "cvar_usd": cvar(costs, risk.level_frac),
                "weighed_usd": risk.of(costs),
                "worst_regret_usd": max(cost - least for cost, least in zip(costs, knowing, strict=True)),
                "mean_regret_usd": math.fsum(c - k for c, k in zip(costs, knowing, strict=True)) / len(made),
                "shortage_frac": sum(short > _SERVED for _, short in found) / len(made),
            }
        )
    best = min(rows, key=lambda row: float(row["weighed_usd"]))
    first = candidates[str(best["name"])]
    outside = [_cost(world, first, scale)[0] for world in judged]
    whole = [_cost(world, first, scale, is_whole=True)[0] for world in made[:50]]
    return impossible | {
        "shortage_multiple": SHORTAGE,
        "chosen": best["name"],
        "cvar_weight_frac": risk.weight_frac,
        "expected_usd": best["expected_usd"],
        "cvar_usd": best["cvar_usd"],
        "weighed_usd": best["weighed_usd"],
        "expected_whole_usd": math.fsum(whole) / len(whole),
        "out_of_sample_usd": math.fsum(outside) / len(judged),
        "out_of_sample_cvar_usd": cvar(outside, risk.level_frac),
        "optimism_gap_weighed_usd": risk.of(outside) - best["weighed_usd"],
        "optimism_gap_usd": math.fsum(outside) / len(judged) - best["expected_usd"],
        "perfect_information_usd": best["expected_usd"] - math.fsum(knowing) / len(made),
        "regret": rows,
        "checked": _checked(question, made),
    }


def _possible(worlds: Sequence[World], scale: float) -> tuple[list[World], int]:
    """The worlds in which some purchase serves everybody, and how many others there are: those have no cost."""
    kept = [world for world in worlds if _cost(world, None, scale)[1] <= _SERVED]
    return kept, len(worlds) - len(kept)


def cvar(costs: Sequence[float], level_frac: float) -> float:
    """The mean of the worst share of the costs.

    >>> cvar([1.0, 2.0, 3.0, 4.0], 0.5)
    3.5
    """
    n = max(1, math.ceil(len(costs) * level_frac - 1e-9))
    return math.fsum(sorted(costs)[-n:]) / n


# -- worlds ------------------------------------------------------------------------------------------------------------


def _worlds(question: Question, n: int, seed: int) -> list[World]:
    scenario, instance, trips = question.scenario, question.instance, trips_of(question.scenario)
    probes = [probe_of(scenario, name, question.lengths) for name in question.pools]
    first = probes[0]
    fleet = replace(
        first,
        pools=tuple(replace(p.pools[0], placed=p.placed) for p in probes),
        placed=tuple(one for p in probes for one in p.placed),
        sites=(),
        round_trips_s=trips,
    )
    samples = sample(scenario, n, seed=seed, fleet=fleet)
    speed: dict[int, dict[Part, float]] = {}
    worlds = []
    for one in samples:
        if one.simulated_ix not in speed:
            speed[one.simulated_ix] = _speeds(question, fleet, one)
        book = Book(one.values)
        spans = tuple(
            replace(s, discounted_years=worth_years(s.start_years, s.end_years, book(question.terms.discount_frac)))
            for s in instance.spans
        )
        kinds = tuple(  # cash at order and rated power are what is planned with: budgets and limits hold at the facts
            replace(kind_of(scenario, name, probe, question.terms, question.periods, book), capex_usd=kind.capex_usd)
            for name, probe, kind in zip(question.pools, probes, instance.kinds, strict=True)
        )
        places = places_of(scenario, probes, question.terms, book)
        ways = tuple(
            replace(way, takes=_takes(question, way, use, speed[one.simulated_ix], trips, one))
            for way, use in zip(instance.ways, question.uses, strict=True)
        )
        worlds.append(World(one, replace(instance, kinds=kinds, places=places, ways=ways, spans=spans)))
    return worlds


def _takes(
    question: Question, way: Way, use: Use, speeds: Mapping[Part, float], trips: Trips, one: Sample
) -> tuple[tuple[int, int, float], ...]:
    """What a way takes in a sample: more of what is slower, or holds less, than by the facts."""
    found = []
    for k, o, need in way.takes:
        part = question.parts[k][o]
        factor = speeds[part] * _reach(question, use, part, trips, one)
        found.append((k, o, need / factor if factor > 0 else _IDLE_TAKES))
    return tuple(found)


def _reach(question: Question, use: Use, part: Part, trips: Trips, one: Sample) -> float:
    """What the way to the clients in a sample leaves of what a deployment holds of a class; it is that of the pool to
    which the class's prompts are sent.
    """
    phase = "mixed" if use.partner is None else "prefill" if part == use.part else "decode"
    slo = question.scenario.traffic[use.cls].slo
    longer_s = more_s(trips, use.part.pool, use.cls, one.values)
    limit = question.limits.get((use.cls, part, phase))
    if not longer_s or slo is None or limit is None:
        return 1.0
    return left_frac(limit.surface, use.cls, question.scenario.slo[slo].limits, longer_s)


def _speeds(question: Question, fleet: Fleet, one: Sample) -> dict[Part, float]:
    """Throughput inside the limits of each deployment in a sample, over that of the facts."""
    scenario = question.scenario
    try:
        changed = applied(fleet, one, scenario.base_dir)
    except Infeasible:
        changed = None
    found: dict[Part, float] = {}
    places = [
        Part(name, ix)
        for name in question.pools
        for ix, entry in enumerate(scenario.fleet.pools[name].deploy)
        if any(cls.model == entry.model for cls in scenario.traffic.values())
    ]
    for ix, part in enumerate(places):
        wish = entry_wish(scenario, entry_of(scenario, part), question.lengths)
        rates = []
        for which in (fleet, changed):
            if which is None:
                rates.append(0.0)
                continue
            placed = which.placed[ix]
            choice = at_best(dict(placed.spec), dict(placed.plan), "", (), wish)
            rates.append(choice.tokens_per_s if choice.is_inside else 0.0)
        base, now = rates
        found[part] = now / base if base > 0 else 1.0
    return found


# -- costs -------------------------------------------------------------------------------------------------------------


def _with_shortage(model: Model, scale: float) -> list[tuple[int, float]]:
    """Lets a class go unserved, at a price; the columns that say how much of it."""
    program = model.program
    n_classes = len(model.instance.classes)
    years = sum(span.discounted_years for span in model.instance.spans)
    columns: list[tuple[int, float]] = []
    rows = iter(range(len(program.rows)))
    for ix in rows:
        if not program.names[ix].startswith("demand of "):
            continue
        span = model.instance.spans[min(len(columns) // n_classes, len(model.instance.spans) - 1)]
        price = SHORTAGE * scale * span.discounted_years / years
        column = program.column(0.0, 1.0, cost=price / model.scale)
        lower, upper, where, values = program.rows[ix]
        program.rows[ix] = (lower, upper, [*where, column], [*values, 1.0])
        columns.append((column, price))
    return columns


def _cost(
    world: World, first: Sequence[int] | None, scale: float, *, is_whole: bool = False, is_known: bool = False
) -> tuple[float, float]:
    """What a world costs with the first period's purchases given (None: the best for it), and its greatest shortage.

    Who knows a world (`is_known`) buys whole racks first, too: parts of racks are no worth of knowing.
    """
    model = build(world.instance)
    short = _with_shortage(model, scale)
    program = model.program
    if first is not None:
        for row, count in zip(model.columns.bought, first, strict=True):
            program.lower[row[0]] = program.upper[row[0]] = float(count)
    if is_known:
        firsts = {row[0] for row in model.columns.bought}
        program.whole = [column in firsts for column, _ in enumerate(program.whole)]
    found = program.solve(Stop(1e-3), is_relaxed=not (is_whole or is_known))
    if not found.values:
        return math.inf, 1.0
    return found.objective * model.scale + model.fixed, max(found.values[column] for column, _ in short)


def _first_stage(worlds: Sequence[World], scale: float, stop: Stop, risk: Risk) -> tuple[int, ...] | None:
    """The first period's purchases that cost least over all worlds by `risk`, later ones free to react.

    The CVaR of m worst costs is the least of eta + sum of max(0, cost - eta) / m over eta (Rockafellar, Uryasev 2000).
    """
    whole = Program()
    kinds = worlds[0].instance.kinds
    firsts: list[int] = []
    for k, kind in enumerate(kinds):
        one = build(worlds[0].instance)
        column = one.columns.bought[k][0]
        firsts.append(whole.column(one.program.lower[column], one.program.upper[column], is_whole=True))
        assert kind.most >= 0
    weight = risk.weight_frac
    n_worst = max(1, math.ceil(len(worlds) * risk.level_frac - 1e-9))
    eta = whole.column(-INF, INF, cost=weight) if weight else None
    for world in worlds:
        model = build(world.instance)
        _with_shortage(model, scale)
        program = model.program
        offset = len(whole.cost)
        unit = model.scale / scale
        factor = (1 - weight) * unit / len(worlds)
        for cost, low, high in zip(program.cost, program.lower, program.upper, strict=True):
            whole.column(low, high, cost=cost * factor)
        for lower, upper, where, values in program.rows:
            whole.row({offset + c: v for c, v in zip(where, values, strict=True)}, lower, upper)
        if eta is not None:
            beyond = whole.column(cost=weight / n_worst)
            terms = {offset + c: cost * unit for c, cost in enumerate(program.cost) if cost}
            whole.row(terms | {beyond: -1.0, eta: -1.0}, upper=-model.fixed / scale)
        for k, first in enumerate(firsts):
            whole.row({offset + model.columns.bought[k][0]: 1.0, first: -1.0}, 0.0, 0.0)
    found = whole.solve(replace(stop, gap_frac=max(stop.gap_frac, 1e-3)))
    return tuple(round(found.values[first]) for first in firsts) if found.values else None


def _neighbours(
    question: Question, first: Sequence[int], known: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """One rack more and one less of each pool in the first period."""
    found: dict[str, tuple[int, ...]] = {}
    for k, name in enumerate(question.pools):
        kind = question.instance.kinds[k]
        for step, word in ((1, "one more"), (-1, "one less")):
            there = tuple(count + step if i == k else count for i, count in enumerate(first))
            if 0 <= there[k] <= kind.most and kind.first_span == 0 and there not in known.values():
                found[f"{word} {name}"] = there
    return found


def _checked(question: Question, worlds: Sequence[World]) -> list[Tree]:
    """Rescaled limits against the simulator: the strain of the busiest deployment of a sample at its rescaled limit."""
    (name, part, phase), limit = max(question.limits.items(), key=lambda item: item[1].req_per_s * item[1].factor)
    surface = limit.surface
    group = group_of(
        question.scenario, part, surface.mix, surface.n_replicas,
        lengths=question.lengths, rates={one: question.mean_rates[one] for one in surface.mix},
        phase=phase, partner=surface.partner,
    )  # fmt: skip
    trips = trips_of(question.scenario)
    rows: list[Tree] = []
    seen: set[int] = set()
    for world in worlds:
        if world.sample.simulated_ix in seen or len(rows) == N_CHECKED:
            continue
        seen.add(world.sample.simulated_ix)
        factor = _speeds_of_group(question, group.fleet, world.sample, part)
        first, second = (surface.partner or part, part) if phase == "decode" else (part, surface.partner)
        factor *= min(_reach(question, Use(one, first, second), part, trips, world.sample) for one in surface.mix)
        row: Tree = {"sample": world.sample.ix, "pool": part.pool, "class": name, "factor": factor, "strain": None}
        if factor > 0:
            try:
                fleet = applied(group.fleet, world.sample, question.scenario.base_dir)
                seed = question.scenario.run.seed + _OUT_OF_SAMPLE
                made = measure(replace(group, fleet=fleet), surface.limit_req_per_s * factor * 0.95, seed=seed,
                               length_s=90.0, warmup_s=30.0)  # fmt: skip
                strains = [figures["strain"] for figures in made.classes.values()]
                row["strain"] = None if None in strains else max(s for s in strains if s is not None)
            except Infeasible:
                pass
        rows.append(row)
    return rows


def _speeds_of_group(question: Question, fleet: Fleet, one: Sample, part: Part) -> float:
    scenario = question.scenario
    wish = entry_wish(scenario, entry_of(scenario, part), question.lengths)
    try:
        changed = applied(fleet, one, scenario.base_dir)
    except Infeasible:
        return 0.0
    choices = [at_best(dict(f.placed[0].spec), dict(f.placed[0].plan), "", (), wish) for f in (fleet, changed)]
    base, now = (choice.tokens_per_s if choice.is_inside else 0.0 for choice in choices)
    return now / base if base > 0 else 1.0

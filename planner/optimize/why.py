"""Why this plan: what one more and one less unit of each limit is worth, plans that cost little more, and ways out.

Values come from solving the integer program again with the limit moved; beside them stands the dual of the relaxed
program, which ignores that racks are whole. For a request that no fleet meets, each limit alone is relaxed by as little
as makes it possible, and the plan that it then buys is named; these plans are the program's, not yet simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from planner import units
from planner.optimize.build import Question, tightened
from planner.optimize.instance import Decision, Instance, Kind, Place, Span, total
from planner.optimize.linear import Stop
from planner.optimize.links import GB, GIVEN, rows_of
from planner.optimize.memory import Memory
from planner.optimize.program import Model, build
from planner.optimize.search import solve
from planner.optimize.verify import Proved
from planner.study.curves import crossing
from planner.study.group import Part

RUNNER_UP_FRAC = 0.02
MW, MUSD = 1e6, 1e6
DEMAND, DEMAND_STEP = "demand", 0.01
MOST_RACKS = 2000
_FACTORS = (1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)

Tree = dict[str, Any]
Change = Callable[[float], Instance]
Thing = TypeVar("Thing", Kind, Span, Place)


def why(asked: Question, proved: Proved, stop: Stop, memory: Memory | None = None) -> Tree:
    """`binding` and `runner_ups` of a proved plan; `memory` has the programs that were solved already."""
    assert proved.decision is not None
    instance = proved.question.instance
    memory = memory or Memory()
    base = memory.solve(instance, stop)
    if base.decision is None:  # a cheaper plan than the surfaces allow was proved: their own program knows less
        instance = asked.instance
        base = memory.solve(instance, stop)
    if base.decision is None:
        return {"binding": [], "runner_ups": [], "relaxations": []}
    cost = total(instance, base.decision)
    duals = _duals(instance)
    binding = []
    for name, unit, change, row, per in _knobs(asked, instance):
        more, less = (memory.solve(change(sign), stop).decision for sign in (1.0, -1.0))
        worth = {
            word: None if made is None else total(changed, made) - cost
            for word, made, changed in (("more", more, change(1.0)), ("less", less, change(-1.0)))
        }
        for word, sign in (("more", 1.0), ("less", -1.0)):
            value = worth[word]
            if value is not None:  # what frees the choice never costs; the search's own gap might say so
                worth[word] = min(0.0, value) if sign * _frees(name) > 0 else max(0.0, value)
        is_free = worth["more"] is not None and abs(worth["more"]) <= abs(cost) * max(stop.gap_frac, 1e-6)
        is_free = is_free and worth["less"] is not None and abs(worth["less"]) <= abs(cost) * max(stop.gap_frac, 1e-6)
        dual = duals.get(row)
        if is_free and not dual:
            continue
        binding.append(
            {
                "limit": name,
                "unit": unit,
                "one_more": worth["more"],
                "one_less": worth["less"],
                "is_less_possible": worth["less"] is not None,
                "lp_dual_per_unit": None if dual is None else dual * per,
            }
        )
    return {
        "binding": binding,
        "runner_ups": _runner_ups(asked, instance, base.decision, cost, stop),
        "relaxations": [],
    }


def _knobs(asked: Question, instance: Instance) -> list[tuple[str, str, Change, str, float]]:
    """(name, unit, the instance with so many units more, its row, what a unit of the row is of the unit)."""
    found: list[tuple[str, str, Change, str, float]] = []
    for ix, place in enumerate(instance.places):
        where = f" of {place.name}" if place.name else ""
        if place.power_w is not None:
            found.append((f"power limit{where}", "1 MW", _power(instance, ix), f"power {place.name}".strip(), 1000.0))
        if place.racks is not None:
            found.append((f"positions{where}", "1 rack", _space(instance, ix), f"space {place.name}".strip(), 1.0))
    if instance.budget_usd is not None:
        found.append(("budget", "1 MUSD", _budget(instance), "budget", 1.0))
    for t, span in enumerate(instance.spans):
        if span.budget_usd is not None:
            found.append((f"budget of {span.name}", "1 MUSD", _span_budget(instance, t), f"budget {span.name}", 1.0))
    for k, kind in enumerate(instance.kinds):
        if kind.most > kind.least:
            found.append((f"most racks of {asked.pools[k]}", "1 rack", _most(instance, k), "", 1.0))
        if 0 < kind.first_span < len(instance.spans):
            months = 12 * (
                instance.spans[kind.first_span].start_years - instance.spans[kind.first_span - 1].start_years
            )
            found.append((f"{asked.pools[k]} ahead of its date", f"{months:g} months", _date(instance, k), "", 1.0))
    if instance.carbon_kgco2e is not None:
        found.append(("carbon limit", "1000 tCO2e", _carbon(instance), "carbon", 1.0))
    if any(link.name == GIVEN for link in instance.links):
        found.append((GIVEN, "1 GB/s", _link(instance), GIVEN, 1.0))
    found.append((DEMAND, "1 %", _demand(instance), "", 1.0))
    return found


def _frees(name: str) -> float:
    """1 where more of a limit allows more plans, -1 where it allows fewer."""
    return -1.0 if name == DEMAND else 1.0


def _with(things: tuple[Thing, ...], ix: int, **changes: Any) -> tuple[Thing, ...]:
    """The same things, one of them changed."""
    return tuple(replace(thing, **changes) if i == ix else thing for i, thing in enumerate(things))


def _power(instance: Instance, ix: int) -> Change:
    was = instance.places[ix].power_w or 0.0
    return lambda sign: replace(instance, places=_with(instance.places, ix, power_w=max(0.0, was + sign * MW)))


def _space(instance: Instance, ix: int) -> Change:
    was = instance.places[ix].racks or 0.0
    return lambda sign: replace(instance, places=_with(instance.places, ix, racks=max(0.0, was + sign)))


def _budget(instance: Instance) -> Change:
    return lambda sign: replace(instance, budget_usd=max(0.0, (instance.budget_usd or 0.0) + sign * MUSD))


def _span_budget(instance: Instance, t: int) -> Change:
    was = instance.spans[t].budget_usd or 0.0
    return lambda sign: replace(instance, spans=_with(instance.spans, t, budget_usd=max(0.0, was + sign * MUSD)))


def _most(instance: Instance, k: int) -> Change:
    kind = instance.kinds[k]
    return lambda sign: replace(instance, kinds=_with(instance.kinds, k, most=max(kind.least, kind.most + int(sign))))


def _date(instance: Instance, k: int) -> Change:
    was = instance.kinds[k].first_span
    return lambda sign: replace(instance, kinds=_with(instance.kinds, k, first_span=was - int(sign)))


def _carbon(instance: Instance) -> Change:
    return lambda sign: replace(instance, carbon_kgco2e=max(0.0, (instance.carbon_kgco2e or 0.0) + sign * 1e6))


def _link(instance: Instance) -> Change:
    return lambda sign: replace(
        instance,
        links=tuple(replace(link, bytes_per_s=max(0.0, link.bytes_per_s + sign * GB)) for link in instance.links),
    )


def _demand(instance: Instance) -> Change:
    return lambda sign: at_demand(instance, 1 + sign * DEMAND_STEP)


def at_demand(instance: Instance, factor: float) -> Instance:
    """The same question at another load."""
    spans = tuple(
        replace(
            span,
            peak_req_per_s={name: v * factor for name, v in span.peak_req_per_s.items()},
            mean_req_per_s={name: v * factor for name, v in span.mean_req_per_s.items()},
        )
        for span in instance.spans
    )
    return replace(instance, spans=spans)


def _duals(instance: Instance) -> dict[str, float]:
    """Duals of the relaxed program by row, those of one name summed; None of a program that has no answer."""
    model = build(instance)
    found = model.program.solve(is_relaxed=True)
    sums: dict[str, float] = {}
    if found.status == "optimal":
        for name, dual in zip(model.program.names, found.duals, strict=True):
            if name and dual:
                sums[name] = sums.get(name, 0.0) + dual * model.scale
    return sums


def _runner_ups(asked: Question, instance: Instance, best: Decision, cost: float, stop: Stop) -> list[Tree]:
    """The best plans with one rack more or less of a kind in the last period, as far as they cost at most 2 % more."""
    last = len(instance.spans) - 1
    found: dict[tuple[int, ...], float] = {}
    own = tuple(best.racks(instance, k, last) for k, _ in enumerate(instance.kinds))
    for k, kind in enumerate(instance.kinds):
        if kind.most <= kind.least:
            continue
        for n in (own[k] - 1, own[k] + 1):
            model = build(instance)
            column = model.columns.racks[k][last]
            if not model.program.lower[column] <= n <= model.program.upper[column]:
                continue
            model.program.lower[column] = model.program.upper[column] = float(n)
            made = _solved(model, stop)
            if made is not None:
                racks = tuple(made.racks(instance, i, last) for i, _ in enumerate(instance.kinds))
                found[racks] = min(found.get(racks, float("inf")), total(instance, made))
    near = sorted((value, racks) for racks, value in found.items() if value <= cost * (1 + RUNNER_UP_FRAC))
    return [
        {
            "racks": {name: n for name, n in zip(asked.pools, racks, strict=True) if n},
            "more": value - cost,
            "more_frac": (value - cost) / cost if cost else 0.0,
        }
        for value, racks in near
        if racks != own
    ]


def _solved(model: Model, stop: Stop) -> Decision | None:
    from planner.optimize.reading import read

    found = model.program.solve(stop)
    return read(model, found.values) if found.status in {"optimal", "stopped"} else None


# -- ways out ----------------------------------------------------------------------------------------------------------


def relaxations(asked: Question, stop: Stop) -> list[Tree]:
    """For each limit the smallest relaxation that alone makes a plan possible, with the plan that it buys."""
    instance = asked.instance
    found: list[Tree] = []
    for ix, place in enumerate(instance.places):
        where = f" of {place.name}" if place.name else ""
        if place.power_w is not None:
            free = replace(place, power_w=None)
            least = _least(_with_place(instance, ix, free), {k: kd.rated_w for k, kd in _there(instance, place.name)})
            if least is not None:
                need = units.format(least, "power")
                new = _with_place(instance, ix, replace(place, power_w=least * (1 + 1e-9)))
                found.append(_way_out(asked, new, f"a power limit{where} of {need}", place.power_w, least, "W", stop))
        if place.racks is not None:
            free = replace(place, racks=None)
            least = _least(_with_place(instance, ix, free), {k: kd.places for k, kd in _there(instance, place.name)})
            if least is not None:
                new = _with_place(instance, ix, replace(place, racks=least))
                what = f"{least:g} rack positions{where}"
                found.append(_way_out(asked, new, what, place.racks, least, "positions", stop))
    if instance.budget_usd is not None or any(span.budget_usd is not None for span in instance.spans):
        free_money = replace(
            instance, budget_usd=None, spans=tuple(replace(span, budget_usd=None) for span in instance.spans)
        )
        cheapest = solve(replace(free_money, goal={"capex": 1.0}, then=None), stop).decision
        if cheapest is not None:
            cash = total(free_money, cheapest, "capex")
            new = replace(free_money, budget_usd=cash * (1 + 1e-9))
            what = f"a budget of {units.format(cash, 'money')}"
            found.append(_way_out(asked, new, what, instance.budget_usd, cash, "USD", stop))
    found += _more_racks(asked, stop)
    found += _earlier(asked, stop)
    if instance.carbon_kgco2e is not None:
        free_carbon = replace(instance, carbon_kgco2e=None)
        cleanest = solve(replace(free_carbon, goal={"carbon": 1.0}, then=None), stop).decision
        if cleanest is not None:
            least_kg = total(free_carbon, cleanest, "carbon")
            new = replace(instance, carbon_kgco2e=least_kg * (1 + 1e-6))
            what = f"a carbon limit of {units.format(least_kg, 'mass_co2')}"
            found.append(_way_out(asked, new, what, instance.carbon_kgco2e, least_kg, "kgCO2e", stop))
    found += _wider_link(asked, stop)
    found += _wider_limits(asked, stop)
    return [one for one in found if one["buys"]]


def _there(instance: Instance, name: str) -> list[tuple[int, Any]]:
    return [(k, kind) for k, kind in enumerate(instance.kinds) if kind.site == name]


def _with_place(instance: Instance, ix: int, place: Any) -> Instance:
    return replace(instance, places=tuple(place if i == ix else p for i, p in enumerate(instance.places)))


def _least(instance: Instance, per_rack: dict[int, float]) -> float | None:
    """The least that the racks' sum of something can be in its greatest span."""
    model = build(instance)
    program = model.program
    scale = max(per_rack.values(), default=1.0) or 1.0
    program.cost = [0.0] * len(program.cost)
    most = program.column(cost=1.0)
    for t, _ in enumerate(instance.spans):
        terms = {model.columns.racks[k][t]: value / scale for k, value in per_rack.items()}
        program.row({**terms, most: -1.0}, upper=0.0)
    found = program.solve(Stop(0.0))
    return found.values[most] * scale if found.status == "optimal" else None


def _wider_link(asked: Question, stop: Stop) -> list[Tree]:
    """The least link that what has to be handed over fits."""
    instance = asked.instance
    found = []
    for link in instance.links:
        if link.name != GIVEN:
            continue
        model = build(replace(instance, links=()))
        program = model.program
        program.cost = [0.0] * len(program.cost)
        width = program.column(cost=1.0)
        for t, _ in enumerate(instance.spans):
            for _, row in rows_of(instance, t, [column[t] for column in model.columns.shares]):
                program.row({**row.terms, width: -1.0}, upper=0.0)
        answer = program.solve(Stop(0.0))
        if answer.status == "optimal":
            least = answer.values[width] * GB
            new = replace(instance, links=(replace(link, bytes_per_s=least * (1 + 1e-6)),))
            what = f"a kv link of {units.format(least, 'bytes_per_s')}"
            found.append(_way_out(asked, new, what, link.bytes_per_s, least, "B/s", stop))
    return found


def _more_racks(asked: Question, stop: Stop) -> list[Tree]:
    """More racks of one kind than its count and its deliveries allow."""
    found = []
    instance = asked.instance
    for k, kind in enumerate(instance.kinds):
        free = replace(kind, most=MOST_RACKS, most_bought=())
        freer = replace(instance, kinds=tuple(free if i == k else one for i, one in enumerate(instance.kinds)))
        least = _least(freer, {k: 1.0})
        if least is not None and round(least) > kind.most:
            enough = replace(free, most=round(least))
            new = replace(instance, kinds=tuple(enough if i == k else one for i, one in enumerate(instance.kinds)))
            what = f"{round(least)} racks of {asked.pools[k]}"
            found.append(_way_out(asked, new, what, kind.most, round(least), "racks", stop))
    return found


def _earlier(asked: Question, stop: Stop) -> list[Tree]:
    """Racks of one kind in an earlier period."""
    instance = asked.instance
    found = []
    for k, kind in enumerate(instance.kinds):
        for first in range(min(kind.first_span, len(instance.spans)) - 1, -1, -1):
            sooner = replace(kind, first_span=first)
            new = replace(instance, kinds=tuple(sooner if i == k else one for i, one in enumerate(instance.kinds)))
            if solve(new, stop).decision is not None:
                what = f"{asked.pools[k]} from {instance.spans[first].name} on"
                found.append(_way_out(asked, new, what, kind.first_span, first, "period", stop))
                break
    return found


def _wider_limits(asked: Question, stop: Stop) -> list[Tree]:
    """All limits of one class wider by a factor: where its surfaces reach it, read off the same samples."""
    found = []
    for name, cls in asked.scenario.traffic.items():
        if cls.slo is None:
            continue
        for factor in _FACTORS:
            wider = widened(asked, name, factor)
            if solve(wider.instance, stop).decision is not None:
                what = f"the limits of {name} wider by {(factor - 1) * 100:.0f} %"
                found.append(_way_out(asked, wider.instance, what, 1.0, factor, "x", stop))
                break
    return found


def widened(asked: Question, name: str, factor: float) -> Question:
    """The question with a class's limits multiplied by a factor."""
    more: dict[tuple[str, Part], float] = {}
    for (cls, part, _), limit in asked.limits.items():
        if cls == name:
            reached = crossing(limit.surface, name, factor)
            gain = reached / limit.surface.limit_req_per_s
            more[name, part] = min(more.get((name, part), gain), gain)
    return tightened(asked, more)


def _way_out(asked: Question, new: Instance, what: str, was: float | None, to: float, unit: str, stop: Stop) -> Tree:
    made = solve(new, stop).decision
    last = len(new.spans) - 1
    racks = {} if made is None else {n: r for k, n in enumerate(asked.pools) if (r := made.racks(new, k, last))}
    return {
        "what": what,
        "unit": unit,
        "was": was,
        "to": to,
        "cost": None if made is None else total(new, made),
        "racks": racks,
        "buys": ", ".join(f"{n} {name}" for name, n in racks.items()),
    }

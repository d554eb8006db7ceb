"""The best decision of an instance: its program, searched by HiGHS in the steps that prove most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

from planner.optimize.decompose import by_spans
from planner.optimize.instance import Decision, Instance, total
from planner.optimize.linear import INF, Answer, Stop
from planner.optimize.program import Failed, Model, Seen, build, set_cost
from planner.optimize.reading import read

FEW_REPLICAS = 96
"""With more chosen counts of replicas than that, a program is solved without them being whole first."""
SPANS = 3
"""From so many spans on a large program is searched span by span."""
REST_NODES = 10_000
"""Nodes of the whole program where that leaves too wide a gap."""
NEAR = 1
"""How many racks of a kind and span the second search may change."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A decision and how far it is proven."""

    status: str
    """optimal, stopped, infeasible or none."""
    decision: Decision | None = None
    gap_frac: float = 0.0
    bound: float = -INF
    nodes: int = 0
    is_timed_out: bool = False


def solve(
    instance: Instance,
    stop: Stop | None = None,
    *,
    failed: Sequence[Failed] = (),
    seen: Sequence[Seen] = (),
    below: float | None = None,
) -> Solved:
    """The best decision; `failed` fleets and `seen` racks are left out, with `below` those that are dearer."""
    stop = (stop or Stop()).begun()
    model = build(instance, failed=failed, seen=seen)
    if below is not None:
        terms = {c: v for c, v in enumerate(model.plain) if v}
        model.program.row(terms, upper=(below - model.fixed) / model.scale)
    found = _search(model, stop)
    if found.status in {"infeasible", "none"}:
        return Solved(found.status, is_timed_out=found.is_timed_out)
    least = found.bound * model.scale + model.fixed
    if instance.then is not None:
        found = _second(model, found, stop)
    decision = read(model, found.values)
    bound = min(least, total(instance, decision))  # without what settles ties
    return Solved(found.status, decision, found.gap_frac, bound, found.nodes, found.is_timed_out)


def _search(model: Model, stop: Stop) -> Answer:
    """Solve; a large program first without whole replicas, which proves a bound, and then close to what that bought.

    Racks are what costs: whole replicas on about the same racks lie within the gap, or the whole program is solved.
    """
    program = model.program
    if len(model.instance.spans) >= SPANS and is_large(model.instance):
        found = by_spans(model, stop)
        if found is not None and (found.status == "optimal" or found.is_timed_out):
            return found
        if found is not None:
            rest = program.solve(replace(stop, nodes=min(stop.nodes, REST_NODES)), start=found.values)
            if not rest.values or rest.objective > found.objective:
                rest = replace(rest, status="stopped", values=found.values, objective=found.objective)
            bound = min(max(rest.bound, found.bound), rest.objective)
            proven = rest.objective - bound <= stop.gap_frac * abs(rest.objective)
            word = "optimal" if proven else "stopped"
            return replace(rest, status=word, bound=bound, nodes=rest.nodes + found.nodes)
    chosen = [c for kind in model.columns.replicas for row in kind for c in row if c is not None]
    if not is_large(model.instance):
        return program.solve(stop)
    for column in chosen:
        program.whole[column] = False
    rough = _rounded_bounds(model, stop)
    for column in chosen:
        program.whole[column] = True
    if rough.status in {"infeasible", "none"}:
        return rough
    bought = [column for row in model.columns.bought for column in row]
    kept = [(program.lower[c], program.upper[c]) for c in bought]
    for column, (low, high) in zip(bought, kept, strict=True):
        at = round(rough.values[column])
        program.lower[column], program.upper[column] = max(low, at - NEAR), min(high, at + NEAR)
    near = program.solve(replace(stop, gap_frac=stop.gap_frac / 4, nodes=stop.nodes // 4))
    for column, (low, high) in zip(bought, kept, strict=True):
        program.lower[column], program.upper[column] = low, high
    if near.status in {"optimal", "stopped"}:
        gap = (near.objective - rough.bound) / max(abs(near.objective), 1e-12)
        if gap <= stop.gap_frac:
            found = replace(near, status="optimal", bound=min(rough.bound, near.objective))
            return replace(found, nodes=rough.nodes + near.nodes)
    return program.solve(stop, start=near.values or None)


def is_large(instance: Instance) -> bool:
    """Whether so many counts of replicas are chosen that the program is not searched whole at first."""
    n_options = sum(option.per_rack is None for kind in instance.kinds for option in kind.options)
    return n_options * len(instance.spans) > FEW_REPLICAS


def _rounded_bounds(model: Model, stop: Stop) -> Answer:
    """Racks next to where they would be if they came in parts; the whole search where that leaves too wide a gap."""
    program = model.program
    relaxed = program.solve(stop, is_relaxed=True)
    if relaxed.status != "optimal":
        return program.solve(replace(stop, gap_frac=stop.gap_frac / 2))
    racks = [column for row in model.columns.racks for column in row]
    kept = [(program.lower[c], program.upper[c]) for c in racks]
    for column, (low, high) in zip(racks, kept, strict=True):
        at = relaxed.values[column]
        program.lower[column], program.upper[column] = max(low, floor(at + 1e-6)), min(high, ceil(at - 1e-6))
    near = program.solve(replace(stop, gap_frac=stop.gap_frac / 5))
    for column, (low, high) in zip(racks, kept, strict=True):
        program.lower[column], program.upper[column] = low, high
    if near.values and near.objective - relaxed.objective <= stop.gap_frac * 0.8 * abs(near.objective):
        return replace(near, bound=relaxed.objective)
    return program.solve(replace(stop, gap_frac=stop.gap_frac / 2))


def _second(model: Model, first: Answer, stop: Stop) -> Answer:
    """Among decisions as good as the first answer, the best in the second goal."""
    program, instance = model.program, model.instance
    assert instance.then is not None
    slack = max(abs(first.objective) * max(stop.gap_frac, 1e-7), 1e-9)
    program.row({c: v for c, v in enumerate(program.cost) if v}, upper=first.objective + slack)
    set_cost(model, {instance.then: 1.0})
    second = program.solve(stop)
    if second.status in {"infeasible", "none"}:
        return first
    return Answer(
        "stopped" if "stopped" in (first.status, second.status) else "optimal",
        second.values,
        first.objective,
        first.bound,
        first.nodes + second.nodes,
        is_timed_out=first.is_timed_out or second.is_timed_out,
    )

"""A plan over many spans, span by span: what links them is priced for the proof, and fixed in turn for the plan.

    proof    rows that link spans are dropped and their violation is priced by the duals of the relaxed program; what is
             left falls apart into one program a span, each solved with whole numbers (Lagrangian bound, on threads)
    plan     spans in order: one with whole numbers, those after it in parts, those before it as they were decided
             (relax and fix); then windows of spans are decided again with all others as they are, while that pays

Both use counts of nodes, never time: the same input gives the same plan, whatever the threads.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from planner.fleet.threads import gather
from planner.optimize.linear import Answer, Program, Stop
from planner.optimize.program import Model

FIX_NODES, WINDOW_NODES = 300, 500
BOUND_NODES = (2_000, 12_000)
"""Nodes of a span's program in the first and in the second attempt at the proof."""
WINDOWS = (2, 1, 2, 3)
"""Spans that are decided again together, sweep by sweep."""
_FIX_GAP, _WINDOW_GAP, _BOUND_GAP = 2e-4, 2e-5, 5e-5
"""Relative to the whole objective, they are small against any gap that is asked for."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Which span each column belongs to, and the rows that link spans."""

    of: tuple[int, ...]
    links: tuple[int, ...]
    n: int


def by_spans(model: Model, stop: Stop) -> Answer | None:
    """The best plan found that way and its bound; None where the program does not fall apart, or nothing is found."""
    blocks = blocks_of(model)
    if blocks is None:
        return None
    stop = stop.begun()
    program = _whole_racks(model)
    relaxed = program.solve(stop, is_relaxed=True)
    if relaxed.status != "optimal":
        return None
    best = _relax_and_fix(program, blocks, stop)
    if best is None:
        return None
    nodes, bound = best.nodes, relaxed.objective

    for attempt, most in enumerate(BOUND_NODES):
        if not _is_proven(best, bound, stop) and not stop.is_over():
            found, used = _priced_bound(program, blocks, relaxed, _step(stop, _BOUND_GAP, most))
            bound, nodes = max(bound, found), nodes + used
        for width in WINDOWS if attempt == 0 else WINDOWS[-1:]:
            for first in range(max(1, blocks.n - width + 1)):
                if _is_proven(best, bound, stop) or stop.is_over():
                    break
                better = _window(program, blocks, best, range(first, first + width), stop)
                nodes += better.nodes if better else 0
                best = better or best
    word = "optimal" if _is_proven(best, bound, stop) else "stopped"
    is_timed_out = word == "stopped" and stop.is_over()
    return Answer(word, best.values, best.objective, min(bound, best.objective), nodes, is_timed_out=is_timed_out)


def _step(stop: Stop, gap_frac: float, nodes: int) -> Stop:
    """For one of the programs: what is left of the time; a time limit that is not reached changes nothing."""
    return replace(stop, gap_frac=gap_frac, nodes=min(nodes, stop.nodes))


def _is_proven(best: Answer, bound: float, stop: Stop) -> bool:
    return best.objective - bound <= stop.gap_frac * abs(best.objective)


def blocks_of(model: Model) -> Blocks | None:
    """The span of each column: decisions by what they decide, others by the rows in which they stand."""
    program, columns = model.program, model.columns
    n = len(model.instance.spans)
    of: list[int | None] = [None] * len(program.cost)
    chosen = [row for kind in columns.replicas for row in kind]
    decided: list[Sequence[int | None]] = [*columns.bought, *columns.racks, *columns.shares, *chosen]
    for row in decided:
        for t, column in enumerate(row):
            if column is not None:
                of[column] = t
    is_new = True
    while is_new:
        is_new = False
        for _, _, where, _ in program.rows:
            spans = {of[c] for c in where} - {None}
            if len(spans) == 1:
                [span] = spans
                for c in where:
                    if of[c] is None:
                        of[c], is_new = span, True
    known = [t for t in of if t is not None]
    if len(known) < len(of):
        return None
    links = tuple(r for r, row in enumerate(program.rows) if len({known[c] for c in row[2]}) > 1)
    return Blocks(tuple(known), links, n)


def _whole_racks(model: Model) -> Program:
    """A copy of the program in which racks are whole by themselves, not through what was bought."""
    program = model.program
    whole = list(program.whole)
    for row in model.columns.racks:
        for column in row:
            whole[column] = True
    return Program(program.cost, list(program.lower), list(program.upper), whole, program.rows, program.names)


def _fixed(program: Program, values: Sequence[float], keep: Sequence[bool]) -> Program:
    """The program with the whole numbers of some columns as they are in `values`."""
    lower, upper = list(program.lower), list(program.upper)
    for c, is_kept in enumerate(keep):
        if is_kept and program.whole[c]:
            lower[c] = upper[c] = float(round(values[c]))
    return replace(program, lower=lower, upper=upper)


def _relax_and_fix(program: Program, blocks: Blocks, stop: Stop) -> Answer | None:
    values: Sequence[float] = [0.0] * len(program.cost)
    nodes = 0
    found = None
    for t in range(blocks.n):
        step = _fixed(program, values, [span < t for span in blocks.of])
        step.whole = [is_whole and span <= t for is_whole, span in zip(program.whole, blocks.of, strict=True)]
        found = step.solve(_step(stop, _FIX_GAP, FIX_NODES))
        if not found.values:
            return None
        values, nodes = found.values, nodes + found.nodes
    return replace(found, nodes=nodes) if found is not None else None


def _window(program: Program, blocks: Blocks, best: Answer, free: range, stop: Stop) -> Answer | None:
    """A better plan that differs in some spans only."""
    step = _fixed(program, best.values, [span not in free for span in blocks.of])
    found = step.solve(_step(stop, _WINDOW_GAP, WINDOW_NODES), start=best.values)
    return found if found.values and found.objective < best.objective else None


def _priced_bound(program: Program, blocks: Blocks, relaxed: Answer, stop: Stop) -> tuple[float, int]:
    """What no plan can be below, by the programs of the spans; and the nodes that it took."""
    cost = list(program.cost)
    constant = 0.0
    for r in blocks.links:
        lower, upper, where, values = program.rows[r]
        price = relaxed.duals[r]
        if price:
            constant += price * (lower if price > 0 else upper)
            for c, value in zip(where, values, strict=True):
                cost[c] -= price * value
    own: list[Program] = []
    place = [0] * len(cost)
    for t in range(blocks.n):
        part = Program()
        for c, span in enumerate(blocks.of):
            if span == t:
                place[c] = part.column(program.lower[c], program.upper[c], cost=cost[c], is_whole=program.whole[c])
        own.append(part)
    links = set(blocks.links)
    for r, (lower, upper, where, values) in enumerate(program.rows):
        if r not in links and where:
            part = own[blocks.of[where[0]]]
            part.row({place[c]: value for c, value in zip(where, values, strict=True)}, lower, upper)
    found: list[Answer | None] = [None] * blocks.n
    work = [partial(_solved, part, stop) for part in own]
    for t, answer in gather(work, os.cpu_count() or 1):
        found[t] = answer
    bounds = [answer.bound for answer in found if answer is not None]
    return constant + sum(bounds), sum(answer.nodes for answer in found if answer is not None)


def _solved(part: Program, stop: Stop, _: object) -> Answer:
    return part.solve(stop)

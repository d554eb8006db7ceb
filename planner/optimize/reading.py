"""A solver's values as a decision: whole counts, rounded shares, and how the load then lies on the deployments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from planner.optimize.instance import Decision, Instance
from planner.optimize.linear import INF, Program
from planner.optimize.links import rows_of

if TYPE_CHECKING:
    from planner.optimize.program import Model

SHARE_DIGITS = 6


def read(model: Model, values: Sequence[float]) -> Decision:
    """Whole counts and shares to six digits; the largest share of a class takes what rounding left over."""
    instance, columns = model.instance, model.columns
    spans = range(len(instance.spans))
    racks = [[round(values[column]) for column in row] for row in columns.racks]
    bought = tuple(tuple(round(values[column]) for column in row) for row in columns.bought)
    replicas = tuple(
        tuple(
            tuple(
                round(values[column])
                if (column := columns.replicas[k][o][t]) is not None
                else (option.per_rack or 0) * racks[k][t]
                for t in spans
            )
            for o, option in enumerate(kind.options)
        )
        for k, kind in enumerate(instance.kinds)
    )
    return Decision(bought, replicas, rounded(instance, [[values[c] for c in row] for row in columns.shares]))


def rounded(instance: Instance, values: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Shares, by way and span, to six digits that sum to 1 for each class and span."""
    spans = [_rounded(instance, [row[t] for row in values]) for t, _ in enumerate(instance.spans)]
    return tuple(tuple(span[w] for span in spans) for w, _ in enumerate(instance.ways))


def _rounded(instance: Instance, values: Sequence[float]) -> tuple[float, ...]:
    shares = [max(0, round(value * 10**SHARE_DIGITS)) for value in values]
    for name in instance.classes:
        own = [w for w, way in enumerate(instance.ways) if way.cls == name]
        if own:
            largest = max(own, key=lambda w: (shares[w], -w))
            shares[largest] += 10**SHARE_DIGITS - sum(shares[w] for w in own)
    return tuple(share / 10**SHARE_DIGITS for share in shares)


def balanced(instance: Instance, decision: Decision) -> Decision:
    """The same racks and replicas with the shares that load all deployments alike: the greatest load is least.

    A span in which the replicas do not serve every class keeps its shares.
    """
    spans = [
        alike(instance, tuple(tuple(row[t] for row in rows) for rows in decision.replicas), t)
        or tuple(row[t] for row in decision.shares)
        for t, _ in enumerate(instance.spans)
    ]
    shares = tuple(tuple(span[w] for span in spans) for w, _ in enumerate(instance.ways))
    return Decision(decision.bought, decision.replicas, shares)


def alike(instance: Instance, replicas: Sequence[Sequence[int]], t: int) -> tuple[float, ...] | None:
    """The shares of a span, by way, that load its replicas (by kind and option) alike; None where some class has none.

    Of shares that load them alike, those on the ways that are listed first.
    """
    span = instance.spans[t]
    program = Program()
    most = program.column(cost=1.0)
    columns = [program.column(0, 1) for _ in instance.ways]
    for name in instance.classes:
        own = {columns[w]: 1.0 for w, way in enumerate(instance.ways) if way.cls == name}
        program.row(own, 1.0, 1.0)
    terms: dict[tuple[int, int], dict[int, float]] = {}
    for w, way in enumerate(instance.ways):
        program.cost[columns[w]] = 1e-6 * (1 + w) / len(instance.ways)
        for k, o, per_req_s in way.takes:
            row = terms.setdefault((k, o), {})
            row[columns[w]] = row.get(columns[w], 0.0) + span.peak_req_per_s[way.cls] * per_req_s
    for (k, o), row in sorted(terms.items()):
        n = replicas[k][o]
        if n:
            program.row(row | {most: -float(n)}, upper=0.0)
        else:
            for column in row:
                program.upper[column] = 0.0
    for _, link in rows_of(instance, t, columns):
        stands = sum(replicas[k][o] * gb_per_s for k, o, gb_per_s in link.by_replica)
        program.row(link.terms, upper=link.gb_per_s + stands)
    found = program.solve()
    return _rounded(instance, [found.values[c] for c in columns]) if found.status == "optimal" else None


def loads(instance: Instance, decision: Decision, t: int) -> dict[tuple[int, int], float]:
    """Load of each deployment in a span, as a share of what its limits allow (without the spare)."""
    replicas = [[row[t] for row in rows] for rows in decision.replicas]
    return loads_by(instance, replicas, [row[t] for row in decision.shares], t)


def loads_by(
    instance: Instance, replicas: Sequence[Sequence[int]], shares: Sequence[float], t: int
) -> dict[tuple[int, int], float]:
    """The same of replicas by kind and option and of shares by way."""
    span = instance.spans[t]
    used: dict[tuple[int, int], float] = {}
    for w, way in enumerate(instance.ways):
        for k, o, per_req_s in way.takes:
            used[k, o] = used.get((k, o), 0.0) + shares[w] * span.peak_req_per_s[way.cls] * per_req_s
    return {
        (k, o): value / n if (n := replicas[k][o]) else (INF if value > 0 else 0.0) for (k, o), value in used.items()
    }


def of_class(instance: Instance, names: Iterable[str]) -> list[tuple[int, int]]:
    """Deployments that serve any of the classes."""
    wanted = set(names)
    return sorted({(k, o) for way in instance.ways if way.cls in wanted for k, o, _ in way.takes})

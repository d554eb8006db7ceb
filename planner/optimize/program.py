"""The integer program: an instance as rows and columns. Searched in `planner.optimize.search`.

    minimise   sum of the goals, weighted                                  over racks bought, replicas, shares
    racks      N[k,t] - N[k,t-1] = bought[k,t] less those that retired, least <= N <= most
    carving    replicas of at least c chips, in chips, <= N x what a rack holds of such replicas    for each size c
    demand     shares of a class over its ways sum to 1                     each span
    limits     peak x share x replicas per (request/s) / (1 - spare) <= replicas        each deployment and span
    links      peak x share x bytes of a prompt's keys and values / (1 - spare) <= what the link takes
    power, space, budget, deliveries, vendors, carbon                      as the instance has them
    racks down the limits again for each kind, with shares of their own and fewer chips of that kind

Sizes of chosen replicas that divide each other (1, 2, 4, 8, ...) pack without loss, so the carving rows are exact; a
rack with other sizes is carved by whole patterns. Of plans that cost the same (to a few millionths) the one with fewer
racks wins, of those the one with racks of the kinds that come first, bought later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.optimize.instance import Instance, Kind, rates
from planner.optimize.linear import Program
from planner.optimize.links import rows_of
from planner.optimize.patterns import are_nested, patterns

TIE = 2e-7
"""What a rack costs more in the search than it does, as a share of the dearest rack: it settles ties."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A fleet that a simulation found too small in a span: another has to have more of one of these deployments."""

    span: int
    replicas: tuple[tuple[int, int, int], ...]
    """(kind, option, replicas), of the deployments that serve the class that missed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Racks that need not be looked at again: another plan has other numbers of them in one of these spans."""

    racks: tuple[tuple[int, int, int], ...]
    """(kind, span, racks that stand)."""


@dataclass(slots=True)
class Columns:
    """Where each decision stands in the program."""

    bought: list[list[int]]
    racks: list[list[int]]
    replicas: list[list[list[int | None]]]
    """None where a deployment is fixed: `per_rack` times the racks."""
    shares: list[list[int]]


@dataclass(slots=True)
class Model:
    """An instance as a program."""

    instance: Instance
    program: Program
    columns: Columns
    scale: float
    """USD (or kWh, kgCO2e) of one unit of the program's objective."""
    fixed: float
    """What is added to the objective whatever is decided."""
    plain: list[float] = field(default_factory=list)
    """The objective without what settles ties."""


def build(instance: Instance, *, failed: Sequence[Failed] = (), seen: Sequence[Seen] = ()) -> Model:
    """The program of an instance, without the fleets that `failed` and the racks that were `seen`."""
    program = Program()
    spans = range(len(instance.spans))
    bought, racks, replicas = [], [], []
    for k, kind in enumerate(instance.kinds):
        most = [kind.most_bought[t] if kind.most_bought else None for t in spans]
        ups = [0 if t < kind.first_span else min(kind.most, kind.most if m is None else m) for t, m in enumerate(most)]
        bought.append([program.column(0, up, is_whole=True) for up in ups])
        racks.append(
            [program.column(kind.least, max(kind.least, kind.most)) for _ in spans]
        )  # whole, as the bought are
        replicas.append(
            [
                [None if option.per_rack is not None else program.column(is_whole=True) for _ in spans]
                for option in kind.options
            ]
        )
        for t in spans:
            terms = {racks[k][t]: 1.0, bought[k][t]: -1.0} | ({racks[k][t - 1]: -1.0} if t else {})
            owned = instance.existing(k, t) - (instance.existing(k, t - 1) if t else 0)
            program.row(terms, owned, owned, name=f"racks of {kind.name}")
    shares = [[program.column(0, 1) for _ in spans] for _ in instance.ways]
    columns = Columns(bought, racks, replicas, shares)
    model = Model(instance, program, columns, 1.0, 0.0)
    _carving(model)
    for t in spans:
        _demand(model, t, shares)
        _limits(model, t, shares, {})
        _links(model, t, shares, {})
    _site_limits(model)
    _money(model)
    if instance.racks_down:
        _racks_down(model)
    for fleet in failed:
        _leave_out(model, fleet)
    for one in seen:
        _other_racks(model, one)
    set_cost(model, instance.goal)
    return model


def set_cost(model: Model, goal: Mapping[str, float]) -> None:
    """Write the weighted goals into the program's objective, scaled to numbers near one, ties settled."""
    instance, program, columns = model.instance, model.program, model.columns
    spans = range(len(instance.spans))
    cost = [0.0] * len(program.cost)
    fixed = 0.0
    for name, weight in goal.items():
        found = rates(instance, name)
        fixed += weight * found.fixed
        for k, kind in enumerate(instance.kinds):
            for t in spans:
                cost[columns.racks[k][t]] += weight * found.standing[k][t]
                cost[columns.bought[k][t]] += weight * found.bought[k][t]
                fixed += weight * instance.existing(k, t) * (found.owned[k][t] - found.standing[k][t])
                for o, _ in enumerate(kind.options):
                    column = columns.replicas[k][o][t]
                    if column is not None:
                        cost[column] += weight * found.replica[k][o][t]
        for w, _ in enumerate(instance.ways):
            for t in spans:
                cost[columns.shares[w][t]] += weight * found.share[w][t]
    dearest = max((abs(v) for v in cost), default=0.0) or 1.0
    model.plain = [v / dearest for v in cost]
    n_kinds = len(instance.kinds)
    for k in range(n_kinds):
        for t in spans:
            cost[columns.racks[k][t]] += TIE * dearest * (1 + k / (10 * n_kinds))
        for row in columns.replicas[k]:
            for column in row:
                if column is not None:
                    cost[column] += TIE * dearest / 1000
    model.scale, model.fixed = dearest, fixed
    program.cost = [v / dearest for v in cost]


# -- rows --------------------------------------------------------------------------------------------------------------


def _carving(model: Model) -> None:
    for k, kind in enumerate(model.instance.kinds):
        chosen = [(o, option.chips) for o, option in enumerate(kind.options) if option.per_rack is None]
        if not chosen:
            continue
        sizes = sorted({chips for _, chips in chosen})
        if are_nested(sizes):
            for t, rack in enumerate(model.columns.racks[k]):
                for size in sizes:
                    holds = sum(room // size * size for room in kind.domains)
                    terms = {rack: -float(holds)}
                    for o, chips in chosen:
                        column = model.columns.replicas[k][o][t]
                        if chips >= size and column is not None:
                            terms[column] = float(chips)
                    model.program.row(terms, upper=0.0, name=f"chips of {kind.name}")
        else:
            _by_patterns(model, k, kind, chosen)


def _by_patterns(model: Model, k: int, kind: Kind, chosen: Sequence[tuple[int, int]]) -> None:
    """Racks carved by whole patterns, for sizes that do not divide each other."""
    found = patterns(kind.domains, [chips for _, chips in chosen])
    for t, rack in enumerate(model.columns.racks[k]):
        used = [model.program.column(is_whole=True) for _ in found]
        model.program.row(dict.fromkeys(used, 1.0) | {rack: -1.0}, upper=0.0, name=f"racks of {kind.name}")
        for place, (o, _) in enumerate(chosen):
            column = model.columns.replicas[k][o][t]
            assert column is not None
            terms = {u: -float(pattern[place]) for u, pattern in zip(used, found, strict=True)}
            model.program.row(terms | {column: 1.0}, upper=0.0, name=f"chips of {kind.name}")


def _demand(model: Model, t: int, shares: Sequence[Sequence[int]]) -> None:
    for name in model.instance.classes:
        terms = {shares[w][t]: 1.0 for w, way in enumerate(model.instance.ways) if way.cls == name}
        model.program.row(terms, 1.0, 1.0, name=f"demand of {name}")


def _limits(model: Model, t: int, shares: Sequence[Sequence[int]], instead: Mapping[tuple[int, int], int]) -> None:
    """Load within what the replicas hold; `instead` has the columns of replicas that are left of some deployments."""
    instance, span = model.instance, model.instance.spans[t]
    held = 1.0 - instance.spare_frac
    terms: dict[tuple[int, int], dict[int, float]] = {}
    for w, way in enumerate(instance.ways):
        for k, o, per_req_s in way.takes:
            row = terms.setdefault((k, o), {})
            column = shares[w][t]
            row[column] = row.get(column, 0.0) + span.peak_req_per_s[way.cls] * per_req_s / held
    for (k, o), row in sorted(terms.items()):
        option = instance.kinds[k].options[o]
        if (k, o) in instead:
            row[instead[k, o]] = -1.0
        elif option.per_rack is not None:
            row[model.columns.racks[k][t]] = -float(option.per_rack)
        else:
            there = model.columns.replicas[k][o][t]
            assert there is not None
            row[there] = -1.0
        model.program.row(row, upper=0.0, name=f"limits on {instance.kinds[k].name} {option.name}")


def _links(model: Model, t: int, shares: Sequence[Sequence[int]], instead: Mapping[tuple[int, int], int]) -> None:
    """What is handed over within what each link takes."""
    for link, row in rows_of(model.instance, t, [column[t] for column in shares]):
        for k, o, gb_per_s in row.by_replica:
            option, column = model.instance.kinds[k].options[o], model.columns.replicas[k][o][t]
            if (k, o) in instead:
                column, n = instead[k, o], 1.0
            elif column is None:
                column, n = model.columns.racks[k][t], float(option.per_rack or 0)
            else:
                n = 1.0
            row.terms[column] = row.terms.get(column, 0.0) - gb_per_s * n
        model.program.row(row.terms, upper=row.gb_per_s, name=link.name)


def _site_limits(model: Model) -> None:
    instance, racks = model.instance, model.columns.racks
    for t, _ in enumerate(instance.spans):
        for place in instance.places:
            there = [(k, kind) for k, kind in enumerate(instance.kinds) if kind.site == place.name]
            if place.power_w is not None:
                terms = {racks[k][t]: kind.rated_w / 1000 for k, kind in there}
                model.program.row(terms, upper=place.power_w / 1000, name=f"power {place.name}".strip())
            if place.racks is not None:
                terms = {racks[k][t]: kind.places for k, kind in there}
                model.program.row(terms, upper=place.racks, name=f"space {place.name}".strip())
        for share in instance.vendors:
            value = [kind.capex_usd / 1e6 for kind in instance.kinds]
            own = [kind.vendor == share.vendor for kind in instance.kinds]
            for frac, sign in ((share.least_frac, 1.0), (share.most_frac, -1.0)):
                if (sign > 0 and frac > 0) or (sign < 0 and frac < 1):
                    terms = {
                        racks[k][t]: sign * value[k] * ((1.0 if own[k] else 0.0) - frac)
                        for k, _ in enumerate(instance.kinds)
                    }
                    model.program.row(terms, lower=0.0, name=f"share of {share.vendor}")


def _money(model: Model) -> None:
    instance, bought = model.instance, model.columns.bought
    cash = [kind.capex_usd / 1e6 for kind in instance.kinds]
    for t, span in enumerate(instance.spans):
        if span.budget_usd is not None:
            terms = {bought[k][t]: cash[k] for k, _ in enumerate(cash)}
            model.program.row(terms, upper=span.budget_usd / 1e6, name=f"budget {span.name}")
    if instance.budget_usd is not None:
        terms = {bought[k][t]: cash[k] for k, _ in enumerate(cash) for t, _ in enumerate(instance.spans)}
        model.program.row(terms, upper=instance.budget_usd / 1e6, name="budget")
    if instance.carbon_kgco2e is not None:
        _carbon(model, instance.carbon_kgco2e)


def _carbon(model: Model, most_kgco2e: float) -> None:
    instance, columns = model.instance, model.columns
    found = rates(instance, "carbon")
    terms: dict[int, float] = {}
    fixed = 0.0
    for t, _ in enumerate(instance.spans):
        for k, kind in enumerate(instance.kinds):
            terms[columns.racks[k][t]] = found.standing[k][t] / 1e6
            fixed += instance.existing(k, t) * (found.owned[k][t] - found.standing[k][t]) / 1e6
            for o, _ in enumerate(kind.options):
                column = columns.replicas[k][o][t]
                if column is not None:
                    terms[column] = found.replica[k][o][t] / 1e6
        for w, _ in enumerate(instance.ways):
            terms[columns.shares[w][t]] = found.share[w][t] / 1e6
    model.program.row(terms, upper=most_kgco2e / 1e6 - fixed, name="carbon")


def _racks_down(model: Model) -> None:
    """For each kind and span: the limits hold without some racks of it, with shares of their own.

    What is left of a carved kind is at most what stood, and fits the chips of the racks that are left.
    """
    instance, program, columns = model.instance, model.program, model.columns
    for k, kind in enumerate(instance.kinds):
        for t, _ in enumerate(instance.spans):
            rack = columns.racks[k][t]
            lost = program.column(0, instance.racks_down, is_whole=True)
            is_there = [program.column(0, 1, is_whole=True) for _ in range(instance.racks_down)]
            for n, there in enumerate(is_there, start=1):  # there = 1 where at least n racks stand
                program.row({rack: 1.0, there: -float(max(1, kind.most))}, upper=float(n - 1))
            program.row({lost: 1.0, **dict.fromkeys(is_there, -1.0)}, lower=0.0)
            left: dict[tuple[int, int], int] = {}
            carved: dict[int, float] = {}
            for o, option in enumerate(kind.options):
                column = left[k, o] = program.column()
                stood = columns.replicas[k][o][t]
                if option.per_rack is not None or stood is None:
                    n_each = float(option.per_rack or 0)
                    program.row({column: 1.0, rack: -n_each, lost: n_each}, upper=0.0)
                else:
                    program.row({column: 1.0, stood: -1.0}, upper=0.0)
                    carved[column] = float(option.chips)
            if carved:
                room = float(sum(kind.domains))
                program.row(carved | {rack: -room, lost: room}, upper=0.0)
            own = [
                [program.column(0, 1) if s == t else -1 for s, _ in enumerate(instance.spans)] for _ in instance.ways
            ]
            _demand(model, t, own)
            _limits(model, t, own, left)
            _links(model, t, own, left)


def _leave_out(model: Model, fleet: Failed) -> None:
    """Some deployment has to have more replicas than the fleet that failed."""
    program, columns = model.program, model.columns
    more: dict[int, float] = {}
    for k, o, n in fleet.replicas:
        option = model.instance.kinds[k].options[o]
        is_more = program.column(0, 1, is_whole=True)
        if option.per_rack is not None:
            program.row({columns.racks[k][fleet.span]: float(option.per_rack), is_more: -float(n + 1)}, lower=0.0)
        else:
            column = columns.replicas[k][o][fleet.span]
            assert column is not None
            program.row({column: 1.0, is_more: -float(n + 1)}, lower=0.0)
        more[is_more] = 1.0
    program.row(more, lower=1.0)


def _other_racks(model: Model, seen: Seen) -> None:
    """Some number of racks is another one."""
    program = model.program
    other: dict[int, float] = {}
    for k, t, n in seen.racks:
        column = model.columns.racks[k][t]
        low, high = program.lower[column], program.upper[column]
        if n < high:
            is_more = program.column(0, 1, is_whole=True)
            program.row({column: 1.0, is_more: low - (n + 1)}, lower=low)
            other[is_more] = 1.0
        if n > low:
            is_less = program.column(0, 1, is_whole=True)
            program.row({column: 1.0, is_less: high - (n - 1)}, upper=high)
            other[is_less] = 1.0
    program.row(other, lower=1.0)

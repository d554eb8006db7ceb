"""Where two plans cost the same per token: for the whole fleet and each class, with an interval from uncertain facts.

One value of the scenario is varied, in each plan that has it: a price, a life, a rent, the price of electricity (then
each plan is simulated once and priced again at every value), or something that the simulator reads, such as the load
(then each value is simulated). The curve is the figure of both plans over the range; a break-even is where their
difference changes its sign. Plans are compared as they are: the answer says whether both hold their limits there, and a
break-even where one does not is none at equal service.

The interval is over samples of the uncertain facts, the same ones for both plans, each with a break-even of its own;
the varied value itself is not drawn. Samples without one count as such, with the plan that wins them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planner import units
from planner.aggregate import intervals
from planner.aggregate.held import CLASS_HEADLINE, HEADLINE, Held, headline
from planner.aggregate.power import Book
from planner.errors import Fault, Notice, ScenarioError, near
from planner.study.plans import Lab, Plan, Vary, plan_of
from planner.study.roots import crossings, grid
from planner.study.spread import LEVEL_FRAC, quantile
from planner.study.uncertainty import N_SIMULATED, Sample, sample
from planner.study.worlds import held_of, worlds

if TYPE_CHECKING:
    from planner.aggregate.inputs import VariantRun
    from planner.fleet.executor import Executor, Progress

__all__ = ["BreakEven", "Crossing", "break_even"]

FIGURE = "usd_per_mtok_out_whole"
N_CURVE = 33
"""Points of a curve where a point costs nothing."""
N_SIMULATED_CURVE = 5
"""Points of a curve where each is simulated."""
N_SAMPLES = 64
_EXACT, _NEAR = 1e-9, 1e-3


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where the two plans cost the same, by one figure."""

    figure: str
    """`cost.usd_per_mtok_out_whole`, `classes.chat.usd_per_mtok_out_whole`."""
    values: tuple[float, ...]
    """Every break-even in the range, in order; empty if there is none."""
    winner: str | None
    """The cheaper plan all over the range, where there is no break-even; None if a plan has no figure, or both cost the
    same everywhere.
    """
    cheaper_below: str | None
    """The plan that is cheaper at the low end of the range."""
    low: float | None = None
    median: float | None = None
    high: float | None = None
    """Of the samples' break-evens: their 90 % interval and its middle."""
    n: int = 0
    """Samples with a break-even in the range."""
    n_without: Mapping[str, int] = field(default_factory=dict)
    """Samples without one, by the plan that wins them."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The answer."""

    vary: Vary
    low: float
    high: float
    given: float | None
    """The value that the scenario has."""
    base: Plan
    other: Plan
    is_simulated: bool
    """Whether every value was simulated, or priced with the simulation held."""
    curve: tuple[dict[str, Any], ...]
    """`figure plan value usd_per_mtok verdict`."""
    crossings: tuple[Crossing, ...]
    samples: int
    notices: tuple[Notice, ...]
    """What is worth saying about the plans."""
    inputs: str
    """Digest of everything that the answer depends on."""
    infeasible: int
    """Samples whose chips do not hold the replicas of one of the plans."""

    @property
    def is_equal_slo(self) -> bool:
        """Whether both plans hold their limits."""
        return all(plan.verdict in {"met", None} for plan in (self.base, self.other))

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        plans = {
            which: {name: getattr(plan, name) for name in plan.__slots__} | {"missed": list(plan.missed)}
            for which, plan in (("base", self.base), ("against", self.other))
        }
        found = [
            {
                "figure": each.figure,
                "break_even": each.values[0] if each.values else None,
                "break_evens": list(each.values),
                "low": each.low,
                "median": each.median,
                "high": each.high,
                "n": each.n,
                "n_without": dict(each.n_without),
                "winner": each.winner,
                "cheaper_below": each.cheaper_below,
            }
            for each in self.crossings
        ]
        return {
            "vary": self.vary.path,
            "unit": units.KINDS[self.vary.kind].unit,
            "range": [self.low, self.high],
            "given": self.given,
            **plans,
            "is_equal_slo": self.is_equal_slo,
            "is_simulated": self.is_simulated,
            "samples": self.samples,
            "infeasible": self.infeasible,
            "level_frac": LEVEL_FRAC,
            "figures": found,
            "curve": list(self.curve),
        }


def break_even(
    source: str,
    *,
    vary: str,
    against: str,
    base: str | None = None,
    sets: Sequence[str] = (),
    within: str | None = None,
    figure: str = FIGURE,
    samples: int | None = None,
    stdin_text: str | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> BreakEven:
    """Where the plan `base` (default: the file's base) and the plan `against` of a scenario cost the same.

    `vary` is a path as in --set, a fact of the catalogue (`racks.jalapeno-rack.capex_usd`), or `load`; `within` its
    range, such as `0.3..2 MUSD/rack` (default: the range of the fact, else a quarter to four times its value).
    `samples` is how many draws of the uncertain facts the interval is of (default: `run.samples`, else 64; 0 for none).

    Raises:
        ScenarioError: a name, the path or the range means nothing; Infeasible and the others as `planner.run`.
    """
    lab = Lab(source, vary, (base, against), sets, stdin_text, executor, progress)
    if figure not in _figures():
        raise ScenarioError(Fault(f"no cost per token is named '{figure[:60]}'{near(figure[:60], _figures())}"))
    low, high, given = lab.range_of(within)
    held = lab.simulated_at((low + high) / 2)
    if not lab.is_priced(held):
        return _by_simulation(lab, low, high, given, figure)
    return _by_price(lab, held, low, high, given, figure, samples)


def _figures() -> tuple[str, ...]:
    return tuple(path.removeprefix("cost.") for path in HEADLINE if path.startswith("cost.usd_per_mtok"))


# -- priced again ------------------------------------------------------------------------------------------------------


def _by_price(
    lab: Lab,
    runs: Sequence[VariantRun],
    low: float,
    high: float,
    given: float | None,
    figure: str,
    samples: int | None,
) -> BreakEven:
    """Each plan simulated once, and priced at every value."""
    helds = [[held_of(run, seed) for seed in run.seeds] for run in runs]
    path = lab.vary.path
    xs = grid(low, high, N_CURVE)
    names = _shared(runs, figure)
    plans = [plan_of(run, is_varied=varied) for run, varied in zip(runs, lab.is_varied, strict=True)]
    priced = _cached(lambda x: tuple(_mean(of, {path: x}, names) for of in helds))
    curve = tuple(
        _point(name, plan, x, priced(x)[ix][name]) for name in names for ix, plan in enumerate(plans) for x in xs
    )
    n = samples if samples is not None else runs[0].scenario.run.samples or N_SAMPLES
    drawn = _draws(lab, runs, n) if n else []
    by_sample = [_priced_in(one, pair, path) for one, pair in drawn if None not in pair]
    found = []
    for name in names:
        whole = _crossing(name, plans, xs, _difference(priced, name), rel=_EXACT, most=60)
        found.append(_with_interval(whole, plans, by_sample, (low, (low + high) / 2, high)))
    return BreakEven(
        vary=lab.vary,
        low=low,
        high=high,
        given=given,
        base=plans[0],
        other=plans[1],
        is_simulated=False,
        curve=curve,
        crossings=tuple(found),
        samples=n,
        notices=lab.notices,
        inputs=lab.inputs,
        infeasible=len(drawn) - len(by_sample),
    )


def _shared(runs: Sequence[VariantRun], figure: str) -> list[str]:
    """The figures that both plans have: of the whole, and of each class that both serve."""
    classes = [name for name in runs[0].scenario.traffic if name in runs[1].scenario.traffic]
    names = [f"cost.{figure}"]
    if figure in CLASS_HEADLINE and len(classes) > 1:
        names += [f"classes.{name}.{figure}" for name in classes]
    return names


def _mean(helds: Sequence[Held], changed: Mapping[str, float], names: Sequence[str]) -> dict[str, float | None]:
    """Some figures, means over the seeds."""
    rows = [headline(held, Book(changed)) for held in helds]
    return {name: intervals.mean([row[name] for row in rows]) for name in names}


Rows = tuple[dict[str, float | None], ...]
"""The figures of both plans."""
Priced = Callable[[float], Rows]


def _cached(price: Priced) -> Priced:
    """The same, each value priced once."""
    seen: dict[float, Rows] = {}

    def priced(x: float) -> Rows:
        if x not in seen:
            seen[x] = price(x)
        return seen[x]

    return priced


def _difference(priced: Priced, name: str) -> Callable[[float], float | None]:
    """By how much the base costs more than the other, by a figure."""

    def difference(x: float) -> float | None:
        a, b = (row[name] for row in priced(x))
        return None if a is None or b is None else a - b

    return difference


def _point(figure: str, plan: Plan, value: float, usd: float | None) -> dict[str, Any]:
    return {"figure": figure, "plan": plan.name, "value": value, "usd_per_mtok": usd, "verdict": plan.verdict}


def _crossing(
    figure: str,
    plans: Sequence[Plan],
    xs: Sequence[float],
    difference: Callable[[float], float | None],
    *,
    rel: float,
    most: int,
) -> Crossing:
    ys = [difference(x) for x in xs]
    there = [y for y in ys if y is not None]
    values = tuple(crossings(difference, xs, ys, rel=rel, most=most)) if any(there) else ()
    cheaper = _winner(there[0], plans) if there else None
    return Crossing(figure, values, None if values else cheaper, cheaper)


def _winner(difference: float, plans: Sequence[Plan]) -> str | None:
    """The cheaper plan where the base costs so much more than the other."""
    return None if difference == 0 else plans[difference > 0].name


_Drawn = tuple[Sample, tuple[Held | None, ...]]


def _draws(lab: Lab, runs: Sequence[VariantRun], n: int) -> list[_Drawn]:
    """The samples, and each plan as it is simulated in them; None where its replicas do not fit."""
    by_plan, jobs = [], []
    for run in runs:
        spec = run.scenario.run
        n_simulated = spec.samples_simulated if spec.samples is not None else N_SIMULATED
        samples = sample(run.scenario, n, seed=spec.seed, n_simulated=n_simulated, fleet=run.fleet)
        by_plan.append(samples)
        firsts = {one.simulated_ix: one for one in reversed(samples)}
        jobs += [(run, ix, firsts[ix].values) for ix in sorted(firsts)]
    made = worlds(jobs, lab.simulate)
    drawn: list[_Drawn] = []
    for pair in zip(*by_plan, strict=True):
        found = [made.get((run.scenario.name, one.simulated_ix)) for run, one in zip(runs, pair, strict=True)]
        values = {**pair[1].values, **pair[0].values}
        drawn.append((replace(pair[0], values=values), tuple(None if w is None else w.held for w in found)))
    return drawn


def _priced_in(one: Sample, helds: tuple[Held | None, ...], path: str) -> Priced:
    """Both plans in one sample, at any value."""

    def price(x: float) -> Rows:
        changed = {**one.values, path: x}
        return tuple(headline(held, Book(changed)) for held in helds if held is not None)

    return _cached(price)


def _with_interval(
    whole: Crossing, plans: Sequence[Plan], by_sample: Sequence[Priced], ends: Sequence[float]
) -> Crossing:
    """The break-even of each sample; of several in a sample the first."""
    roots: list[float] = []
    without: dict[str, int] = {}
    for priced in by_sample:
        one = _crossing(whole.figure, plans, ends, _difference(priced, whole.figure), rel=_NEAR, most=20)
        if one.values:
            roots.append(one.values[0])
        elif one.winner is not None:
            without[one.winner] = without.get(one.winner, 0) + 1
    if not roots:
        return replace(whole, n_without=without)
    low, median, high = (quantile(roots, share) for share in ((1 - LEVEL_FRAC) / 2, 0.5, (1 + LEVEL_FRAC) / 2))
    return replace(whole, low=low, median=median, high=high, n=len(roots), n_without=without)


# -- simulated again ---------------------------------------------------------------------------------------------------


def _by_simulation(lab: Lab, low: float, high: float, given: float | None, figure: str) -> BreakEven:
    """Both plans simulated at every value that is looked at."""
    plans: dict[float, list[Plan]] = {}
    rows: dict[float, Rows] = {}
    names: list[str] = []

    def price(x: float) -> Rows:
        runs = lab.simulated_at(x)
        names[:] = names or _shared(runs, figure)
        plans[x] = [plan_of(run, is_varied=varied) for run, varied in zip(runs, lab.is_varied, strict=True)]
        rows[x] = tuple(_mean([held_of(run, seed) for seed in run.seeds], {}, names) for run in runs)
        return rows[x]

    priced = _cached(price)
    xs = grid(low, high, N_SIMULATED_CURVE)
    priced(xs[0])
    found = [_crossing(name, plans[xs[0]], xs, _difference(priced, name), rel=_NEAR, most=6) for name in list(names)]
    whole = found[0].values[0] if found[0].values else given if given is not None else (low + high) / 2
    priced(whole)
    curve = tuple(
        _point(name, plans[x][ix], x, rows[x][ix][name]) for name in names for ix in range(2) for x in sorted(rows)
    )
    base, other = plans[whole]
    return BreakEven(
        vary=lab.vary,
        low=low,
        high=high,
        given=given,
        base=base,
        other=other,
        is_simulated=True,
        curve=curve,
        crossings=tuple(found),
        samples=0,
        notices=lab.notices,
        inputs=lab.inputs,
        infeasible=0,
    )

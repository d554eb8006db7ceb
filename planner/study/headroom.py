"""How much more load a fleet takes: the multiple of its traffic at which the first limit breaks, and what breaks.

The load is bracketed by doubling and halving, then bisected; every load is simulated under the same seeds, so that
requests are the same but more or less often. A load holds when the limits hold in the mean over the seeds, as the
verdict of `planner run` has it: with `fleet.spare` at 1 / (1 - spare) times the load, with `fleet.survive` with racks
out as well. Each seed is then bisected by itself: the multipliers of the seeds give the 90 % interval, mean -+ t(n - 1)
x s / sqrt(n).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planner.aggregate import intervals, slo
from planner.aggregate.judged import judge_means, judged_classes
from planner.aggregate.slo import Tightest
from planner.errors import Fault, Infeasible, ScenarioError
from planner.scenario import Scenario, refuse_unsupported
from planner.study.run import mean_lengths
from planner.study.survive import Stress, racks_out, sites_out
from planner.study.work import Asked, Unfit, simulate
from planner.traffic.load import at_load

if TYPE_CHECKING:
    from planner.aggregate.inputs import VariantRun
    from planner.aggregate.result import Result
    from planner.fleet.executor import Executor

N_SEEDS = 5
"""Seeds at least: fewer tell little of the interval."""
RESOLUTION = 1.01
"""The ends of the last bracket are at most so far apart."""
MOST = 1024.0
"""No load is tried beyond this multiple, or below one in so many."""

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Breaks:
    """What breaks first: the limit furthest beyond at the least load that does not hold."""

    limit: Tightest
    limit_value: float | None
    """The most that it may be: seconds, or the share that has to attain."""
    value: float | None
    """What it is there; None where the quantile was never reached."""
    pool: str | None
    """The pool whose requests are furthest beyond."""
    bottleneck: str | None
    """What holds that pool up."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Where one fleet's limits break."""

    multiplier: float | None
    """The largest load seen to hold, as a multiple of the scenario's; 0 if none does, None if none breaks."""
    breaks_at: float | None
    """The least load seen not to hold."""
    breaks: Breaks | None


@dataclass(frozen=True, slots=True)
class Without:
    """The edge with something out of service."""

    kind: str
    label: str
    racks_out: Mapping[str, int]
    edge: Edge | None
    reason: str = ""
    """Why there is none: what is left cannot serve every class."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """How much more load the fleet takes."""

    edge: Edge
    low: float | None
    high: float | None
    """Ends of the 90 % interval of the multiplier."""
    n_seeds: int
    n_simulations: int
    n1: tuple[Without, ...] = field(default=())
    """The same with a rack of each pool out, and with each of several sites out."""

    @property
    def worst(self) -> Without | None:
        """Of what may be out the one that leaves the least."""
        return min(self.n1, key=left, default=None)

    def to_json(self) -> Tree:
        """As it is printed."""
        worst = self.worst
        return {
            **_edge_json(self.edge),
            "low": self.low,
            "high": self.high,
            "level_frac": intervals.LEVEL_FRAC,
            "seeds": self.n_seeds,
            "simulations": self.n_simulations,
            "n1": [_without_json(one) for one in self.n1],
            "n1_worst": None if worst is None else _without_json(worst),
        }


def left(one: Without) -> float:
    """What is left of the load, for the order of several."""
    if one.edge is None:
        return -1.0
    return float("inf") if one.edge.multiplier is None else one.edge.multiplier


def _edge_json(edge: Edge) -> Tree:
    found = edge.breaks
    return {
        "multiplier": edge.multiplier,
        "breaks_at": edge.breaks_at,
        "breaks": None
        if found is None
        else {
            "class": found.limit.name,
            "metric": found.limit.metric,
            "quantile": found.limit.quantile,
            "limit": found.limit_value,
            "value": found.value,
            "with": found.limit.label or None,
            "pool": found.pool,
            "bottleneck": found.bottleneck,
        },
    }


def _without_json(one: Without) -> Tree:
    nothing: Tree = {"multiplier": 0.0, "breaks_at": None, "breaks": None}
    found = nothing if one.edge is None else _edge_json(one.edge)
    return {
        "kind": one.kind,
        "label": one.label,
        "racks_out": dict(one.racks_out),
        **found,
        "reason": one.reason or None,
    }


@dataclass(frozen=True, slots=True)
class Looked:
    """How far a search is, for progress."""

    what: str
    load: float
    n_simulations: int


def headroom(
    scenario: Scenario,
    *,
    with_n1: bool = True,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[Looked], None] = lambda _: None,
) -> Headroom:
    """The multiple of the scenario's load at which the first of its limits breaks.

    `with_n1` looks at it with a rack of each pool out too, and with each of several sites out. The seeds are the
    scenario's, at least `N_SEEDS`.

    Raises:
        ScenarioError: no class has limits, or the input is wrong.
        Infeasible: the fleet cannot be laid out, or no request of a class fits it.
    """
    from planner.fleet.layout import lay_out
    from planner.fleet.local_executor import LocalExecutor

    refuse_unsupported(scenario, "headroom")
    if all(cls.slo is None for cls in scenario.traffic.values()):
        what = "no class has limits, so none can break"
        raise ScenarioError(Fault(what, "give a class slo: NAME", path="traffic", file=scenario.tree.origin.file))
    lengths = mean_lengths(scenario)
    fleet = lay_out(scenario, lengths)
    survive = scenario.fleet.survive
    also = racks_out(scenario, fleet, lengths, survive.racks) if survive is not None else []
    dead = next((stress for stress in also if stress.fleet is None), None)
    if dead is not None:
        what = f"with {dead.label} not every class can be served: {dead.reason}"
        raise Infeasible(Fault(what, "add a rack, or take fleet.survive away", path="fleet.survive"))
    out = [*racks_out(scenario, fleet, lengths, 1), *sites_out(scenario, fleet, lengths)] if with_n1 else []
    lab = _Lab(scenario, executor or LocalExecutor(workers or os.cpu_count() or 1), progress)
    own = [Stress("", "", 1.0, {}, scenario, fleet), *also]
    search = _Search(lab, own)
    edge, bracket = search.edge("the fleet")
    low, high = search.interval(edge, bracket)
    n1 = []
    for stress in out:
        found = None
        if stress.fleet is not None:
            found, _ = _Search(lab, [stress]).edge(stress.label, first=_first(edge))
        n1.append(Without(stress.kind, stress.label, stress.racks_out, found, stress.reason))
    return Headroom(edge, low, high, len(lab.seeds), lab.n_simulations, tuple(n1))


def in_result(result: Result, variant: str, found: Headroom) -> Result:
    """The result of a run with the headroom of one of its variants in it: the page shows it."""
    trees = {**result.variants, variant: {**result.variants[variant], "headroom": found.to_json()}}
    return replace(result, variants=trees)


def _first(edge: Edge) -> float:
    """Where to begin with less: what the whole fleet holds."""
    return edge.multiplier if edge.multiplier else 1.0


class _Lab:
    """Simulates loads, each seed and fleet once."""

    def __init__(self, scenario: Scenario, executor: Executor, progress: Callable[[Looked], None]) -> None:
        run = scenario.run
        self.seeds = range(run.seed, run.seed + max(run.seeds, N_SEEDS))
        self.factor = 1 / (1 - (scenario.fleet.spare_frac or 0.0))
        self.executor = executor
        self.progress = progress
        self.known: dict[tuple[str, float, int], tuple[Tree, VariantRun]] = {}
        self.n_simulations = 0

    def look(self, stresses: Sequence[Stress], wanted: Sequence[tuple[float, int]], what: str) -> None:
        """Simulate what is not known yet of `stresses` at some loads and seeds, all together."""
        asked: list[tuple[Stress, float, int]] = [
            (stress, load, seed)
            for stress in stresses
            for load, seed in wanted
            if (stress.label, load, seed) not in self.known
        ]
        if not asked:
            return
        self.progress(Looked(what, asked[0][1], self.n_simulations))
        unfit: Unfit = "try" if self.known else "refuse"
        work = [
            Asked(_loaded(stress.scenario, load * self.factor, seed), stress.fleet, unfit)
            for stress, load, seed in asked
            if stress.fleet is not None
        ]
        runs = simulate(work, executor=self.executor)
        for (stress, load, seed), run in zip(asked, runs, strict=True):
            self.known[stress.label, load, seed] = judged_classes(run.scenario, run.seeds[0]), _slim(run)
        self.n_simulations += len(asked)

    def judged(self, stress: Stress, load: float, seeds: Sequence[int]) -> Tree:
        """The classes in the mean over some seeds, limits judged; none that no seed offers anything of."""
        by_seed = [self.known[stress.label, load, seed][0] for seed in seeds]
        classes: Tree = {}
        for name in stress.scenario.traffic:
            offered = [{name: tree[name]} for tree in by_seed if tree[name]["offered"]]
            if offered:
                means: Tree = intervals.over_seeds(offered, intervals.mean)
                judge_means(means, offered)
                classes |= means
        return classes


def _slim(run: VariantRun) -> VariantRun:
    """What is looked at once a search has ended: many simulations are kept."""
    (seed,) = run.seeds
    sim = replace(seed.sim, windows=seed.sim.windows.clear(), class_windows=seed.sim.class_windows.clear())
    return replace(run, seeds=(replace(seed, tables=sim),))


def _loaded(scenario: Scenario, factor: float, seed: int) -> Scenario:
    run = scenario.run.model_copy(update={"seed": seed, "seeds": 1})
    return replace(scenario, traffic=at_load(scenario.traffic, factor), run=run)


class _Search:
    """Bisects the load of a fleet; what has to hold is all of `stresses`."""

    def __init__(self, lab: _Lab, stresses: Sequence[Stress]) -> None:
        self.lab = lab
        self.stresses = stresses

    def holds(self, load: float, seeds: Sequence[int]) -> bool | None:
        """Whether every limit holds in the mean over some seeds; None where nothing was offered."""
        judged = [self.lab.judged(stress, load, seeds) for stress in self.stresses]
        if not all(judged):
            return None
        return all(figures["verdict"] != "missed" for classes in judged for figures in classes.values())

    def edge(self, what: str, *, first: float = 1.0) -> tuple[Edge, tuple[float, float]]:
        """The edge in the mean over all seeds, and its bracket."""
        seeds = list(self.lab.seeds)

        def holds(load: float) -> bool | None:
            self.lab.look(self.stresses, [(load, seed) for seed in seeds], what)
            return self.holds(load, seeds)

        low, high = _bracket(holds, _rounded(first))
        while low > 0 and high <= MOST and high / low > RESOLUTION:
            middle = _rounded((low * high) ** 0.5)
            if not low < middle < high:
                break
            low, high = (middle, high) if holds(middle) else (low, middle)
        if high > MOST:
            return Edge(None, None, None), (low, high)
        return Edge(low, high, self.breaks(high)), (low, high)

    def interval(self, edge: Edge, bracket: tuple[float, float]) -> tuple[float | None, float | None]:
        """The 90 % interval of the multiplier, from each seed's own."""
        if not edge.multiplier:
            return None, None
        ends = {seed: self._of_seed(seed, bracket) for seed in self.lab.seeds}
        while True:
            middles = {
                seed: _rounded((low * high) ** 0.5)
                for seed, (low, high) in ends.items()
                if low > 0 and high / low > RESOLUTION and low < _rounded((low * high) ** 0.5) < high
            }
            if not middles:
                break
            self.lab.look(self.stresses, [(load, seed) for seed, load in middles.items()], "each seed by itself")
            for seed, load in middles.items():
                low, high = ends[seed]
                ends[seed] = (load, high) if self.holds(load, [seed]) else (low, load)
        half = intervals.half_width([low for low, _ in ends.values()])
        assert half is not None
        return max(0.0, edge.multiplier - half), edge.multiplier + half

    def _of_seed(self, seed: int, bracket: tuple[float, float]) -> tuple[float, float]:
        """The last load that one seed holds of those that are known, and the first that it does not."""
        loads = sorted({load for _, load, at in self.lab.known if at == seed and self._is_known(load, seed)})
        low, high = 0.0, 0.0
        for load in loads:
            if self.holds(load, [seed]) is False:
                high = load
                break
            low = load
        while not high:  # this seed holds even the greatest load of the others
            load = _rounded(max(low, bracket[1]) * 1.1)
            self.lab.look(self.stresses, [(load, seed)], "each seed by itself")
            low, high = (low, load) if self.holds(load, [seed]) is False else (load, 0.0)
        while not low and high > 1 / MOST:  # or breaks at the least
            load = _rounded(high / 1.5)
            self.lab.look(self.stresses, [(load, seed)], "each seed by itself")
            found = self.holds(load, [seed])
            if found is None:
                break
            low, high = (load, high) if found else (0.0, load)
        return low, high

    def _is_known(self, load: float, seed: int) -> bool:
        return all((stress.label, load, seed) in self.lab.known for stress in self.stresses)

    def breaks(self, load: float) -> Breaks | None:
        """The limit furthest beyond at a load, and the pool that is to blame."""
        seeds = list(self.lab.seeds)
        worst: tuple[float, Stress, Tightest, Tree] | None = None
        for stress in self.stresses:
            classes = self.lab.judged(stress, load, seeds)
            tight = slo.tightest({"classes": classes})
            if tight is None:
                continue
            rank = float("-inf") if tight.margin_frac is None else tight.margin_frac
            if worst is None or rank < worst[0]:
                worst = (rank, stress, replace(tight, label=stress.label if len(self.stresses) > 1 else ""), classes)
        if worst is None:
            return None
        _, stress, tight, classes = worst
        figures = classes[tight.name]
        if tight.quantile is None:
            limit, value = figures["attainment_limit_frac"], figures["attainment_frac"]
        else:
            row = next(r for r in figures["limits"] if (r["metric"], r["quantile"]) == (tight.metric, tight.quantile))
            limit, value = row["limit"], row["value"]
        _, run = self.lab.known[stress.label, load, seeds[0]]
        pool = _to_blame(run, tight, figures)
        return Breaks(tight, limit, value, pool, None if pool is None else _bottleneck(run, pool))


def _bracket(holds: Callable[[float], bool | None], first: float) -> tuple[float, float]:
    """A load that holds and one that does not: (0, least tried) where none holds, (most tried, inf) where all do."""
    load = first
    if holds(load):
        while load * 2 <= MOST:
            if not holds(load * 2):
                return load, load * 2
            load *= 2
        return load, float("inf")
    while load / 2 >= 1 / MOST:
        found = holds(load / 2)
        if found is None:  # so little load that nothing arrives tells nothing
            break
        if found:
            return load / 2, load
        load /= 2
    return 0.0, load


def _rounded(load: float) -> float:
    """Four figures: the same loads come again, whatever the way to them."""
    return float(f"{load:.4g}")


def _to_blame(run: VariantRun, tight: Tightest, figures: Tree) -> str | None:
    """The pool where the metric of a limit is worst; of an attainment, that of the class's tightest latency."""
    from planner.aggregate.latency import quantiles_of

    metric, quantile = tight.metric, tight.quantile
    if quantile is None:
        rows = [row for row in figures["limits"] if row["margin_frac"] is not None]
        if not rows:
            return None
        row = min(rows, key=lambda each: each["margin_frac"])
        metric, quantile = row["metric"], row["quantile"]
    class_ix = list(run.scenario.traffic).index(tight.name)
    sketches = run.seeds[0].sim.sketches
    worst: tuple[float, str] | None = None
    for ix, pool in enumerate(run.fleet.pools):
        mine = sketches.filter((sketches["pool_ix"] == ix) & (sketches["class_ix"] == class_ix))
        (value,) = quantiles_of(mine, [(class_ix, metric, int(quantile[1:]) / 100, 0, None)])
        if value is not None and (worst is None or value > worst[0]):
            worst = (value, pool.name)
    return None if worst is None else worst[1]


def _bottleneck(run: VariantRun, pool: str) -> str:
    """What holds a pool up in a simulation."""
    from planner.aggregate.inputs import Span
    from planner.aggregate.utilisation import pool_figures, wait_frac
    from planner.aggregate.work import chip_work, pool_sums

    seed = run.seeds[0]
    ix = [layout.name for layout in run.fleet.pools].index(pool)
    layout = run.fleet.pools[ix]
    figures = pool_figures(
        pool_sums(chip_work(seed.sim.deployments, run.fleet), ix),
        placed_chips=layout.n_chips - layout.idle_chips,
        span_s=Span.of(run.scenario, seed).span_s,
        waited_frac=wait_frac(seed.sim.sketches, ix),
    )
    return str(figures["bottleneck"])

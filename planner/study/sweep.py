"""A scenario at every point of a grid: the axes of its `sweep`, the answer at each, and which is best.

Every point is the scenario with the values of the axes laid over it, as `--set` does: `planner run` with the same
values gives the same bytes. All points draw from the same seeds, so that those with equal traffic serve the very same
requests, and differences between points are not noise of the draw. A point that cannot be laid out is a row with its
reason.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from planner.errors import Fault, Infeasible, PlannerError, ScenarioError, TrafficError
from planner.fleet.executor import Progress
from planner.scenario import Scenario, changed
from planner.scenario.layers import read_sets
from planner.scenario.tree import show, steps
from planner.study import points as table
from planner.study.points import Point, Row, row_of
from planner.study.run import inputs_digest, run
from planner.study.work import traffic_key

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

MAX_POINTS = 20_000
BATCH = 4
"""Points that are simulated together, not counting those that differ from them only in money."""

Solve = Callable[[Scenario], "Result"]


class SolveMany(Protocol):
    """Answers several variants in one result, as `study.run.run` does."""

    def __call__(self, scenarios: Sequence[Scenario], /, *, progress: Callable[[Progress], None]) -> Result: ...


@dataclass(frozen=True, slots=True)
class Axis:
    """A value that is varied."""

    path: str
    """Where it stands, as in `--set PATH=VALUE`."""
    values: tuple[str, ...]
    """What it is set to, as in `--set PATH=VALUE`."""


@dataclass(frozen=True, slots=True)
class Done:
    """How far a sweep is."""

    n_points: int
    n_done: int
    inner: Progress | None = None
    """How far the simulation of the next points is."""
    n_inner: int = 0
    """How many points that simulation is for."""

    @property
    def frac(self) -> float:
        """Share of the work that is done, points counting alike."""
        inner = self.inner.done_s / self.inner.total_s if self.inner and self.inner.total_s else 0.0
        return (self.n_done + inner * self.n_inner) / self.n_points


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was found at every point."""

    axes: tuple[Axis, ...]
    rows: tuple[Row, ...]
    """One a point, in the order of the grid."""
    ranked_by: str
    """The figure by which points are cheap: cost an hour where all serve the same requests, else cost per token; of
    plans what they cost over their horizon."""

    @property
    def cheapest(self) -> Row | None:
        """The cheapest point that holds every limit; None if none does."""
        return table.cheapest(self.rows, self.ranked_by)

    @property
    def nearest(self) -> Row | None:
        """Where no point holds every limit: the one that comes nearest; None if none was simulated."""
        return None if self.cheapest else table.nearest(self.rows)

    @property
    def points(self) -> pl.DataFrame:
        """The table of points: axis values, verdict, tightest limit, headline figures."""
        return table.frame([axis.path for axis in self.axes], self.rows)

    def to_json(self) -> dict[str, Any]:
        """The sweep as it is printed."""
        paths = [axis.path for axis in self.axes]
        best, near = self.cheapest, self.nearest
        return {
            "axes": {axis.path: list(axis.values) for axis in self.axes},
            "ranked_by": self.ranked_by,
            "cheapest": best.point.ix if best else None,
            "nearest": near.point.ix if near else None,
            "points": [row.to_json(paths) for row in self.rows],
        }


def axes_of(scenario: Scenario) -> tuple[Axis, ...]:
    """The axes of a scenario's `sweep`. Raises `ScenarioError` if it has none, or too many points."""
    if scenario.sweep is None or not scenario.sweep.axes:
        what = "the scenario has no axes to sweep"
        way_out = "write sweep: {axes: {fleet.pools.NAME.count: [1, 2, 3]}}"
        raise ScenarioError(Fault(what, way_out, path="sweep", file=scenario.tree.origin.file))
    axes = [
        Axis(show(steps(path)), tuple(_written(path, value) for value in values))
        for path, values in scenario.sweep.axes.items()
    ]
    paths = [axis.path for axis in axes]
    faults = [
        Fault(f"two axes are {path}", "merge their values into one", path="sweep.axes")
        for ix, path in enumerate(paths)
        if path in paths[:ix]
    ]
    n_points = prod(len(axis.values) for axis in axes)
    if n_points > MAX_POINTS:
        faults.append(Fault(f"the grid has {n_points:,} points", f"at most {MAX_POINTS:,}", path="sweep.axes"))
    if faults:
        raise ScenarioError(*faults)
    return tuple(axes)


def _written(path: str, value: Any) -> str:
    """A value as `--set` reads it back: the text of the file where that is enough, else JSON, which is YAML too."""
    if isinstance(value, str) and value == value.strip():
        faults: list[Fault] = []
        (change,) = read_sets([f"{path}={value}"], Path(), faults) or (None,)
        if change is not None and not faults and change.value.plain() == value:
            return value
    return json.dumps(value, ensure_ascii=False)


def points_of(scenarios: Sequence[Scenario], axes: Sequence[Axis]) -> tuple[Point, ...]:
    """Every place of the grid, variant by variant."""
    paths = [axis.path for axis in axes]
    grid = itertools.product(scenarios, itertools.product(*(axis.values for axis in axes)))
    return tuple(
        Point(ix, scenario.name, values, tuple(f"{path}={value}" for path, value in zip(paths, values, strict=True)))
        for ix, (scenario, values) in enumerate(grid)
    )


def sweep(
    scenarios: Scenario | Sequence[Scenario],
    solve: Solve | None = None,
    *,
    solve_many: SolveMany = run,
    known: Callable[[Point], Result | None] = lambda _: None,
    batch: int = BATCH,
    keep: Callable[[Point, Result], None] = lambda _point, _result: None,
    progress: Callable[[Done], None] = lambda _: None,
) -> Sweep:
    """The answer at each point of the grid of a scenario's axes, or of several variants of one.

    `solve` answers one point; without it points are simulated, some at a time by `solve_many`, so that equal traffic
    is drawn once and points that differ only in money share a simulation. `known` gives the answers that are there
    already; `keep` is handed each new one as it is found. A point that cannot be answered is a row that says why.

    Raises:
        ScenarioError: there are no axes, or too many points.
        RunError, CoreError: the surroundings failed.

    >>> import planner
    >>> short = ["run.length=20 s", "run.warmup=5 s"]
    >>> found = planner.sweep(planner.load("scenarios/09-how-many-racks.yaml", sets=short))
    >>> found.cheapest.label
    'fleet.pools.jalapeno.count=2, fleet.pools.gb300.count=0'
    >>> found.points.height
    12
    """
    variants = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    axes = axes_of(variants[0])
    points = points_of(variants, axes)
    by_name = {scenario.name: scenario for scenario in variants}
    rows: dict[int, Row] = {}
    asked: list[tuple[Point, Scenario]] = []
    served: set[str] = set()
    for point in points:
        try:
            scenario = changed(by_name[point.variant], point.sets)
        except ScenarioError as error:
            rows[point.ix] = row_of(point, error)
            continue
        served.add(traffic_key(scenario))
        if (there := known(point)) is not None:
            rows[point.ix] = row_of(point, there)
        else:
            asked.append((point, scenario))
    for group in _batches(asked, 1 if solve else batch):
        told = partial(_tell, progress, len(points), len(rows), len(group))
        told(None)
        for point, found in _answers(group, solve, solve_many, told):
            rows[point.ix] = row_of(point, found)
            if not isinstance(found, PlannerError):
                keep(point, found)
    progress(Done(len(points), len(points)))
    ranked_by = "usd_per_h" if len(served) <= 1 else "usd_per_mtok_out_whole"
    if any(row.figures[table.TCO] is not None for row in rows.values()):
        ranked_by = table.TCO
    return Sweep(axes, tuple(rows[point.ix] for point in points), ranked_by)


def _tell(progress: Callable[[Done], None], n_points: int, n_done: int, n_inner: int, inner: Progress | None) -> None:
    progress(Done(n_points, n_done, inner, n_inner))


def _batches(asked: Sequence[tuple[Point, Scenario]], size: int) -> Iterator[list[tuple[Point, Scenario]]]:
    """The points in groups of `size` simulations; those that differ only in money count once and stay together."""
    alike: dict[str, list[tuple[Point, Scenario]]] = {}
    for point, scenario in asked:
        alike.setdefault(_simulated(scenario) if size > 1 else str(point.ix), []).append((point, scenario))
    groups = list(alike.values())
    for start in range(0, len(groups), size):
        yield sorted((one for group in groups[start : start + size] for one in group), key=lambda one: one[0].ix)


def _simulated(scenario: Scenario) -> str:
    """What a simulation hangs on: the scenario without what is reckoned afterwards."""
    asked = {key: part for key, part in scenario.resolved().items() if key not in _RECKONED}
    for pool in asked["fleet"]["pools"].values():
        for key in ("capex", "rent", "existing"):
            pool.pop(key, None)
    return json.dumps(asked, sort_keys=True)


_RECKONED = frozenset({"title", "question", "site", "sites", "cost", "goal"})


def _answers(
    group: Sequence[tuple[Point, Scenario]],
    solve: Solve | None,
    solve_many: SolveMany,
    told: Callable[[Progress | None], None],
) -> Iterator[tuple[Point, Result | PlannerError]]:
    """The answer or the error of each point; a group of which one is infeasible is halved until that one is alone."""
    try:
        if solve is not None:
            found = [solve(scenario) for _, scenario in group]
        else:
            named = [replace(scenario, name=str(point.ix)) for point, scenario in group]
            whole = solve_many(named, progress=told)
            found = [_alone(whole, str(point.ix), scenario) for point, scenario in group]
    except (Infeasible, ScenarioError, TrafficError) as error:
        if len(group) == 1:
            yield group[0][0], error
            return
        middle = len(group) // 2
        yield from _answers(group[:middle], solve, solve_many, told)
        yield from _answers(group[middle:], solve, solve_many, told)
        return
    for (point, _), result in zip(group, found, strict=True):
        yield point, result


def _alone(whole: Result, name: str, scenario: Scenario) -> Result:
    """One variant of a result as the result of a run of its own."""
    return whole.alone(name, called=scenario.name, inputs=inputs_digest([scenario]))

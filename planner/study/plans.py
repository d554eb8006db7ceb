"""Two plans of one scenario at any value of one of its numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner import units
from planner.aggregate.held import read_at_rest
from planner.aggregate.judged import judged_run
from planner.aggregate.power import resting
from planner.errors import Fault, Notice, ScenarioError, near
from planner.facts import catalog
from planner.scenario import load, refuse_unsupported
from planner.scenario.fields import FactOf, Factor, Quantity
from planner.scenario.layers import QUESTION, shape_at
from planner.scenario.shape import Leaf
from planner.scenario.tree import steps
from planner.study.survive import Case, simulated, stresses
from planner.study.uncertainty import alone, facts_of_simulation
from planner.study.work import Asked, simulate
from planner.study.worlds import under

if TYPE_CHECKING:
    from planner.aggregate.inputs import VariantRun
    from planner.facts.fact import Fact
    from planner.fleet.executor import Executor, Progress
    from planner.fleet.fleet import Fleet
    from planner.scenario import Scenario

__all__ = ["LOAD", "Lab", "Plan", "Vary", "plan_of", "vary_of"]

LOAD = "load"
"""The pseudo path of the traffic of all classes, as a multiple."""
_NAMED = (("fleet", "pools"), ("traffic",), ("slo",), ("sites",))
"""Where names stand that one plan may have and another not."""
_FACTOR = 4.0
"""The range of a value without one of its own: from a quarter of it to four times it."""


@dataclass(frozen=True, slots=True)
class Vary:
    """What is varied."""

    path: str
    kind: str
    """The kind of quantity (`units.KINDS`)."""
    is_fact: bool = False
    """Whether it is a fact of the catalogue (`racks.jalapeno-rack.capex_usd`), the same in every pool that has it."""

    def text(self, value: float) -> str:
        """A value as a scenario writes it."""
        return units.to_text(value, self.kind)


@dataclass(frozen=True, slots=True)
class Plan:
    """One of the two plans."""

    name: str
    title: str
    verdict: str | None
    missed: tuple[str, ...]
    """Limits that it misses, in words."""
    is_varied: bool
    """Whether the varied value has a meaning in it."""


def vary_of(path: str, facts: Mapping[str, Fact]) -> Vary:
    """What a path varies: a value of the scenario, one of the plans' facts, or the load.

    Raises:
        ScenarioError: it is none of them, or no number on a continuous scale.
    """
    if path == LOAD:
        return Vary(path, "ratio")
    try:
        shape = shape_at(steps(path), QUESTION)
    except ValueError as error:
        raise ScenarioError(Fault(f"'{path[:80]}' is no path: {error}", "such as fleet.pools.a.capex")) from None
    if shape is None and path in facts and facts[path].kind in units.KINDS:
        return Vary(path, facts[path].kind, is_fact=True)
    if shape is None and path.split(".", maxsplit=1)[0] in catalog.KINDS:
        what = f"neither plan reads a fact '{path[:80]}'{near(path[:80], facts)}"
        raise ScenarioError(Fault(what, "planner explain RESULT lists the facts behind a figure"))
    if shape is None:
        known = ("fleet.pools.NAME.capex", "fleet.pools.NAME.rent", "site.power_price", "traffic.NAME.rate", LOAD)
        raise ScenarioError(Fault(f"a scenario has no '{path[:80]}'", f"vary such as {', '.join(known)}"))
    reader = shape.reader if isinstance(shape, Leaf) else None
    if isinstance(reader, FactOf | Quantity) and not (isinstance(reader, Quantity) and reader.is_whole):
        return Vary(path, reader.kind)
    if isinstance(reader, Factor):
        return Vary(path, "ratio")
    what = f"'{path[:80]}' is no quantity on a continuous scale"
    raise ScenarioError(Fault(what, "planner sweep tries values one by one"))


class Lab:
    """The two plans, at any value of what is varied."""

    def __init__(
        self,
        source: str,
        vary: str,
        names: tuple[str | None, str],
        sets: Sequence[str],
        stdin_text: str | None,
        executor: Executor | None,
        progress: Callable[[Progress], None],
    ) -> None:
        from planner.fleet.local_executor import LocalExecutor

        self.source, self.sets, self.stdin_text = source, tuple(sets), stdin_text
        self.names = names
        self.executor = executor or LocalExecutor(os.cpu_count() or 1)
        self.progress = progress
        self.plain = tuple(load(source, sets=self.sets, variant=name, stdin_text=stdin_text) for name in names)
        if self.plain[0].name == self.plain[1].name:
            raise ScenarioError(Fault(f"'{names[1]}' is compared with itself", "name two plans with -s and --against"))
        for scenario in self.plain:
            refuse_unsupported(scenario, "run")
        self.fleets = self.laid_out(self.plain)
        self.facts = tuple(_facts(*plan) for plan in zip(self.plain, self.fleets, strict=True))
        self.vary = vary_of(vary, self.facts[1] | self.facts[0])
        self.is_varied = tuple(self._has(name, scenario) for name, scenario in zip(names, self.plain, strict=True))
        if not any(self.is_varied):
            what = f"'{vary[:80]}' has no effect in either plan"
            raise ScenarioError(Fault(what, "vary a value of a pool, class or site that one of the two has"))

    def _load(self, name: str | None, value: float | None = None) -> Scenario:
        sets = self.sets
        if value is not None and self.vary.path != LOAD:
            sets = (*sets, f"{self.vary.path}={self.vary.text(value)}")
        scenario = load(self.source, sets=sets, variant=name, stdin_text=self.stdin_text)
        if value is not None and self.vary.path == LOAD:
            from planner.study.scaled import scaled

            traffic = {key: scaled(cls, value) for key, cls in scenario.traffic.items()}
            scenario = replace(scenario, traffic=traffic)
        return scenario

    def _has(self, name: str | None, scenario: Scenario) -> bool:
        """Whether the varied value means something in a plan: the pool, class or site is there, and reads it."""
        if self.vary.path == LOAD:
            return True
        if self.vary.is_fact:
            return self.vary.path in self.facts[self.plain.index(scenario)]
        path = steps(self.vary.path)
        for head in _NAMED:
            if path[: len(head)] == head and len(path) > len(head):
                here = scenario.tree.at(head)
                if here is None or str(path[len(head)]) not in here.keys:
                    return False
        try:
            self._load(name, units.parse(units.KINDS[self.vary.kind].example, self.vary.kind))
        except ScenarioError as error:
            if all("has no effect here" in fault.what for fault in error.faults):
                return False  # a rented pool has no price of its racks
        return True  # what else is wrong is said, with its place, when a value is set

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is worth saying about the two plans, each once."""
        scenarios = [notice for scenario in self.plain for notice in scenario.notices]
        return tuple(dict.fromkeys([*scenarios, *(notice for fleet in self.fleets for notice in fleet.notices)]))

    @property
    def inputs(self) -> str:
        """Digest of everything that both plans depend on."""
        from planner.study.run import inputs_digest

        return inputs_digest(self.plain)

    def at(self, value: float) -> list[Scenario]:
        """Both plans at a value."""
        if self.vary.is_fact:
            return list(self.plain)
        return [
            self._load(name, value) if varied else plain
            for name, varied, plain in zip(self.names, self.is_varied, self.plain, strict=True)
        ]

    def laid_out(self, scenarios: Sequence[Scenario]) -> list[Fleet]:
        from planner.fleet.layout import lay_out
        from planner.study.run import mean_lengths

        return [lay_out(scenario, mean_lengths(scenario)) for scenario in scenarios]

    def simulate(self, asked: Sequence[Asked]) -> list[VariantRun]:
        return simulate(asked, executor=self.executor, progress=self.progress)

    def simulated_at(self, value: float) -> list[VariantRun]:
        """Both plans simulated at a value, with what their fleets have to stand besides."""
        scenarios = self.at(value)
        if not self.vary.is_fact:
            fleets = self.laid_out(scenarios)
            return simulated([_case(*plan) for plan in zip(scenarios, fleets, strict=True)], self.simulate)
        cases = [
            under(_case(scenario, fleet), alone(fleet, self.vary.path, value))
            for scenario, fleet in zip(self.plain, self.fleets, strict=True)
        ]
        return simulated(cases, self.simulate)

    def is_priced(self, runs: Sequence[VariantRun]) -> bool:
        """Whether only money and power read what is varied, in every plan that has it."""
        if self.vary.path == LOAD or any(self.vary.path in _simulated(run.scenario, run.fleet) for run in runs):
            return False
        return all(
            any(fact.path == self.vary.path for fact in _read(run.scenario, run.fleet))
            for run, varied in zip(runs, self.is_varied, strict=True)
            if varied
        )

    def range_of(self, within: str | None) -> tuple[float, float, float | None]:
        """Low and high end of the range, and the value that the first plan with it has."""
        fact = self._fact()
        given = 1.0 if self.vary.path == LOAD else fact.number if fact is not None else self._written()
        if within is not None:
            return (*_range(within, self.vary), given)
        if fact is not None and fact.low is not None and fact.high is not None and fact.low < fact.high:
            return fact.low, fact.high, given
        if given is None or given <= 0:
            example = units.KINDS[self.vary.kind].example
            raise ScenarioError(
                Fault(f"{self.vary.path} has no range of its own", f"give --range LOW..HIGH ({example})")
            )
        return given / _FACTOR, given * _FACTOR, given

    def _fact(self) -> Fact | None:
        """The fact that the varied value takes the place of."""
        if self.vary.path == LOAD:
            return None
        ix = self.is_varied.index(True)
        facts = self.facts[ix]
        if self.vary.path in facts:
            return facts[self.vary.path]
        path = self.vary.path
        sample_text = units.KINDS[self.vary.kind].example
        try:
            after = load(
                self.source,
                sets=(*self.sets, f"{path}={sample_text}"),
                variant=self.names[ix],
                stdin_text=self.stdin_text,
            )
            read = _facts(after, self.laid_out([after])[0])
        except ScenarioError:
            return None  # said again, with its place, when the value is set
        gone = [fact for key, fact in facts.items() if key not in read]
        return gone[0] if path in read and len(gone) == 1 else None

    def _written(self) -> float | None:
        """The value as the scenario writes it."""
        scenario = self.plain[self.is_varied.index(True)]
        here = scenario.tree.at(steps(self.vary.path))
        value = here.value if here is not None else None
        try:
            return units.parse(str(value), self.vary.kind) if value is not None else None
        except units.UnitError:
            return None


def _case(scenario: Scenario, fleet: Fleet) -> Case:
    from planner.study.run import mean_lengths

    return Case(scenario, fleet, tuple(stresses(scenario, fleet, mean_lengths(scenario))))


def _facts(scenario: Scenario, fleet: Fleet) -> dict[str, Fact]:
    """Every number that money, power, carbon or the simulator reads of a plan, by path."""
    return {fact.path: fact for fact in _read(scenario, fleet)} | _simulated(scenario, fleet)


def _simulated(scenario: Scenario, fleet: Fleet) -> dict[str, Fact]:
    return {fact.path: fact for fact in facts_of_simulation(fleet, scenario.base_dir)}


def _read(scenario: Scenario, fleet: Fleet) -> list[Fact]:
    """Facts that money, power and carbon read."""
    return read_at_rest(scenario.cost, fleet, [resting(pool) for pool in fleet.pools], catalog.load().finance())


_RANGE = re.compile(r"\s*(?P<low>[-+0-9._eE]+)\s*(?P<unit>[^.0-9][^.]*?)?\s*\.\.\s*(?P<high>[-+0-9._eE]+\s*.*)")


def _range(text: str, vary: Vary) -> tuple[float, float]:
    """Both ends of `LOW..HIGH UNIT`. Raises `ScenarioError`."""
    example = f"such as 0.5..2 {units.KINDS[vary.kind].example.split(' ', 1)[-1]}"
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ScenarioError(Fault(f"'{text[:60]}' is no range", example, path="--range"))
    high_unit = re.sub(r"^[-+0-9._eE]+\s*", "", match["high"])
    try:
        low = units.parse(f"{match['low']} {match['unit'] or high_unit}".strip(), vary.kind)
        high = units.parse(match["high"].strip(), vary.kind)
    except units.UnitError as error:
        raise ScenarioError(Fault(error.what, error.way_out, path="--range")) from None
    if not 0 <= low < high:
        raise ScenarioError(Fault(f"'{text[:60]}' does not go up from 0 or more", example, path="--range"))
    return low, high


def plan_of(run: VariantRun, *, is_varied: bool) -> Plan:
    """One of the two plans, judged as a run is: with what its fleet has to stand besides."""
    judged = judged_run(run)
    missed = list(_missed(judged["classes"], ""))
    for check in judged["checks"]:
        missed += _missed(check["classes"], f" with {check['label']}")
        if check["reason"] and check["verdict"] == "missed":
            missed.append(f"every limit with {check['label']}")
    return Plan(run.scenario.name, run.scenario.title, judged["verdict"], tuple(missed), is_varied)


def _missed(classes: Mapping[str, Any], when: str) -> Iterator[str]:
    for name, figures in classes.items():
        for each in figures["limits"]:
            if each["met"] is False:
                yield f"{name} {each['metric']} {each['quantile']}{when}"
        asked, reached = figures["attainment_limit_frac"], figures["attainment_frac"]
        if asked is not None and reached is not None and reached < asked:
            yield f"{name} attainment{when}"

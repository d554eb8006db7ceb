"""Plans proved by simulation: a miss tightens what the surfaces promised, then cheaper plans are tried.

1. The program's best plan is laid out and its peaks are simulated with their spare under seeds that no surface used,
   first at one seed alone: a fleet far from its limits needs no second. A class that misses has what the surfaces
   promised of it on the deployments it uses cut to the load at which it missed, and the program is solved again.
2. Then plans that cost less and that the surfaces exclude only within their interval are simulated, the cheapest first.
   A fleet that fails is left out with all fleets that have no more of the deployments of the class that missed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planner.aggregate.intervals import mean, over_seeds
from planner.aggregate.judged import judge_means
from planner.errors import Infeasible
from planner.optimize.build import Question, tightened
from planner.optimize.carve import PEAK, TYPICAL, filled, scenario_of
from planner.optimize.cheaper import EXACT, Reach, Search
from planner.optimize.instance import Decision, total
from planner.optimize.linear import Stop
from planner.optimize.memory import Memory
from planner.optimize.program import Failed
from planner.optimize.reading import balanced, loads, of_class
from planner.optimize.search import Solved, is_large
from planner.study.group import Part
from planner.traffic.load import at_load

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.scenario import Scenario

FAR_STRAIN = 1.1
"""A class this far beyond a limit under the first seed has missed it: its other seeds are not simulated."""
CUT, FAR_CUT = 0.985, 0.94
"""What a near miss leaves of the load at which it was seen, and one whose queue grows or that is far beyond."""

NEAR = 100
"""Carvings of the racks of a span that are weighed where the number of simulations is bounded."""
UNBOUNDED = Reach(carvings=20_000, gap_frac=0.0, nodes=200_000)

Run = Callable[[Sequence["Scenario"]], "Result"]


@dataclass(frozen=True, slots=True)
class Miss:
    """A class that missed a limit in a period."""

    span: int
    cls: str
    strain: float | None
    """The worst of value / limit; None where a request never got its value."""


@dataclass(slots=True)
class Proof:
    """Simulations so far, so that none is made twice, and what they taught."""

    question: Question
    simulate: Run
    known: dict[tuple[str, int], tuple[Miss, ...]] = field(default_factory=dict)
    n_simulated: int = 0
    note: Callable[[str], None] = lambda _: None
    memory: Memory = field(default_factory=Memory)
    """What an interrupted search found already."""

    def misses(self, decision: Decision) -> tuple[Miss, ...]:
        """What misses at the peak of any period, periods in order; the first period that fails ends the search."""
        for t, _ in enumerate(self.question.instance.spans):
            found = self._span(decision, t)
            if found:
                return found
        return ()

    def _span(self, decision: Decision, t: int) -> tuple[Miss, ...]:
        scenario = scenario_of(self.question, decision, t, PEAK)
        key = (scenario.digest(), t)
        if key not in self.known:
            self.n_simulated += 1
            found = self.memory.of(
                f"misses {key[0]}", lambda: [[m.cls, m.strain] for m in self._simulated(scenario, t)]
            )
            self.known[key] = tuple(Miss(t, name, strain) for name, strain in found)
        return self.known[key]

    def _simulated(self, scenario: Scenario, t: int) -> tuple[Miss, ...]:
        spare = scenario.fleet.spare_frac
        loaded = scenario
        if spare:
            fleet = scenario.fleet.model_copy(update={"spare_frac": None})
            loaded = replace(scenario, traffic=at_load(scenario.traffic, 1 / (1 - spare)), fleet=fleet)
        if scenario.fleet.survive is None:  # the load without the spare is in the plan's own simulation
            scenario = loaded
        if scenario.run.seeds == 1:
            return self._missed(scenario, t, self._tree(scenario))
        first = self._tree(_of_seeds(loaded, loaded.run.seed, 1))
        found = self._missed(loaded, t, first)
        far = tuple(m for m in found if m.strain is None or m.strain > FAR_STRAIN)
        if far or first is None:
            return far
        if scenario is not loaded:
            return self._missed(scenario, t, self._tree(scenario))
        rest = self._tree(_of_seeds(loaded, loaded.run.seed + 1, loaded.run.seeds - 1))
        return self._missed(loaded, t, None if rest is None else _together(first, rest))

    def _tree(self, scenario: Scenario) -> Mapping[str, Any] | None:
        """The figures of a simulation; None where the fleet cannot hold its models."""
        try:
            result = self.simulate([scenario])
        except Infeasible:
            return None
        return next(iter(result.variants.values()))

    @staticmethod
    def _missed(scenario: Scenario, t: int, tree: Mapping[str, Any] | None) -> tuple[Miss, ...]:
        return tuple(Miss(t, name, None) for name in scenario.traffic) if tree is None else misses_of(tree, t)


def _of_seeds(scenario: Scenario, first: int, n: int) -> Scenario:
    return replace(scenario, run=scenario.run.model_copy(update={"seed": first, "seeds": n}))


def _together(*trees: Mapping[str, Any]) -> dict[str, Any]:
    """The classes of simulations of one fleet under unlike seeds, judged as those of one run of all seeds are."""
    by_seed = [seed["classes"] for tree in trees for seed in tree["seeds"]]
    classes = over_seeds(by_seed, mean)
    judge_means(classes, by_seed)
    return {"classes": classes}


def misses_of(tree: Mapping[str, Any], t: int) -> tuple[Miss, ...]:
    """Classes of a variant that miss a limit, or their attainment, themselves or in a check."""
    worst: dict[str, float | None] = {}
    for classes in [tree["classes"], *(check.get("classes") or {} for check in tree.get("checks") or [])]:
        for name, figures in classes.items():
            if figures["verdict"] in ("met", None):
                continue
            found = strain(figures)
            if name not in worst or found is None or (worst[name] is not None and found > (worst[name] or 0.0)):
                worst[name] = found
    missed = [Miss(t, name, value) for name, value in worst.items()]
    lost = [
        check for check in tree.get("checks") or [] if check.get("verdict") == "missed" and not check.get("classes")
    ]
    if lost and not missed:
        missed = [Miss(t, name, None) for name in tree["classes"]]
    return tuple(missed)


def strain(figures: Mapping[str, Any]) -> float | None:
    """The worst of value / limit of a class; above 1 where only its attainment misses."""
    worst = 0.0
    for limit in figures["limits"]:
        if limit["value"] is None:
            if not limit["met"]:
                return None
            continue
        worst = max(worst, limit["value"] / limit["limit"])
    return max(worst, 1.0 + 1e-9) if figures["verdict"] == "missed" else worst


@dataclass(frozen=True, slots=True)
class Proved:
    """A plan and what its simulations said."""

    solved: Solved
    decision: Decision | None
    question: Question
    """With what misses tightened."""
    is_verified: bool
    rounds: int
    n_tried: int
    """Cheaper plans that were simulated."""
    cheaper_left: bool
    """Whether cheaper plans were left that the surfaces exclude only within their interval."""
    misses: tuple[Miss, ...] = ()


def prove(
    question: Question, proof: Proof, stop: Stop, *, rounds: int, tries: int | None, slack: float = 1.0
) -> Proved:
    """The cheapest plan that the program finds and the simulation confirms.

    `tries` bounds the cheaper plans that are simulated (None: as long as there are any); `slack` widens the interval
    within which a surface may be wrong.
    """
    tight = question
    factors: dict[tuple[str, Part], float] = {}
    failed: list[Failed] = []
    solved = Solved("none")
    decision: Decision | None = None
    misses: tuple[Miss, ...] = ()
    done = 0
    for done in range(1, rounds + 1):
        solved = proof.memory.solve(tight.instance, stop)
        if solved.decision is None:
            break
        decision = balanced(tight.instance, filled(tight.instance, solved.decision))
        proof.note(f"round {done}: simulating a plan")
        misses = proof.misses(decision)
        if not misses:
            break
        failed += [_failed(tight, decision, miss) for miss in misses]
        for miss in misses:
            _cut(tight, decision, miss, factors)
        tight = tightened(question, factors)
    is_verified = decision is not None and solved.decision is not None and not misses
    if solved.decision is None and done > 1:
        decision = None
    found = Proved(solved, decision, tight, is_verified, done, 0, False, misses)
    if tries is None:  # whatever is left out here never comes again
        failed = []
    return _cheaper(question, proof, stop, found, failed, tries=tries, slack=slack)


def _failed(question: Question, decision: Decision, miss: Miss) -> Failed:
    places = of_class(question.instance, [miss.cls])
    return Failed(miss.span, tuple((k, o, decision.replicas[k][o][miss.span]) for k, o in places))


def _cut(question: Question, decision: Decision, miss: Miss, factors: dict[tuple[str, Part], float]) -> None:
    """Lower what the class may put on the deployments that it used to the load at which it missed."""
    instance = question.instance
    used = loads(instance, decision, miss.span)
    held = 1.0 - instance.spare_frac
    for w, way in enumerate(instance.ways):
        if way.cls != miss.cls or decision.shares[w][miss.span] <= 0:
            continue
        for k, o, _ in way.takes:
            part = question.parts[k][o]
            load = min(1.0, used.get((k, o), 1.0) / held)
            cut = FAR_CUT if miss.strain is None or miss.strain > FAR_STRAIN else CUT
            factors[miss.cls, part] = factors.get((miss.cls, part), 1.0) * load * cut


def _cheaper(
    question: Question,
    proof: Proof,
    stop: Stop,
    found: Proved,
    failed: list[Failed],
    *,
    tries: int | None,
    slack: float,
) -> Proved:
    """The cheapest fleet that passes, of those that the surfaces exclude only within their interval."""
    below = None
    if found.is_verified and found.decision is not None:
        below = total(question.instance, found.decision) * (1 - max(EXACT, stop.gap_frac))
    if tries == 0:
        return replace(found, cheaper_left=True)
    gap_frac = stop.gap_frac if is_large(question.instance) else min(stop.gap_frac, 1e-4)
    reach = Reach(NEAR, gap_frac, min(stop.nodes, 2_000)) if tries else UNBOUNDED
    hopeful = tightened(question, _hopes(question, slack)).instance
    search = Search(question.instance, hopeful, stop, reach, below, failed, solve=proof.memory.solve)
    search.begin(found.decision)
    n_tried = 0
    while tries is None or n_tried < tries:
        fleet = search.cheapest()
        if fleet is None:
            return replace(found, n_tried=n_tried, cheaper_left=not search.is_whole)
        decision, cost = fleet
        n_tried += 1
        proof.note(f"simulating a cheaper plan ({n_tried})")
        misses = proof.misses(decision)
        if not misses:
            bound = min(cost, found.solved.bound, search.bound if search.bound is not None else cost)
            word = "stopped" if found.solved.status in {"stopped", "none"} else "optimal"
            best = Solved(word, decision, bound=bound, nodes=found.solved.nodes, is_timed_out=found.solved.is_timed_out)
            left = not search.is_whole
            return Proved(best, decision, found.question, True, found.rounds, n_tried, left)
        failed += [
            _failed(question, decision, miss)
            for miss in misses
            if tries is not None or miss.strain is None or miss.strain > FAR_STRAIN
        ]
        search.advance(misses[0].span)
    return replace(found, n_tried=n_tried, cheaper_left=True)


def _hopes(question: Question, slack: float) -> dict[tuple[str, Part], float]:
    """How much more than its surface says a deployment may hold of a class: to the luckiest seed's limit; of a trace to
    its mean rate in place of its highest minute.
    """
    hopes: dict[tuple[str, Part], float] = {}
    for (name, part, _), limit in question.limits.items():
        more = limit.high_req_per_s / limit.req_per_s * limit.factor
        if question.scenario.traffic[name].trace is not None:
            more *= question.peak_fracs[name]
        hopes[name, part] = max(hopes.get((name, part), 1.0), more * slack)
    return hopes


def simulated(question: Question, decision: Decision, simulate: Run) -> Result:
    """Peaks and typical days of all periods, one result; equal simulations are made once."""
    spans = range(len(question.instance.spans))
    return simulate([scenario_of(question, decision, t, which) for t in spans for which in (PEAK, TYPICAL)])

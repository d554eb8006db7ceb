"""The worlds that uncertain facts make: which are simulated, and what each simulation gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.aggregate.held import Held
from planner.aggregate.judged import judged_run
from planner.aggregate.summary import class_figures, hold
from planner.errors import Infeasible
from planner.facts import catalog
from planner.study.survive import Case
from planner.study.uncertainty import Sample, Uncertain, applied, sample, uncertain
from planner.study.work import Asked, Simulate

if TYPE_CHECKING:
    from planner.aggregate.inputs import SeedRun, VariantRun
    from planner.scenario import Scenario

N_ALONE = 6
"""Facts that the simulator reads of which each variant's swing is simulated."""

Figures = dict[str, float | None]
Job = tuple["VariantRun", Any, Mapping[str, float]]
"""A run, a key, and the facts that are changed."""


@dataclass(frozen=True, slots=True)
class World:
    """A simulation under a draw of the facts that it reads."""

    held: Held
    simulated: Figures
    """What the simulator gave: limits, attainment, throughput."""
    is_met: bool
    """Whether every limit holds, with what the fleet has to stand besides."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A variant's samples, and what is to be simulated of them."""

    case: Case
    facts: Uncertain
    samples: tuple[Sample, ...]
    keys: tuple[int, ...] = ()
    """`simulated_ix` of each of `cases`; what is in neither has replicas that do not fit."""
    cases: tuple[Case, ...] = ()


def drawn(case: Case) -> Drawn:
    """The samples that a variant asks for, and the cases of which their figures are made: of its first seed, with the
    layout held, and with all that its fleet has to stand.
    """
    spec = case.scenario.run
    facts = uncertain(case.scenario, case.fleet) if spec.samples is not None else Uncertain((), ())
    if spec.samples is None:
        return Drawn(case, facts, ())
    samples = sample(case.scenario, spec.samples, seed=spec.seed, n_simulated=spec.samples_simulated, fleet=case.fleet)
    firsts = {one.simulated_ix: one for one in reversed(samples)}
    first_seed = replace(
        case,
        scenario=_once(case.scenario),
        stresses=tuple(replace(stress, scenario=_once(stress.scenario)) for stress in case.stresses),
        unfit="skip",
        keeps_requests=False,
        keeps_timeline=False,
        has_batches=False,
    )
    cases = {}
    for ix in sorted(firsts):
        try:
            cases[ix] = under(first_seed, firsts[ix].values)
        except Infeasible:
            continue
    return Drawn(case, facts, tuple(samples), tuple(cases), tuple(cases.values()))


def under(case: Case, values: Mapping[str, float]) -> Case:
    """The case under changed facts, its layout held. Raises `Infeasible` where a replica does not fit such chips."""
    one, base_dir = Sample(0, values, None, 0), case.scenario.base_dir
    stresses = [
        stress if stress.fleet is None else replace(stress, fleet=applied(stress.fleet, one, base_dir))
        for stress in case.stresses
    ]
    return replace(case, fleet=applied(case.fleet, one, base_dir), stresses=tuple(stresses))


def _once(scenario: Scenario) -> Scenario:
    """Its first seed."""
    return replace(scenario, run=scenario.run.model_copy(update={"seeds": 1}))


def later_s(drawn: Sequence[Drawn]) -> float:
    """About how many seconds are simulated once the samples are."""
    return math.fsum(
        2 * min(N_ALONE, len(one.facts.simulated) + len(one.facts.members)) * (one.case.scenario.run.length_s or 0.0)
        for one in drawn
    )


def worlds(jobs: Sequence[Job], simulate: Simulate) -> dict[tuple[str, Any], World]:
    """The simulation of each job that fits its chips, by variant and key: of its first seed, with the layout held, and
    without what its fleet has to stand besides.
    """
    keys, asked = [], []
    for run, key, values in jobs:
        try:
            fleet = applied(run.fleet, Sample(0, values, None, 0), run.scenario.base_dir)
        except Infeasible:
            continue
        keys.append((run.scenario.name, key))
        asked.append(Asked(_once(run.scenario), fleet, "skip"))
    runs = simulate(asked) if keys else []
    return {key: world_of(run) for key, run in zip(keys, runs, strict=True) if run.seeds}


def world_of(run: VariantRun) -> World:
    """What the first seed of a run gives."""
    seed = run.seeds[0]
    held = held_of(run, seed)
    classes = class_figures(run, seed, held.span)
    found: Figures = {}
    for name, figures in classes.items():
        for each in figures["limits"]:
            found[f"classes.{name}.limits.{each['metric']}.{each['quantile']}"] = each["value"]
        found[f"classes.{name}.attainment_frac"] = figures["attainment_frac"]
    span_s = held.span.span_s
    found["fleet.tokens_per_s_out"] = held.tokens["output"] / span_s if span_s > 0 else None
    return World(held, found, judged_run(run)["verdict"] in {"met", None})


def held_of(run: VariantRun, seed: SeedRun) -> Held:
    """What money, power and carbon need of one simulation."""
    from planner.aggregate.cost import Terms

    has_allowance = any(pool.new_silicon for pool in run.fleet.pools)
    terms = Terms.of(run.scenario.cost, catalog.load().finance(), has_allowance=has_allowance)
    return hold(run, seed, terms)[0]

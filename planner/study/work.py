"""A list of work: scenarios on their fleets, every seed of each; what asks the simulator for the same is done once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from planner.aggregate import batches
from planner.aggregate.inputs import Span
from planner.aggregate.timeline import MAX_SPANS
from planner.errors import Infeasible, Notice
from planner.fleet import batched, cut, draws, stretches
from planner.fleet.cells import ns, sim_spec
from planner.fleet.draws import Draw, can_be_anywhere
from planner.fleet.executor import Executor, Progress, Simulation
from planner.study.fits import check_fits, check_span
from planner.traffic import chains

if TYPE_CHECKING:
    from planner.aggregate.inputs import VariantRun
    from planner.fleet.checkpoint import Kept
    from planner.fleet.cut import Cutting
    from planner.fleet.draws import DrawnFacts
    from planner.fleet.fleet import Fleet
    from planner.fleet.stretches import Stretch
    from planner.scenario import Scenario

Unfit = Literal["refuse", "try", "skip"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario to simulate on a fleet, every seed of it."""

    scenario: Scenario
    fleet: Fleet
    unfit: Unfit = "refuse"
    """Where no request of a class fits its replicas: an error; simulated all the same, so that its limits are missed;
    or left out, without a seed."""
    pieces: tuple[Stretch, ...] = ()
    """Stretches of time, instead of the whole run cut as `run.split` says."""
    keeps_requests: bool = False
    """A row for each request."""
    keeps_timeline: bool = False
    has_batches: bool = False
    """With the latencies of its batches, where it is one run (`aggregate.batches`)."""


class Simulate(Protocol):
    """Does a list of work: what `simulate` does, its other arguments given."""

    def __call__(self, asked: Sequence[Asked], /) -> list[VariantRun]: ...


@dataclass(slots=True)
class _Job:
    """One seed of what is asked, and the simulation that answers it."""

    asked: int
    seed: int
    simulation: int


def simulate(
    asked: Sequence[Asked],
    *,
    executor: Executor,
    inputs: str = "",
    stage: str = "run",
    kept: Kept | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> list[VariantRun]:
    """Every seed of everything that is asked, equal simulations once.

    `inputs` is the digest of the question and `stage` the name of this list of work: what `kept` has of it is not done
    again.

    Raises:
        ScenarioError: a run is longer than the simulator's clock, or is all warm-up.
        Infeasible: no request of a class fits the replicas of one that is to be refused then.
        TrafficError, RunError: as the executor does.
    """
    from planner.aggregate.inputs import SeedRun, VariantRun
    from planner.core import SimTables, finish
    from planner.study.shelf import Shelf

    simulations, jobs, fleets = _plan(asked, executor, inputs=inputs, stage=stage)
    shelf = Shelf()
    done: dict[int, tuple[Callable[[], SimTables], DrawnFacts]] = {}
    asked_by: dict[int, list[Asked]] = {}
    for job in jobs:
        asked_by.setdefault(job.simulation, []).append(asked[job.asked])
    with closing(executor.run(simulations, kept=kept, progress=progress)) as whole:
        for part in whole:
            facts = draws.told(simulations[part.simulation].draw, part.facts)
            strict = next((each for each in asked_by[part.simulation] if each.unfit == "refuse"), None)
            if strict is not None:
                check_fits(strict.scenario, strict.fleet, facts.shortest_kv_tokens)
            done[part.simulation] = (shelf.put(finish(part.tables)), facts)
    jobs_of: dict[int, list[_Job]] = {}
    for job in jobs:
        jobs_of.setdefault(job.asked, []).append(job)
    runs = []
    for ix, (each, fleet) in enumerate(zip(asked, fleets, strict=True)):
        mine = [(job.seed, *done[job.simulation]) for job in jobs_of.get(ix, ())]
        seeds = tuple(SeedRun(seed=seed, tables=tables, traffic=facts) for seed, tables, facts in mine)
        runs.append(VariantRun(scenario=each.scenario, fleet=fleet, seeds=seeds))
    return runs


def _plan(
    asked: Sequence[Asked], executor: Executor, *, inputs: str, stage: str
) -> tuple[list[Simulation], list[_Job], list[Fleet]]:
    """All simulations, which seed of what each answers, and the fleets with what is to be said of cells."""
    cuttings = [cut.plan(_spec(each, None), each.scenario.fleet.cell_replicas) for each in asked]
    draw_of = [_draws(each.scenario, cutting) for each, cutting in zip(asked, cuttings, strict=True)]
    keys = [traffic_key(each.scenario) for each in asked]
    first = {key: draw(each.scenario.run.seed) for key, each, draw in zip(keys, asked, draw_of, strict=True)}
    facts_of = dict(zip(first, executor.facts(list(first.values())), strict=True))
    simulations: list[Simulation] = []
    jobs: list[_Job] = []
    known: dict[str, int] = {}
    said = []
    for ix, (each, cutting) in enumerate(zip(asked, cuttings, strict=True)):
        scenario, facts = each.scenario, facts_of[keys[ix]]
        check_span(scenario, facts.length_ns)
        said.append(replace(each.fleet, notices=(*each.fleet.notices, *_of_cells(cutting, facts))))
        if each.unfit != "try":
            try:
                _check_fits(each, facts, draw_of[ix])
            except Infeasible:
                if each.unfit == "refuse":
                    raise
                continue
        cuts = each.pieces or _stretches(scenario, facts.length_ns)
        base = _spec(each, facts)
        base_key = hashlib.sha256(json.dumps(base, sort_keys=True).encode()).hexdigest()
        replicas = tuple(cut.numbers(cutting))
        for seed in range(scenario.run.seed, scenario.run.seed + scenario.run.seeds):
            draw = _in_pieces(draw_of[ix](seed), cuts)
            spec = base | {"seed": seed}
            key = f"{draw.key} {base_key} {seed}"
            specs = cut.cells(spec, cutting)
            if key not in known:
                known[key] = len(simulations)
                simulations.append(
                    Simulation(
                        inputs=inputs,
                        draw=draw,
                        specs=tuple(_in_time(specs, cuts, scenario)),
                        replicas=replicas * max(1, len(cuts)),
                        end_ns=facts.length_ns + ns(scenario.run.drain_s),
                        n_requests=_expected(facts, draw),
                        stage=stage,
                    )
                )
            jobs.append(_Job(ix, seed, known[key]))
    return simulations, jobs, said


def _check_fits(each: Asked, facts: DrawnFacts, draw: Callable[[int], Draw]) -> None:
    """Refuse what does not fit by what is known of the requests, or by all of them where that is a sample."""
    try:
        check_fits(each.scenario, each.fleet, facts.shortest_kv_tokens)
    except Infeasible:
        if not facts.is_sampled:
            raise
        facts = draws.exact(draw(each.scenario.run.seed), facts)
        check_fits(each.scenario, each.fleet, facts.shortest_kv_tokens)


def _in_time(
    specs: Sequence[Mapping[str, Any]], cuts: Sequence[Stretch], scenario: Scenario
) -> Iterator[Mapping[str, Any]]:
    """The specs of the cells of a fleet, in each piece of time."""
    if not cuts:
        yield from specs
    has_chains = any(chains.is_chained(cls) for cls in scenario.traffic.values())
    for piece in cuts:
        yield from (stretches.spec_of(spec, piece, has_chains=has_chains) for spec in specs)


def _spec(each: Asked, facts: DrawnFacts | None) -> dict[str, Any]:
    """The core's spec of the whole fleet under any seed; without facts, enough to tell how it is cut."""
    spec = sim_spec(
        each.scenario,
        each.fleet,
        seed=0,
        length_ns=facts.length_ns if facts else 0,
        keep_requests=each.keeps_requests,
        block_tokens=facts.block_tokens if facts else None,
    )
    if each.keeps_timeline:
        spec["timeline_rows"] = MAX_SPANS
    if facts is not None and each.has_batches and each.scenario.run.seeds == 1:
        span = Span(spec["warmup_ns"], spec["length_ns"], spec["window_ns"])
        found = batches.places(span)
        if found:
            spec["batches"] = batched.plan(
                first_ns=found[0].start * span.window_ns,
                each_ns=len(found[0]) * span.window_ns,
                n=len(found),
                n_classes=2 * len(spec["classes"]),  # with those of shadows (`stretches`)
                n_pools=spec["n_pools"],
            )
    return spec


def _draws(scenario: Scenario, cutting: Cutting) -> Callable[[int], Draw]:
    """The draw of each seed."""
    what, has_prefixes, is_anywhere = traffic_key(scenario), _has_cache(scenario), can_be_anywhere(scenario)

    def draw(seed: int) -> Draw:
        key = hashlib.sha256(json.dumps([what, seed, cutting.weights]).encode()).hexdigest()
        return Draw(key, scenario, seed, has_prefixes, cutting.weights, is_anywhere)

    return draw


def _in_pieces(draw: Draw, cuts: Sequence[Stretch]) -> Draw:
    """The draw cut in time; the same where it is not."""
    if not cuts:
        return draw
    key = hashlib.sha256(json.dumps([draw.key, *(piece.name for piece in cuts)]).encode()).hexdigest()
    return replace(draw, key=key, stretches=tuple(cuts))


def _stretches(scenario: Scenario, length_ns: int) -> tuple[Stretch, ...]:
    """The pieces of time that `run.split` asks for; none where the run is one."""
    asked = scenario.run
    if asked.split_s is None:
        return ()
    found = stretches.plan(length_ns=length_ns, split_ns=ns(asked.split_s), warmup_ns=ns(asked.warmup_s))
    return found if len(found) > 1 else ()


def _expected(facts: DrawnFacts, draw: Draw) -> tuple[int, ...]:
    """About how many requests each cell gets: as under the first seed."""
    if len(facts.n_requests) == draw.n_cells:
        return facts.n_requests
    return (-(-sum(facts.n_requests) // draw.n_cells),) * draw.n_cells


def _of_cells(cutting: Cutting, facts: DrawnFacts) -> tuple[Notice, ...]:
    """What cutting the fleet means for the result."""
    if cutting.n_cells == 1:
        return cutting.notices
    message = f"the fleet is simulated as {cutting.n_cells} cells, a router each"
    if facts.block_tokens is not None:
        message += "; a prefix is found again only by requests of its own cell"
    return (*cutting.notices, Notice("cells", message))


def _has_cache(scenario: Scenario) -> bool:
    """Whether any replica would find prefixes again."""
    return any(entry.prefix_cache for pool in scenario.fleet.pools.values() for entry in pool.deploy)


def traffic_key(scenario: Scenario) -> str:
    """What the requests depend on: equal keys draw equal requests."""
    shown = {
        "traffic": repr(dict(scenario.traffic)),
        "length": scenario.run.length_s,
        "dir": str(scenario.base_dir),
        "prefixes": _has_cache(scenario),
    }
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()

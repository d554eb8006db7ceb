"""The road from scenarios to a result: traffic, layout, simulation of each seed, figures.

Variants that ask the simulator for the same share one simulation: those that differ only in money or carbon cost
nothing more.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import units
from planner.aggregate.timeline import MAX_SPANS
from planner.errors import Fault, Infeasible, Notice, ScenarioError, TrafficError
from planner.fleet import cut, stretches
from planner.fleet.cells import ns, sim_spec, targets
from planner.fleet.draws import Draw, can_be_anywhere
from planner.fleet.executor import Executor, Progress, Simulation
from planner.fleet.layout import Lengths, lay_out
from planner.scenario import Scenario, refuse_unsupported
from planner.study.steady import curves
from planner.study.survive import with_checks

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.inputs import VariantRun
    from planner.aggregate.result import Result
    from planner.fleet.checkpoint import Kept
    from planner.fleet.cut import Cutting
    from planner.fleet.draws import DrawnFacts
    from planner.fleet.fleet import Fleet
    from planner.fleet.stretches import Stretch
    from planner.traffic.requests import ScenarioTraffic

MAX_RUN_S = 100 * 366 * 86_400.0
"""The longest run with its drain that the simulator's clock is made for."""
LAYOUT_SEED = 0
"""Mean lengths for choosing layouts come from this seed, so that a run's own seed never changes the fleet."""


@dataclass(slots=True)
class _Job:
    """One variant and seed, and the simulation that answers it."""

    variant: int
    seed: int
    simulation: int


def run(
    scenarios: Scenario | Sequence[Scenario],
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    keep_requests: bool = False,
    keep_timeline: bool = False,
    kept: Kept | None = None,
    surfaces: Path | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Result:
    """Simulate one scenario, or several variants of one, and sum up.

    `workers` is how many simulations run side by side (default: the processors of this machine); `executor` does the
    work in place of threads (`planner.fleet.executors`); the result depends on neither. `keep_requests` keeps a row for
    each request, `keep_timeline` what each replica did and when. `kept` is where finished parts are, and are put;
    `surfaces` is the folder where response surfaces of `run.horizon` are, and are put.

    Raises:
        ScenarioError, FactError, TrafficError: the input is wrong; each names all its faults.
        Infeasible: what is asked cannot be laid out, or no request of a class fits its replicas.
        RunError: the workers, or the place where parts are kept, failed.
    """
    from planner.aggregate.result import Result
    from planner.fleet.local_executor import LocalExecutor
    from planner.study.horizon import with_horizon
    from planner.study.seams import with_seams
    from planner.study.spread import with_spread

    variants = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    for scenario in variants:
        refuse_unsupported(scenario, "run")
    executor = executor or LocalExecutor(workers or os.cpu_count() or 1)
    lengths = {traffic_key(scenario): mean_lengths(scenario) for scenario in _once(variants)}
    fleets = [lay_out(scenario, lengths[traffic_key(scenario)]) for scenario in variants]
    inputs = inputs_digest(variants, keep_requests=keep_requests, keep_timeline=keep_timeline)
    simulated = partial(simulate, executor=executor, inputs=inputs, progress=progress)
    kept_too = partial(simulated, kept=kept, keep_requests=keep_requests, keep_timeline=keep_timeline)
    runs = with_checks(variants, fleets, [lengths[traffic_key(scenario)] for scenario in variants], kept_too)
    result = with_spread(Result.of(runs, inputs=inputs, curves=curves(runs)), runs, simulated)
    result = with_seams(result, runs, simulated)
    return with_horizon(result, runs, simulated, folder=surfaces, workers=workers)


def simulate(
    variants: Sequence[Scenario],
    fleets: Sequence[Fleet],
    *,
    executor: Executor,
    inputs: str = "",
    progress: Callable[[Progress], None] = lambda _: None,
    n_own: int | None = None,
    pieces: Mapping[int, Sequence[Stretch]] | None = None,
    kept: Kept | None = None,
    keep_requests: bool = False,
    keep_timeline: bool = False,
) -> list[VariantRun]:
    """Every seed of every variant on its fleet, equal simulations once; after the first `n_own` come their checks.

    `pieces` of time are simulated of the variants at those places; otherwise the whole run, cut as `run.split` says.
    """
    from planner.aggregate.inputs import SeedRun, VariantRun
    from planner.core import SimTables, finish

    n_own = len(variants) if n_own is None else n_own
    simulations, jobs, fleets = _plan(
        variants,
        fleets,
        executor,
        inputs=inputs,
        n_own=n_own,
        pieces=pieces or {},
        keep_requests=keep_requests,
        keep_timeline=keep_timeline,
    )
    done: dict[int, tuple[SimTables, DrawnFacts]] = {}
    have, keep = ((), None) if kept is None else (kept.have(simulations), kept.keep)
    asked_by = {job.simulation: job for job in reversed(jobs)}
    with closing(executor.run(simulations, have=have, keep=keep, progress=progress)) as whole:
        for part in whole:
            job = asked_by[part.simulation]
            if job.variant < n_own:  # without a rack a class may have nothing that holds it: its limits are missed
                check_fits(variants[job.variant], fleets[job.variant], part.facts.shortest_kv_tokens)
            done[part.simulation] = (finish(part.tables), part.facts)
    runs = []
    for ix, (scenario, fleet) in enumerate(zip(variants, fleets, strict=True)):
        mine = [(job.seed, *done[job.simulation]) for job in jobs if job.variant == ix]
        seeds = tuple(SeedRun(seed=seed, sim=sim, traffic=facts) for seed, sim, facts in mine)
        runs.append(VariantRun(scenario=scenario, fleet=fleet, seeds=seeds))
    return runs


def _plan(
    variants: Sequence[Scenario],
    fleets: Sequence[Fleet],
    executor: Executor,
    *,
    inputs: str,
    n_own: int,
    pieces: Mapping[int, Sequence[Stretch]],
    keep_requests: bool,
    keep_timeline: bool,
) -> tuple[list[Simulation], list[_Job], list[Fleet]]:
    """All simulations, which seed of which variant each answers, and the fleets with what is to be said of cells."""

    def spec_of(scenario: Scenario, fleet: Fleet, facts: DrawnFacts | None) -> dict[str, Any]:
        spec = sim_spec(
            scenario,
            fleet,
            seed=0,
            length_ns=facts.length_ns if facts else 0,
            keep_requests=keep_requests,
            block_tokens=facts.block_tokens if facts else None,
        )
        return spec | ({"timeline_rows": MAX_SPANS} if keep_timeline else {})

    cuttings = [
        cut.plan(spec_of(scenario, fleet, None), scenario.fleet.cell_replicas)
        for scenario, fleet in zip(variants, fleets, strict=True)
    ]
    draw_of = [_draws(scenario, cutting) for scenario, cutting in zip(variants, cuttings, strict=True)]
    first = {traffic_key(scenario): draw(scenario.run.seed) for scenario, draw in zip(variants, draw_of, strict=True)}
    facts_of = dict(zip(first, executor.facts(list(first.values())), strict=True))
    simulations: list[Simulation] = []
    jobs: list[_Job] = []
    known: dict[str, int] = {}
    said = []
    for ix, (scenario, fleet, cutting) in enumerate(zip(variants, fleets, cuttings, strict=True)):
        facts = facts_of[traffic_key(scenario)]
        check_span(scenario, facts.length_ns)
        if ix < n_own:
            check_fits(scenario, fleet, facts.shortest_kv_tokens)
        cuts = pieces.get(ix) or _stretches(scenario, facts.length_ns)
        said.append(replace(fleet, notices=(*fleet.notices, *_of_cells(cutting, facts))))
        base = spec_of(scenario, fleet, facts)
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
                        specs=tuple(stretches.spec_of(each, piece) for piece in cuts for each in specs)
                        if cuts
                        else tuple(specs),
                        replicas=replicas * max(1, len(cuts)),
                        end_ns=facts.length_ns + ns(scenario.run.drain_s),
                        n_requests=_expected(facts, draw),
                    )
                )
            jobs.append(_Job(ix, seed, known[key]))
    return simulations, jobs, said


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


def _once(variants: Sequence[Scenario]) -> list[Scenario]:
    """One variant for each traffic that is asked for."""
    return list({traffic_key(scenario): scenario for scenario in variants}.values())


def mean_lengths(scenario: Scenario) -> dict[str, Lengths]:
    """Mean prompt and output of each class to two figures, so that a layout does not hang on a draw."""
    from planner.traffic.requests import for_class_sample

    found = {}
    for name, traffic in scenario.traffic.items():
        frame = for_class_sample(traffic, name=name, seed=LAYOUT_SEED, base_dir=scenario.base_dir)
        means = [int(frame[column].sum()) / max(1, frame.height) for column in ("input_tokens", "output_tokens")]
        found[name] = Lengths(*(float(f"{mean:.1e}") for mean in means))
    return found


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


def check_span(scenario: Scenario, length_ns: int) -> None:
    """Refuse a run that is longer than can be simulated, or whose traces end within its warm-up.

    Raises:
        ScenarioError: with the place and the way out.
    """
    run = scenario.run
    length_s = length_ns / 1e9
    if length_s + run.drain_s > MAX_RUN_S:
        what = f"the run lasts {units.format(length_s, 'time')} and drains {units.format(run.drain_s, 'time')}"
        way_out = f"together at most {units.format(MAX_RUN_S, 'time')}: give run.length"
        if run.length_s is None:
            way_out += ", or see with planner trace inspect whether a trace's clock is in another unit"
        raise ScenarioError(_at(scenario, "run.length", what, way_out))
    if run.warmup_s >= length_s:
        what = f"the warm-up is not shorter than the run, which lasts as its trace does: {length_s:,.9g} s"
        way_out = "nothing would be measured: shorten it, or give run.length and repeat: true"
        raise ScenarioError(_at(scenario, "run.warmup", what, way_out))


def _at(scenario: Scenario, path: str, what: str, way_out: str) -> Fault:
    """A fault where the value at `path` was written, if it was."""
    origin = scenario.origins.get(path)
    if origin is None:
        return Fault(what, way_out, path=path)
    return Fault(what, way_out, path=path, file=origin.file, line=origin.line, col=origin.col)


def check_fits(scenario: Scenario, fleet: Fleet, shortest_kv_tokens: Sequence[int]) -> None:
    """Refuse a class of which no request fits any replica that it may use. Raises `Infeasible`.

    `shortest_kv_tokens`, by class, is what the request needs that needs least; 0 without requests.
    """
    faults = []
    for shortest, name in zip(shortest_kv_tokens, scenario.traffic, strict=True):
        longest = longest_sequence(scenario, fleet, name)
        if shortest > longest:
            if longest == _context_tokens(scenario, fleet, name):  # then no more chips would help
                what = f"its shortest request is {shortest:,} tokens long, its model takes {longest:,} at most"
                way_out = "shorten input and output, or choose a model with a longer context"
            else:
                what = (
                    f"its shortest request needs {shortest:,} tokens of KV cache, the largest replica holds {longest:,}"
                )
                way_out = "use more chips a replica, or kv_dtype: fp8"
            faults.append(Fault(what, way_out, path=f"traffic.{name}"))
    if faults:
        raise Infeasible(*faults)


def kv_tokens_needed(traffic: ScenarioTraffic, class_ix: int) -> pl.Series:
    """KV tokens of each request of a class at its end: the last token is never attended to."""
    import polars as pl

    need = pl.col("input_tokens").cast(pl.Int64) + pl.col("output_tokens") - 1
    return traffic.frame.filter(pl.col("class_ix") == class_ix).select(need.alias("kv_tokens"))["kv_tokens"]


def longest_sequence(scenario: Scenario, fleet: Fleet, name: str) -> int:
    """KV tokens of the longest sequence that any replica of a class holds."""
    return max(
        int(fleet.placed[deployment].plan["max_sequence_tokens"])
        for target in targets(scenario, fleet, name)
        for deployment in target["deployments"]
    )


def _context_tokens(scenario: Scenario, fleet: Fleet, name: str) -> int:
    """Tokens that the model of a class takes at most."""
    ixs = [ix for target in targets(scenario, fleet, name) for ix in target["deployments"]]
    return max(int(fleet.placed[ix].spec["model"]["context_tokens"]) for ix in ixs)


def inputs_digest(variants: Sequence[Scenario], *, keep_requests: bool = False, keep_timeline: bool = False) -> str:
    """A hash of everything the result depends on: scenarios, catalogue, the files that they name, the core."""
    from planner.core import build_info
    from planner.facts import catalog
    from planner.scenario.files import locate, reference_paths

    total = hashlib.sha256(b"requests kept" * keep_requests + b"timeline kept" * keep_timeline)
    for scenario in variants:
        total.update(f"{scenario.name} {scenario.digest()}\n".encode())
        for _, named in reference_paths(scenario.tree):
            total.update(file_digest(locate(str(named.value), scenario.base_dir)))
    for path in sorted(catalog.DATA.rglob("*.yaml")):
        total.update(hashlib.sha256(path.read_bytes()).digest())
    info = build_info()
    total.update(f"{info['version']} {info['sources']}".encode())
    return "sha256:" + total.hexdigest()


def file_digest(path: Path | str) -> bytes:
    """A hash of what a file or address holds. Raises `TrafficError` if it cannot be read."""
    import fsspec

    total = hashlib.sha256()
    try:
        with fsspec.open(str(path), "rb") as file:
            while piece := file.read(1 << 20):
                total.update(piece)
    except OSError as error:
        raise TrafficError(Fault(f"cannot read {path}: {error.strerror or error}", "check the path")) from None
    return total.digest()

"""The road from scenarios to a result: traffic, layout, simulation of each seed, figures.

Variants that ask the simulator for the same share one simulation: those that differ only in money or carbon cost
nothing more.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import Fault, TrafficError
from planner.fleet.executor import Executor, Progress
from planner.fleet.layout import Lengths, lay_out
from planner.scenario import Scenario, refuse_unsupported
from planner.study.account import Account
from planner.study.steady import curves
from planner.study.survive import Case, simulated, stresses
from planner.study.work import Simulate, simulate, traffic_key

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.fleet.checkpoint import Kept

LAYOUT_SEED = 0
"""Mean lengths for choosing layouts come from this seed, so that a run's own seed never changes the fleet."""


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
    from planner.study.worlds import drawn, later_s

    variants = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    for scenario in variants:
        refuse_unsupported(scenario, "run")
    executor = executor or LocalExecutor(workers or os.cpu_count() or 1)
    lengths = {traffic_key(scenario): mean_lengths(scenario) for scenario in _once(variants)}
    inputs = inputs_digest(variants, keep_requests=keep_requests, keep_timeline=keep_timeline)
    own = []
    for scenario in variants:
        mine = lengths[traffic_key(scenario)]
        fleet = lay_out(scenario, mine)
        checks = tuple(stresses(scenario, fleet, mine))
        own.append(
            Case(
                scenario,
                fleet,
                checks,
                keeps_requests=keep_requests,
                keeps_timeline=keep_timeline,
                has_batches=True,
            )
        )
    samples = [drawn(case) for case in own]
    account = Account(progress, {"swings": later_s(samples)})

    def work(stage: str) -> Simulate:
        return partial(simulate, executor=executor, inputs=inputs, stage=stage, kept=kept, progress=account.of(stage))

    made = simulated([*own, *(case for each in samples for case in each.cases)], work("run"))
    runs, worlds = made[: len(own)], made[len(own) :]
    result = Result.of(runs, inputs=inputs, curves=curves(runs))
    result = with_spread(result, runs, samples, worlds, work("swings"))
    result = with_seams(result, runs, work("seams"))
    return with_horizon(result, runs, work, folder=surfaces, workers=workers)


def _once(variants: Sequence[Scenario]) -> list[Scenario]:
    """One variant for each traffic that is asked for."""
    return list({traffic_key(scenario): scenario for scenario in variants}.values())


def mean_lengths(scenario: Scenario) -> dict[str, Lengths]:
    """Mean prompt and output of each class to two figures, so that a layout does not hang on a draw."""
    return {
        name: Lengths(*(float(f"{mean:.1e}") for mean in means)) for name, means in _sampled_means(scenario).items()
    }


def mean_inputs(scenario: Scenario) -> dict[str, float]:
    """Mean tokens of a prompt of each class, those of a session so far included."""
    return {name: means[0] for name, means in _sampled_means(scenario).items()}


def _sampled_means(scenario: Scenario) -> dict[str, list[float]]:
    """Mean prompt and output of each class."""
    from planner.traffic.requests import for_class_sample

    found = {}
    for name, traffic in scenario.traffic.items():
        frame = for_class_sample(traffic, name=name, seed=LAYOUT_SEED, base_dir=scenario.base_dir)
        found[name] = [int(frame[column].sum()) / max(1, frame.height) for column in ("input_tokens", "output_tokens")]
    return found


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

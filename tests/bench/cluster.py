"""What a Ray cluster costs against threads: overhead on equal cores, scaling, and the driver's time for small cells.

`ray_overhead_2_workers`: wall time on a cluster of two workers over that of two threads, start-up apart (`ratio`).
`ray_scaling_2_workers`: from one worker to two against from one thread to two (`ratio`; 1 is as good as threads).
`ray_driver_s_per_cell`: time of the driver's process for one of 10,000 cells of about 5 ms, planning and reading
included; `ratio` is its wall time over that of threads. `part_bytes`, `pack_s` and `merge_s` are of one such cell.

`python -m tests.bench.cluster [SECONDS]`: how long the workload takes on one core, 120 s by default.
"""

from __future__ import annotations

import dataclasses
import logging
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from planner import core
from planner.fleet import parts
from planner.fleet.draws import DrawnFacts
from planner.fleet.executor import Executor
from planner.fleet.executors import opened
from planner.fleet.layout import lay_out
from planner.fleet.local_executor import LocalExecutor
from planner.fleet.parts import Part
from planner.scenario import Scenario, load
from planner.study.run import mean_lengths
from planner.study.work import Asked, simulate

TEXT = """
schema: 1
title: Bench
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 40 req/s
    input: {dist: lognormal, median: 500 tok, p95: 2 ktok}
    output: {dist: lognormal, median: 100 tok, p95: 400 tok}
fleet:
  pools: {pool: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 2}]}}
run: {length: LENGTH s, seeds: SEEDS}
"""
N_LONG = 60
N_SMALL = 10_000
TIMES = 2


def scenario(length_s: float, seeds: int) -> list[Scenario]:
    """As many seeds, in variants of a thousand at most."""
    each = min(seeds, 1000)
    text = TEXT.replace("LENGTH", f"{length_s:.3f}").replace("SEEDS", str(each))
    return [load("-", stdin_text=text, sets=[f"run.seed={first}"]) for first in range(0, seeds, each)]


def timed(asked: Sequence[Scenario], executor: Executor) -> float:
    """Wall seconds of a run without its summing up."""
    fleet = lay_out(asked[0], mean_lengths(asked[0]))
    begun_s = time.perf_counter()
    simulate([Asked(each, fleet) for each in asked], executor=executor)
    return time.perf_counter() - begun_s


def second_costs(spent_s: float) -> float:
    """Simulated seconds that take a second on one core."""
    length_s = 600.0
    timed(scenario(10.0, 1), LocalExecutor(1))
    took_s = min(timed(scenario(length_s, 1), LocalExecutor(1)) for _ in range(2))
    return length_s / took_s * spent_s


def main(say: Callable[[str, float, str, float], None], total_s: float = 120.0) -> None:
    """Print the figures."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    small = scenario(second_costs(0.005), N_SMALL)
    long = scenario(second_costs(total_s / N_LONG), N_LONG)
    warm = scenario(30.0, 64)
    one_cell(small[0], say)
    short = scenario(second_costs(total_s / N_LONG / 4), N_LONG)
    spent: dict[tuple[str, int, bool], float] = {}

    def by_turns(executor: Executor, n: int, *, is_short: bool) -> None:
        """The least of some times of each outlasts a noisy machine."""
        asked = short if is_short else long
        for _ in range(TIMES):
            for name, each in (("threads", LocalExecutor(n)), ("ray", executor)):
                key = (name, n, is_short)
                spent[key] = min(spent.get(key, float("inf")), timed(asked, each))

    for n in (2, 1):
        begun_s = time.perf_counter()
        with opened(workers=n, ray="new") as executor:
            timed(warm, executor)
            if n == 2:
                say("ray_start", time.perf_counter() - begun_s, "s", 1.0)
                small_ones(small, executor, say)
                by_turns(executor, n, is_short=False)
            by_turns(executor, n, is_short=True)
    ray_s, threads_s = (spent[name, 2, False] for name in ("ray", "threads"))
    say("ray_overhead_2_workers", ray_s - threads_s, "s", ray_s / threads_s)
    ray, threads = (spent[name, 1, True] / spent[name, 2, True] for name in ("ray", "threads"))
    say("ray_scaling_2_workers", ray, "times", ray / threads)


def small_ones(small: Sequence[Scenario], executor: Executor, say: Callable[[str, float, str, float], None]) -> None:
    """The driver's own time for each of many small cells."""
    begun_s = time.process_time()
    wall_s = timed(small, executor)
    own_s = time.process_time() - begun_s
    say("ray_driver_s_per_cell", own_s / N_SMALL, "s", wall_s / timed(small, LocalExecutor(2)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    say("ray_driver_peak_bytes_per_cell", peak / N_SMALL, "B", 1.0)


def one_cell(small: Scenario, say: Callable[[str, float, str, float], None]) -> None:
    """What a part of a small cell weighs, and what packing and merging it costs."""
    one = dataclasses.replace(small, run=small.run.model_copy(update={"seeds": 1}))
    fleet = lay_out(one, mean_lengths(one))
    found: list[core.CellTables] = []
    simulated = core.simulate_cell

    def catching(*given: Any, **options: Any) -> core.CellTables:
        found.append(simulated(*given, **options))
        return found[-1]

    core.simulate_cell = catching
    try:
        simulate([Asked(one, fleet)], executor=LocalExecutor(1))
    finally:
        core.simulate_cell = simulated
    facts = DrawnFacts(0, 0, (), None, (0,), (0,))
    part = Part("", "run", 0, 0, (0,), facts, found[0])
    packed = parts.pack(part)
    say("part_bytes", len(packed), "B", 1.0)
    say("pack_s", each_s(partial(parts.pack, part)), "s", 1.0)
    say("unpack_s", each_s(partial(parts.unpack, packed)), "s", 1.0)
    say("merge_s", each_s(partial(core.merge, found * 8)) / 8, "s", 1.0)
    say("finish_s", each_s(partial(core.finish, found[0])), "s", 1.0)


def each_s(work: Callable[[], Any], n: int = 100) -> float:
    begun_s = time.perf_counter()
    for _ in range(n):
        work()
    return (time.perf_counter() - begun_s) / n


def cli(arguments: Sequence[str]) -> None:
    from tests.bench.__main__ import say

    main(say, *(float(each) for each in arguments))


if __name__ == "__main__":
    cli(sys.argv[1:])

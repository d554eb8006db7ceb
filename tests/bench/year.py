"""A year of hourly demand for five pools, walked over response surfaces that exist."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.fleet.layout import lay_out
from planner.fleet.local_executor import LocalExecutor
from planner.scenario import load
from planner.study import horizon, horizon_tables
from planner.study.run import mean_lengths
from planner.study.work import simulate

TEXT = """
schema: 1
title: Five pools, a year
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 1400 req/s
    shape: m-large
    growth: 30 %/yr
    input:  {dist: lognormal, median: 1200 tok, p95: 8 ktok}
    output: {dist: lognormal, median: 300 tok, p95: 1 ktok}
    slo: interactive
  summaries:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 60 req/s
    shape: m-mid
    input:  {dist: lognormal, median: 6 ktok, p95: 20 ktok}
    output: {dist: lognormal, median: 200 tok, p95: 600 tok}
    slo: batch
  coding:
    model: qwen3-coder-480b-a35b
    arrivals: poisson
    rate: 4 req/s
    shape: m-small
    input:  {dist: lognormal, median: 6 ktok, p95: 30 ktok}
    output: {dist: lognormal, median: 400 tok, p95: 2 ktok}
    slo: batch
slo:
  interactive: {ttft: {p95: 1 s}, tpot: {p95: 40 ms}}
  batch: {ttft: {p95: 5 s}, e2e: {p95: 90 s}}
fleet:
  pools:
    jalapeno: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}
    gb300:
      rack: gb300-nvl72
      count: 1
      deploy: [{model: gpt-oss-120b, chips: 4, per_rack: 6}, {model: qwen3-coder-480b-a35b, chips: 8}]
    gb200: {rack: gb200-nvl72, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}
    b200: {rack: hgx-b200, count: 4, deploy: [{model: gpt-oss-120b, chips: 4}]}
    h200: {rack: hgx-h200, count: 4, deploy: [{model: gpt-oss-120b, chips: 4}]}
site: {name: us-virginia}
run: {length: 10 min, warmup: 1 min, seed: 1, horizon: 1 yr}
"""
LIMIT_S = 10.0
"""What is asked."""

Say = Callable[[str, float, str, float], None]


def main(say: Say) -> None:
    """Print the figures.

    `year_surfaces_s`: sampling the surfaces; `ratio` is its wall time over the time of the process, 0.5 where both
    cores are its own. `year_five_pools_s`: the walk once they are there, its figures and tables included, by the wall,
    and `..._process_s` by the time of the process on all cores; `ratio` is against the 10 s that are asked for.
    """
    scenario = load("-", stdin_text=TEXT)
    fleet = lay_out(scenario, mean_lengths(scenario))
    with TemporaryDirectory() as folder:

        def year() -> tuple[float, float]:
            """Wall seconds and seconds of the process."""
            begun = time.perf_counter(), time.process_time()
            work = partial(simulate, executor=LocalExecutor(2))
            walked = horizon.walk_over(scenario, fleet, work, folder=Path(folder), workers=2)
            tree = horizon.figures(walked)
            tables = horizon_tables.tables_of(walked, "base", scenario.run.seed)
            assert tree["hours"] == 8_760
            assert tree["hours_beyond"] < 100
            assert tables["horizon_pools"]["pool"].n_unique() == 5
            return time.perf_counter() - begun[0], time.process_time() - begun[1]

        first_s, first_process_s = year()
        wall_s, process_s = year()
    say("year_surfaces_s", first_s - wall_s, "s", (first_s - wall_s) / (first_process_s - process_s))
    say("year_five_pools_s", wall_s, "s", wall_s / LIMIT_S)
    say("year_five_pools_process_s", process_s, "s", process_s / LIMIT_S)

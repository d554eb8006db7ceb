"""How fast a purchase is proven, and how fast it is weighed against uncertain facts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.optimize.build import question
from planner.optimize.instance import total
from planner.optimize.linear import Stop
from planner.optimize.program import build
from planner.optimize.search import solve
from planner.optimize.uncertain import Risk, uncertainty
from planner.optimize.verify import Proof, prove
from planner.scenario import load
from planner.study.run import run
from tests.instances import large, scaled

PROOF_S, SAMPLES_S = 60.0, 300.0
"""What is asked: a proof to 0.1 %, and 200 samples."""
SCALES = {60: 728, 200: 2_400}
"""Multiples of the instance's demand and limits, and the racks that serve it."""
N_SAMPLES = 200
SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "12-growth.yaml"

Say = Callable[[str, float, str, float], None]


def main(say: Say) -> None:
    """Print the figures.

    `optimize_proof_s_*`: 6 kinds of racks at 2 sites, 12 class-tiers, 8 periods, until nothing can be 0.1 % better;
    `ratio` is the time against the 60 s that are asked for. `optimize_gap_*`: the gap that was proven, against 0.1 %.
    `optimize_build_s`: rows and columns; `ratio` is their share of the time of the faster proof. `optimize_samples_s`:
    200 samples of uncertain facts against scenario 12, two-stage; `ratio` against 300 s.
    """
    for factor, racks in SCALES.items():
        instance = scaled(large(), factor)
        start_s = time.perf_counter()
        found = solve(instance, Stop(1e-3))
        spent_s = time.perf_counter() - start_s
        assert found.decision is not None
        cost = total(instance, found.decision)
        gap_frac = (cost - found.bound) / cost
        say(f"optimize_proof_s_{racks}_racks", spent_s, "s", spent_s / PROOF_S)
        say(f"optimize_gap_{racks}_racks", gap_frac * 100, "%", gap_frac / 1e-3)
    start_s = time.perf_counter()
    build(instance)
    built_s = time.perf_counter() - start_s
    say("optimize_build_s", built_s, "s", built_s / spent_s)
    samples(say)


def samples(say: Say) -> None:
    """The two-stage line."""
    with TemporaryDirectory() as folder:
        asked = question(load(SCENARIO), folder=Path(folder))
        proved = prove(asked, Proof(asked, run), Stop(), rounds=6, tries=0)
        start_s = time.perf_counter()
        uncertainty(asked, proved, Stop(), n=N_SAMPLES, risk=Risk(0.1))
        spent_s = time.perf_counter() - start_s
    say("optimize_samples_s", spent_s, "s", spent_s / SAMPLES_S)

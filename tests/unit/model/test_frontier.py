"""Frontiers: nothing on a curve is beaten, better hardware moves it outward, nothing lies beyond its ends."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from planner.facts import catalog
from planner.model import systems
from planner.model.calibration import shipped
from planner.model.figures import Curve, benchmarked, curve, figures
from planner.model.sweep import Lengths, System, pool, sweep

LENGTHS = Lengths(8192, 1024, 0.8)


@pytest.fixture(scope="module")
def h200() -> System:
    facts = catalog.load()
    held = pool(facts.chip("h200-sxm"), facts.model("gpt-oss-120b"), precision="fp4")
    return systems.pooled(held, shipped())


def test_lengths_are_even_between_their_ends() -> None:
    # 8192 x 0.9 and 1024 x 0.9; 8294.4 / 921.6 = 9 tokens for each output token.
    assert (LENGTHS.mean_input, LENGTHS.mean_output, LENGTHS.mixed_per_output) == (7372.8, 921.6, 9.0)


def test_every_point_keeps_the_identities_of_a_closed_loop(h200: System) -> None:
    points = sweep(h200, LENGTHS)
    assert set(points["mode"]) == {"agg", "disagg"}
    assert set(points["regime"]) == {"closed_loop", "saturated"}
    for row in points.iter_rows(named=True):
        assert row["e2e_s"] == pytest.approx(row["ttft_s"] + (921.6 - 1) * row["tbt_s"])
        made = row["tok_s_chip"] * row["chips"] * row["e2e_s"] / 921.6
        assert made <= row["concurrency"] * (1 + 1e-9), "no more requests in flight than clients"
        assert row["chips"] == (
            row["tp"] * row["dp"] * row["decode_workers"]
            + row["prefill_tp"] * row["prefill_dp"] * row["prefill_workers"]
        )
        assert row["tp"] * row["dp"] <= 8, "a replica stays inside its domain"


def test_a_curve_is_what_nothing_beats(h200: System) -> None:
    points = benchmarked(sweep(h200, LENGTHS))
    found = curve(points, 9.0)
    assert list(found.tbt_s) == sorted(found.tbt_s)
    assert list(found.mixed_tok_s_chip) == sorted(found.mixed_tok_s_chip)
    for tbt, rate in zip(found.tbt_s, found.mixed_tok_s_chip, strict=True):
        beating = points.filter((pl.col("tbt_s") <= tbt) & (pl.col("tok_s_chip") * 9.0 > rate * (1 + 1e-12)))
        assert beating.is_empty()


@pytest.mark.parametrize("field", ["memory_bytes_per_s", "scale_up_bytes_per_s"])
def test_more_bandwidth_moves_the_frontier_outward(h200: System, field: str) -> None:
    spec = h200.pool.spec
    base_system = replace(h200, modes=("agg",))
    better = replace(h200.pool, spec={**spec, "chip": {**spec["chip"], field: 1.5 * spec["chip"][field]}})
    base = curve(sweep(base_system, LENGTHS, regimes=("closed_loop",)), 9.0)
    moved = curve(sweep(replace(base_system, pool=better), LENGTHS, regimes=("closed_loop",)), 9.0)
    for tbt, rate in zip(base.tbt_s, base.mixed_tok_s_chip, strict=True):
        reached = moved.at(tbt)
        assert reached is not None
        assert reached >= rate * (1 - 1e-9)


def test_a_curve_rises_between_its_points_and_ends_at_them() -> None:
    line = Curve((1.0, 4.0), (10.0, 1000.0))
    assert line.at(0.99) is None
    assert line.at(1.0) == 10.0
    assert line.at(2.0) == pytest.approx(100.0)  # half-way in logarithms
    assert line.at(4.0) == line.at(9.0) == 1000.0
    steps = [line.at(1.0 + 0.1 * i) or 0.0 for i in range(31)]
    assert steps == sorted(steps)


def test_best_launches_are_faster_than_the_pooled_ones_at_low_load() -> None:
    facts, calibration = catalog.load(), shipped()
    held = pool(facts.chip("gb200"), facts.model("gpt-oss-120b"), precision="fp4")
    pooled = figures(sweep(systems.pooled(held, calibration), LENGTHS), 9.0)
    best = [figures(sweep(one, LENGTHS), 9.0) for one in systems.measured(held, calibration, "fp4")]
    assert pooled is not None
    assert best
    assert min(one.min_tbt_s for one in best if one is not None) < pooled.min_tbt_s


def test_a_vendor_that_was_never_measured_has_no_measured_stack() -> None:
    facts = catalog.load()
    held = pool(facts.chip("mi355x"), facts.model("gpt-oss-120b"), precision="fp4")
    assert [one.stack for one in systems.of(held, "fp4", {}, shipped())] == ["pooled"]


def test_a_model_that_fits_nowhere_has_no_points() -> None:
    facts = catalog.load()
    held = pool(facts.chip("rtx-4090"), facts.model("deepseek-r1"), precision="fp8")
    points = sweep(systems.pooled(held, shipped()), LENGTHS)
    assert points.is_empty()
    assert figures(points, 9.0) is None


def test_prompts_may_run_on_another_chip() -> None:
    facts, calibration = catalog.load(), shipped()
    mine = systems.pooled(pool(facts.chip("gb200"), facts.model("gpt-oss-120b"), precision="fp4"), calibration)
    slow = systems.pooled(pool(facts.chip("h100-sxm"), facts.model("gpt-oss-120b"), precision="fp4"), calibration)
    lone = {"clients": (1,), "ratios": ((1, 1),)}
    points = sweep(systems.with_prompts_on(mine, slow), LENGTHS, **lone)  # type: ignore[arg-type]
    alike = sweep(replace(mine, modes=("disagg",)), LENGTHS, **lone)  # type: ignore[arg-type]
    assert set(points["prefill_chip"]) == {"h100-sxm"}
    assert points["tbt_s"].min() == alike["tbt_s"].min(), "decode chips are the same"
    assert float(str(points["ttft_s"].min())) > float(str(alike["ttft_s"].min()))

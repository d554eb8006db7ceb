"""How far off the model may be for a deployment, in points' terms and in a run's."""

from __future__ import annotations

import pytest

from planner.facts import catalog
from planner.model import calibration, posterior, trust

ROW = {"model": "gpt-oss-120b", "precision": "fp4", "mode": "agg", "concurrency": 8.0}


def test_a_measured_deployment_has_the_band_of_its_points() -> None:
    row = {**ROW, "chip": "b200-sxm", "backend": "vllm"}
    found = trust.of(catalog.load().chip("b200-sxm"), row)
    assert found.tpot == pytest.approx(calibration.shipped().band(row, "tpot"), abs=1e-4)
    assert found.ttft == pytest.approx(calibration.shipped().band(row, "ttft"), abs=1e-4)
    assert found.grade == "estimate"


def test_a_chip_that_was_never_measured_has_a_wider_one() -> None:
    near = trust.of(catalog.load().chip("b200-sxm"), {**ROW, "chip": "b200-sxm", "backend": "vllm"})
    far = trust.of(catalog.load().chip("b300-sxm"), {**ROW, "chip": "b300-sxm", "backend": "vllm"})
    assert far.tpot[0] < near.tpot[0] < 1 < near.tpot[1] < far.tpot[1]
    assert far.grade == "assumed"


def test_the_inferred_chip_has_the_posterior_s() -> None:
    chip = catalog.load().chip("jalapeno")
    row = {**ROW, "chip": "jalapeno", "backend": chip.engine}
    lone, busy = trust.of(chip, {**row, "concurrency": 1.0}), trust.of(chip, {**row, "concurrency": 500.0})
    best, ends = (
        posterior.shipped().best.figures["gpt-oss-120b/min_tbt"],
        posterior.shipped().band("gpt-oss-120b/min_tbt"),
    )
    assert lone.tpot == pytest.approx([min(ends[0] / best, 1.0), max(ends[1] / best, 1.0)], abs=1e-4)
    assert busy.tpot[0] <= lone.tpot[0]
    assert busy.tpot[1] >= lone.tpot[1]
    # Another model has the widest of those with figures; another engine is not the inferred one.
    assert trust.of(chip, {**row, "model": "llama-3.1-8b"}).tpot[1] >= lone.tpot[1]
    other = {**row, "backend": "vllm"}
    assert trust.of(chip, other).tpot == pytest.approx(calibration.shipped().band(other, "tpot"), abs=1e-4)

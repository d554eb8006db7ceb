"""Bands from residuals on folds: regimes, what is new, and how wide that makes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from planner.model import bands
from planner.model.folds import folds

CHIPS = ("a", "b", "c", "d", "e")
N = 3000


def _rows() -> list[dict[str, Any]]:
    """Thirty deployments on five chips, each at loads of all three ranges; those of `e` have stacks of their own."""
    return [
        {
            "deployment": f"d{i % 30}",
            "chip": CHIPS[i % 5],
            "model": ("m", "n", "o")[i % 3],
            "backend": "vllm",
            "precision": f"p{i % 30}" if i % 5 == 4 else "fp8",
            "mode": "agg",
            "concurrency": (4.0, 64.0, 512.0)[(i // 30) % 3],
        }
        for i in range(N)
    ]


def _residuals(rows: list[dict[str, Any]], by_chip: float) -> dict[tuple[str, str], np.ndarray]:
    """Uniform over 0.1 either side where a deployment is new; on a chip that is new each is off as a whole as well."""
    rng = np.random.default_rng(1)
    own = rng.uniform(-0.1, 0.1, len(rows))
    whole = np.array([by_chip * (CHIPS.index(row["chip"]) - 2) for row in rows])
    return {
        (kind, metric): own + (whole if kind != "deployment" else 0.0)
        for kind in ("deployment", "chip", "model")
        for metric in ("tpot", "ttft")
    }


def _extras(rows: list[dict[str, Any]], residuals: dict[tuple[str, str], np.ndarray]) -> dict[str, float]:
    return {one["new"]: one["extra"] for one in bands.extras(rows, residuals, folds(rows), ("tpot",))}


def test_a_regime_has_the_quantiles_of_new_deployments() -> None:
    rows = _rows()
    found = bands.regimes(rows, _residuals(rows, 0.0), folds(rows))
    assert len(found) == 2 * 2 * len(bands.RANGES)
    for one in found:
        # The middle 76 and 78 % of a uniform range of 0.1 either side.
        side = 0.1 * bands.SHARE[one["metric"]]
        assert math.log(one["low"]) == pytest.approx(-side, abs=0.012), one
        assert math.log(one["high"]) == pytest.approx(side, abs=0.012), one
    # Nothing is off as a whole, so that nothing new makes a band wider.
    assert all(extra < 0.03 for extra in _extras(rows, _residuals(rows, 0.0)).values())


def test_chips_that_are_off_as_a_whole_make_a_new_chip_s_band_wider() -> None:
    rows = _rows()
    residuals = _residuals(rows, 0.1)
    extra = _extras(rows, residuals)
    # Chips are off by 0.2, 0.1, 0, 0.1 and 0.2: most of their rows need a band that reaches to 0.2 or some more.
    assert extra["deployment"] == 0.0
    assert 0.15 < extra["chip"] < 0.3
    inside = {(one["new"], one["fold"]): one["in_band_frac"] for one in bands.coverage(rows, residuals, folds(rows))}
    assert inside["deployment", "all"] == pytest.approx(bands.SHARE["ttft"], abs=0.03)
    assert inside["chip", "c"] == 1.0
    assert inside["chip", "all"] > 0.7


def test_a_chip_that_is_off_most_is_not_in_its_own_band() -> None:
    rows = _rows()
    residuals = _residuals(rows, 0.0)
    last = np.array([row["chip"] == "e" for row in rows])
    residuals["chip", "tpot"][last] += 0.5
    inside = {(one["metric"], one["fold"]): one["in_band_frac"] for one in bands.coverage(rows, residuals, folds(rows))}
    assert inside["tpot", "e"] == 0.0
    assert inside["ttft", "e"] > 0.7


def test_what_is_new_of_a_row_that_a_fold_left_out() -> None:
    rows = _rows()
    new = bands.novelty(rows, folds(rows))
    assert set(new["chip"]) == {bands.NEW.index("chip")}
    assert set(new["model"]) == {bands.NEW.index("model")}
    for row, which in zip(rows, new["deployment"], strict=True):
        # The precisions of chip e are those of one deployment each.
        assert bands.NEW[which] == ("stack" if row["chip"] == "e" else "deployment")


def test_a_novelty_without_residuals_takes_the_one_before() -> None:
    rows = [{**row, "precision": "fp8"} for row in _rows()]
    extra = _extras(rows, _residuals(rows, 0.1))
    assert extra["stack"] == extra["deployment"] == 0.0


def test_residuals_of_folds_are_kept_by_regime() -> None:
    rows = _rows()
    residuals = _residuals(rows, 0.1)
    residuals["chip", "tpot"][:] = np.arange(N) / N
    found = [one for one in bands.left_out(rows, residuals, ("tpot",)) if (one["new"], one["mode"]) == ("chip", "agg")]
    assert [one["n"] for one in found] == [1020, 990, 990]
    # Each regime has a third of the rows, spread evenly over 0 to 1.
    for one in found:
        assert math.log(one["low"]) == pytest.approx(0.1, abs=0.02)
        assert math.log(one["high"]) == pytest.approx(0.9, abs=0.02)
    # No row is of two pools: they have those of all.
    split = [
        one for one in bands.left_out(rows, residuals, ("tpot",)) if (one["new"], one["mode"]) == ("chip", "disagg")
    ]
    assert {one["n"] for one in split} == {N}

"""The headline table: every published figure once, with a band; ratios are of its own sides."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from planner.facts import catalog
from planner.model.calibration import shipped
from planner.model.headline import table
from planner.model.posterior import shipped as inferred

KEYS = ["id", "side", "metric", "unit", "published", "model", "residual_frac", "low", "high", "in_band"]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return table(shipped(), inferred())


def test_there_are_twenty_figures_and_three_ratios(rows: list[dict[str, Any]]) -> None:
    assert Counter(row["side"] for row in rows) == {"jalapeno": 10, "reference": 10, "ratio": 3}
    assert len({(row["id"], row["side"]) for row in rows}) == 23
    for row in rows:
        assert list(row) == KEYS
        assert all(math.isfinite(row[name]) and row[name] > 0 for name in ("published", "model", "low", "high"))
        assert row["low"] <= row["model"] <= row["high"]
        assert row["residual_frac"] == pytest.approx(row["model"] / row["published"] - 1)
        assert row["in_band"] == (row["low"] <= row["published"] <= row["high"])


def test_published_figures_are_the_facts(rows: list[dict[str, Any]]) -> None:
    by_key = {(row["id"], row["side"]): row["published"] for row in rows}
    assert by_key["gptoss-tbt", "jalapeno"] == pytest.approx(0.69e-3)
    assert by_key["r1-iso", "reference"] == 118
    assert by_key["r1-iso", "ratio"] == pytest.approx(12258 / 118, rel=1e-4)
    assert by_key["kimi-iso", "ratio"] == 56.1
    targets = catalog.load().headline("jalapeno").targets
    assert len(by_key) == sum(
        (t.value is not None) + (t.reference_value is not None) + (t.at_tbt_s is not None) for t in targets
    )


def test_the_fitted_side_is_near(rows: list[dict[str, Any]]) -> None:
    fitted = [
        row for row in rows if row["side"] == "jalapeno" and row["metric"] != "mixed_tps_per_kw_at_reference_min_tbt"
    ]
    off = [abs(math.log(row["model"] / row["published"])) for row in fitted]
    assert len(off) == 9
    assert sorted(off)[4] < 0.12
    assert all(row["in_band"] for row in fitted)

"""The field cases and the real traces beside the project: every figure as expected, whichever way it is asked for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from planner.traffic.inspect import inspect
from planner.traffic.trace import read
from planner.traffic.transform import faster, idle_cap

# Keys of expected.json that are prose, arithmetic on other things, or checked by a test of their own.
NOT_FIGURES = {"wrong_if", "note", "columns", "derivation", "gamma_check", "simulate", "tolerance_s"}
ELSEWHERE = {"with_speedup_10_and_idle_cap_60_s", "usd_at_1_25_per_mtok_in_0_125_cached_10_out"}


def near(found: Any, wanted: Any, tolerance: float) -> bool:
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(near(f, w, tolerance) for f, w in zip(found, wanted, strict=True))
    if isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=tolerance)
    return bool(found == wanted)


def cases(shared: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((shared / "traces/ugly/expected.json").read_text())["files"]
    return found


def test_ugly_files_give_what_is_expected_of_them(shared: Path) -> None:
    wrong = []
    for name, expected in cases(shared).items():
        trace = read(shared / "traces/ugly" / name)
        figures = inspect(trace)
        if not expected.get("aggregate"):
            assert figures["rows_read"] == figures["n_requests"] + sum(figures["rejected"].values())
        tolerance = expected.get("tolerance_s", 1e-6)
        for key in expected.keys() - NOT_FIGURES - ELSEWHERE:
            if not near(figures.get(key), expected[key], tolerance):
                wrong.append((name, key, figures.get(key), expected[key]))
        assert figures["warnings"] == expected.get("warnings", []), name
    assert wrong == []


def test_the_gap_is_cut_only_when_asked_and_on_the_faster_clock(shared: Path) -> None:
    expected = cases(shared)["c09_huge_gap.csv"]["with_speedup_10_and_idle_cap_60_s"]
    requests = read(shared / "traces/ugly/c09_huge_gap.csv").requests
    changed = idle_cap(faster(requests, 10.0), 60 * 10**9)
    assert changed["arrival_ns"][-1] / 1e9 == expected["duration_s"]


def test_cached_tokens_are_paid_once(shared: Path) -> None:
    expected = cases(shared)["c13_cached_subset.csv"]
    figures = inspect(read(shared / "traces/ugly/c13_cached_subset.csv"))
    micro_usd = (
        figures["sum_uncached_input_tokens"] * 1.25
        + figures["sum_cached_input_tokens"] * 0.125
        + figures["sum_output_tokens"] * 10
    )
    assert micro_usd / 1e6 == pytest.approx(expected["usd_at_1_25_per_mtok_in_0_125_cached_10_out"], rel=1e-12)


def test_real_traces_have_their_golden_figures(shared: Path) -> None:
    golden = json.loads((shared / "traces/golden.json").read_text())
    for name, expected in golden.items():
        trace = read(shared / "traces" / name)
        figures = inspect(trace)
        assert (trace.rows_read, trace.rejected, trace.warnings) == (expected["rows"], {}, ()), name
        assert figures["sum_input_tokens"] == expected["input_tokens"]
        assert figures["sum_output_tokens"] == expected["output_tokens"]
        assert figures["duration_s"] == expected["duration_s"]
        for side in ("input", "output"):
            assert (figures[side]["min"], figures[side]["max"]) == (expected[f"{side}_min"], expected[f"{side}_max"])
            for quantile, value in expected[side].items():
                assert figures[side][quantile] == pytest.approx(value, rel=1e-12), (name, side, quantile)
        for key in (
            "mean_rate_req_per_s",
            "gap_cv",
            "prefix_hit_tokens_infinite_cache",
            "prefix_hit_frac_infinite_cache",
        ):
            if key in expected:
                assert figures[key] == pytest.approx(expected[key], rel=1e-12), (name, key)

"""The shipped calibration: bands by what is new, corrections, ranges; and the checks of tables against it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from planner.errors import FactError
from planner.facts import catalog
from planner.model import accuracy, bands, validate
from planner.model.calibrate import calibrate, usable
from planner.model.calibration import load, shipped
from planner.model.coefficients import COEFFICIENTS, ENGINES
from planner.model.engine_facts import engine_files
from planner.model.points import place, pooled_engines, read_points

ROW = {
    "point": "p",
    "deployment": "d",
    "model": "llama-3.1-70b",
    "chip": "h200-sxm",
    "backend": "vllm",
    "precision": "fp8",
    "mode": "agg",
    "harness": "inferencex",
    "clean": True,
    "isl_mean": 921.6,
    "osl_mean": 921.6,
    "concurrency": 16.0,
    "chips": 4.0,
    "attention_dp": 1.0,
    "prefill_workers": None,
    "prefill_chips": None,
    "prefill_attention_dp": None,
    "decode_workers": None,
    "decode_chips": None,
    "decode_attention_dp": None,
    "ttft_ms": 200.0,
    "tpot_ms": 12.0,
}


def test_coefficients_are_inside_their_ranges() -> None:
    by_name = {c.name: c for c in COEFFICIENTS}
    for one in shipped().tree["coefficients"]:
        coefficient = by_name[one["name"]]
        assert coefficient.low <= one["value"] <= coefficient.high, one
        assert one["low"] <= one["value"] <= one["high"], one
    assert set(ENGINES) | {"generic"} == set(shipped().engines)


def test_engine_files_are_those_of_the_calibration() -> None:
    for name, text in engine_files(shipped().tree).items():
        assert (catalog.DATA / "engines" / f"{name}.yaml").read_text(encoding="utf-8") == text, name
    # Facts keep four digits of the coefficients.
    for name, fields in shipped().engines.items():
        engine = catalog.load().engine(name)
        for field in ("memory_eff_frac", "launch_layer_s", "launch_fp4_frac", "host_sequence_s"):
            assert getattr(engine, field).number == pytest.approx(fields[field], rel=1e-3), (name, field)


def test_bands_hold_what_their_folds_left_out() -> None:
    inside = {(one["metric"], one["new"], one["fold"]): one["in_band_frac"] for one in shipped().tree["coverage"]}
    for metric in ("tpot", "ttft"):
        for new in bands.NEW:
            assert 0.75 <= inside[metric, new, "all"] <= 0.85, (metric, new)


def test_every_row_has_a_number_inside_its_band() -> None:
    found = shipped().predict(place([ROW, {**ROW, "model": "kimi-k2.5", "chip": "b300-sxm", "chips": 8.0}]))
    for metric in ("ttft", "tpot"):
        low, middle, high = (found.values[f"{metric}{part}_s"] for part in ("_low", "", "_high"))
        assert np.all((low < middle) & (middle < high)), metric
    assert found.grades == ["estimate", "assumed"]


def test_what_is_new_widens_the_band() -> None:
    calibration = shipped()

    def width(**new: object) -> float:
        low, high = calibration.band({**ROW, **new}, "tpot")
        return math.log(high / low)

    assert width() < width(chip="gb300") < width(chip="b300-sxm") < width(chip="b300-sxm", model="minimax-m2.5")
    assert width() < width(model="minimax-m2.5") == width(backend="other")
    assert calibration.what_is_new({**ROW, "backend": "other"}) == ("engine",)
    # Llama-3.1-70B was measured under vLLM, and vLLM on GB200, but not the one on the other.
    assert calibration.what_is_new(ROW) == ("deployment",)
    assert calibration.what_is_new({**ROW, "chip": "gb200"}) == ("stack",)
    assert [calibration.grade({**ROW, **new}) for new in ({}, {"chip": "gb200"}, {"chip": "b300-sxm"})] == [
        "estimate",
        "estimate",
        "assumed",
    ]


def test_an_unknown_engine_takes_the_mean_of_those_measured() -> None:
    """As `generic`, and with the band of an engine that was not measured: wider than that of one that was."""
    points = place([{**ROW, "backend": "generic"}, {**ROW, "backend": "lmdeploy"}, ROW])
    found = shipped().predict(points)
    assert found.reasons == ["", "", ""]
    assert found.grades == ["assumed", "assumed", "estimate"]
    for metric in ("ttft", "tpot"):
        low, middle, high = (found.values[f"{metric}{part}_s"] for part in ("_low", "", "_high"))
        assert [values[0] for values in (low, middle, high)] == [values[1] for values in (low, middle, high)]
        assert np.all((low < middle) & (middle < high))
        assert high[1] / low[1] > high[2] / low[2]
    assert [notice.code for notice in pooled_engines(points)] == ["pooled_engine"]
    assert pooled_engines(points)[0].message.startswith("1 row with engine 'lmdeploy': pooled figures")


def test_errors_of_a_table() -> None:
    points = place(
        [ROW, {**ROW, "concurrency": 64.0, "tpot_ms": None}, {**ROW, "chips": 3.0}, {**ROW, "osl_mean": 1.0}]
    )
    check = validate.check_points(points, shipped())
    result = check.result
    assert (result["rows"], result["predicted"], result["infeasible"]) == (4, 3, 1)
    # A TPOT at one output token does not exist: one row is left.
    assert result["tpot"]["n"] == 1
    assert result["ttft"]["n"] == 3
    assert result["tpot"]["spearman"] is None
    assert check.table["infeasible_reason"][2].startswith("heads: tp 3")
    assert check.table["tpot_s"].null_count() == 1
    assert check.table["point"].to_list() == ["p"] * 4


def test_rank_correlation_with_ties() -> None:
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 x 5).
    found = accuracy.spearman(np.array([1.0, 2.0, 2.0, 9.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert found == pytest.approx(4.5 / math.sqrt(22.5))
    assert accuracy.spearman(np.ones(5), np.arange(5.0)) is None


def test_rows_that_a_fit_does_not_use_are_counted_by_rule() -> None:
    rows = [ROW, {**ROW, "point": "q"}, {**ROW, "clean": False, "tpot_ms": 9.0}, {**ROW, "chip": "?"}]
    rows += [{**ROW, "ttft_ms": None, "tpot_ms": None}, {**ROW, "osl_mean": 1.0}]
    used = usable(place(rows))
    assert used.left_out == {"doubtful": 1, "duplicate": 1, "unplaced": 1, "unmeasured": 1}
    assert used.notes == {"one_token": 1}
    assert [row["tpot_ms"] for row in used.points.rows] == [12.0, None]


def test_too_few_points_and_times_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    names = [name for name in ROW if ROW[name] is not None]
    path.write_text(",".join(names) + "\n" + ",".join(str(ROW[name]) for name in names) + "\n", encoding="utf-8")
    assert read_points(path).group_ix == [0]
    with pytest.raises(FactError, match="1 usable points; a fit needs 50"):
        calibrate(path, date="2026-01-01")
    path.write_text(path.read_text(encoding="utf-8").replace("12.0", "-1"), encoding="utf-8")
    with pytest.raises(FactError, match="tpot_ms -1 is not a time"):
        calibrate(path, date="2026-01-01")


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("schema: engines/1\n", encoding="utf-8")
    with pytest.raises(FactError, match="is not a calibration"):
        load(path)
    with pytest.raises(FactError, match="cannot read the calibration"):
        load(tmp_path / "none.yaml")


def test_measured_points_as_the_file_says(shared: Path) -> None:
    """In-sample, so better than what folds left out; the law is the coverage and the speed of the road."""
    check = validate.check_points(read_points(shared / "data/measured/points.csv"), shipped())
    clean = next(one for one in check.result["by"] if (one["by"], one["value"]) == ("clean", "true"))
    assert clean["tpot"]["n"] == clean["rows"] == 1992
    assert clean["tpot"]["median_ape"] < 0.05
    assert clean["ttft"]["median_ape"] < 0.13
    assert clean["tpot"]["in_band_frac"] > 0.8

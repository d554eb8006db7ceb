"""Power and energy of measured servers: rows to points, draws, bands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.errors import FactError
from planner.facts import catalog
from planner.model import validate
from planner.model.calibration import shipped
from planner.model.energy import draws_of, read_energy
from planner.model.spec import deployment_spec

HEAD = (
    "task,model,precision,chip,chips,tp,dp,ep,max_num_seqs,avg_batch,avg_output_tokens,output_tokens_per_s,"
    "itl_p50_ms,power_w,j_per_output_token\n"
)
ROW = "lm-arena-chat,Qwen/Qwen3-14B,bfloat16,h100-sxm,1,1,1,1,{b},{avg},600,1168,13.3,465,0.398\n"


def table(tmp_path: Path, *rows: str, head: str = HEAD):
    path = tmp_path / "energy.csv"
    path.write_text(head + "".join(rows), encoding="utf-8")
    return read_energy(path)


def test_the_cap_is_the_batch_where_no_mean_is_given(tmp_path: Path) -> None:
    points = table(tmp_path, ROW.format(b=16, avg=15.9), ROW.format(b=16, avg=""))
    assert points.column("concurrency") == [15.9, 16.0]
    assert points.column("model") == ["qwen3-14b"] * 2
    assert points.refusals == ["", ""]


def test_more_sequences_never_draw_less_and_cost_less_a_token(tmp_path: Path) -> None:
    points = table(tmp_path, *(ROW.format(b=b, avg="") for b in (4, 16, 64)))
    calibration = shipped()
    values, _ = calibration.energy().predict(points, calibration.engines, calibration.habits)
    assert np.all(np.diff(values["chip_w"]) > 0)
    assert np.all(np.diff(values["j_per_output_token"]) < 0)
    assert np.all(np.diff(values["itl_p50_s"]) > 0)


def test_an_unmeasured_chip_has_its_facts_and_a_wider_band(tmp_path: Path) -> None:
    points = table(tmp_path, ROW.format(b=16, avg=""), ROW.format(b=16, avg="").replace("h100", "h200"))
    calibration = shipped()
    check = validate.check_energy(points, calibration)
    assert check.table["grade"].to_list() == ["estimate", "assumed"]
    near, far = (calibration.energy_band(row, "chip_w") for row in points.rows)
    assert far == pytest.approx((near[0] ** 2, near[1] ** 2))
    assert check.result["chip_w"]["n"] == 2
    assert {"chip_low_w", "chip_high_w", "itl_p50_low_s"} <= set(check.table.columns)


def test_missing_columns_and_words_for_numbers(tmp_path: Path) -> None:
    with pytest.raises(FactError, match="no column 'task'"):
        table(tmp_path, head=HEAD.replace("task,", "tsk,"))
    with pytest.raises(FactError, match=r"energy.csv:2: max_num_seqs: 'lots' is not a number"):
        table(tmp_path, ROW.format(b="lots", avg=""))


@pytest.mark.parametrize("name", ["h100-sxm", "b200-sxm"])
def test_a_measured_chip_draws_in_a_run_what_was_measured(name: str) -> None:
    """The chip's facts are the fit without corrections that the calibration holds, to their three digits and what a
    later fit of the serving engines moves.
    """
    chip = catalog.load().chip(name)
    measured = shipped().tree["energy"]["chips"][name]
    facts = {"active_w": chip.active_w, "low_load_w": chip.low_load_w, "high_load_w": chip.high_load_w}
    for draw, fact in {**facts, "max_w": chip.sustained_max_w}.items():
        assert fact is not None
        assert fact.grade == "measured"
        assert fact.number == pytest.approx(measured[draw]["value"], rel=0.03), draw
        assert fact.low is not None
        assert fact.low <= measured[draw]["value"] <= (fact.high or 0)
    spec, _, _ = deployment_spec(
        chip,
        catalog.load().model("llama-3.1-8b"),
        engine=catalog.load().engine("vllm"),
        serving=catalog.load().serving(),
        tp=1,
    )
    assert spec["chip"]["active_w"] == chip.active_w.number  # type: ignore[union-attr]


def test_draws_left_out_are_within_what_is_asked() -> None:
    """Of folds that left deployments or models out: 9 % of the draw and 15 % of the energy of a token in the median."""
    asked = {"chip_w": 0.09, "j_per_output_token": 0.15}
    for one in shipped().tree["energy"]["errors"]:
        assert one["median"] <= asked.get(one["metric"], 1.0), one


def test_a_single_chip_with_long_outputs_waits_for_its_host(tmp_path: Path) -> None:
    row = ROW.replace("h100-sxm", "b200-sxm").replace("lm-arena-chat", "{task}")
    points = table(tmp_path, *(row.format(b=8, avg="", task=task) for task in ("lm-arena-chat", "gpqa")))
    calibration = shipped()
    values, _ = calibration.energy().predict(points, calibration.engines, calibration.habits)
    assert values["chip_w"][1] < 0.75 * values["chip_w"][0]


def test_fitted_draws_are_shares_of_the_data_sheet_s_power(tmp_path: Path) -> None:
    """Not of the chip's own limit, which is a fact that such a fit made: the fit gives the same again."""
    points = table(tmp_path, ROW.format(b=16, avg=""))
    points.chips["h100-sxm"]["max_w"] = 1.0
    # Of 700 W: nothing of memory and arithmetic, a quarter in any step, nine tenths at most.
    found = draws_of(points, np.log(np.array([1e-12, 1e-12, 0.25, 0.9])))
    assert found["h100-sxm"]["active_w"] == pytest.approx(175.0)
    assert found["h100-sxm"]["max_w"] == pytest.approx(630.0)

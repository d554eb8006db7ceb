"""Power and energy of measured servers: rows to points, draws, bands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.errors import FactError
from planner.model import validate
from planner.model.calibration import shipped
from planner.model.energy import read_energy

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

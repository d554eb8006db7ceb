"""`planner validate` and `planner calibrate` through the real entry point: text, JSON, files, faults."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.commandline import planner

POINTS = (
    "point,model,chip,backend,precision,mode,isl_mean,osl_mean,concurrency,chips,attention_dp,ttft_ms,tpot_ms\n"
    "a,llama-3.1-70b,h200-sxm,vllm,fp8,agg,921.6,921.6,16,2,1,190,15.7\n"
    "b,llama-9,h200-sxm,vllm,fp8,agg,921.6,921.6,16,2,1,,\n"
)


@pytest.fixture
def points(tmp_path: Path) -> Path:
    path = tmp_path / "points.csv"
    path.write_text(POINTS, encoding="utf-8")
    return path


def test_an_engine_that_is_not_known_has_pooled_figures_and_a_warning(points: Path) -> None:
    points.write_text(POINTS.replace(",vllm,", ",SGLng,"), encoding="utf-8")
    done = planner("validate", "--points", str(points), "--simulate", "--json")
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert (body["result"]["predicted"], body["result"]["simulated"]["simulated"]) == (1, 1)
    (warning,) = body["warnings"]
    assert warning["message"].startswith("1 row with engine 'sglng': pooled figures")
    assert warning["message"].endswith("; did you mean sglang?")
    # Capitals are no other engine.
    points.write_text(POINTS.replace(",vllm,", ",vLLM,"), encoding="utf-8")
    assert json.loads(planner("validate", "--points", str(points), "--json").stdout)["warnings"] == []


def test_every_row_has_a_number_or_a_reason(points: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.parquet"
    done = planner("validate", "--points", str(points), "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert (body["schema"], body["ok"]) == ("planner.validate/1", True)
    result = body["result"]
    assert (result["rows"], result["predicted"], result["infeasible"]) == (2, 1, 1)
    assert set(result["tpot"]) == {"n", "median_ape", "mape", "spearman", "in_band_frac"}
    table = pl.read_parquet(out)
    assert table.columns[:7] == [
        "point", "ttft_s", "ttft_low_s", "ttft_high_s", "tpot_s", "tpot_low_s", "tpot_high_s",
    ]  # fmt: skip
    assert table["point"].to_list() == ["a", "b"]
    assert "llama-9" in table["infeasible_reason"][1]
    low, middle, high = table.select("tpot_low_s", "tpot_s", "tpot_high_s").row(0)
    assert low < middle < high


def test_points_are_simulated_beside_the_steady_state(points: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.parquet"
    done = planner("validate", "--points", str(points), "--simulate", "--sample", "all", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["result"]["simulated"]
    assert (found["rows"], found["simulated"], found["sample"], found["seed"]) == (1, 1, None, 1)
    assert found["requests"] == 160
    assert set(found["ttft"]) == {"simulated", "steady"}
    assert found["tpot"]["simulated"]["n"] == 1
    table = pl.read_parquet(out)
    assert table["simulated_ttft_s"][0] > 0
    assert table["simulated_ttft_s"][1] is None
    text = planner("validate", "--points", str(points), "--simulate").stdout
    assert "1 of 1 run in closed loop (a sample of clean points, seed 1), 160 requests" in text
    assert "belong to --points" in planner("validate", "--simulate").stderr
    assert "belong to --simulate" in planner("validate", "--points", str(points), "--seed", "2").stderr
    assert "or 'all'" in planner("validate", "--points", str(points), "--simulate", "--sample", "0").stderr


def test_wrong_use_and_wrong_files(points: Path, tmp_path: Path) -> None:
    both = planner("validate", "--points", str(points), "--energy", str(points))
    assert (both.returncode, both.stdout) == (2, "")
    assert "one table at a time" in both.stderr
    assert planner("validate", "--out", str(tmp_path / "x.parquet")).returncode == 2
    none = planner("validate", "--points", str(tmp_path / "none.csv"))
    assert (none.returncode, none.stdout) == (2, "")
    few = planner("calibrate", str(points), "-o", str(tmp_path / "c.yaml"))
    assert few.returncode == 2
    assert "a fit needs 50" in few.stderr
    assert not (tmp_path / "c.yaml").exists()

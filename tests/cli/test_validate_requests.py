"""`planner validate --requests`, from the files to the answer and the figure."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.commandline import answer, planner


def files(folder: Path) -> list[str]:
    rows = "\n".join(f"{at},{at}.0,{at}.0,{at}.2,{at}.9,{100 + at},20" for at in range(6))
    (folder / "rtx4090-run.csv").write_text(
        f"request_id,queued_s,scheduled_s,first_token_s,last_token_s,input_tokens,output_tokens\n{rows}\n"
    )
    kwargs = {"model": "meta-llama/Llama-3.1-8B", "max_num_seqs": 8, "max_num_batched_tokens": 2048}
    (folder / "meta.json").write_text(json.dumps({"engine_kwargs": kwargs}))
    return ["validate", "--requests", str(folder / "rtx4090-run.csv"), "--meta", str(folder / "meta.json")]


def test_a_run_is_replayed(tmp_path: Path) -> None:
    call = files(tmp_path)
    figure = str(tmp_path / "run.svg")
    result = answer(planner(*call, "--fit-first", "4", "--figure", figure, "--json"))["result"]
    assert set(result["error_frac"]) == {"ttft_s", "tpot_s", "e2e_s"}
    assert set(result["error_frac"]["e2e_s"]) == {"mean", "p50", "p90", "p95", "p99"}
    assert len(result["per_request"]) == 6
    assert result["timeseries"][0]["t_s"] == 1
    assert result["fitted"]["host_s"] > 0
    assert ET.parse(tmp_path / "run.svg").getroot().tag.endswith("svg")
    plain = planner(*call, "--out", str(tmp_path / "run.parquet"))
    assert "6 requests on rtx-4090, unfitted" in plain.stdout
    assert "80 % band of the model (new: chip; steps " in plain.stdout
    assert result["band"] is None, "a fit has taken its place"
    unfitted = answer(planner(*call, "--json"))["result"]["band"]
    assert set(unfitted["is_inside"]["e2e_s"]) == {"mean", "p50", "p90", "p95", "p99"}
    assert unfitted["factors"]["tpot"][0] < 1 < unfitted["factors"]["tpot"][1]
    assert (tmp_path / "run.parquet").exists()


def test_options_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    call = files(tmp_path)
    assert "needs --meta" in planner(*call[:3]).stderr
    assert "belong to --requests" in planner("validate", "--fit-first", "4").stderr
    assert "one table at a time" in planner(*call, "--points", "x.csv").stderr

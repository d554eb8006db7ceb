"""Points in closed loop: which rows, what they run, and what a client sees of a first token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.model.calibration import Calibration, shipped
from planner.model.closed_loop import Lengths, Loop, run
from planner.model.points import place, read_points
from planner.model.simulated import Simulated, first_token_s, loop, sample, simulate_points
from planner.model.simulated_check import check_simulated
from tests.deployments import toy
from tests.unit.model.test_calibration import ROW

SPLIT = {
    **ROW,
    "point": "split",
    "mode": "disagg",
    "prefill_chips": 2.0,
    "prefill_attention_dp": 1.0,
    "decode_chips": 4.0,
    "decode_attention_dp": 1.0,
    "prefill_workers": 3.0,
    "decode_workers": 2.0,
}


def test_lone_clients_come_one_after_the_other() -> None:
    """A client of 100/11 tokens on an idle replica: the times of each request are those of the first."""
    found = run(Loop(toy(), 1, Lengths(100, 100), Lengths(11, 11), n_requests=4, delay_s=0.5))
    assert found["ttft_s"].to_list() == pytest.approx([found["ttft_s"][0]] * 4, abs=2e-9)
    gaps = (found["arrival_s"][1:] - found["end_s"][:-1]).to_list()
    assert gaps == pytest.approx([0.5] * 3)
    life = found["ttft_s"][0] + 10 * found["tpot_s"][0]
    assert found["end_s"][-1] == pytest.approx(4 * life + 1.5)


def test_a_loop_never_has_more_requests_than_clients() -> None:
    found = run(Loop(toy(), 7, Lengths(20, 60), Lengths(5, 30)))
    assert found.height == 70
    begins, ends = found["arrival_s"].sort(), found["end_s"].sort()
    here = [(begins <= t).sum() - (ends <= t).sum() for t in begins]
    assert max(here) == 7


def test_the_sample_is_of_clean_placed_rows_and_follows_the_seed() -> None:
    rows = [{**ROW, "point": f"p{i}", "clean": i % 3 > 0} for i in range(60)] + [{**ROW, "chip": "?"}]
    points = place(rows)
    every = sample(points, None)
    assert every == [i for i in range(60) if i % 3 > 0]
    few = sample(points, 10, 1)
    assert len(few) == 10
    assert few == sorted(few)
    assert set(few) < set(every)
    assert few == sample(points, 10, 1) != sample(points, 10, 2)
    assert sample(points, 1000) == every


def test_a_split_row_has_both_pools_and_the_links_of_the_smaller_side() -> None:
    points = place([SPLIT])
    made = loop(points, 0, shipped().engines["vllm"])
    assert made.prefill is not None
    assert (made.n_prefill, made.n_replicas) == (3, 2)
    assert made.prefill["layout"]["tp"] == 2
    # 3 x 2 chips before 2 x 4: six links.
    assert made.link == {
        "bytes_per_s": 6 * points.chips[ROW["chip"]]["scale_out_bytes_per_s"],
        "latency_ns": round(points.chips[ROW["chip"]]["scale_out_latency_s"] * 1e9),
    }
    found = simulate_points(points, shipped().engines, [0])
    assert found.n_requests == 10 * made.concurrency
    assert np.isfinite(found.tpot_s[0])


def test_a_client_sees_a_first_token_later() -> None:
    """3 x 0.2 s of waiting, 2 x 0.1 s of prompt, 0.05 s, and 4 steps of 10 ms: 0.89 s. Launches of 2 ms ten times
    more and 1 ms for each of 50 layers are 0.07 s where one pool does both, a hand-over is 0.3 s and 6 steps.
    """
    points = place([ROW, SPLIT])
    client = {
        "generic": {
            "first_token_s": 0.05,
            "first_token_launches": 10.0,
            "first_token_unlike_s": 1e-3,
            "first_token_steps": 4.0,
            "first_token_dp_steps": 100.0,
            "lone_prompt": 2.0,
            "handover_s": 0.3,
            "handover_steps": 6.0,
            "queue": 3.0,
        }
    }
    values = (np.full(2, value) for value in (0.2, 0.1, 0.01, 2e-3, 50.0))
    simulated = Simulated(*values, n_requests=0)
    assert first_token_s(points, simulated, client).tolist() == pytest.approx([0.89 + 0.07, 0.89 + 0.36])


def test_a_calibration_without_simulated_points_uses_its_habits() -> None:
    old = Calibration({name: part for name, part in shipped().tree.items() if name != "simulated"})
    points = place([ROW])
    result, values = check_simulated(points, old, old.predict(points), n=None)
    assert result["left_out"] == []
    assert values["ttft_s"][0] > 0


def test_measured_points_in_closed_loop(shared: Path) -> None:
    """In-sample and few, so the law is loose: about as good as the steady state, whose corrections it shares."""
    points = read_points(shared / "data/measured/points.csv")
    result, _ = check_simulated(points, shipped(), shipped().predict(points), n=60)
    assert result["simulated"] == 60
    found: dict[str, Any] = result["ttft"]
    assert found["simulated"]["median_ape"] < 1.5 * found["steady"]["median_ape"]
    assert result["tpot"]["simulated"]["median_ape"] < 0.1
    left_out = {one["new"]: one["mean"] for one in result["left_out"] if one["by"] == "all"}
    steady = {e["new"]: e["mean"] for e in shipped().tree["errors"] if (e["metric"], e["by"]) == ("ttft", "all")}
    assert all(left_out[new] < steady[new] for new in ("deployment", "chip", "model"))

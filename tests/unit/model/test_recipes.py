"""What the benchmarks' recipes hold prompts back for."""

from __future__ import annotations

from typing import Any

import pytest

from planner.model.recipes import held_steps, is_in_step

POLLED = {
    "mode": "agg",
    "backend": "sglang",
    "model": "deepseek-r1",
    "chip": "b200-sxm",
    "precision": "fp4",
    "chips": 8.0,
    "isl_mean": 921.6,
    "osl_mean": 921.6,
    "concurrency": 8.0,
}
WAITING = {**POLLED, "backend": "trtllm", "model": "llama-3.1-70b", "precision": "fp8", "chips": 4.0}


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        ({}, 5.0),
        ({"concurrency": 16.0}, 15.0),
        ({"model": "qwen3.5-397b-a17b"}, 15.0),
        ({"model": "qwen3.5-397b-a17b", "precision": "fp8"}, 5.0),
        ({"precision": "fp8", "chips": 4.0, "concurrency": 64.0}, 5.0),
        ({"model": "glm-5"}, 0.0),
        ({"chip": "h200-sxm"}, 0.0),
        ({"mode": "disagg"}, 0.0),
    ],
)
def test_a_poll_is_waited_for_by_half_of_its_interval(change: dict[str, Any], steps: float) -> None:
    assert held_steps({**POLLED, **change}) == steps


def test_who_comes_while_a_batch_is_waited_for_waits_for_the_rest() -> None:
    """Eight clients with 921.6 tokens each: 20 x 8 / 921.6 = 0.1736 come within the 20 steps and wait for half of them:
    (20 + 0.1736 x 10) / 1.1736 = 18.52.
    """
    assert held_steps(WAITING) == pytest.approx(18.52, abs=0.005)
    assert held_steps({**WAITING, "concurrency": 128.0}) == pytest.approx((20 + 2.7778 * 10) / 3.7778, abs=1e-3)
    for change in ({"chips": 8.0}, {"osl_mean": 7372.8}, {"isl_mean": 7372.8}, {"backend": "vllm"}):
        assert held_steps({**WAITING, **change}) == 0.0
    many = {**WAITING, "model": "deepseek-r1", "chips": 8.0, "concurrency": 64.0}
    assert held_steps(many) == pytest.approx((40 + 2.7778 * 20) / 3.7778, abs=1e-3)
    assert held_steps({**many, "concurrency": 32.0}) == 0.0


def test_clients_with_lengths_alike_stay_in_step() -> None:
    alike = {**POLLED, "harness": "lab", "isl_mean": 1024.0}
    assert is_in_step(alike)
    for change in ({"harness": "inferencex"}, {"harness": None}, {"isl_mean": 1000.0}, {"backend": "vllm"}):
        assert not is_in_step({**alike, **change})

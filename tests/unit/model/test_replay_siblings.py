"""Runs of two chips as a real engine may have them, from a stand-in whose steps follow other formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.model.calibration import shipped
from planner.model.lifecycles import read_lifecycles
from planner.model.replay import Run, errors, prepare, replay
from planner.model.replay_band import band
from planner.model.replay_fit import fit_first
from tests.engine_like import Machine, jobs, run, write

DENSE = Machine(64, 5120, 262_144, 64e9, 32e9)
SMALL = Machine(32, 4096, 131_072, 16e9, 8e9)
MIXTURE = Machine(48, 2048, 98_304, 2.5e9, 1.2e9, expert_bytes=58e9, expert_active=1.8e9, chosen_frac=1 / 16)
QWEN_32B, QWEN_30B, LLAMA_8B = "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B-Instruct-2507", "meta-llama/Llama-3.1-8B"


def measured(
    folder: Path,
    machine: Machine,
    model: str,
    *,
    most: int,
    per_s: float,
    seed: int,
    is_ahead: bool = True,
    n_apart: int = 1,
    **changes: Any,
) -> Run:
    """A run of `machine` with other rates and degrees, as read back from its files; `n_apart` of it serve in turn."""
    for name, value in changes.items():
        setattr(machine, name, value)
    served = jobs(240, per_s, seed)
    for at in range(n_apart):
        run(machine, served[at::n_apart], most=most, seed=seed + at, is_ahead=is_ahead, cold_s=0.3)
    options = {
        "model": model,
        "tensor_parallel_size": machine.tp,
        "data_parallel_size": machine.engines * n_apart,
        "enable_expert_parallel": machine.engines > 1,
        "max_num_seqs": most,
        "max_num_batched_tokens": 2048,
        "max_model_len": None,
        "async_scheduling": is_ahead,
    }
    return prepare(read_lifecycles(*write(folder, "rtxpro6000-sibling", served, options)))


CASES: dict[str, tuple[Machine, str, dict[str, Any]]] = {
    "a dense model over two chips, queueing": (DENSE, QWEN_32B, {"most": 64, "per_s": 8.0, "tp": 2}),
    "the same with room, each step formed after the last": (
        DENSE,
        QWEN_32B,
        {"most": 128, "per_s": 2.0, "tp": 2, "is_ahead": False},
    ),
    "two engines of a dense model, queueing": (SMALL, LLAMA_8B, {"most": 48, "per_s": 14.0, "n_apart": 2}),
    "a mixture over two chips": (MIXTURE, QWEN_30B, {"most": 128, "per_s": 10.0, "tp": 2}),
    "two engines of a mixture, with room": (MIXTURE, QWEN_30B, {"most": 256, "per_s": 7.0, "engines": 2}),
    "memory and links a third faster than the facts": (
        MIXTURE,
        QWEN_30B,
        {"most": 96, "per_s": 10.0, "engines": 2, "bytes_per_s": 2.1e12, "link_bytes_per_s": 4e10},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_hundred_requests_tell_the_rest(tmp_path: Path, name: str) -> None:
    machine, model, changes = CASES[name]
    read = measured(tmp_path, Machine(**vars(machine)), model, seed=1, **changes)
    found = errors(read.measured, replay(read, fit_first(read, 100)).requests)
    for metric, most in {"ttft_s": 0.05, "tpot_s": 0.03, "e2e_s": 0.03}.items():
        assert found[metric]["mean"] == pytest.approx(0.0, abs=most), metric
    assert found["e2e_s"]["p99"] == pytest.approx(0.0, abs=0.05)


def test_without_a_fit_it_is_inside_the_band(tmp_path: Path) -> None:
    """Rates of a chip whose facts have ranges, some of them at their ends."""
    read = measured(tmp_path, Machine(**vars(DENSE)), QWEN_32B, most=64, per_s=8.0, seed=2, tp=2)
    found = band(read, replay(read), shipped())
    assert all(found["is_inside"][metric]["mean"] for metric in ("ttft_s", "tpot_s", "e2e_s"))

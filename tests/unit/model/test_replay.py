"""Measured runs of a real engine, replayed: what the files say, and how close the simulator comes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from planner import core
from planner.errors import FactError
from planner.model.calibration import shipped
from planner.model.lifecycles import read_lifecycles
from planner.model.replay import errors, prepare, replay
from planner.model.replay_band import _slower, _together, band
from planner.model.replay_fit import fit_first
from planner.model.replay_result import result_of

KWARGS: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "max_num_seqs": 8, "max_num_batched_tokens": 2048}
ROW = "a,0.0,0.0,0.1,0.5,100,5,0"
HEADER = "request_id,queued_s,scheduled_s,first_token_s,last_token_s,input_tokens,output_tokens,shared_prefix_tokens"


def files(folder: Path, rows: list[str], name: str = "rtxpro6000-x", **meta: Any) -> tuple[Path, Path]:
    table, settings = folder / f"{name}.csv", folder / f"{name}.meta.json"
    table.write_text("\n".join([HEADER, *rows]) + "\n")
    settings.write_text(json.dumps({"engine_kwargs": KWARGS} | meta))
    return table, settings


@pytest.mark.parametrize("name", ["rtx4090-llama-3.1-8b-tp1", "rtxpro6000-llama-3.1-8b-tp1"])
def test_a_run_fitted_to_its_first_hundred_requests_is_met(shared: Path, name: str) -> None:
    folder = shared / "data" / "measured" / "requests"
    run = prepare(read_lifecycles(folder / f"{name}.csv", folder / f"{name}.meta.json"))
    fitted = fit_first(run, 100)
    found = errors(run.measured, replay(run, fitted).requests)
    for metric, most in {"ttft_s": 0.05, "tpot_s": 0.03, "e2e_s": 0.03}.items():
        assert found[metric]["mean"] == pytest.approx(0.0, abs=most)
    assert found["e2e_s"]["p99"] == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("name", ["rtx4090-llama-3.1-8b-tp1", "rtxpro6000-llama-3.1-8b-tp1"])
def test_a_run_without_a_fit_is_inside_the_band_of_the_model(shared: Path, name: str) -> None:
    folder = shared / "data" / "measured" / "requests"
    run = prepare(read_lifecycles(folder / f"{name}.csv", folder / f"{name}.meta.json"))
    found = band(run, replay(run), shipped())
    assert (found["new"], found["grade"]) == (["chip"], "assumed")
    assert all(found["is_inside"][metric]["mean"] for metric in ("ttft_s", "tpot_s", "e2e_s"))
    low, high = found["seconds"]["tpot_s"]["mean"]
    assert high / low < 2.0, "a band that holds everything says nothing"


def test_a_run_of_unknown_age_has_a_wider_band(shared: Path) -> None:
    """Two quarters, the middle 80 % of the five measured, at what a quarter moves vLLM; added as squares."""
    name = "rtxpro6000-llama-3.1-8b-tp1"
    folder = shared / "data" / "measured" / "requests"
    run = prepare(read_lifecycles(folder / f"{name}.csv", folder / f"{name}.meta.json"))
    found = band(run, replay(run), shipped())
    row = {"chip": run.chip, "model": run.model, "backend": "vllm", "mode": "agg", "concurrency": found["running"]}
    low, high = (math.log(end) for end in shipped().band(row, "tpot"))
    age = 2.0 * abs(shipped().tree["corrections"]["tpot"][0]["vllm"]["date"])
    assert age > 0.0
    assert [math.log(end) for end in found["factors"]["tpot"]] == pytest.approx(
        [-math.hypot(low, age), math.hypot(high, age)]
    )


def test_steps_of_a_band_are_longer_in_every_part(tmp_path: Path) -> None:
    """At rest all times are those of steps, so they double with them; 2 ns of rounding a token apart."""
    rows = [f"r{at},{100 * at}.0,{100 * at}.0,{100 * at}.1,{100 * at}.5,160,5,0" for at in range(3)]
    run = prepare(read_lifecycles(*files(tmp_path, rows)))
    plain, slow = replay(run).requests, replay(_slower(run, 2.0)).requests
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        assert slow[metric].to_list() == pytest.approx([2.0 * value for value in plain[metric]], rel=1e-6)


def test_the_cache_has_the_blocks_of_the_run_less_the_one_that_stands_for_nothing(shared: Path) -> None:
    folder = shared / "data" / "measured" / "requests"
    name = "rtx4090-llama-3.1-8b-tp1"
    run = prepare(read_lifecycles(folder / f"{name}.csv", folder / f"{name}.meta.json"))
    assert core.plan(run.deployment)["kv_blocks"] == 2587
    assert (run.n_replicas, run.placed) == (
        1,
        {"prefix_cache": True, "async_scheduling": True, "whole_prompts": False},
    )
    assert run.deployment["model"]["context_tokens"] == 32_768


def test_blocks_follow_from_the_memory_where_the_file_has_none(tmp_path: Path) -> None:
    """0.9 x 102.642 GB - 16.060 GB - 1.03 GB beside what a step's activations take, in blocks of 2 MiB."""
    run = prepare(read_lifecycles(*files(tmp_path, [ROW])))
    memory = core.plan(run.deployment)["memory"]
    left = 0.9 * 102_641_958_912 - 16_059_990_016 - 1.03e9 - memory["activations_bytes"]
    assert core.plan(run.deployment)["kv_blocks"] == int(left / 131_072) // 16


def test_a_replay_at_rest_takes_what_the_steps_take(tmp_path: Path) -> None:
    """Requests far apart: each finds an idle engine, so its times are its own steps."""
    rows = [
        f"r{at},{100 * at}.0,{100 * at}.0,{100 * at}.1,{100 * at}.5,160,5,{0 if at == 0 else 160}" for at in range(3)
    ]
    run = prepare(read_lifecycles(*files(tmp_path, rows)))
    replayed = replay(run)
    ttft = replayed.requests["ttft_s"].to_list()
    assert ttft[1] == pytest.approx(ttft[2], rel=1e-9)
    assert ttft[2] < ttft[0], "the second finds nine of its ten blocks"
    assert replayed.windows["prefix_hit_tokens"].sum() == 320
    result = result_of(run, replayed, None, None)
    assert [row["request_id"] for row in result["per_request"]] == ["r0", "r1", "r2"]
    assert {row["simulated_waiting"] for row in result["timeseries"]} == {0}
    assert sum(row["simulated_output_tokens"] for row in result["timeseries"]) == 15


def test_engines_side_by_side_are_replicas_and_those_of_a_mixture_one(tmp_path: Path) -> None:
    dense = prepare(read_lifecycles(*files(tmp_path, [ROW], engine_kwargs=KWARGS | {"data_parallel_size": 2})))
    assert (dense.n_replicas, dense.deployment["serving"]["max_batch"]) == (2, 8)
    kwargs = KWARGS | {"data_parallel_size": 2, "model": "Qwen/Qwen3-30B-A3B", "enable_expert_parallel": True}
    mixture = prepare(read_lifecycles(*files(tmp_path, [ROW], engine_kwargs=kwargs)))
    assert (mixture.n_replicas, mixture.deployment["serving"]["max_batch"]) == (1, 16)
    assert mixture.deployment["layout"]["dp"] == 2


@pytest.mark.parametrize(
    ("device", "chip"),
    [("NVIDIA GeForce RTX 4090", "rtx-4090"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("", "rtx-pro-6000")],
)
def test_the_chip_is_that_of_the_device_or_of_the_file_name(tmp_path: Path, device: str, chip: str) -> None:
    paths = files(tmp_path, [ROW], hardware={"device_name": device})
    assert read_lifecycles(*paths).setup.chip == chip
    assert read_lifecycles(*paths, chip="b200-sxm").setup.chip == "b200-sxm"


@pytest.mark.parametrize(("device", "text"), [("NVIDIA GH200 480GB", "did you mean gb200"), ("Abacus", "is not known")])
def test_a_chip_that_is_not_known_is_not_taken_for_another(tmp_path: Path, device: str, text: str) -> None:
    paths = files(tmp_path, [ROW], name="run", hardware={"device_name": device})
    with pytest.raises(FactError, match=text):
        read_lifecycles(*paths)
    assert read_lifecycles(*paths, chip="h200-sxm").setup.notices == ()


def test_another_form_of_a_chip_is_said(tmp_path: Path) -> None:
    setup = read_lifecycles(*files(tmp_path, [ROW], hardware={"device_name": "NVIDIA H100 PCIe"})).setup
    assert setup.chip == "h100-sxm"
    assert [notice.code for notice in setup.notices] == ["other_form"]


@pytest.mark.parametrize(
    ("version", "options", "is_ahead", "codes"),
    [
        ("0.19.0", {}, True, []),
        ("v0.14.0rc1", {}, True, []),
        ("0.13.0", {}, False, []),
        ("0.13.0", {"async_scheduling": True}, True, []),
        ("0.6.3", {}, False, ["older_scheduler"]),
        ("", {"async_scheduling": False, "cpu_offload_gb": 4}, False, ["not_replayed"]),
        ("nightly", {"policy": "fcfs", "kv_offloading_size": None}, True, []),
    ],
)
def test_what_runs_by_default_hangs_on_the_release(
    tmp_path: Path, version: str, options: dict[str, Any], is_ahead: bool, codes: list[str]
) -> None:
    setup = read_lifecycles(*files(tmp_path, [ROW], vllm_version=version, engine_kwargs=KWARGS | options)).setup
    assert (setup.is_ahead, [notice.code for notice in setup.notices]) == (is_ahead, codes)


def test_without_chunks_a_prompt_waits_for_a_whole_step(tmp_path: Path) -> None:
    """Three prompts of 1,000 tokens in steps of 2,048: two in the first, the third in a step of its own."""
    rows = ["warm,-9.0,-9.0,0.1,0.5,16,1,0", *(f"r{at},0.0,0.0,0.1,0.5,1000,5,0" for at in range(3))]
    options = KWARGS | {"enable_chunked_prefill": False, "max_model_len": 2048}
    run = prepare(read_lifecycles(*files(tmp_path, rows, engine_kwargs=options)))
    first = replay(run).requests["first_token_s"].to_list()[1:]
    assert first[0] == first[1] < first[2]
    cut = prepare(read_lifecycles(*files(tmp_path, rows, engine_kwargs=KWARGS | {"max_model_len": 2048})))
    longer = replay(cut).requests["first_token_s"].to_list()[1:]
    assert longer[0] > first[0], "48 tokens of the third were in the first step"
    with pytest.raises(FactError, match="a step takes 2048 tokens and a sequence up to 4096"):
        prepare(read_lifecycles(*files(tmp_path, rows, engine_kwargs=options | {"max_model_len": 4096})))


def test_a_model_that_is_not_in_the_catalogue_is_given_by_a_file(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3",
        "num_hidden_layers": 4,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "intermediate_size": 1024,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    paths = files(tmp_path, [ROW], engine_kwargs=KWARGS | {"model": "someone/Own-FP8"})
    with pytest.raises(FactError, match=r"'someone/Own' among the catalogue's models.*--model FILE"):
        prepare(read_lifecycles(*paths))
    run = prepare(read_lifecycles(*paths, model=str(tmp_path / "config.json")))
    assert run.deployment["model"]["n_layers"] == 4
    assert run.deployment["precision"]["rest_bytes_per_param"] == 1.0


def test_files_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    with pytest.raises(FactError, match="which chip ran"):
        read_lifecycles(*files(tmp_path, [ROW], name="somewhere"))
    with pytest.raises(FactError, match="request b ends before it begins"):
        read_lifecycles(*files(tmp_path, [ROW, "b,0.0,0.0,0.1,0.05,100,5,0"]))
    with pytest.raises(FactError, match="no request has an end"):
        read_lifecycles(*files(tmp_path, ["a,0.0,0.0,,,100,5,0"]))
    with pytest.raises(FactError, match="the run drafted tokens"):
        read_lifecycles(*files(tmp_path, [ROW], engine_kwargs=KWARGS | {"speculative_config": {"method": "eagle"}}))
    with pytest.raises(FactError, match="tensor_parallel_size is 'two'"):
        read_lifecycles(*files(tmp_path, [ROW], engine_kwargs=KWARGS | {"tensor_parallel_size": "two"}))
    with pytest.raises(FactError, match="engine_kwargs has no max_num_seqs"):
        read_lifecycles(*files(tmp_path, [ROW], engine_kwargs={k: v for k, v in KWARGS.items() if k != "max_num_seqs"}))
    with pytest.raises(FactError, match="request a has 105 tokens, and the engine of the file serves up to 64"):
        prepare(read_lifecycles(*files(tmp_path, [ROW], engine_kwargs=KWARGS | {"max_model_len": 64})))
    with pytest.raises(FactError, match=r"gpu_memory_utilization is 1\.5; write a number above 0, at most 1"):
        read_lifecycles(*files(tmp_path, [ROW], engine_kwargs=KWARGS | {"gpu_memory_utilization": 1.5}))
    table, meta = files(tmp_path, [ROW])
    table.write_text("queued_s,input_tokens\n0.0,1\n")
    with pytest.raises(FactError, match="no column 'scheduled_s', 'first_token_s', 'last_token_s', 'output_tokens'"):
        read_lifecycles(table, meta)


def test_faults_of_both_files_are_told_together(tmp_path: Path) -> None:
    setup = tmp_path / "m.json"
    setup.write_text('{"engine_kwargs":\n')
    with pytest.raises(FactError) as error:
        read_lifecycles(tmp_path / "none.csv", setup)
    table, meta = map(str, error.value.faults)
    assert table.startswith(f"{tmp_path}/none.csv: cannot read the requests: No such file or directory; give a CSV")
    assert meta.startswith(f"{setup}:2:1: is not JSON")
    with pytest.raises(FactError, match=r"here\.json: cannot be read: No such file or directory; --meta is the JSON"):
        read_lifecycles(files(tmp_path, [ROW])[0], tmp_path / "here.json")


def test_each_column_that_is_spoilt_is_told_with_its_line(tmp_path: Path) -> None:
    rows = [ROW, "b,x,0.0,0.1,0.2,100,5,0", "c,0.0,inf,0.1,0.2,100,-5,0", "d,0.0,0.0,0.1,0.2,100,5.5,0"]
    table, meta = files(tmp_path, rows)
    with pytest.raises(FactError) as error:
        read_lifecycles(table, meta)
    assert [(fault.path, fault.line, fault.what) for fault in error.value.faults] == [
        ("queued_s", 3, "'x' is not a time in seconds"),
        ("scheduled_s", 4, "'inf' is not a time in seconds"),
        ("output_tokens", 4, "'-5' is not a whole number of tokens (2 rows)"),
    ]


def test_a_request_without_an_end_is_left_out_however_that_is_written(tmp_path: Path) -> None:
    """Tables with gaps have whole numbers as 5.0, and nan or nothing where there is none."""
    rows = ["a,0.0,0.0,0.1,0.2,100.0,5.0,0", "b,0.0,0.0,nan,,100.0,nan,0", "c,0.0,0.0,0.1,0.2,100,None,0"]
    run = read_lifecycles(*files(tmp_path, rows))
    assert (run.requests.height, run.n_left_out) == (1, 2)
    assert run.requests["output_tokens"].to_list() == [5]


def test_what_is_not_asked_for_is_what_the_engine_resolved(tmp_path: Path) -> None:
    kwargs = {"model": "/models/Qwen3-32B-FP8-dynamic/", "max_num_batched_tokens": None}
    resolved = {
        "scheduler_config": {"max_num_seqs": 48, "max_num_batched_tokens": 4096, "async_scheduling": False},
        "parallel_config": {"tensor_parallel_size": 2},
        "model_config": {"max_model_len": 8192},
        "cache_config": {"block_size": 32},
    }
    cache = {"num_gpu_blocks": [900, 880], "enable_prefix_caching": False}
    table, meta = files(tmp_path, [ROW], engine_kwargs=kwargs, resolved_config=resolved, kv_cache=cache)
    setup = read_lifecycles(table, meta).setup
    assert (setup.model, setup.precision) == ("Qwen3-32B", "fp8")
    assert (setup.tp, setup.max_batch, setup.chunk_tokens, setup.context_tokens) == (2, 48, 4096, 8192)
    assert (setup.block_tokens, setup.n_blocks, setup.prefix_cache, setup.is_ahead) == (32, 880, False, False)
    run = prepare(read_lifecycles(table, meta))
    assert (run.model, run.deployment["precision"]["rest_bytes_per_param"]) == ("qwen3-32b", 1.0)


@pytest.mark.parametrize(
    ("model", "quantization", "name", "precision"),
    [
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", None, "Qwen/Qwen3-30B-A3B-Instruct-2507", None),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", None, "Qwen/Qwen3-30B-A3B-Instruct-2507", "fp8"),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", None, "nvidia/Llama-3.3-70B-Instruct", "nvfp4"),
        ("Qwen/Qwen3-32B-AWQ", None, "Qwen/Qwen3-32B", "int4"),
        ("RedHatAI/Meta-Llama-3.1-8B-quantized.w4a16", "fp8", "RedHatAI/Meta-Llama-3.1-8B-quantized.w4a16", "fp8"),
    ],
)
def test_the_format_is_that_of_the_name_or_the_option(
    tmp_path: Path, model: str, quantization: str | None, name: str, precision: str | None
) -> None:
    kwargs = KWARGS | {"model": model, "quantization": quantization}
    setup = read_lifecycles(*files(tmp_path, [ROW], engine_kwargs=kwargs)).setup
    assert (setup.model, setup.precision) == (name, precision)


def test_requests_that_failed_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = ["z,-0.5,-0.5,0.1,0.5,100,5,0", ROW, "b,1.0,1.0,,,100,5,0", "c,2.0,2.0,2.1,2.2,100,0,0"]
    run = prepare(read_lifecycles(*files(tmp_path, rows)))
    assert (run.requests.height, run.n_left_out) == (2, 2)
    assert run.table["arrival_ns"].to_list() == [0, 500_000_000], "times count from the first"
    assert result_of(run, replay(run), None, None)["requests_left_out"] == 2


def test_engines_of_a_mixture_have_caches_of_their_own(tmp_path: Path) -> None:
    """Requests go to two engines in turn: only every other one finds what the one before the last had."""
    rows = [f"r{at},{9 * at}.0,{9 * at}.0,{9 * at}.1,{9 * at}.5,320,5,{160 * (at > 0)}" for at in range(4)]
    options = KWARGS | {"data_parallel_size": 2, "model": "Qwen/Qwen3-30B-A3B", "enable_expert_parallel": True}
    apart = prepare(read_lifecycles(*files(tmp_path, rows, engine_kwargs=options)))
    assert replay(apart).windows["prefix_hit_tokens"].sum() == 2 * 160
    together = prepare(read_lifecycles(*files(tmp_path, rows)))
    assert replay(together).windows["prefix_hit_tokens"].sum() == 3 * 160


def test_a_share_above_one_raises_the_chip(tmp_path: Path) -> None:
    """Twice the bandwidth's share is twice the bandwidth, beyond 1 as below it."""
    rows = [f"r{at},{100 * at}.0,{100 * at}.0,{100 * at}.1,{100 * at}.5,160,5,0" for at in range(3)]
    run = prepare(read_lifecycles(*files(tmp_path, rows)))
    at = dict.fromkeys(("host_s", "launch_layer_s", "host_sequence_s", "collective_base_s"), 0.0)
    shares = ("memory_eff_frac", "kv_read_eff_frac")
    half, beyond = (replay(run, {**at, **dict.fromkeys(shares, share)}).requests["tpot_s"] for share in (0.7, 1.4))
    assert beyond.to_list() == pytest.approx([0.5 * value for value in half], rel=1e-6)


def test_ranges_of_facts_widen_the_band_as_squares() -> None:
    assert _together(1.3, 1.0) == pytest.approx(1.3)
    assert _together(1.2, 1.2) == pytest.approx(1.2 ** (2**0.5))


def test_errors_are_simulated_over_measured_less_one() -> None:
    measured = pl.DataFrame({"ttft_s": [1.0, 3.0], "tpot_s": [None, 2.0], "e2e_s": [4.0, 4.0]})
    simulated = pl.DataFrame({"ttft_s": [1.0, 5.0], "tpot_s": [None, 1.0], "e2e_s": [4.0, 4.0]})
    found = errors(measured, simulated)
    assert found["ttft_s"]["mean"] == pytest.approx(0.5)
    assert found["tpot_s"]["p99"] == pytest.approx(-0.5)
    assert set(found["e2e_s"].values()) == {0.0}

"""The door to the core, and field cases of the simulator with their arithmetic."""

from __future__ import annotations

import polars as pl
import pytest

from planner import core
from planner.errors import Infeasible
from tests.deployments import cell, requests, toy

S = 10**9


def test_the_plan_of_a_deployment_adds_up() -> None:
    # 1e6 parameters of 2 bytes; keys and values of 4 layers x 2 x 4 heads x 64 x 2 bytes = 4096 a token.
    plan = core.plan(toy(blocks=50))
    assert plan["n_chips"] == 1
    assert plan["memory"]["weights_bytes"] == 2e6
    assert plan["memory"]["kv_bytes_per_token"] == 4096
    assert (plan["kv_blocks"], plan["kv_capacity_tokens"], plan["max_sequence_tokens"]) == (50, 800, 800)


def test_what_does_not_fit_is_infeasible() -> None:
    spec = toy()
    spec["chip"]["memory_bytes"] = 1e6
    with pytest.raises(Infeasible, match=r"2\.00 MB of weights do not fit") as error:
        core.plan(spec)
    assert error.value.exit_status == 4


def test_build_info_names_version_and_profile() -> None:
    info = core.build_info()
    assert info["profile"] in {"debug", "release"}
    assert info["version"].count(".") == 2


def test_a_request_that_can_never_fit_is_turned_away_at_once() -> None:
    """C33: 50 blocks x 16 = 800 tokens. Needs of input + output - 1: 909, 800, 801; only the second is served."""
    rows = [(0, 0, 900, 10), (0, 0, 790, 11), (0, 0, 790, 12)]
    got = core.simulate(cell(toy(blocks=50, chunk_tokens=800)), requests(rows))
    assert got.requests is not None
    assert [core.FATES[fate] for fate in got.requests["fate"]] == ["rejected", "completed", "rejected"]
    assert got.requests["start_ns"].to_list() == [None, 0, None]
    assert got.classes.select("offered", "completed", "rejected", "unfinished").row(0) == (3, 1, 2, 0)
    assert got.deployments["preemptions"][0] == 0


def test_recomputed_tokens_are_neither_input_nor_hits() -> None:
    """C37: two prompts of 1024, nothing shared; 129 blocks hold both (64 each) and one block more.

    Both prefill in one step and give a token; the next step needs two blocks, one is free, so the second goes back and
    later computes its 1024 + 1 tokens again. Input served stays 2048; nothing of it was found in a cache.
    """
    got = core.simulate(cell(toy(blocks=129, chunk_tokens=2048)), requests([(0, 0, 1024, 64)] * 2))
    work = got.deployments.row(0, named=True)
    assert work["preemptions"] == 1
    assert work["input_tokens"] == 2048
    assert work["recomputed_tokens"] == 1025
    assert work["output_tokens"] == 128
    assert got.requests is not None
    first = got.requests["first_token_ns"]
    assert first[0] == first[1]  # set once, before the preemption
    assert got.requests["end_ns"][1] > got.requests["end_ns"][0]


def test_the_burst_at_the_start_stays_out_of_the_warm_figures() -> None:
    """C43: 16 at once, served one at a time in 0.25 s: TTFT 0.25 ... 4.0; then 144 at ease, 0.25 each.

    All 160: rank 0.99 x 159 = 157.41; 145 values of 0.25, then 0.5, 0.75 ...: number 157 is 0.5 + 12 x 0.25 = 3.5, and
    3.5 + 0.41 x 0.25 = 3.6025. Warm: 0.25.
    """
    spec = toy(max_batch=1)
    alone = core.simulate(cell(spec), requests([(0, 0, 10, 1)]))
    assert alone.requests is not None
    spec["engine"]["host_s"] += 0.25 - alone.requests["end_ns"][0] / S
    rows = [(0, 0, 10, 1)] * 16 + [((20 + k) * S, 0, 10, 1) for k in range(144)]
    p99 = [core.Query(0, "ttft", 0.99)]
    for warmup_ns, expected_s in [(0, 3.6025), (10 * S, 0.25)]:
        got = core.simulate(cell(spec, warmup_ns=warmup_ns, window_ns=S), requests(rows))
        assert core.quantiles(got.sketches, p99)[0] == pytest.approx(expected_s, abs=1e-7)
        # The warm rate: one completion in each second of 20 ... 119, 100 / 100 s, whatever went before.
        warm = got.class_windows.filter(got.class_windows["window_ix"].is_between(20, 119))
        assert warm["completed"].to_list() == [1] * 100


def test_quantiles_count_those_that_never_got_a_value() -> None:
    """Ten of a hundred have no value: of all, p89 is at rank 88.11 of the ninety known, p95 beyond every value."""
    spec = toy(max_batch=1)
    got = core.simulate(cell(spec), requests([(k * S, 0, 10, 1) for k in range(90)]))
    whole = core.Query(0, "ttft", 0.89, n_total=100)
    beyond = core.Query(0, "ttft", 0.95, n_total=100)
    below = core.Query(0, "ttft", 0.05, n_low=10, n_total=100)
    mean = core.Query(0, "ttft", None)
    other_class = core.Query(1, "ttft", 0.5)
    value, *none = core.quantiles(got.sketches, [whole, beyond, below, other_class])
    assert none == [None, None, None]
    assert value == pytest.approx(core.quantiles(got.sketches, [mean])[0])


def test_one_answer_token_has_no_time_between_tokens() -> None:
    limit = {"metric": "tpot", "limit_ns": 0}
    classes = [{"limits": [limit], "targets": [{"deployments": [0], "share": None}]}]
    got = core.simulate(cell(toy(), classes=classes), requests([(0, 0, 10, 1), (0, 0, 10, 2)]))
    assert got.classes.select("span_completed", "span_attained", "span_single_token").row(0) == (2, 1, 1)
    tpot = got.sketches.filter(got.sketches["metric_ix"] == core.METRICS.index("tpot"))
    assert tpot["count"].sum() == 1


def test_what_a_power_cap_adds_is_its_own_time() -> None:
    free, capped = toy(), toy(power_cap_w=2.6)
    loads = pl.DataFrame(
        {
            "n_seqs": [1, 5, 3],
            "context_tokens": [100, 900, 20],
            "window_tokens": [0, 0, 0],
            "n_growing_in_window": [0, 0, 0],
            "chunk_tokens": [0, 0, 64],
            "chunk_past_tokens": [0, 0, 10],
        },
        schema_overrides={"n_seqs": pl.UInt64, "context_tokens": pl.UInt64, "window_tokens": pl.UInt64}
        | {"n_growing_in_window": pl.UInt64, "chunk_tokens": pl.UInt64, "chunk_past_tokens": pl.UInt64},
    )
    own, held = core.step_times(free, loads), core.step_times(capped, loads)
    assert own["capped_s"].to_list() == own["capped_slope_s"].to_list() == [0.0] * 3
    for end in ("", "slope_"):
        more = [b - a for a, b in zip(own[f"time_{end}s"], held[f"time_{end}s"], strict=True)]
        assert held[f"capped_{end}s"].to_list() == pytest.approx(more, rel=1e-9)
        assert min(more) > 0 or end
    # In a run, it is what steps of the same work last longer, and the causes of step time add up to all of it.
    rows = requests([(0, 0, 100, 200)])
    works = [core.simulate(cell(spec), rows).deployments.row(0, named=True) for spec in (free, capped)]
    steps = [work["prefill_s"] + work["decode_s"] for work in works]
    assert works[0]["power_s"] == 0.0
    assert works[1]["power_s"] == pytest.approx(steps[1] - steps[0], rel=1e-9)
    for work, step_s in zip(works, steps, strict=True):
        causes = sum(work[f"{name}_s"] for name in ("memory", "compute", "network", "launch", "power"))
        assert causes == pytest.approx(step_s, rel=1e-12)

"""One long run has an interval too: batch means of its windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from planner import load, run
from planner.aggregate.intervals import paired, t_95
from planner.traffic.requests import for_scenario

TEXT = """
schema: 1
title: One pool
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 12 req/s
    input: {dist: lognormal, median: 600 tok, p95: 3 ktok}
    output: {dist: lognormal, median: 80 tok, p95: 300 tok}
    slo: s
slo: {s: {ttft: {p95: 1 s}, e2e: {p99: 20 s}, attainment: 50 %}}
fleet:
  pools:
    a: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}
run: {length: 60 s, window: 2 s}
"""

AGENTS = """
schema: 1
title: Tasks
traffic:
  agent:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 60 req/s
    input: {dist: lognormal, median: 200 tok, p95: 1 ktok}
    output: {dist: lognormal, median: 20 tok, p95: 60 tok}
    agents: {steps: {dist: geometric, mean: 3}, tool: {dist: lognormal, median: 100 ms, p95: 400 ms}, system: 500 tok}
    slo: s
slo: {s: {task: {p90: 5 s}}}
fleet:
  pools:
    a: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}
run: {length: 138 s, warmup: 18 s, window: 6 s}
"""


def figures(*sets: str) -> dict[str, Any]:
    return run(load("-", stdin_text=TEXT, sets=sets)).to_json()


def test_the_interval_of_one_run_is_that_of_its_batches() -> None:
    result = run(load("-", stdin_text=TEXT))
    tree = result.to_json()
    assert tree["interval"] == {"level_frac": 0.9, "over": "batches", "n": 20, "batch_s": 2.0}
    # 30 full windows: the last 20 are the batches. Busy time of each, by hand from the table of windows.
    busy = result.tables["windows"].filter(result.tables["windows"]["start_s"] < 60)["busy_frac"].to_list()
    mine = busy[10:30]
    mean = math.fsum(mine) / 20
    half = t_95(19) * math.sqrt(math.fsum((b - mean) ** 2 for b in mine) / 19 / 20)
    pool, low, high = (tree[name]["pools"]["a"] if name else tree["pools"]["a"] for name in ("", "low", "high"))
    assert high["busy_frac"] - pool["busy_frac"] == pytest.approx(half, rel=1e-9)
    assert pool["busy_frac"] - low["busy_frac"] == pytest.approx(half, rel=1e-9)
    # What adds up over the 60 s has 30 times the spread of what adds up over 2 s.
    watts = high["rack_it_w"]["mean"] - pool["rack_it_w"]["mean"]
    kwh = tree["high"]["energy"]["it_kwh"] - tree["energy"]["it_kwh"]
    assert kwh == pytest.approx(watts * 60 / 3.6e6, rel=1e-9)


def test_quantiles_of_latency_have_the_spread_of_the_batches_own() -> None:
    """Of 100 req/s a batch of 2 s tells the p95 (200 x 0.05 = 10 beyond it) but not the p99 (2 beyond it)."""
    scenario = load("-", stdin_text=TEXT, sets=["traffic.chat.rate=100 req/s"])
    result = run(scenario, keep_requests=True)
    tree = result.to_json()
    rows = result.tables["requests"].with_columns(
        batch=(pl.col("arrival_ns").cast(pl.Int64) - 20 * 10**9) // (2 * 10**9)
    )
    last = rows.filter(pl.col("batch") >= 0).sort("batch")  # the last 20 of 30 windows
    gaps = pl.col("output_tokens").cast(pl.Int64) - 1
    arrival, first, end = (pl.col(f"{name}_ns").cast(pl.Int64) for name in ("arrival", "first_token", "end"))
    values = {"ttft_s": first - arrival, "e2e_s": end - arrival, "tpot_s": (end - first + gaps // 2) // gaps}
    chat, low, high = (
        tree[name]["classes"]["chat"] if name else tree["classes"]["chat"] for name in ("", "low", "high")
    )
    for metric, value in values.items():
        for label, q in (("p50", 0.5), ("p95", 0.95)):
            mine = [
                float(np.quantile(found["value"].drop_nulls().to_numpy(), q)) / 1e9
                for (_,), found in last.filter(gaps > 0)
                .with_columns(value=value)
                .group_by("batch", maintain_order=True)
            ]
            assert len(mine) == 20
            mean = math.fsum(mine) / 20
            half = t_95(19) * math.sqrt(math.fsum((each - mean) ** 2 for each in mine) / 19 / 20)
            # From the figure of the whole or the mean of the batches, whichever is farther out.
            centres = chat[metric][label], mean
            assert high[metric][label] == pytest.approx(max(centres) + half, rel=1e-6), (metric, label)
            assert low[metric][label] == pytest.approx(min(centres) - half, rel=1e-6), (metric, label)
        assert low[metric]["mean"] < chat[metric]["mean"] < high[metric]["mean"]
        assert low[metric]["p99"] is high[metric]["p99"] is None
    assert low["limits"][0]["value"] < chat["limits"][0]["value"] < high["limits"][0]["value"]
    assert low["limits"][1]["value"] is None


@pytest.mark.parametrize("sets", [("fleet.cell_replicas=1",), ("run.split=20 s",), ("run.warmup=5 s",)])
def test_batches_of_cells_and_parts_are_those_of_the_whole(sets: tuple[str, ...]) -> None:
    more = ("traffic.chat.rate=100 req/s", *sets)
    one, two = (run(load("-", stdin_text=TEXT, sets=more), workers=n) for n in (1, 3))
    assert one.to_json() == two.to_json()
    assert one.to_json()["low"]["classes"]["chat"]["e2e_s"]["p95"] is not None
    assert "requests" not in one.tables


@pytest.mark.parametrize("sets", [(), ("run.split=36 s",), ("fleet.cell_replicas=1",)])
def test_tasks_have_the_spread_of_the_batches_in_which_they_began(sets: tuple[str, ...]) -> None:
    """20 batches of 6 s, from 18 s on; each has 120 tasks, so 12 beyond the p90 and 1.2 beyond the p99."""
    scenario = load("-", stdin_text=AGENTS, sets=sets)
    result = run(scenario, keep_requests=True)
    tree = result.to_json()
    assert (tree["interval"]["n"], tree["interval"]["batch_s"]) == (20, 6.0)
    # What became of each task, from the rows of its requests.
    asked = for_scenario(scenario, scenario.run.seed).frame.with_row_index("row").cast({"row": pl.UInt64})
    done = result.tables["requests"].filter(pl.col("fate") == "completed")
    tasks = (
        asked.join(done, on="row", how="left")
        .group_by("session")
        .agg(
            n=pl.len(),
            n_done=pl.col("end_ns").count(),
            begin=pl.col("arrival_ns_right").min(),
            end=pl.col("end_ns").max(),
        )
        .filter(pl.col("n") == pl.col("n_done"), pl.col("begin") >= 18 * 10**9, pl.col("begin") < 138 * 10**9)
        .with_columns(batch=(pl.col("begin") - 18 * 10**9) // (6 * 10**9), task=pl.col("end") - pl.col("begin"))
    )
    parts = [part["task"].to_numpy() / 1e9 for part in tasks.sort("batch").partition_by("batch")]
    assert len(parts) == 20
    agent, low, high = (
        tree[name]["classes"]["agent"] if name else tree["classes"]["agent"] for name in ("", "low", "high")
    )
    for label, of in (("mean", np.mean), ("p50", np.median), ("p90", lambda each: np.quantile(each, 0.9))):
        mine = [float(of(part)) for part in parts]
        half = t_95(19) * float(np.std(mine, ddof=1)) / math.sqrt(20)
        # A quantile's interval holds the mean of the batches' own, too.
        centres = [agent["task_s"][label]] if label == "mean" else [agent["task_s"][label], math.fsum(mine) / 20]
        assert high["task_s"][label] == pytest.approx(max(centres) + half, rel=1e-6), label
        assert low["task_s"][label] == pytest.approx(min(centres) - half, rel=1e-6), label
    assert low["task_s"]["p99"] is high["task_s"]["p99"] is None
    assert low["limits"][0]["value"] < agent["limits"][0]["value"] < high["limits"][0]["value"]


def test_what_a_batch_does_not_tell_has_none() -> None:
    tree = figures()
    for side in ("low", "high"):
        chat = tree[side]["classes"]["chat"]
        assert chat["ttft_s"]["mean"] is not None
        assert chat["ttft_s"]["p95"] is None  # a batch has 24 requests: one of them is beyond its p95
        assert chat["itl_s"]["p50"] is not None
        assert chat["itl_s"]["p95"] is None  # there are 1,900 gaps, but a long step is one for all that wait for it
        assert set(chat["task_s"].values()) == {None}
        assert chat["limits"][0]["value"] is None
        assert tree[side]["pools"]["a"]["rack_it_w"]["peak"] is None
        assert tree[side]["requests"]["offered"] is None
        assert tree[side]["cost"]["parts"]["racks"] == tree["cost"]["parts"]["racks"]  # the same in every batch
        assert tree[side]["cost"]["parts"]["energy"] is not None
        assert tree[side]["classes"]["chat"]["attainment_frac"] is not None


@pytest.mark.parametrize(
    ("sets", "over", "n"),
    [(("run.window=7 s",), None, 1), (("run.window=5 s",), "batches", 10), (("run.seeds=2",), "seeds", 2)],
)
def test_short_runs_have_none_and_seeds_come_first(sets: tuple[str, ...], over: str | None, n: int) -> None:
    tree = figures(*sets)
    assert (tree["interval"]["over"], tree["interval"]["n"]) == (over, n)
    assert (tree["low"]["pools"]["a"]["busy_frac"] is None) == (over is None)


@pytest.mark.parametrize(
    ("text", "sets", "paths"),
    [
        (
            TEXT,
            ("run.warmup=4 s", "run.length=150 s", "traffic.chat.rate=60 req/s"),
            [
                ("pools", "a", "busy_frac"),
                ("fleet", "tokens_per_s_out"),
                ("classes", "chat", "ttft_s", "p95"),
                ("classes", "chat", "e2e_s", "p50"),
                ("classes", "chat", "queue_s", "p90"),
                ("classes", "chat", "itl_s", "p50"),
                ("classes", "chat", "itl_s", "p95"),
                ("classes", "chat", "itl_s", "mean"),
            ],
        ),
        (AGENTS, (), [("classes", "agent", "task_s", "p90"), ("classes", "agent", "task_s", "mean")]),
    ],
)
def test_nine_in_ten_intervals_hold_the_truth(text: str, sets: tuple[str, ...], paths: list[tuple[str, ...]]) -> None:
    trees = [run(load("-", stdin_text=text, sets=[*sets, f"run.seed={seed}"])).to_json() for seed in range(1, 41)]
    for path in paths:
        values = [at(tree, path) for tree in trees]
        truth = math.fsum(values) / len(values)
        held = sum(at(tree["low"], path) <= truth <= at(tree["high"], path) for tree in trees)
        assert held >= 31, path  # of 40: with 0.9 each, fewer come once in a hundred times


def at(tree: Any, path: tuple[str, ...]) -> float:
    for step in path:
        tree = tree[step]
    assert isinstance(tree, float)
    return tree


def test_paired_differences_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, s = 1, half = 2.92 / sqrt(3).
    found = paired([10.0, 20.0, 30.0], [11.0, 22.0, 33.0])
    assert found is not None
    assert found.value == 2.0
    assert found.low == pytest.approx(2 - 2.92 / math.sqrt(3))
    assert found.high == pytest.approx(2 + 2.92 / math.sqrt(3))
    assert found.is_sure
    assert paired([1.0, None], [1.0, 2.0]) is None
    one = paired([1.0], [2.0])
    assert one is not None
    assert (one.value, one.low, one.is_sure) == (1.0, None, None)
    with pytest.raises(ValueError, match="cannot be paired"):
        paired([1.0], [1.0, 2.0])


def test_common_random_numbers_make_differences_tight() -> None:
    def busy(*sets: str) -> list[float]:
        return [seed["pools"]["a"]["busy_frac"] for seed in figures("run.seeds=6", "run.length=20 s", *sets)["seeds"]]

    base, other = busy(), busy("fleet.pools.a.deploy[0].chunk_tokens=256")
    difference = paired(base, other)
    assert difference is not None
    assert difference.is_sure
    assert difference.high is not None
    spread = max(base) - min(base)
    assert difference.high - difference.value < spread / 5

"""A run cut in time: nothing is lost or counted twice, the parts begin as busy as the whole is, seams are measured."""

from __future__ import annotations

import functools
from typing import Any

import polars as pl
import pytest

from planner import Result, load, run
from planner.errors import ScenarioError
from planner.fleet.stretches import plan

TEXT = """
schema: 1
title: small
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 60 req/s
    input: {dist: lognormal, median: 800 tok, p95: 3 ktok}
    output: {dist: lognormal, median: 100 tok, p95: 400 tok}
    slo: easy
  bulk:
    model: gpt-oss-120b
    arrivals: gamma
    burstiness: 2
    rate: 10 req/s
    input: 300 tok
    output: 30 tok
slo:
  easy: {ttft: {p95: 300 ms}, e2e: {p95: 4 s}, attainment: 90 %}
fleet:
  pools:
    a: {rack: hgx-h200, count: 2, deploy: [{model: gpt-oss-120b, chips: 4}]}
run: {length: 100 s, warmup: 10 s, window: 5 s, drain: 60 s, seeds: 2}
"""
CUT = ("run.split=25 s",)


@functools.cache
def made(*sets: str, workers: int = 2) -> Result:
    return run(load("-", stdin_text=TEXT, sets=sets), workers=workers)


def tree(*sets: str) -> dict[str, Any]:
    return made(*sets).to_json()


def test_nothing_is_lost_or_counted_twice() -> None:
    whole, cut = tree(), tree(*CUT)
    assert cut["requests"] == whole["requests"]
    assert cut["tokens"] == whole["tokens"]
    for name in ("chat", "bulk"):
        assert cut["classes"][name]["offered"] == whole["classes"][name]["offered"]
        assert cut["classes"][name]["completed"] == whole["classes"][name]["completed"]
    windows = [made(*sets).tables["windows"].select("seed", "pool", "window_ix") for sets in ((), CUT)]
    assert windows[1].is_duplicated().sum() == 0
    assert windows[1].sort(pl.all()).equals(windows[0].sort(pl.all()))
    counts = [
        made(*sets).tables["class_windows"].group_by("class").agg(pl.col("offered", "completed").sum()).sort("class")
        for sets in ((), CUT)
    ]
    assert counts[0].equals(counts[1])


def test_the_parts_are_as_busy_as_the_whole() -> None:
    whole, cut = tree(), tree(*CUT)
    assert cut["pools"]["a"]["busy_frac"] == pytest.approx(whole["pools"]["a"]["busy_frac"], rel=0.02)
    assert cut["energy"]["it_kwh"] == pytest.approx(whole["energy"]["it_kwh"], rel=0.01)
    assert cut["pools"]["a"]["tokens_per_s_out"] == pytest.approx(whole["pools"]["a"]["tokens_per_s_out"], rel=0.02)
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        a, b = cut["classes"]["chat"][metric]["p95"], whole["classes"]["chat"][metric]["p95"]
        assert a == pytest.approx(b, rel=0.05), metric
    assert cut["pools"]["a"]["replicas"] == whole["pools"]["a"]["replicas"]


def test_energy_is_that_of_the_windows() -> None:
    result = made(*CUT)
    for seed in result.to_json()["seeds"]:
        mine = result.tables["windows"].filter(
            (pl.col("seed") == seed["run"]["seed"]) & (pl.col("start_s") >= 10) & (pl.col("start_s") < 100)
        )
        assert mine.height == 18
        assert sum(mine["rack_it_w"]) * 5 / 3.6e6 == pytest.approx(seed["energy"]["it_kwh"], rel=1e-9)


def test_the_seam_is_measured_and_said() -> None:
    found = tree(*CUT)["split"]
    assert (found["parts"], found["split_s"], found["warmup_s"]) == (4, 25.0, 10.0)
    assert found["seam_s"] in {25.0, 50.0, 75.0}
    rows = {(row["class"], row["metric"]): row for row in found["differences"]}
    assert set(rows) == {("chat", "ttft"), ("chat", "e2e"), ("chat", "attainment")}
    assert all(abs(row["frac"]) < 0.1 for row in rows.values())
    assert abs(found["step_energy_frac"]) < 0.02
    notice = next(n for n in made(*CUT).notices if n.code == "seam")
    assert "cut into 4 parts" in notice.message
    assert tree()["split"] is None


def test_without_a_warm_up_the_seam_shows() -> None:
    with_it = tree(*CUT)["split"]
    without = tree("run.split=25 s", "run.warmup=0 s")["split"]
    assert abs(without["step_energy_frac"]) > abs(with_it["step_energy_frac"])


def test_one_part_is_the_whole() -> None:
    assert tree("run.split=100 s") == tree()


def test_the_same_bytes_whatever_the_workers_and_cells() -> None:
    assert made(*CUT, workers=1).to_json() == tree(*CUT)
    cells = tree(*CUT, "fleet.cell_replicas=1")
    assert cells["requests"]["offered"] == tree()["requests"]["offered"]
    assert cells["pools"]["a"]["replicas"] == tree()["pools"]["a"]["replicas"]


def test_prefixes_and_rows_of_requests_survive_the_cut() -> None:
    more = ("run.seeds=1", "traffic.chat.prefix_reuse=50 %")
    whole, cut = tree(*more), tree(*more, *CUT)
    a, b = (each["pools"]["a"]["tokens_per_s_in"] for each in (whole, cut))
    assert b == pytest.approx(a, rel=0.1)
    s = load("-", stdin_text=TEXT, sets=["run.seeds=1", *CUT])
    tables = run(s, keep_requests=True, keep_timeline=True).tables
    assert tables["requests"]["row"].to_list() == list(range(whole["requests"]["offered"]))
    spans = tables["timeline"].sort("replica_ix", "begin_ns")
    assert spans["end_ns"].max() > 100 * 10**9 * 0.99
    before = spans.with_columns(last=pl.col("end_ns").shift(1).over("replica_ix")).drop_nulls("last")
    assert before.filter(pl.col("begin_ns") < pl.col("last")).height < 0.01 * spans.height  # only across a seam


SESSIONS = "traffic.bulk.sessions={turns: {dist: geometric, mean: 4}, think: THINK s}"
AGENTS = "traffic.bulk.agents={steps: {dist: geometric, mean: 4}, tool: 500 ms}"


@pytest.mark.parametrize("chained", [SESSIONS.replace("THINK", "1"), AGENTS], ids=["sessions", "agents"])
def test_sessions_and_tasks_are_whole_where_they_begin(chained: str) -> None:
    more = ("run.seeds=1", "fleet.cell_replicas=8", chained)
    whole, cut = tree(*more), tree(*more, *CUT)
    assert cut["classes"]["chat"]["offered"] == whole["classes"]["chat"]["offered"]
    a, b = (each["classes"]["bulk"] for each in (whole, cut))
    assert b["offered"] == pytest.approx(a["offered"], rel=0.005)  # the run's end cuts off a request more or less
    assert b["tasks"] == pytest.approx(a["tasks"], rel=0.02)
    assert b["task_s"]["mean"] == pytest.approx(a["task_s"]["mean"], rel=0.05)
    assert b["e2e_s"]["p95"] == pytest.approx(a["e2e_s"]["p95"], rel=0.05)
    for name in ("tokens_per_s_out", "busy_frac"):
        assert cut["pools"]["a"][name] == pytest.approx(whole["pools"]["a"][name], rel=0.03), name
    assert abs(cut["split"]["step_energy_frac"]) < 0.03
    rows = run(load("-", stdin_text=TEXT, sets=[*more, *CUT]), keep_requests=True).tables["requests"]["row"]
    assert rows.is_sorted()
    assert rows.n_unique() == len(rows) == cut["requests"]["offered"]
    assert not [n for n in cut["notices"] if n["code"] == "split_sessions"]


def test_sessions_that_outlast_the_warm_up_are_told() -> None:
    more = ("run.seeds=1", SESSIONS.replace("THINK", "8"), *CUT)
    (notice,) = [n for n in tree(*more)["notices"] if n["code"] == "split_sessions"]
    assert "bulk: cut in time with 10.0 s of warm-up, but of its sessions one in twenty pauses for" in notice["message"]


def test_where_it_is_cut() -> None:
    pieces = plan(length_ns=100, split_ns=30, warmup_ns=5)
    assert [(p.from_ns, p.begin_ns, p.end_ns, p.to_ns) for p in pieces] == [
        (0, 0, 30, 35),
        (25, 30, 60, 65),
        (55, 60, 90, 95),
        (85, 90, 100, 100),
    ]
    assert [p.end_ns for p in plan(length_ns=92, split_ns=30, warmup_ns=5)] == [30, 60, 92]  # a short rest is taken in


@pytest.mark.parametrize(
    ("sets", "what"),
    [
        (("run.split=12 s",), "split is no multiple of the window"),
        (("run.split=10 s",), "the parts are not longer than the warm-up"),
        (("run.split=25 s", "run.warmup=7 s"), "warmup is no multiple of the window"),
        (
            (
                "run.split=25 s",
                "traffic.loop={model: gpt-oss-120b, arrivals: closed, concurrency: 4, input: 9 tok, output: 9 tok}",
            ),
            "a closed loop cannot be cut in time.*run.seeds of a shorter run",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused(sets: tuple[str, ...], what: str) -> None:
    with pytest.raises(ScenarioError, match=what):
        tree(*sets)

"""Sessions, agents and closed loops as tables: what a row waits for, what its prompt holds, which blocks it shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from planner import scenario
from planner.errors import TrafficError
from planner.scenario.schema import TrafficClass
from planner.traffic import blocks
from planner.traffic.inspect import prefix_hits
from planner.traffic.offered import ClassTraffic
from planner.traffic.requests import for_class, for_class_sample, for_scenario
from planner.traffic.schema import NO_ROW, NO_SESSION

S = 10**9
BASE = {
    "model": "gpt-oss-120b",
    "arrivals": "poisson",
    "rate": "5 req/s",
    "input": {"dist": "lognormal", "median": "200 tok", "p95": "900 tok"},
    "output": {"dist": "uniform", "low": "50 tok", "high": "150 tok"},
}
SESSIONS = {**BASE, "sessions": {"turns": {"dist": "geometric", "mean": 10}, "think": "4 s", "system": "1 ktok"}}
LONG = {"dist": "lognormal", "median": "1200 tok", "p95": "8 ktok"}
CLOSED = {"model": "gpt-oss-120b", "arrivals": "closed", "input": "100 tok", "output": "10 tok", "concurrency": 8}


def made(keys: dict[str, Any], length_s: int = 2000, *, prefixes: bool = False, seed: int = 1) -> ClassTraffic:
    cls = TrafficClass.model_validate(keys)
    return for_class(cls, name="chat", seed=seed, length_ns=length_s * S, prefixes=prefixes)


def test_rate_counts_requests_and_think_time_stands_between_turns() -> None:
    frame = made(SESSIONS, 20_000).frame
    assert abs(frame.height / 100_000 - 1) < 0.05  # 10,000 sessions of 10 turns: sd 1.4 %
    first = frame.filter(pl.col("after_row") == NO_ROW)
    assert first.height == frame["session"].n_unique()
    assert frame.filter(pl.col("after_row") != NO_ROW)["delay_ns"].unique().to_list() == [4 * S]
    assert first["delay_ns"].max() == 0


def test_a_prompt_is_the_session_so_far_and_what_the_turn_adds() -> None:
    frame = made(SESSIONS).frame.with_row_index("row")
    later = frame.filter(pl.col("after_row") != NO_ROW)
    before = frame[later["after_row"].cast(pl.Int64)]
    assert (before["row"] + 1 == later["row"]).all()
    assert (before["session"] == later["session"]).all()
    assert (later["input_tokens"] > before["input_tokens"] + before["output_tokens"]).all()
    assert frame["input_tokens"].min() > 1_000  # the head


def test_a_session_ends_at_the_context_and_is_counted() -> None:
    big = {**SESSIONS, "input": "30 ktok", "sessions": {"turns": {"dist": "fixed", "value": 8}}}
    found = made(big, 400)
    total = found.frame["input_tokens"] + found.frame["output_tokens"]
    assert total.max() <= 131_072
    ends = [notice for notice in found.notices if notice.code == "context_end"]
    n = found.frame["session"].n_unique()
    assert len(ends) == 1
    assert ends[0].message.startswith(
        f"{n} of {n} sessions end at the model's context of 131,072 tokens: {4 * n:,} turns"
    )
    assert found.frame.height == 4 * n


def test_the_mean_prompt_of_sessions_is_that_of_whole_sessions() -> None:
    cls = TrafficClass.model_validate(SESSIONS)
    sample = for_class_sample(cls, name="chat", seed=0)
    assert sample.columns == ["input_tokens", "output_tokens"]
    # Added per turn: 200 exp(0.914^2/2) = 304 in and 100 out. A request of a geometric session has 9 turns before
    # it on average: 1,000 + 9 x 404 + 304.
    assert abs(sample["input_tokens"].mean() / 4_940 - 1) < 0.1  # type: ignore[operator]


def test_agents_are_sessions_with_tool_time() -> None:
    tool = {"dist": "lognormal", "median": "2 s", "p95": "20 s"}
    agents = {**BASE, "agents": {"steps": {"dist": "fixed", "value": 10}, "tool": tool}}
    frame = made(agents, 5_000).frame
    assert frame.height == 10 * frame["session"].n_unique()
    pauses = frame.filter(pl.col("after_row") != NO_ROW)["delay_ns"]
    assert abs(pauses.median() / (2 * S) - 1) < 0.05  # type: ignore[operator]
    assert abs(pauses.quantile(0.95) / (20 * S) - 1) < 0.1  # type: ignore[operator]


def test_a_closed_loop_never_has_more_than_its_clients() -> None:
    frame = made({**CLOSED, "requests": 100, "think": {"dist": "exponential", "mean": "2 s"}}).frame
    assert frame.height == 100
    assert frame["after_row"].to_list() == [NO_ROW] * 8 + list(range(92))
    assert frame["delay_ns"][:8].to_list() == [0] * 8
    assert frame["arrival_ns"].unique().to_list() == [0]
    assert frame["session"].unique().to_list() == [NO_SESSION]


def test_a_closed_loop_has_as_many_requests_as_the_run_can_take() -> None:
    # 10 tokens of at least 1 ms: 10 ms a request, 20 s, 8 clients: 2,000 waves and one more.
    assert made(CLOSED, 20).frame.height == 8 * 2_001
    with pytest.raises(TrafficError, match="requests in one run"):
        made({**CLOSED, "concurrency": 1_000_000}, 100_000)


def test_turns_do_not_depend_on_how_long_the_run_is() -> None:
    short, long = made(SESSIONS, 100).frame, made(SESSIONS, 2_000).frame
    assert long.head(short.height).equals(short)


def test_blocks_of_sessions_share_the_head_and_each_session_its_past() -> None:
    found = made(SESSIONS, 200, prefixes=True)
    assert found.runs is not None
    assert found.block_tokens == 32
    single = blocks.expand(found.runs)
    frame = found.frame.with_row_index("row")
    lists = single.group_by("row", maintain_order=True).agg("hash")
    assert lists["hash"].list.len().to_list() == (frame["input_tokens"] // 32).to_list()
    by_row = dict(lists.iter_rows())
    for row, after, session in frame.select("row", "after_row", "session").iter_rows():
        if after != NO_ROW:
            assert by_row[row][: len(by_row[after])] == by_row[after]
        elif session:
            shared = set(by_row[row]) & set(by_row[0])
            assert len(shared) == 1_000 // 32  # whole blocks of the head, and nothing else
            assert by_row[row][:31] == by_row[0][:31]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_prefix_reuse_is_what_an_infinite_cache_would_find(share: float) -> None:
    found = made({**BASE, "input": LONG, "prefix_reuse": f"{share * 100:g} %"}, prefixes=True)
    assert found.runs is not None
    lists = blocks.expand(found.runs).group_by("row", maintain_order=True).agg(pl.col("hash").cast(pl.Int64))
    rows = pl.DataFrame({"row": pl.int_range(found.frame.height, dtype=pl.UInt64, eager=True)})
    requests = found.frame.with_columns(
        rows.join(lists, on="row", how="left", maintain_order="left")["hash"].alias("hash_ids")
    )
    hits = prefix_hits(requests, 32)
    assert abs(int(hits.sum()) / int(found.frame["input_tokens"].sum()) - share) < 0.005
    assert [n.code for n in found.notices] == []


def test_a_share_that_cannot_be_is_said() -> None:
    short = made({**BASE, "input": "20 tok", "prefix_reuse": "50 %"}, prefixes=True)
    assert [n.code for n in short.notices] == ["prefix_reuse"]


HASHED = "".join(
    f'{{"timestamp": {t}, "input_length": {length}, "output_length": 5, "hash_ids": {ids}}}\n'
    for t, length, ids in [(0, 1000, [5, 6]), (1000, 1500, [5, 6, 9]), (2000, 600, [7, 8]), (3000, 400, [5])]
)


def test_recorded_blocks_come_as_they_are_and_copies_share_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(HASHED)
    cls = TrafficClass.model_validate({"model": "gpt-oss-120b", "trace": str(path)})
    found = for_class(cls, name="c", seed=1, length_ns=None, prefixes=True)
    assert found.runs is not None
    assert found.block_tokens == 512
    assert found.frame.columns == ["arrival_ns", "input_tokens", "output_tokens"]
    assert found.runs.rows() == [(0, 5, 2), (1, 5, 2), (1, 9, 1), (2, 7, 2), (3, 5, 1)]
    assert for_class(cls, name="c", seed=1, length_ns=None).runs is None
    three = for_class(cls.model_copy(update={"scale": 3.0}), name="c", seed=1, length_ns=None, prefixes=True)
    assert three.runs is not None
    assert blocks.expand(three.runs)["hash"].n_unique() == 3 * 5
    again = cls.model_copy(update={"repeat": True})
    twice = for_class(again, name="c", seed=1, length_ns=5 * S, prefixes=True)
    assert twice.runs is not None
    assert twice.frame.height == 6
    assert blocks.expand(twice.runs)["hash"].n_unique() == 5 + 3
    with pytest.raises(TrafficError, match="take prefix_reuse away"):
        for_class(cls.model_copy(update={"prefix_reuse_frac": 0.5}), name="c", seed=1, length_ns=None, prefixes=True)


def test_large_hashes_are_numbered() -> None:
    ids = pl.Series("hash_ids", [[2**60, -5], [-5, 7], None, []], dtype=pl.List(pl.Int64))
    assert blocks.dense(ids).to_list() == [[2, 0], [0, 1], None, []]


MIXED = """\
title: t
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 5 req/s, input: 300 tok, output: 20 tok, prefix_reuse: 40 %}
  agent:
    model: gpt-oss-120b
    arrivals: gamma
    burstiness: 2
    rate: 3 req/s
    input: 200 tok
    output: 50 tok
    agents: {steps: {dist: geometric, mean: 4}, tool: 1 s}
  talk:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 3 req/s
    input: 200 tok
    output: 50 tok
    sessions: {turns: {dist: fixed, value: 3}, think: 1 s}
fleet: {pools: {a: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}}}
run: {length: 60 s}
"""


def test_classes_meet_in_one_table_with_their_chains_and_blocks(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(MIXED)
    s = scenario.load(tmp_path / "s.yaml")
    all_of = for_scenario(s, 1, prefixes=True)
    frame = all_of.frame.with_row_index("row")
    assert frame["arrival_ns"].is_sorted()
    assert frame.schema["after_row"] == frame.schema["delay_ns"] == frame.schema["session"] == pl.UInt64
    later = frame.filter(pl.col("after_row") != NO_ROW)
    before = frame[later["after_row"].cast(pl.Int64)]
    assert (before["row"] < later["row"]).all()
    assert (before["session"] == later["session"]).all()
    assert (before["class_ix"] == later["class_ix"]).all()
    assert (before["input_tokens"] + before["output_tokens"] + 200 == later["input_tokens"]).all()
    sessions = frame.filter(pl.col("session") != NO_SESSION)
    assert sessions["session"].n_unique() == int(sessions["session"].max()) + 1  # type: ignore[call-overload]
    assert all_of.blocks is not None
    counts = (
        frame.select("row")
        .with_columns(pl.col("row").cast(pl.UInt64))
        .join(all_of.blocks.group_by("row").len(), on="row", how="left")["len"]
        .fill_null(0)
    )
    assert all_of.block_tokens == 256
    assert counts.to_list() == (frame["input_tokens"] // 256).to_list()
    assert all_of.blocks["row"].is_sorted()
    owner = all_of.blocks.with_columns(frame["class_ix"][all_of.blocks["row"]].alias("class"))
    assert (owner["hash"] // 2**48 == owner["class"]).all()
    plain = for_scenario(s, 1)
    assert plain.runs is None
    assert plain.frame.equals(all_of.frame)

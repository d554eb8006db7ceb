"""`planner trace make` through the real entry point: what a run would offer, as a file."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from planner import scenario
from planner.traffic import read
from planner.traffic.requests import for_scenario
from tests.commandline import answer, planner

TEXT = """\
title: two classes
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 5 req/s, input: 300 tok, output: 20 tok, prefix_reuse: 40 %}
  code: {model: gpt-oss-120b, arrivals: weibull, burstiness: 2, rate: 3 req/s, input: 900 tok, output: 50 tok}
fleet: {pools: {a: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}}}
run: {length: 60 s, seed: 3}
"""
TURNS = TEXT.replace("prefix_reuse: 40 %", "sessions: {turns: {dist: fixed, value: 3}, think: 1 s}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    return path


def test_the_file_is_what_a_run_offers(file: Path) -> None:
    out = file.with_name("r.csv")
    done = planner("trace", "make", str(file), "-o", str(out))
    assert (done.returncode, done.stdout.split()[0]) == (0, "wrote")
    assert "CSV has no place for block hashes" in done.stderr
    again = read(out).requests
    offered = for_scenario(scenario.load(file), 3).frame
    arrivals = offered["arrival_ns"].cast(pl.Int64)
    assert (again["arrival_ns"] == arrivals - arrivals[0]).all()  # a reader counts from the first
    assert (again["input_tokens"] == offered["input_tokens"]).all()
    assert again["class"].unique().sort().to_list() == ["chat", "code"]
    assert planner("trace", "make", str(file), "-o", str(out)).returncode == 2
    forced = planner("trace", "make", str(file), "-o", str(out), "--force", "--seed", "4", "--json")
    result = answer(forced)["result"]
    assert result["seed"] == 4
    assert sum(result["by_class"].values()) == result["n_requests"] == read(out).n_requests


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_prefixes_come_along_and_are_read_again(file: Path, form: str) -> None:
    out = file.with_name(f"r.{form}")
    assert planner("trace", "make", str(file), "-o", str(out)).returncode == 0
    found = read(out)
    assert found.block_tokens == 32
    lengths = found.requests.filter(pl.col("class") == "chat")["hash_ids"].list.len()
    assert lengths.unique().to_list() == [300 // 32]


def test_turns_say_what_they_wait_for(file: Path) -> None:
    file.write_text(TURNS)
    done = planner("trace", "make", str(file), "-o", "-", "--to", "jsonl", "-q")
    assert done.returncode == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    later = [row for row in rows if row["after_row"] is not None]
    assert len(later) == 2 * len({row["session_id"] for row in rows} - {None})
    for row in later:
        before = rows[row["after_row"]]
        assert before["session_id"] == row["session_id"]
        assert row["input_tokens"] == before["input_tokens"] + before["output_tokens"] + 300
        assert row["delay_ns"] == 10**9
    out = file.with_name("r.jsonl")
    assert planner("trace", "make", str(file), "-o", str(out)).returncode == 0
    refused = planner("trace", "inspect", str(out))
    assert refused.returncode == 2
    assert "wait for the ends of others" in refused.stderr


def test_wrong_uses(file: Path) -> None:
    for args in (["-o", "r.txt"], [], ["-o", "-", "--json"], ["-o", "-", "--to", "parquet"]):
        assert planner("trace", "make", str(file), *args).returncode == 2
    missing = planner("trace", "make", "nowhere.yaml", "-o", "r.csv")
    assert missing.returncode == 2

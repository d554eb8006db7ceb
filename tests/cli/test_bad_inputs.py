"""Inputs at the ends of what there is, through the command line: handled or refused, with the reason and a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commandline import answer, planner

BASE = """
title: Ends
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 5 req/s, input: 500 tok, output: 50 tok}
fleet:
  pools:
    a: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8, per_rack: 1}]}
run: {length: 10 s}
"""
DRAWN = "arrivals: poisson, rate: 5 req/s, input: 500 tok, output: 50 tok"
OTHER = "{rack: hgx-h200, count: 1, deploy: [{model: llama-3.1-8b, chips: 1}]}"

REFUSED = [
    (2, ["traffic.chat.input=0 tok"], "at least 1.00 tok"),
    (2, ["traffic.chat.output=0 tok"], "at least 1.00 tok"),
    (4, ["traffic.chat.input=200 ktok"], "its model takes 131,072 at most; shorten input and output"),
    (2, ["traffic.chat.rate=0 req/s"], "write a quantity above 0 req/s"),
    (2, ["traffic.chat.rate=1e9 req/s"], "rate x run.length is 1e+10 requests a seed"),
    (2, ["run.length=20 yr", "traffic.chat.rate=1e-6 req/s"], "more than ten million windows; widen the window"),
    (2, ["run.length=200 yr"], "out of range"),
    (2, ["run.length=0 s"], "out of range"),
    (4, ["fleet.pools.a.count=0"], "give such a pool at least one rack"),
    (2, [f"fleet.pools.b={OTHER}", "fleet.routes={chat: b}"], "pool 'b' does not deploy 'gpt-oss-120b'"),
    (2, ["fleet.pools.a.deploy=[{model: gpt-oss-120b, chips: 8, role: decode}]"], "no pool deploys 'gpt-oss-120b'"),
    (
        2,
        ["fleet.pools.a.deploy=[{model: gpt-oss-120b, chips: 8, pp: 3}]"],
        "pp 3 does not divide the 8 chips of the replica",
    ),
    (
        4,
        ["fleet.pools.a.autoscale={delay: 0 s}", "run.length=20 yr", "traffic.chat.rate=1e-6 req/s", "run.window=1 d"],
        "write a delay of at least 6.31 s",
    ),
]


@pytest.mark.parametrize(("code", "sets", "said"), REFUSED, ids=[case[1][0][:40] for case in REFUSED])
def test_refused_with_a_reason(code: int, sets: list[str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(BASE)
    done = planner("run", str(path), "-o", str(tmp_path / "out"), *(part for one in sets for part in ("--set", one)))
    assert done.returncode == code, done.stderr
    assert said in done.stderr


def test_twenty_years_and_one_token(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(BASE.replace("output: 50 tok", "output: 1 tok").replace("rate: 5 req/s", "rate: 1e-6 req/s"))
    sets = ("--set", "run.length=20 yr", "--set", "run.window=1 d")
    done = planner("run", str(path), "-o", str(tmp_path / "out"), "--json", *sets)
    assert done.returncode == 0, done.stderr
    result = answer(done)["result"]
    # 1e-6 a second over 6.3e8 s: 631 and a little, each of one token, so that none has a time between tokens.
    assert 500 < result["requests"]["completed"] == result["requests"]["offered"] < 750
    assert result["classes"]["chat"]["tpot_s"]["p50"] is None


def test_a_trace_of_ugly_rows(tmp_path: Path) -> None:
    rows = ["0.0,0,10", "1.0,100,0", "2.0,100,10", "3.0,200000,10", "4.0,5,1", "400000000,7,1"]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows, ""]))
    path = tmp_path / "s.yaml"
    path.write_text(BASE.replace(DRAWN, "trace: ./t.csv").replace("run: {length: 10 s}", "run: {}"))
    done = planner("run", str(path), "-o", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    requests = answer(done)["result"]["requests"]
    # No prompt and no output are failed rows; 200,000 tokens exceed the context; the last row is 12.7 years later.
    assert (requests["failed_rows"], requests["rejected"], requests["completed"]) == (2, 1, 3)


def test_a_million_equal_stamps(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n" + "5.0,3,1\n" * 1_000_000)
    path = tmp_path / "s.yaml"
    path.write_text(BASE.replace(DRAWN, "trace: ./t.csv"))
    done = planner("run", str(path), "-o", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    assert answer(done)["result"]["requests"]["completed"] == 1_000_000

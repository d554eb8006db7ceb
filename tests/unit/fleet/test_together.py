"""Requests drawn as they are simulated: the same results as of those drawn in one go, whatever goes together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from planner import scenario
from planner.aggregate.result import Result
from planner.fleet import parts, together
from planner.fleet.checkpoint import Checkpoint
from planner.fleet.storage import Folder
from planner.study import answer as study
from planner.study.run import run
from planner.traffic import streamed
from tests.memory import ROOT

LAW = """
  chat:
    {model: gpt-oss-120b, arrivals: poisson, rate: 60 req/s, input: {dist: lognormal, median: 500 tok, p95: 2 ktok},
     output: {dist: lognormal, median: 60 tok, p95: 200 tok}, slo: easy}
  code:
    {model: llama-3.1-8b, arrivals: gamma, burstiness: 3, rate: 20 req/s,
     input: {dist: lognormal, median: 60 ktok, p95: 140 ktok}, output: 40 tok}
"""
TRACE = """
  chat: {model: gpt-oss-120b, trace: ./t.csv, scale: 7.5, speedup: 2, repeat: true, slo: easy}
  code: {model: llama-3.1-8b, arrivals: poisson, rate: 9 req/s, input: 300 tok, output: 40 tok}
"""
PROFILE = """
  chat: {model: gpt-oss-120b, trace: azure-conv-2023, scale: 8.3, slo: easy}
  code: {model: llama-3.1-8b, trace: azure-code-2023, scale: 2, repeat: true, speedup: 4}
"""
TEXT = """
schema: 1
title: Together
traffic: TRAFFIC
slo:
  easy: {ttft: {p95: 2 s}}
fleet:
  router: least-outstanding-tokens
  cell_replicas: SIZE
  pools:
    pool: {rack: hgx-h200, count: 4, deploy: [{model: llama-3.1-8b, chips: 1, per_rack: 2},
                                              {model: gpt-oss-120b, chips: 2}]}
run: {length: 80 s, warmup: 10 s, window: 2 s, seed: 4 MORE}
"""


def made(folder: Path, traffic: str, *, size: int = 1000, more: str = "") -> scenario.Scenario:
    rows = [
        "arrival_s,input_tokens,output_tokens",
        *(f"{k * 0.61:.3f},{100 + k * 37 % 900},{5 + k % 60}" for k in range(200)),
    ]
    (folder / "t.csv").write_text("\n".join(rows), encoding="utf-8")
    path = folder / "s.yaml"
    path.write_text(TEXT.replace("TRAFFIC", traffic).replace("SIZE", str(size)).replace("MORE", more), encoding="utf-8")
    return scenario.load(path)


def go_together(monkeypatch: pytest.MonkeyPatch, rows: int) -> list[int]:
    """Requests are drawn as they are simulated, however few; how many cells went together each time."""
    sizes: list[int] = []
    simulate = together.simulate

    def counted(*given: Any, **more: Any) -> Any:
        sizes.append(len(given[2]))
        return simulate(*given, **more)

    monkeypatch.setattr(together, "simulate", counted)
    monkeypatch.setattr(streamed, "LEAST", 0)
    monkeypatch.setattr(streamed, "ROWS", rows)
    return sizes


def same(one: Result, other: Result) -> None:
    assert set(one.tables) == set(other.tables)
    for name, table in one.tables.items():
        assert_frame_equal(table, other.tables[name])
    assert one.to_json() == other.to_json()


@pytest.mark.parametrize("traffic", [LAW, TRACE, PROFILE], ids=["law", "trace", "profile"])
@pytest.mark.parametrize(("size", "workers"), [(1000, 1), (9, 2), (9, 5)], ids=["one cell", "groups", "alone"])
def test_results_are_those_of_requests_drawn_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traffic: str, size: int, workers: int
) -> None:
    asked = made(tmp_path, traffic, size=size)
    held = run(asked, workers=workers)
    assert any(table.height for table in held.tables.values())
    sizes = go_together(monkeypatch, 700)
    same(run(asked, workers=workers), held)
    assert sum(sizes) >= (1 if size == 1000 else 8)


@pytest.mark.parametrize("size", [1000, 20])
def test_pieces_of_time_go_together_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    asked = made(tmp_path, LAW, size=size, more=", split: 20 s")
    held = run(asked, workers=2)
    sizes = go_together(monkeypatch, 300)
    for workers in (1, 2):
        same(run(asked, workers=workers), held)
    assert sizes


def test_kept_rows_and_spans_are_numbered_as_in_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(tmp_path, TRACE, size=9, more=", seeds: 2")
    held = run(asked, workers=2, keep_requests=True, keep_timeline=True)
    sizes = go_together(monkeypatch, 500)
    found = run(asked, workers=2, keep_requests=True, keep_timeline=True)
    same(found, held)
    assert found.tables["requests"].height > 1000
    assert max(sizes) > 1


def test_an_interrupted_run_goes_on_in_other_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(tmp_path, LAW, size=9, more=", split: 40 s")
    whole = run(asked)
    sizes = go_together(monkeypatch, 500)
    keep, n_kept = Checkpoint.keep, 0

    def stopping(self: Checkpoint, packed: bytes) -> None:
        nonlocal n_kept
        keep(self, packed)
        n_kept += 1
        if n_kept == 2:
            raise KeyboardInterrupt

    place = str(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", stopping)
        with pytest.raises(study.Interrupted, match=r"2 finished parts are kept"):
            study.answer([asked], out=place, workers=5)
    n_cells, n_done = 16, sum(each["cells"] for each in _kept(place))
    assert 0 < n_done < n_cells
    sizes.clear()
    same(study.answer([asked], out=place, is_resuming=True, workers=1).result, whole)
    assert sizes[0] == n_cells - n_done


def _kept(place: str) -> list[dict[str, int]]:
    folder = Folder.of(place + ".parts")
    names = [name for name in folder.names() if name.endswith(".part")]
    return [{"cells": len(parts.about(folder.read(name))["cells"])} for name in names]


@pytest.mark.parametrize("traffic", [LAW, PROFILE], ids=["law", "profile"])
def test_ctrl_c_acts_while_requests_are_drawn(tmp_path: Path, traffic: str) -> None:
    """A hundred million of them: at once they would take a minute and many gigabytes."""
    many = traffic.replace("rate: 60 req/s", "rate: 27000 req/s").replace("scale: 8.3", "scale: 6000")
    made(tmp_path, many, more=", drain: 0 s" if traffic is LAW else "")
    text = (tmp_path / "s.yaml").read_text(encoding="utf-8").replace("length: 80 s", "length: 1 h")
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "run", "s.yaml", "-o", "out"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    time.sleep(6)
    assert process.poll() is None, process.communicate()
    sent_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - sent_s < 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.yaml", "t.csv"]


def test_few_groups_for_many_simulations() -> None:
    items = [(s, c) for s in range(3) for c in range(8)]
    n_cells = {0: 8, 1: 8, 2: 8}

    def sizes(n_workers: int, flows: set[int]) -> list[int]:
        made = together.groups(items, n_workers, n_cells.__getitem__, flows.__contains__)
        assert [item for group in made for item in group] == items
        return [len(group) for group in made]

    assert sizes(1, {0, 1, 2}) == [8, 8, 8]
    assert sizes(4, {0, 1, 2}) == [4] * 6
    assert sizes(100, {0, 1, 2}) == [1] * 24
    assert sizes(1, {1}) == [1] * 8 + [8] + [1] * 8

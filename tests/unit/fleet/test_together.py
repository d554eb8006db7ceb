"""Requests drawn as they are simulated: the same results as of those drawn in one go, whatever goes together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from planner import scenario
from planner.aggregate.result import Result
from planner.fleet import together
from planner.study.run import run
from planner.traffic import streamed

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

"""Requests drawn some at a time: the same as in one go, in memory that does not grow with them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from planner import scenario
from planner.fleet import draws
from planner.fleet.draws import Draw
from planner.scenario import Scenario
from planner.traffic import streamed
from planner.traffic.requests import for_scenario
from tests.memory import peak_bytes

TEXT = """
schema: 1
title: Requests by each law
traffic:
  steady:
    {model: gpt-oss-120b, arrivals: poisson, rate: 50 req/s, input: {dist: fixed, value: 900 tok},
     output: {dist: fixed, value: 40 tok}}
  even:
    {model: gpt-oss-120b, arrivals: gamma, burstiness: 2, rate: 10 req/s,
     input: {dist: uniform, low: 5 tok, high: 9 tok}, output: {dist: fixed, value: 7 tok}}
  long:
    {model: gpt-oss-120b, arrivals: hawkes, burst: {size: 5, decay: 20 s}, rate: 20 req/s,
     input: {dist: lognormal, median: 60 ktok, p95: 120 ktok}, output: {dist: lognormal, median: 8 ktok, p95: 30 ktok}}
  seldom:
    {model: gpt-oss-120b, arrivals: weibull, burstiness: 3, rate: 36 req/h, input: {dist: fixed, value: 50 tok},
     output: {dist: fixed, value: 5 tok}}
fleet:
  pools:
    toy: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}
run: {length: 10 min}
"""


def made(folder: Path, text: str = TEXT) -> Scenario:
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return scenario.load(path)


def test_they_are_the_same_as_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = made(tmp_path)
    assert streamed.can_be(of, prefixes=False)
    whole = for_scenario(of, 3)
    for rows in (7_001, 100_000):
        monkeypatch.setattr(streamed, "ROWS", rows)
        frames = list(streamed.Streamed(of, 3))
        assert pl.concat(frames).equals(whole.frame)
        assert frames[0].schema == whole.frame.schema
    totals = streamed.Streamed(of, 3).totals()
    assert totals.n == whole.frame.height
    assert totals.notices == whole.notices
    assert any(notice.code == "redrawn" for notice in totals.notices)


def test_one_draw_knows_the_same_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Draw("k", made(tmp_path), 3, False, ((1.0,),) * 4)
    facts, (whole,) = draws.make(draw, streams=True)
    assert whole.source is None  # few
    monkeypatch.setattr(draws, "STREAMED_FROM", 1000)
    counted, (cell,) = draws.make(draw, streams=True)
    assert counted == facts
    assert cell.source is not None
    assert cell.frame.height == 0
    assert draws.make(draw)[1][0].source is None
    halves = Draw("k", draw.scenario, 3, False, ((1.0, 1.0),) * 4)
    assert all(half.source is None for half in draws.make(halves, streams=True)[1])


def test_equal_times_stand_in_the_order_of_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(ix: int, *frames: list[int]):
        for at in frames:
            yield pl.DataFrame(
                {"arrival_ns": at, "class_ix": [ix] * len(at)}, schema={"arrival_ns": pl.UInt64, "class_ix": pl.UInt16}
            )

    found = pl.concat(streamed.in_order([stream(0, [1, 5], [5, 5], [5, 9]), stream(1, [5], [5, 7], [8]), stream(2)]))
    assert list(found.iter_rows()) == [(1, 0), (5, 0), (5, 0), (5, 0), (5, 0), (5, 1), (5, 1), (7, 1), (8, 1), (9, 0)]


@pytest.mark.parametrize(
    "change",
    [
        "arrivals: closed, concurrency: 5",
        "arrivals: poisson, rate: 1 req/s, sessions: {turns: {dist: fixed, value: 3}}",
        "arrivals: poisson, rate: 1 req/s, prefix_reuse: 40 %",
    ],
)
def test_requests_that_hang_together_are_drawn_in_one_go(tmp_path: Path, change: str) -> None:
    one = TEXT.replace("arrivals: poisson, rate: 50 req/s", change)
    assert one != TEXT
    assert not streamed.can_be(made(tmp_path, one), prefixes=True)


@pytest.mark.parametrize(("first", "is_flat"), [(0, True), (10**9, False)])
def test_memory_does_not_grow_with_the_requests_drawn(tmp_path: Path, first: int, *, is_flat: bool) -> None:
    """A million and a quarter of rows are 22 MB in columns alone; drawn in one go, they show."""

    def peak(text: str) -> int:
        made(tmp_path, TEXT.replace("10 min", text))
        return peak_bytes(
            "import sys\nfrom planner import scenario\nfrom planner.fleet import draws\n"
            "from planner.traffic import streamed\n"
            f"streamed.ROWS = 20_000\ndraws.STREAMED_FROM = {first}\n"
            "draw = draws.Draw('k', scenario.load(sys.argv[1]), 3, False, ((1.0,),) * 4)\n"
            "facts, (requests,) = draws.make(draw, streams=True)\n"
            "n = requests.frame.height or sum(frame.height for frame in requests.source)\n"
            "assert n == facts.n_requests[0] > 200_000\n",
            str(tmp_path / "s.yaml"),
        )

    grown = peak("6 h") - peak("1 h")
    assert (grown < 12_000_000) == is_flat, grown

"""Requests drawn as they are asked for: the same as in one go, in memory that does not grow with them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from planner import scenario
from planner.errors import RunError, TrafficError
from planner.fleet import draws
from planner.fleet.draws import Draw
from planner.scenario import Scenario
from planner.study.preview import preview
from planner.traffic import streamed
from planner.traffic.requests import for_scenario
from planner.traffic.streamed import Seen, Shared, Streamed, Walk
from tests.memory import peak_bytes

LAWS = """
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
  daily:
    {model: gpt-oss-120b, arrivals: poisson, rate: 30 req/s, shape: {demand: m-large}, growth: 40 %/yr,
     input: {dist: fixed, value: 50 tok}, output: {dist: fixed, value: 5 tok}}
"""
COPIES = """
  whole: {model: gpt-oss-120b, trace: ./t.csv, scale: 3}
  part: {model: gpt-oss-120b, trace: ./t.csv, scale: 2.4, speedup: 3.7, start: 11 s, repeat: true}
  thin: {model: gpt-oss-120b, trace: ./t.csv, scale: 0.3, start: 1 h, idle_cap: 900 ms}
  one: {model: gpt-oss-120b, trace: ./t.csv, class_column: kind}
"""
PROFILES = """
  few: {model: gpt-oss-120b, trace: azure-code-2023, scale: 2}
  fast: {model: gpt-oss-120b, trace: azure-conv-2023, scale: 2.7, speedup: 12.5, start: 100 s, repeat: true}
"""
MIXED = LAWS + COPIES + PROFILES
TEXT = """
schema: 1
title: Requests from everywhere
traffic: TRAFFIC
fleet:
  pools:
    toy: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}
run: {RUN}
"""


def made(folder: Path, traffic: str, run: str = "length: 10 min") -> Scenario:
    """Several at one time, a silence, and two kinds."""
    rows = [
        f"{k // 3 * 1.7 + (k > 150) * 40:.2f},{5 + k * 37 % 900},{1 + k % 60},{'one' if k % 5 else 'b'}"
        for k in range(300)
    ]
    (folder / "t.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens,kind", *rows]), encoding="utf-8")
    path = folder / "s.yaml"
    path.write_text(TEXT.replace("TRAFFIC", traffic).replace("RUN", run), encoding="utf-8")
    return scenario.load(path)


def walked(of: Streamed, rows: int) -> tuple[pl.DataFrame, Walk]:
    walk = Walk(of, Shared.of(of), rows=rows)
    return pl.concat([frame for (frame,) in walk]), walk


@pytest.mark.parametrize("rows", [1, 7_001, 1_000_000])
@pytest.mark.parametrize(
    ("traffic", "run"),
    [
        (LAWS, "length: 10 min"),
        (COPIES, "length: 10 min"),
        (COPIES, "length: 60 s"),
        (COPIES.replace(", repeat: true", ""), "warmup: 0 s"),
        (PROFILES, "length: 10 min"),
        (PROFILES.replace(", repeat: true", ""), "warmup: 0 s"),
        (MIXED, "length: 5 min"),
        (LAWS + COPIES.replace(", repeat: true", ""), "warmup: 0 s"),
    ],
)
def test_they_are_the_same_as_in_one_go(tmp_path: Path, traffic: str, run: str, rows: int) -> None:
    of = made(tmp_path, traffic, run)
    whole = for_scenario(of, 3)
    source = streamed.of(of, 3, prefixes=True)
    assert source is not None
    if rows == 1:  # only the begin: a call for each
        walk = Walk(source, Shared.of(source), rows=1)
        found = pl.concat([frame for (frame,), _ in zip(walk, range(500), strict=False)])
        assert found.equals(whole.frame.head(found.height))
        return
    frame, walk = walked(source, rows)
    assert frame.equals(whole.frame)
    assert frame.schema == whole.frame.schema
    assert (source.length_ns, source.failed_rows) == (whole.length_ns, whole.failed_rows)
    (seen,) = walk.seen()
    assert source.notices(seen) == whole.notices
    assert sum(each.n for each in seen) == frame.height
    for ix, (each, expected) in enumerate(zip(seen, walk.expected(), strict=True)):
        own = frame.filter(class_ix=ix)
        assert each.n == own.height
        assert each.shortest_kv_tokens == (own["input_tokens"] + own["output_tokens"] - 1).min()
        assert abs(each.n - expected) < 0.25 * expected + 200


def test_each_takes_its_own_cells_and_nobody_else_does(tmp_path: Path) -> None:
    of = made(tmp_path, MIXED)
    source = streamed.of(of, 3, prefixes=False)
    assert source is not None
    weights = tuple((2.0, 0.0, 1.0, 1.0) if ix % 2 else (1.0,) * 4 for ix in range(len(of.traffic)))
    draw = Draw("k", of, 3, False, weights)
    facts, cells = draws.make(draw)
    shared = Shared.of(source)
    for some in ([0], [1, 3], [2, 0], [3, 2, 1, 0]):
        walk = Walk(source, shared, some, weights, keeps_rows=True, rows=5_000)
        frames = [pl.concat([f for f in mine if f.height]) for mine in zip(*walk, strict=True)]
        for cell, frame in zip(some, frames, strict=True):
            assert frame.drop("row").equals(cells[cell].frame)
            assert cells[cell].rows is not None
            assert frame["row"].to_list() == cells[cell].rows.to_list()  # type: ignore[union-attr]
        assert [sum(each.n for each in seen) for seen in walk.seen()] == [facts.n_requests[cell] for cell in some]


def test_what_is_known_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Draw("k", made(tmp_path, MIXED), 3, False, ((1.0, 1.0),) * 11)
    assert draws.flow(draw) is None  # few
    monkeypatch.setattr(streamed, "LEAST", 1000)
    flow = draws.flow(draw)
    assert flow is not None
    before, (held, _) = draws.flow_facts(flow), draws.make(draw)
    assert before.is_sampled
    assert before.n_requests == pytest.approx(held.n_requests, rel=0.1)
    after = draws.exact(draw, before)
    assert not after.is_sampled
    for name in ("length_ns", "failed_rows", "notices", "block_tokens", "shortest_kv_tokens"):
        assert getattr(after, name) == getattr(held, name), name
    assert before.shortest_kv_tokens[0] == after.shortest_kv_tokens[0] == 939  # always 900 and 40


def test_what_was_seen_adds_up() -> None:
    none, some, more = Seen(0, 0, 0), Seen(4, 1, 7), Seen(2, 2, 5)
    assert none.with_more(some) == some.with_more(none) == some
    assert some.with_more(more) == more.with_more(some) == Seen(6, 3, 5)


@pytest.mark.parametrize(
    "change",
    [
        "arrivals: closed, concurrency: 5",
        "arrivals: poisson, rate: 1 req/s, sessions: {turns: {dist: fixed, value: 3}}",
        "arrivals: poisson, rate: 1 req/s, prefix_reuse: 40 %",
    ],
)
def test_requests_that_hang_together_are_drawn_in_one_go(tmp_path: Path, change: str) -> None:
    one = LAWS.replace("arrivals: poisson, rate: 50 req/s", change)
    assert one != LAWS
    assert streamed.of(made(tmp_path, one), 1, prefixes=True) is None


def test_a_trace_without_a_request_in_the_run_is_refused_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = made(tmp_path, LAWS + "  late: {model: gpt-oss-120b, trace: ./t.csv, class_column: kind}\n", "length: 1 s")
    (tmp_path / "t.csv").write_text(
        "arrival_s,input_tokens,output_tokens,kind\n0,5,5,b\n7,5,5,late\n", encoding="utf-8"
    )
    with pytest.raises(TrafficError) as held:
        for_scenario(of, 1)
    monkeypatch.setattr(streamed, "LEAST", 1)
    with pytest.raises(TrafficError) as found:
        streamed.many(of, 1, prefixes=False)
    assert str(found.value) == str(held.value)


def test_more_than_can_be_simulated_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TrafficError, match=r"traffic\.a: .* requests in one run of one class; at most 2,147,483,648: lower"
    ):
        streamed.many(
            made(
                tmp_path, "\n  a: {model: gpt-oss-120b, trace: ./t.csv, scale: 999999, repeat: true}\n", "length: 10 h"
            ),
            1,
            prefixes=False,
        )


def test_a_preview_tells_the_same_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = made(tmp_path, MIXED)
    held = preview(of)
    monkeypatch.setattr(streamed, "LEAST", 1)
    monkeypatch.setattr(streamed, "ROWS", 3_000)
    found = preview(of)
    assert (found.offered, found.too_large) == (held.offered, held.too_large)


def test_a_folder_that_cannot_take_them_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = made(tmp_path, "\n  a: {model: gpt-oss-120b, trace: azure-code-2023, scale: 280}\n", "warmup: 0 s")
    source = streamed.of(of, 3, prefixes=False)
    assert source is not None
    shared = Shared.of(source)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    for _ in range(2):  # who shares the span is told, too
        with pytest.raises(
            RunError, match=r"drawn requests cannot be kept in .*none: .*; free some space there, or set"
        ):
            list(Walk(source, shared))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    n = sum(frame.height for (frame,) in Walk(source, Shared.of(source)))
    assert n == 280 * 8819
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.yaml", "t.csv"]


@pytest.mark.parametrize("traffic", ["law", "copies", "profile"])
def test_memory_does_not_grow_with_the_requests_drawn(tmp_path: Path, traffic: str) -> None:
    """Two million rows more are 32 MB in columns alone; drawn in one go, they show."""
    text = {
        "law": "\n  a: {model: gpt-oss-120b, arrivals: poisson, rate: RATE req/s, input: 5 tok, output: 7 tok}\n",
        "copies": "\n  a: {model: gpt-oss-120b, trace: ./t.csv, scale: RATE}\n",
        "profile": "\n  a: {model: gpt-oss-120b, trace: azure-code-2023, scale: RATE}\n",
    }[traffic]
    sizes = {"law": (1_000, 6_000), "copies": (1_000, 8_000), "profile": (280, 520)}[traffic]

    def peak(rate: int, *, is_held: bool = False) -> int:
        made(tmp_path, text.replace("RATE", str(rate)), "length: 400 s" if traffic == "law" else "warmup: 0 s")
        walk = (
            "source = streamed.of(of, 3, prefixes=False)\n"
            "n = sum(f.height for (f,) in streamed.Walk(source, streamed.Shared.of(source), rows=20_000))\n"
        )
        held = "from planner.traffic.requests import for_scenario\nn = for_scenario(of, 3).frame.height\n"
        return peak_bytes(
            "import sys\nfrom planner import scenario\nfrom planner.traffic import streamed\n"
            "of = scenario.load(sys.argv[1])\n" + (held if is_held else walk) + "assert n > 200_000\n",
            str(tmp_path / "s.yaml"),
        )

    few, many = map(peak, sizes)
    assert many - few < 14_000_000
    assert peak(sizes[1], is_held=True) - many > 20_000_000

"""Laws of cells: cutting a fleet loses nothing, and the tables of cells merge to the same bytes in any order."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from planner import core
from planner.fleet import draws, parts
from planner.fleet.draws import Draw, DrawnFacts
from planner.fleet.parts import Part
from planner.scenario import load
from planner.study.run import run
from planner.traffic.schema import NO_ROW, NO_SESSION
from tests.deployments import cell, requests, toy

MS = 10**6
TABLES = ("classes", "class_windows", "placed", "work", "sketches", "requests")
FACTS = DrawnFacts(10, 0, (), None, (1, 2), (3,))
TEXT = """
schema: 1
title: Cells
traffic:
  chat:
    model: gpt-oss-120b
    rate: 40 req/s
    arrivals: poisson
    input: {dist: lognormal, median: 500 tok, p95: 2 ktok}
    output: {dist: lognormal, median: 60 tok, p95: 200 tok}
    slo: easy
  code:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 3 req/s
    sessions: {turns: {dist: fixed, value: 3}, think: {dist: fixed, value: 2 s}}
    input: 300 tok
    output: 40 tok
  batch: {model: llama-3.1-8b, arrivals: closed, concurrency: 5, input: 100 tok, output: 80 tok}
slo:
  easy: {ttft: {p95: 2 s}}
fleet:
  router: ROUTER
  cell_replicas: SIZE
  pools:
    pool: {rack: hgx-h200, count: 4, deploy: [{model: llama-3.1-8b, chips: 1, per_rack: 2},
                                              {model: gpt-oss-120b, chips: 2}]}
run: {length: 20 s, drain: 1 h, seed: 4}
"""


def tables(*, seed: int, n: int) -> core.CellTables:
    dice = random.Random(seed)
    rows = sorted(
        (dice.randrange(900) * MS, dice.randrange(2), 1 + dice.randrange(40), 1 + dice.randrange(90)) for _ in range(n)
    )
    classes = [{"limits": [], "targets": [{"deployments": [0], "share": None}]}] * 2
    asked = cell([(toy(), 1), (toy(), 1)], classes=classes, window_ns=50 * MS, seed=seed)
    return core.simulate_cell(asked, requests(rows))


def same(one: core.CellTables, other: core.CellTables, *, but: Sequence[str] = ()) -> None:
    for name in TABLES:
        if name not in but:
            assert_frame_equal(getattr(one, name), getattr(other, name))
    assert one.n_events == other.n_events


CELLS = [tables(seed=seed, n=n) for seed, n in enumerate((3, 400, 0, 900, 1, 60))]


@given(st.permutations(range(len(CELLS))), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_any_order_and_any_tree_gives_the_same_tables(order: list[int], size: int) -> None:
    whole = core.merge(CELLS)
    shuffled = [CELLS[ix] for ix in order]
    while len(shuffled) > 1:
        shuffled = [core.merge(shuffled[at : at + size + 1]) for at in range(0, len(shuffled), size + 1)]
    # Rows of requests are numbered cell by cell here, so those of equal number keep the order in which they came.
    same(shuffled[0], whole, but=["requests"])


def test_what_is_merged_is_the_sum() -> None:
    whole = core.finish(core.merge(CELLS))
    for name in ("offered", "completed", "input_tokens", "output_tokens"):
        assert whole.classes[name].sum() == sum(each.classes[name].sum() for each in CELLS)
    for metric_ix, metric in enumerate(core.METRICS[:2]):
        mine = whole.sketches.filter(metric_ix=metric_ix)
        stacked = pl.concat([each.sketches for each in CELLS])
        assert mine["count"].sum() == stacked.filter(metric_ix=metric_ix)["count"].sum()
        for quantile in (None, 0.0, 0.5, 0.95, 1.0):
            asked = [core.Query(ix, metric, quantile) for ix in (0, 1)]
            assert core.quantiles(whole.sketches, asked) == core.quantiles(stacked, asked)
    assert whole.deployments["busy_s"].sum() == pytest.approx(
        sum(core.finish(each).deployments["busy_s"].sum() for each in CELLS), rel=1e-12
    )
    assert whole.deployments["n_replicas"].to_list() == [len(CELLS)] * 2


def test_a_part_survives_being_packed_and_nothing_else_does() -> None:
    part = Part("sha256:1", "runs", 3, 7, (0, 2), FACTS, dataclasses.replace(CELLS[1], timeline=None))
    packed = parts.pack(part)
    again = parts.unpack(packed)
    same(again.tables, part.tables)
    assert (again.inputs, again.simulation, again.seed) == ("sha256:1", 3, 7)
    assert (again.cells, again.facts) == ((0, 2), FACTS)
    dice = random.Random(5)
    spoilt = [
        packed[:-1],
        packed[: len(packed) // 2],
        packed[:10],
        b"",
        packed + b"x",
        packed.replace(b'"cells":[0', b'"cells":[1'),
    ]
    for _ in range(40):
        at = dice.randrange(len(packed))
        spoilt.append(packed[:at] + bytes([packed[at] ^ 1 << dice.randrange(8)]) + packed[at + 1 :])
    for bad in spoilt:
        with pytest.raises(parts.Damaged):
            parts.unpack(bad)


def scenario(folder: Path, *, router: str, size: int):  # type: ignore[no-untyped-def]
    path = folder / f"{router}-{size}.yaml"
    path.write_text(TEXT.replace("ROUTER", router).replace("SIZE", str(size)))
    return load(str(path))


@pytest.mark.parametrize("router", ["random", "least-outstanding-tokens"])
def test_a_split_conserves_every_total_that_does_not_hang_on_waiting(tmp_path: Path, router: str) -> None:
    whole, split = (run(scenario(tmp_path, router=router, size=size), keep_requests=True) for size in (1000, 5))
    (one,), (many,) = whole.variants.values(), split.variants.values()
    assert "cells" in {notice["code"] for notice in many["notices"]}
    ended = [tree["requests"] for tree in (one, many)]
    assert all(each["offered"] == each["completed"] for each in ended)
    for name in ("chat", "code"):  # a closed loop offers as much as is served
        assert one["classes"][name]["offered"] == many["classes"][name]["offered"]
    by_class = [
        result.tables["requests"]
        .filter(pl.col("class") != "batch")
        .sort("class", "input_tokens", "output_tokens", "arrival_ns")
        for result in (whole, split)
    ]
    for column in ("input_tokens", "output_tokens"):
        assert by_class[0][column].to_list() == by_class[1][column].to_list()
    chats = [frame.filter(pl.col("class") == "chat").sort("row")["row", "arrival_ns"] for frame in by_class]
    assert_frame_equal(*chats)
    kept = split.tables["requests"]
    assert kept["row"].is_sorted()
    assert kept["row"].n_unique() == kept.height
    assert kept["replica_ix"].max() == 67  # 4 racks of 32 chips: 8 of one chip, and 60 of two


def test_workers_change_nothing_and_cells_hold_their_size(tmp_path: Path) -> None:
    asked = scenario(tmp_path, router="least-outstanding-tokens", size=3)
    one, three = (run(asked, workers=workers, keep_requests=True) for workers in (1, 3))
    for name, table in one.tables.items():
        assert_frame_equal(table, three.tables[name])
    assert one.to_json() == three.to_json()
    replicas = one.tables["requests"].filter(pl.col("class") == "chat")["replica_ix"]
    assert replicas.n_unique() == 60


def test_sessions_and_clients_stay_in_their_cell(tmp_path: Path) -> None:
    asked = scenario(tmp_path, router="random", size=5)
    weights = tuple((1.0,) * 4 for _ in asked.traffic)
    whole = draws.make(Draw("whole", asked, 4, has_prefixes=True, weights=tuple((1.0,) for _ in asked.traffic)))[1][0]
    facts, cells = draws.make(Draw("cells", asked, 4, has_prefixes=True, weights=weights))
    rows = pl.concat([each.rows for each in cells])  # type: ignore[arg-type]
    assert rows.sort().to_list() == list(range(whole.frame.height))
    assert facts.n_requests == tuple(each.frame.height for each in cells)
    sessions = [set(each.frame.filter(pl.col("session") != NO_SESSION)["session"]) for each in cells]
    assert sum(map(len, sessions)) == len(set.union(*sessions)) > 10
    assert whole.runs is not None
    for each in cells:
        frame, rows = each.frame, each.rows
        assert frame["arrival_ns"].is_sorted()
        after = frame["after_row"]
        assert (after.filter(after != NO_ROW) < frame.height).all()
        # Each row follows the row that it follows in the whole.
        linked = rows.gather(after.set(after == NO_ROW, 0)).set(after == NO_ROW, NO_ROW)
        assert linked.to_list() == whole.frame["after_row"].gather(rows).to_list()
        own = each.runs.with_columns(rows.gather(each.runs["row"]).alias("row"))
        assert_frame_equal(own, whole.runs.filter(pl.col("row").is_in(rows.implode())))

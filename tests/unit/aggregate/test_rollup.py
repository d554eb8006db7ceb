"""Windows -> hours -> days by hand, in any order of rows; ten million rows and many parts in little memory."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from planner.aggregate import rollup
from planner.errors import ScenarioError
from planner.scenario import load
from planner.study.run import run
from tests.cli.test_run import scenario
from tests.memory import peak_bytes


def windows(*rows: tuple[int, float, float, int]) -> pl.DataFrame:
    """Window, busy share, watts, tokens of the one pool."""
    names = ("window_ix", "busy_frac", "rack_it_w", "output_tokens")
    frame = pl.DataFrame(
        rows, schema=dict(zip(names, (pl.Int64, pl.Float64, pl.Float64, pl.Int64), strict=True)), orient="row"
    )
    return frame.select(
        pl.lit("base").alias("variant"), pl.lit(1, pl.UInt64).alias("seed"), pl.lit("a").alias("pool"), pl.all()
    )


def rolled(frame: pl.DataFrame, n_in: int, n_run: int) -> pl.DataFrame:
    return rollup.rollup(frame.lazy(), n_in=n_in, n_windows={("base", 1): n_run}, window_s=60.0).collect(
        engine="streaming"
    )


def test_an_hour_is_the_mean_of_its_windows_and_the_sum_of_their_counts() -> None:
    # Three windows to a span, seven in the run: (0.2 + 0.4 + 0) / 3, then one of one; the second span has no row.
    found = rolled(windows((0, 0.25, 500.0, 7), (1, 0.5, 700.0, 1), (6, 0.75, 900.5, 3)), 3, 7)
    assert found["span_ix"].to_list() == [0, 2]
    assert found["start_s"].to_list() == [0.0, 360.0]
    assert found["busy_frac"].to_list() == [0.25, 0.75]
    assert found["output_tokens"].to_list() == [8, 3]
    assert found["rack_it_w"].to_list() == [None, 900.5]  # a parked pool's draw is not among the rows
    full = rolled(windows((0, 0.25, 500.0, 7), (1, 0.5, 700.0, 1), (2, 0.0, 301.5, 0)), 3, 3)
    assert full["rack_it_w"].to_list() == [pytest.approx(1501.5 / 3, abs=1e-3)]


def test_the_order_of_the_rows_changes_no_bit() -> None:
    dice = random.Random(2)
    rows = [(ix, dice.random(), 1e6 * dice.random(), dice.randrange(10**6)) for ix in range(3_000)]
    first = rolled(windows(*rows), 60, 3_000)
    for _ in range(5):
        dice.shuffle(rows)
        assert_frame_equal(rolled(windows(*rows), 60, 3_000), first)
    by_day = rolled(windows(*rows), 1_440, 3_000)
    assert by_day["output_tokens"].sum() == first["output_tokens"].sum() == sum(row[3] for row in rows)
    assert by_day["busy_frac"][0] == pytest.approx(first["busy_frac"][:24].mean(), rel=1e-11)


def test_windows_that_do_not_fill_an_hour_are_refused() -> None:
    assert rollup.windows_in("hour", 60.0) == 60
    assert rollup.windows_in("day", 3_600.0) == 24
    for window_s in (7.0, 7_200.0):
        with pytest.raises(ScenarioError, match=r"do not fill an hour; set run\.window"):
            rollup.windows_in("hour", window_s)


def test_a_result_gives_hours_and_days(tmp_path: Path) -> None:
    result = run(load(scenario(tmp_path, run="length: 2 h, warmup: 30 s, seed: 3, window: 10 min")))
    by_window = result.metric("busy_frac", by="pool", over="window")
    by_hour = result.metric("busy_frac", by="pool", over="hour")
    assert by_hour.columns == ["variant", "seed", "pool", "hour_ix", "start_s", "value"]
    assert by_hour["value"][1] == pytest.approx(by_window["value"][6:12].mean(), rel=1e-11)
    offered = [result.metric("offered", by="class", over=over)["value"].sum() for over in ("window", "hour", "day")]
    assert offered[0] == offered[1] == offered[2] > 0
    with pytest.raises(ScenarioError, match="no figures over 'week'"):
        result.metric("busy_frac", by="pool", over="week")


def test_the_peak_is_that_of_the_process_alone() -> None:
    ours = bytearray(300_000_000)
    assert peak_bytes("") < 60e6 < peak_bytes("x = bytearray(100_000_000)") < 200e6
    assert len(ours) == 300_000_000


MANY_ROWS = """
import sys
import polars as pl
n, n_windows = 10_000_000, 525_600
ix = pl.int_range(n, dtype=pl.Int64, eager=True)
frame = pl.DataFrame({"variant": "base", "ix": ix}).lazy().select(
    "variant", (pl.col("ix") // n_windows).cast(pl.UInt64).alias("seed"), pl.lit("a").alias("pool"),
    (pl.col("ix") % n_windows).alias("window_ix"), (pl.col("ix") % 97 / 97).alias("busy_frac"),
    (pl.col("ix") % 1009 * 100.0).alias("rack_it_w"), (pl.col("ix") % 11).alias("output_tokens"))
frame.sink_parquet(sys.argv[1], row_group_size=1 << 18)
"""
ROLL = """
import sys
import polars as pl
from planner.aggregate import rollup
runs = {("base", seed): 525_600 for seed in range(20)}
for n_in in (60, 1440):
    rolled = rollup.rollup(pl.scan_parquet(sys.argv[1]), n_in=n_in, n_windows=runs, window_s=60.0)
    rolled.sink_parquet(sys.argv[1] + f".{n_in}")
"""
MANY_PARTS = """
import dataclasses
from planner import core
from planner.fleet import parts
from planner.fleet.waiting import Waiting
from tests.deployments import cell, requests, toy
asked = cell([(toy(), 1)], window_ns=10**7)
tables = core.simulate_cell(asked | {"keep_requests": False}, requests([(k * 10**7, 0, 9, 40) for k in range(100)]))
tables = dataclasses.replace(tables, requests=None)
part = parts.unpack(parts.pack(parts.Part("", "run", 0, 0, (0,), parts.DrawnFacts(1, 0, (), None, (1,), (1,)), tables)))
n = 20_000
class Many:
    n_cells = n
waiting = Waiting([Many()], [])
for k in range(n):
    whole = waiting.add(dataclasses.replace(part, cells=(k,)))
assert whole.tables.classes["offered"].sum() == 100 * n, whole.tables.classes
assert tables.work.height * n >= 2_000_000, tables.work.height
"""


@pytest.mark.slow
def test_ten_million_rows_of_windows_in_little_memory(tmp_path: Path) -> None:
    file = str(tmp_path / "windows.parquet")
    peak_bytes(MANY_ROWS, file)
    assert peak_bytes(ROLL, file) < 1.2e9  # the table itself has 0.5e9 bytes
    hours = pl.read_parquet(f"{file}.60")
    assert hours["output_tokens"].sum() == sum(k % 11 for k in range(11)) * (10_000_000 // 11) + sum(
        k % 11 for k in range(10_000_000 - 10_000_000 % 11, 10_000_000)
    )
    assert pl.read_parquet(f"{file}.1440")["output_tokens"].sum() == hours["output_tokens"].sum()


@pytest.mark.slow
def test_many_parts_become_one_in_little_memory() -> None:
    assert peak_bytes(MANY_PARTS) < 0.2e9

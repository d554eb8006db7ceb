"""Figures of a trace, each by hand on a handful of requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from planner.traffic.inspect import gap_cv, inspect, peak_requests, prefix_hits
from planner.traffic.trace import read

Write = Callable[[str, str | bytes], Path]
HEAD = "arrival_s,input_tokens,output_tokens\n"


def test_figures_by_hand(write: Write) -> None:
    figures = inspect(read(write("t.csv", HEAD + "0,100,1\n10,200,3\n30,400,2\n")))
    assert (figures["n_requests"], figures["sum_input_tokens"], figures["sum_output_tokens"]) == (3, 700, 6)
    assert figures["duration_s"] == 30
    assert figures["mean_rate_req_per_s"] == 0.1  # 3 / 30
    assert figures["gap_cv"] == pytest.approx(1 / 3)  # gaps 10 and 20: sd 5 over mean 15
    assert figures["longest_gap_s"] == 20
    assert figures["input"] == {
        "min": 100,
        "mean": pytest.approx(700 / 3),
        "p01": pytest.approx(102),  # rank 0.02 of 0..2
        "p10": pytest.approx(120),
        "p25": pytest.approx(150),
        "p50": 200,
        "p75": pytest.approx(300),
        "p90": pytest.approx(360),
        "p95": pytest.approx(380),
        "p99": pytest.approx(396),
        "max": 400,
    }
    assert figures["arrivals_s"] == [0, 10, 30]


def test_what_does_not_exist_is_null_and_all_is_json(write: Write) -> None:
    figures = inspect(read(write("t.csv", HEAD + "5,100,1\n")))
    assert (figures["duration_s"], figures["mean_rate_req_per_s"], figures["gap_cv"]) == (0, None, None)
    assert (figures["longest_gap_s"], figures["peak_requests_in_any_60_s"]) == (None, 1)
    json.dumps(figures, allow_nan=False)
    together = inspect(read(write("t.csv", HEAD + "5,100,1\n5,100,1\n")))
    assert (together["gap_cv"], together["longest_gap_s"]) == (None, 0)


def test_the_busiest_window_is_half_open() -> None:
    seconds = pl.Series([0, 1, 60, 61, 120, 121]) * 10**9
    assert peak_requests(seconds, 60 * 10**9) == 2
    assert peak_requests(seconds, 60 * 10**9 + 1) == 3
    assert peak_requests(pl.Series([7]), 1) == 1


def test_gap_cv_of_equal_gaps_is_zero() -> None:
    assert gap_cv(pl.Series([5, 5, 5])) == 0
    assert gap_cv(pl.Series([], dtype=pl.Int64)) is None


def test_prefix_hits_are_the_leading_run_of_blocks_seen_before() -> None:
    requests = pl.DataFrame(
        {
            "input_tokens": [1024, 512, 1537, 600, 2048, 1030, 100, 700],
            "hash_ids": [[1, 2], [3], [1, 2, 4, 5], [1, 6], [1, 2, 4, 7], [1, 2, 4], None, [9, 2]],
        },
        schema={"input_tokens": pl.UInt32, "hash_ids": pl.List(pl.Int64)},
    )
    # The last block of the sixth is a partial one: 1,030 tokens, not 3 x 512. In the eighth, block 2 follows a miss.
    assert prefix_hits(requests, 512).to_list() == [0, 0, 1024, 512, 1536, 1030, 0, 0]


def test_classes_and_models_are_counted(write: Write) -> None:
    rows = "0,1,1,b,m\n1,1,1,a,m\n2,1,1,a,\n"
    figures = inspect(read(write("t.csv", HEAD.strip() + ",class,model\n" + rows)))
    assert list(figures["by_class"].items()) == [("a", 2), ("b", 1)]
    assert figures["by_model"] == {"m": 2, "": 1}

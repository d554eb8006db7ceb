"""Writing requests: what is read back is what was written, to the nanosecond."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from planner.errors import TrafficError
from planner.traffic import write as writing
from planner.traffic.trace import read
from planner.traffic.write import Form

Write = Callable[[str, str | bytes], Path]
FIRST = {"arrival_ns": 5, "input_tokens": 600, "output_tokens": 1, "class": 'a "b", c\nd', "hash_ids": [1, -2]}
LAST = {"arrival_ns": 7 * 10**18 + 6, "input_tokens": 7, "output_tokens": 2, "class": None, "hash_ids": []}
ROWS = "\n".join(json.dumps(row | {"block_tokens": 512}) for row in (FIRST, LAST))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_round_trip(write: Write, tmp_path: Path, form: Form) -> None:
    trace = read(write("t.jsonl", ROWS))
    out = tmp_path / "out"
    writing.write(writing.requests_of(trace), out, form)
    again = read(out)
    kept = trace.requests.drop("hash_ids") if form == "csv" else trace.requests
    assert again.requests.with_columns(pl.col("class").replace("", None)).equals(kept)
    assert again.block_tokens == (None if form == "csv" else 512)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_file_that_is_there_is_left_alone(write: Write, tmp_path: Path) -> None:
    requests = read(write("t.jsonl", ROWS)).requests
    out = write("out.csv", "mine")
    with pytest.raises(TrafficError, match="there already"):
        writing.write(requests, out, "csv")
    assert out.read_text() == "mine"
    writing.write(requests, out, "csv", replace=True)
    assert out.read_text().startswith("arrival_s,")
    with pytest.raises(TrafficError, match="no such folder"):
        writing.write(requests, tmp_path / "nowhere/out.csv", "csv")


def test_every_nth_from_the_first() -> None:
    frame = pl.DataFrame({"arrival_ns": range(10)})
    assert writing.every(frame, 4)["arrival_ns"].to_list() == [0, 4, 8]
    assert writing.every(frame, 1).equals(frame)
    assert writing.every(frame, 99).height == 1


def test_seconds_are_decimal_and_short(write: Write) -> None:
    rows = "arrival_ns,input_tokens,output_tokens\n0,1,1\n40,1,1\n1500000000,1,1\n10000000000,1,1\n"
    stream = io.BytesIO()
    writing.dump(read(write("t.csv", rows)).requests, stream, "csv")
    assert [line.split(",")[0] for line in stream.getvalue().decode().split()[1:]] == ["0", "0.00000004", "1.5", "10"]


def test_an_aggregate_cannot_be_written(write: Write) -> None:
    trace = read(write("w.csv", "0,0.5,1.2,Gamma,0.694,2.88\n"))
    with pytest.raises(TrafficError, match="no requests"):
        writing.requests_of(trace)

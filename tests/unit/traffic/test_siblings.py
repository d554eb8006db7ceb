"""Further inputs of the kinds of the field cases: other spellings, exports and clocks, with their arithmetic."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from planner.errors import TrafficError
from planner.traffic.inspect import inspect
from planner.traffic.trace import read

Write = Callable[[str, str | bytes], Path]
HEAD = "arrival_s,input_tokens,output_tokens"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def codes(path: Path) -> list[str]:
    return [notice.code for notice in read(path).warnings]


def jsonl(rows: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


# -- failures kept as load ---------------------------------------------------------------------------------------------


def test_statuses_of_requests_that_were_not_answered(write: Write) -> None:
    failed = ["500", "429", "Failure", "aborted", "error: out of memory", "rejected", "timed out", "Cancelled by user"]
    served = ["200", "success", "", "length", "COMPLETED"]
    rows = [f"{k},10,1,{status}" for k, status in enumerate(failed + served)]
    trace = read(write("t.csv", f"{HEAD},status\n" + "\n".join(rows)))
    assert (trace.rejected, trace.n_requests, trace.warnings) == ({"failed": 8}, 5, ())


def test_a_status_nobody_knows_is_named(write: Write) -> None:
    trace = read(write("t.csv", f"{HEAD},status\n0,1,1,ok\n1,1,1,zzz\n2,1,1,errorless\n"))
    assert trace.n_requests == 3
    assert [str(n.message) for n in trace.warnings] == ["2 rows have status 'errorless', 'zzz': taken as served"]


def spend(at: int, **more: Any) -> dict[str, Any]:
    stamp = f"2026-05-04T11:30:{at:02d}Z"
    return {"request_id": f"r{at}", "startTime": stamp, "prompt_tokens": 500, "completion_tokens": 5} | more


@pytest.mark.parametrize("as_text", [False, True])
def test_what_a_spend_log_keeps_in_its_metadata(write: Write, as_text: bool) -> None:
    hit = {"prompt_tokens_details": {"cached_tokens": 96}}
    inner = [
        {"status": "failure", "usage_object": hit},
        {"status": "success", "usage_object": hit},
        {"status": "success"},
    ]
    rows = [spend(k, metadata=json.dumps(one) if as_text else one) for k, one in enumerate(inner)]
    trace = read(write("t.jsonl", jsonl(rows)))
    assert trace.rejected == {"failed": 1}
    assert trace.requests["cached_input_tokens"].to_list() == [96, 0]


def test_metadata_in_the_cells_of_a_spend_log_in_csv(write: Write) -> None:
    head = "request_id,startTime,prompt_tokens,completion_tokens,metadata\n"
    cells = ['"{""status"": ""failure""}"', '"{""additional_usage_values"": {""cache_read_input_tokens"": 64}}"']
    rows = [f"r{k},2026-05-04 11:30:0{k},500,5,{cell}" for k, cell in enumerate([*cells, ""])]
    trace = read(write("t.csv", head + "\n".join(rows)))
    assert trace.rejected == {"failed": 1}
    assert trace.requests["cached_input_tokens"].to_list() == [64, 0]
    odd = "r9,2026-05-04 11:30:09,500,5,{'status': 'failure'}"
    assert codes(write("t.csv", head + odd)) == ["unread_column"]


@pytest.mark.parametrize("mark", ["True", "TRUE", " true ", "1", "yes"])
def test_spellings_of_a_replayed_answer(write: Write, mark: str) -> None:
    assert read(write("t.jsonl", jsonl([spend(0), spend(1, cache_hit=mark)]))).rejected == {"response_cache_hit": 1}


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_seconds_in_a_file_of_milliseconds_are_suspected(write: Write) -> None:
    rows = [{"timestamp": t, "input_length": 100, "output_length": 1, "hash_ids": [1]} for t in (0, 0.5, 90.25)]
    assert codes(write("t.jsonl", jsonl(rows))) == ["fractional_ms"]
    whole = [row | {"timestamp": t} for row, t in zip(rows, (0, 500.0, 90250), strict=True)]
    assert codes(write("t.jsonl", jsonl(whole))) == []
    assert codes(write("t.csv", HEAD.replace("_s", "_ms") + "\n0.5,1,1\n")) == []  # its own name says so


def test_spellings_of_one_zone(write: Write) -> None:
    stamps = ["05:30:00+05:30", "00:00:01Z", "00:00:02 UTC", "00:00:03 GMT", "00:00:04 +0000 UTC", "00:00:05-00"]
    trace = read(write("t.csv", AZURE + "".join(f"2024-05-10 {stamp},1,1\n" for stamp in stamps)))
    assert trace.requests["arrival_ns"].to_list() == [k * 10**9 for k in range(6)]


def test_an_hour_that_comes_twice(write: Write) -> None:
    zoned = ["01:59:00-04:00", "01:00:00-05:00", "01:01:00-05:00"]  # the clock goes back in the night: 60 s apart
    trace = read(write("t.csv", AZURE + "".join(f"2024-11-03 {stamp},1,1\n" for stamp in zoned)))
    assert trace.requests["arrival_ns"].to_list() == [0, 60 * 10**9, 120 * 10**9]
    assert trace.warnings == ()
    naive = AZURE + "".join(f"2024-11-03 {stamp[:8]},1,1\n" for stamp in zoned)
    path = write("t.csv", naive)
    assert codes(path) == ["unsorted", "clock_set_back"]
    said = read(path).warnings[1].message
    assert "by an hour on Sunday 2024-11-03 after 01:59" in said
    assert "2 rows" in said
    for other in (naive.replace("11-03", "11-04"), naive + "2024-11-03 01:00:30,1,1\n"):  # a Monday; back twice
        assert codes(write("t.csv", other)) == ["unsorted"]


@pytest.mark.parametrize(
    ("column", "stamp", "says"),
    [
        ("arrival_s", "1700000000000", "so many s are beyond any clock"),
        ("arrival_ms", "1700000000000000", "so many ms are beyond any clock"),
        ("timestamp", "1700000000", "name its column arrival_s"),
        ("arrival", "2024-01-01", "such as '2024-01-01'"),
        ("arrival_s", "noon", "such as 'noon'"),
    ],
)
def test_a_clock_that_is_misread_is_shown(write: Write, column: str, stamp: str, says: str) -> None:
    with pytest.raises(TrafficError, match=says):
        read(write("t.csv", f"{column},input_tokens,output_tokens\n{stamp},1,1\n{stamp},1,1\n"))


# -- Parquet -----------------------------------------------------------------------------------------------------------


def parquet(tmp_path: Path, arrival: pl.Series, name: str = "arrival_s") -> Path:
    n = arrival.len()
    frame = pl.DataFrame({name: arrival, "input_tokens": [5] * n, "output_tokens": [1] * n})
    frame.write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_clocks_in_parquet(tmp_path: Path) -> None:
    spans = pl.Series([dt.timedelta(seconds=1), dt.timedelta(seconds=2.5)])
    assert read(parquet(tmp_path, spans)).span_ns == 1_500_000_000
    utc = pl.Series([dt.datetime(2024, 11, 3, 5, 59, tzinfo=dt.UTC), dt.datetime(2024, 11, 3, 6, tzinfo=dt.UTC)])
    assert read(parquet(tmp_path, utc.dt.convert_time_zone("America/New_York"), "arrival")).span_ns == 60 * 10**9
    big = pl.Series([1_780_000_000_123_456_789, 1_780_000_000_123_456_829], dtype=pl.Int64)
    assert read(parquet(tmp_path, big, "arrival_ns")).span_ns == 40
    assert read(parquet(tmp_path, pl.Series([b"1", b"2.5"]))).span_ns == 1_500_000_000


def test_floats_that_are_too_coarse_for_arrivals(tmp_path: Path) -> None:
    # A 32-bit float has 24 bits: at 1.78e9 s it steps by 2^(30 - 23) = 128 s. A 64-bit one steps by 2^-22 s there.
    single = pl.Series([1.78e9, 1.78e9 + 1], dtype=pl.Float32)
    notices = read(parquet(tmp_path, single)).warnings
    assert [notice.code for notice in notices] == ["coarse_time"]
    assert "step by 128 s" in notices[0].message
    assert codes(parquet(tmp_path, single.cast(pl.Float64))) == []
    assert codes(parquet(tmp_path, pl.Series([1.78e18, 1.78e18 + 512]), "arrival_ns")) == []  # 256 ns
    assert codes(parquet(tmp_path, pl.Series([0.5, 1e22]))) == []  # no time at all, and counted as such


@pytest.mark.parametrize(
    "arrival",
    [pl.Series([b"\xff", b"1"]), pl.Series([[1], [2]]), pl.Series([{"a": 1}, {"a": 2}]), pl.Series([True, False])],
)
def test_columns_of_parquet_that_are_no_clock(tmp_path: Path, arrival: pl.Series) -> None:
    with pytest.raises(TrafficError):
        read(parquet(tmp_path, arrival))


# -- sums of usage -----------------------------------------------------------------------------------------------------

DAY = 86_400


def bucket(start: int, end: int, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"object": "bucket", "start_time": start, "end_time": end, "results": list(rows)}


def used(n: int, **more: Any) -> dict[str, Any]:
    return {"num_model_requests": n, "input_tokens": 10 * n, "output_tokens": n, "input_cached_tokens": 0} | more


def page(*buckets: dict[str, Any]) -> str:
    return json.dumps({"object": "page", "data": list(buckets), "has_more": False})


def test_a_day_may_have_more_tokens_than_a_request(write: Write) -> None:
    trace = read(
        write("t.json", page(bucket(0, DAY, used(3, input_tokens=7 * 10**12, input_cached_tokens=5 * 10**12))))
    )
    assert (trace.totals["sum_input_tokens"], trace.totals["sum_uncached_input_tokens"]) == (7 * 10**12, 2 * 10**12)


def test_usage_in_two_widths_of_bucket_is_refused(write: Write) -> None:
    with pytest.raises(TrafficError, match="requests are in both; export one width"):
        read(write("t.json", page(bucket(0, DAY, used(24)), bucket(0, 3600, used(1)))))


def test_usage_grouped_in_two_ways_is_refused(write: Write) -> None:
    for one, other in [({"model": "m"}, {"project_id": "p"}), ({}, {"model": "m"})]:
        with pytest.raises(TrafficError, match="side by side: requests are in both"):
            read(write("t.json", page(bucket(0, DAY, used(5, **one), used(5, **other)))))
    keys = page(bucket(0, DAY, used(5, model="m", api_key_id="k"), used(2, model="m")))  # some need no key
    assert read(write("t.json", keys)).totals["n_requests"] == 7


def test_a_bucket_over_midnight_is_of_no_one_day(write: Write) -> None:
    content = page(bucket(8 * 3600, DAY + 8 * 3600, used(24)), bucket(2 * DAY, 3 * DAY, used(3)))
    trace = read(write("t.json", content))
    assert trace.totals["by_day_requests"] == [None, None, 3]
    assert [n.code for n in trace.warnings] == ["no_arrival_times", "crosses_midnight", "missing_buckets"]
    hours = page(*(bucket(h * 3600, (h + 1) * 3600, used(1)) for h in range(36)))
    assert read(write("t.json", hours)).totals["by_day_requests"] == [24, 12]


def test_usage_over_ages_is_refused(write: Write) -> None:
    with pytest.raises(TrafficError, match="at most 40,000 days"):
        read(write("t.json", page(bucket(0, DAY, used(1)), bucket(10**11, 10**11 + DAY, used(1)))))


def test_rate_windows_that_overlap_are_refused(write: Write) -> None:
    rows = "".join(f"{start},0.5,1,Gamma,1,2\n" for start in (0, 300, 600))
    with pytest.raises(TrafficError, match="start 300 s apart and last 600 s each"):
        read(write("t.csv", rows))


# -- prefixes, wrappings -----------------------------------------------------------------------------------------------


def test_hashes_that_do_not_fit_the_prompt_are_told(write: Write) -> None:
    def row(tokens: int, n: int) -> dict[str, Any]:
        return {"timestamp": 0, "input_length": tokens, "output_length": 1, "hash_ids": list(range(n))}

    # Blocks of 512: 1,024 tokens have 2 hashes; 1,537 have 4, or 3 where a last part has none.
    assert codes(write("t.jsonl", jsonl([row(1024, 2), row(1537, 4), row(1537, 3), row(1537, 0)]))) == []
    assert codes(write("t.jsonl", jsonl([row(1024, 2), row(1024, 1), row(512, 32)]))) == ["hash_count"]


@pytest.mark.parametrize(
    "head", [b"\xef\xbb\xbf\xef\xbb\xbf", b"sep=,\r\n", b'"sep=;"\n', b"\xef\xbb\xbfsep=,\n\n# x\n"]
)
def test_what_tools_put_before_a_table(write: Write, head: bytes) -> None:
    trace = read(write("t.csv", head + f"{HEAD}\n0,1,1\n1,1,1\n".encode()))
    assert (trace.n_requests, trace.rejected, inspect(trace)["duration_s"]) == (2, {}, 1.0)

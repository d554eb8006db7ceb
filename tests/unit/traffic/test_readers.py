"""Each format: what tells it, the unit of its clock, which column is which, what it marks."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from planner.errors import TrafficError
from planner.traffic.readers import FORMATS, reader
from planner.traffic.trace import read

Write = Callable[[str, str | bytes], Path]

# Two requests 1.5 s apart, (100 in, 10 out) and (200 in, 20 out), as each per-request format writes them.
SAME = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,100,10\n2023-11-16 18:15:48.1805900,200,20",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,m,100,10,110,API log\n6.5,m,200,20,220,x\n",
    "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,100,10\n2.0,200,20\n",
    "splitwise": "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
    "0,2,0,0.5,1,100,10\n1,2,0,2.0,1,200,20\n",
    "llmservingsim": "input_toks,output_toks,arrival_time_ns\n100,10,1780000000123456789\n200,20,1780000001623456789\n",
    "bailian": '{"chat_id": 0, "timestamp": 0.5, "input_length": 100, "output_length": 10, "hash_ids": []}\n'
    '{"chat_id": 1, "timestamp": 2.0, "input_length": 200, "output_length": 20, "hash_ids": []}',
    "mooncake": '{"timestamp": 27000, "input_length": 100, "output_length": 10, "hash_ids": [1]}\n'
    '{"timestamp": 28500, "input_length": 200, "output_length": 20, "hash_ids": [2]}',
    "litellm": '{"request_id": "a", "startTime": "2026-05-04T11:30:00Z", "prompt_tokens": 100,'
    ' "completion_tokens": 10}\n'
    '{"request_id": "b", "startTime": "2026-05-04T13:30:01.5+02:00", "prompt_tokens": 200, "completion_tokens": 20}',
    "vllm-bench": '{"start_times": [70.25, 71.75], "input_lens": [100, 200],'
    ' "output_lens": [10, 20], "errors": ["", ""]}',
    "generic": "arrival_s,input_tokens,output_tokens\n0.5,100,10\n2.0,200,20\n",
}


@pytest.mark.parametrize("format", SAME)
def test_the_same_two_requests_in_every_format(write: Write, format: str) -> None:
    path = write("trace", SAME[format])
    trace = read(path)
    assert trace.format == format
    assert trace.requests["arrival_ns"].to_list() == [0, 1_500_000_000]
    assert trace.requests["input_tokens"].to_list() == [100, 200]
    assert trace.requests["output_tokens"].to_list() == [10, 20]
    assert (trace.rows_read, trace.rejected, trace.warnings) == (2, {}, ())
    named = read(path, format=format)
    assert named.requests.equals(trace.requests)


def test_every_format_has_a_reader_of_its_name() -> None:
    assert [reader(name).name for name in FORMATS] == list(FORMATS)
    assert set(SAME) == set(FORMATS) - {"openai-usage", "servegen"}
    assert all(reader(name).title for name in FORMATS)


@pytest.mark.parametrize(
    ("column", "scale"), [("arrival_ns", 10**9), ("arrival_us", 10**6), ("arrival_ms", 10**3), ("arrival_s", 1)]
)
def test_the_unit_is_in_the_name_of_the_generic_clock(write: Write, column: str, scale: int) -> None:
    path = write("t.csv", f"{column},input_tokens,output_tokens\n0,1,1\n{90 * scale},1,1\n")
    assert read(path).span_ns == 90 * 10**9


@pytest.mark.parametrize("column", ["arrival", "timestamp"])
def test_a_generic_clock_without_a_unit_is_of_dates(write: Write, column: str) -> None:
    head = f"{column},input_tokens,output_tokens\n"
    assert read(write("t.csv", f"{head}2024-02-29 23:59:59.5,1,1\n2024-03-01 00:00:00,1,1\n")).span_ns == 5 * 10**8
    with pytest.raises(TrafficError, match="2 bad_time"):
        read(write("t.csv", f"{head}0,1,1\n90,1,1\n"))


def test_burstgpt_failures_have_no_answer(write: Write) -> None:
    head = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    trace = read(
        write(
            "t.csv",
            head + "3,s1,1.2,GPT-4,50,0,50,API log\n5,s1,1.2,GPT-4,60,7,67,API log\n6,s2,1,GPT-4,60,7,66,API log\n",
        )
    )
    assert trace.rejected == {"total_mismatch": 1, "zero_output": 1}
    assert trace.requests.select("class", "model", "session_id").row(0) == ("API log", "GPT-4", "s1")


def test_vidur_old_names_with_the_total_first(write: Write) -> None:
    head = "Time,TotalTokenCount,PromptTokenCount,GeneratedTokenCount\n"
    trace = read(write("t.csv", head + "0.0,1100,1000,100\n5.2,500,400,90\n6.2,64,32,32\n"))
    assert (trace.format, trace.rejected) == ("vidur", {"total_mismatch": 1})
    assert trace.requests["input_tokens"].to_list() == [1000, 32]


def test_mooncake_and_bailian_differ_in_clock_and_block(write: Write) -> None:
    row = {"timestamp": 2000, "input_length": 1000, "output_length": 1, "hash_ids": [1, 2]}
    rows = [row, row | {"timestamp": 4000}]
    mooncake = read(write("t.jsonl", "\n".join(map(json.dumps, rows))))
    assert (mooncake.format, mooncake.span_ns, mooncake.block_tokens) == ("mooncake", 2 * 10**9, 512)
    bailian = read(write("t.jsonl", "\n".join(json.dumps(r | {"chat_id": k}) for k, r in enumerate(rows))))
    assert (bailian.format, bailian.span_ns, bailian.block_tokens) == ("bailian", 2000 * 10**9, 16)


def test_hashes_of_blocks_are_64_bits(write: Write) -> None:
    row = {"timestamp": 0, "input_length": 1000, "output_length": 1}
    rows = [row | {"hash_ids": [2**64 - 1, 5]}, row | {"hash_ids": "none"}, row]
    hashes = read(write("t.jsonl", "\n".join(map(json.dumps, rows)))).requests["hash_ids"].to_list()
    assert hashes == [[-1, 5], None, None]


def test_litellm_marks(write: Write) -> None:
    row: dict[str, Any] = {
        "startTime": "2026-05-04T11:30:00Z",
        "prompt_tokens": 900,
        "completion_tokens": 210,
        "total_tokens": 1110,
    }
    rows = [
        row | {"request_id": "ran", "cache_hit": "False", "model": "org/m", "session_id": "s"},
        row | {"request_id": "replayed", "cache_hit": "True"},
        row | {"request_id": "replayed too", "cache_hit": True},
        row | {"request_id": "broke", "status": "failure"},
        row | {"request_id": "broke too", "exception": "timeout after 600 s"},
        row | {"request_id": "ran", "cache_hit": ""},
        row | {"request_id": "prefix", "cache_hit": "None", "prompt_tokens_details": {"cached_tokens": 512}},
    ]
    trace = read(write("t.jsonl", "\n".join(map(json.dumps, rows))))
    assert trace.rejected == {"failed": 2, "response_cache_hit": 2, "duplicate_id": 1}
    assert trace.requests["cached_input_tokens"].to_list() == [0, 512]  # a part of the input, never on top
    assert trace.requests["input_tokens"].to_list() == [900, 900]


def test_litellm_in_csv_and_as_a_page(write: Write) -> None:
    head = "request_id,startTime,prompt_tokens,completion_tokens,cache_hit\n"
    assert (
        read(write("t.csv", head + "a,2026-05-04 11:30:00.125,5,5,False\nb,2026-05-04 11:30:01,5,5,True\n")).n_requests
        == 1
    )
    page = {
        "data": [json.loads(line) for line in SAME["litellm"].splitlines()],
        "total": 90,
        "page": 1,
        "total_pages": 45,
    }
    trace = read(write("t.json", json.dumps(page, indent=1)))
    assert (trace.n_requests, [notice.code for notice in trace.warnings]) == (2, ["has_more"])
    whole = read(write("t.json", json.dumps(page | {"total_pages": 1})))
    assert whole.warnings == ()


def test_vllm_failures_and_broken_results(write: Write) -> None:
    result: dict[str, Any] = {
        "request_throughput": 1.0,
        "start_times": [5.5, 6, 7.25],
        "input_lens": [10, 20, 30],
        "output_lens": [5, 0, 0],
        "ttfts": [0.1, 0.0, 0.0],
        "itls": [[0.1], [], []],
        "errors": ["", "ConnectionError", ""],
    }
    trace = read(write("t.json", json.dumps(result)))
    assert (trace.rejected, trace.n_requests) == ({"failed": 1, "zero_output": 1}, 1)
    for change, says in [
        ({"start_times": [1.0]}, "unlike lengths: start_times 1, input_lens 3"),
        ({"errors": [""]}, "unlike lengths"),
        ({"start_times": None}, "no list 'start_times'; run the benchmark with --save-detailed"),
    ]:
        with pytest.raises(TrafficError, match=says):
            read(write("t.json", json.dumps(result | change)))
    # Python writes statistics of nothing as NaN, and so the whole file is no JSON: only a row that has one is refused.
    odd = result | {"std_itl_ms": float("nan"), "start_times": [5.5, float("nan"), float("inf")]}
    trace = read(write("t.json", json.dumps(odd | {"output_lens": [5, 5, 5], "errors": ["", "", ""]})))
    assert (trace.rejected, trace.n_requests) == ({"bad_time": 2}, 1)
    with pytest.raises(TrafficError, match="each has a clock of its own"):
        read(write("t.jsonl", f"{json.dumps(result)}\n{json.dumps(result)}\n"))
    brief = {"request_throughput": 1.0, "total_input_tokens": 60}
    with pytest.raises(TrafficError, match="no list 'start_times', 'input_lens', 'output_lens'"):
        read(write("t.json", json.dumps(brief)))


DAY = 86_400


def bucket(day: int, *rows: dict[str, Any], days: int = 1) -> dict[str, Any]:
    start = 1_767_225_600 + day * DAY
    return {"object": "bucket", "start_time": start, "end_time": start + days * DAY, "results": list(rows)}


def usage(n: int | None, tokens_in: Any, tokens_out: Any, cached: int = 0, model: str = "m") -> dict[str, Any]:
    return {
        "num_model_requests": n,
        "input_tokens": tokens_in,
        "output_tokens": tokens_out,
        "input_cached_tokens": cached,
        "model": model,
    }


def page(*buckets: dict[str, Any], has_more: bool = False) -> dict[str, Any]:
    return {"object": "page", "data": list(buckets), "has_more": has_more, "next_page": None}


def test_usage_sums_and_days(write: Write) -> None:
    whole = page(
        bucket(0, usage(30, 900, 50, 600), usage(10, 100, 5, model="n")), bucket(1), bucket(2, usage(5, 70, 7))
    )
    trace = read(write("t.json", json.dumps(whole, indent=2)))
    assert (trace.format, trace.is_aggregate, trace.rows_read, trace.rejected) == ("openai-usage", True, 3, {})
    totals = trace.totals
    assert (totals["n_requests"], totals["sum_input_tokens"], totals["sum_output_tokens"]) == (45, 1070, 62)
    assert (totals["sum_cached_input_tokens"], totals["sum_uncached_input_tokens"]) == (600, 470)
    assert totals["by_day_requests"] == [40, 0, 5]  # the day without results is known to be empty
    assert totals["duration_s"] == 3 * DAY
    assert [notice.code for notice in trace.warnings] == ["no_arrival_times"]
    assert trace.n_requests == 0  # and no giant requests at the starts of buckets


def test_usage_rows_that_cannot_be_meant(write: Write) -> None:
    rows = [
        usage(None, 1, 1),
        usage(2, "1,000", 1),
        usage(2, 1.5, 1),
        usage(2, 5, 1, cached=6),
        usage(2, 5, 1, model="x"),
        usage(2, 5, 1, model="x"),
    ]
    trace = read(write("t.json", json.dumps(page(bucket(0, *rows)))))
    assert trace.rejected == {"missing_field": 1, "bad_number": 2, "cached_exceeds_input": 1, "duplicate_id": 1}
    assert trace.totals["n_requests"] == 2


def test_usage_that_is_not_the_whole(write: Write) -> None:
    more = page(bucket(0, usage(3, 9, 5)), has_more=True)
    assert [notice.code for notice in read(write("t.json", json.dumps(more))).warnings] == [
        "no_arrival_times",
        "has_more",
    ]
    last = page(bucket(2, usage(4, 9, 5)))
    for pages in (json.dumps([more, last]), f"{json.dumps(more)}\n{json.dumps(last)}"):
        trace = read(write("t.json", pages))
        assert [notice.code for notice in trace.warnings] == ["no_arrival_times", "missing_buckets"]
        assert trace.totals["by_day_requests"] == [3, None, 4]  # a day that no bucket covers is unknown
        assert trace.totals["covered_s"] == 2 * DAY


@pytest.mark.parametrize("wrong", [page(), page(bucket(0)), page(bucket(0, usage(0, 0, 0))), page(bucket(0, days=-1))])
def test_usage_without_use(write: Write, wrong: dict[str, Any]) -> None:
    with pytest.raises(TrafficError):
        read(write("t.json", json.dumps(wrong)))


def test_usage_as_csv(write: Write) -> None:
    head = "start_time,end_time,model,num_model_requests,input_tokens,output_tokens,input_cached_tokens\n"
    rows = f"0,{DAY},m,3,100,10,50\n{DAY},{2 * DAY},,,,,\n{2 * DAY},{3 * DAY},m,1,5,5,0\nx,{DAY},m,1,1,1,0\n"
    trace = read(write("t.csv", head + rows))
    assert (trace.rows_read, trace.rejected) == (3, {"bad_line": 1})
    assert trace.totals["by_day_requests"] == [3, 0, 1]


def test_servegen_windows(write: Write) -> None:
    rows = "0,0.5,1.2,Gamma,0.694,2.88\n600,2.0,0.8,Weibull,1.26,0.538\n1200,0,0,,0,0\n1800,0.75,1.1\n"
    rows += "3000,0.25,1,Gamma,1,4\n"
    trace = read(write("t.csv", rows))
    assert (trace.format, trace.is_aggregate, trace.rows_read, trace.rejected) == ("servegen", True, 5, {"bad_line": 1})
    assert trace.totals["expected_requests"] == 600 * (0.5 + 2.0 + 0.25)
    assert (trace.totals["covered_s"], trace.totals["duration_s"]) == (2400, 3600)
    assert trace.totals["peak_rate_req_per_s"] == 2.0


def test_servegen_rows_that_cannot_be_meant(write: Write) -> None:
    rows = "0,0.5\n600,2,1,Gamma,1,0.5\n600,2,1,Gamma,1,0.5\n1200,-1,1,Gamma,1,1\n"
    rows += "1800,nan,1,Gamma,1,1\nx,1,1,Gamma,1,1\n2400,,1,Gamma,1,1\n"
    trace = read(write("t.csv", rows))  # the first row is the broken one: the others still tell the format
    assert trace.rejected == {"bad_line": 1, "missing_field": 1, "bad_time": 1, "bad_number": 2, "duplicate_id": 1}
    assert trace.totals["expected_requests"] == 1200
    with pytest.raises(TrafficError, match="no usable window among 1 rows"):
        read(write("t.csv", "0,-0.5,1,Gamma,1,2\n"))


def test_parquet_of_any_types(tmp_path: Path) -> None:
    start = dt.datetime(2024, 2, 29, 23, 59, 59, 500_000)
    frames = {
        "seconds": pl.DataFrame({"arrival_s": [0.1, 1.6]}),
        "whole": pl.DataFrame({"arrival_ms": [100, 1600]}),
        "text": pl.DataFrame({"arrival_s": ["0.1", "1.6"]}),
        "exact": pl.DataFrame({"arrival_s": ["0.1", "1.6"]}).with_columns(pl.col("arrival_s").cast(pl.Decimal(20, 9))),
        "stamps": pl.DataFrame({"arrival": [start, start + dt.timedelta(seconds=1.5)]}),
        "zoned": pl.DataFrame({"arrival": [start, start + dt.timedelta(seconds=1.5)]}).with_columns(
            pl.col("arrival").dt.replace_time_zone("Asia/Kolkata")
        ),
    }
    for name, frame in frames.items():
        path = tmp_path / name
        counts = {"input_tokens": [100, 200], "output_tokens": pl.Series([10.0, 20.0])}
        frame.with_columns(**{k: pl.Series(v) for k, v in counts.items()}).write_parquet(path)
        trace = read(path)
        assert trace.requests["arrival_ns"].to_list() == [0, 1_500_000_000], name
        assert trace.requests["output_tokens"].to_list() == [10, 20]


def test_parquet_with_nulls_and_wrong_types(tmp_path: Path) -> None:
    path = tmp_path / "t"
    frame = pl.DataFrame(
        {"arrival_s": [0.0, None, float("nan"), 3.0], "input_tokens": [1, 1, 1, None], "output_tokens": [1, 1, 1, 1]}
    )
    frame.write_parquet(path)
    assert read(path).rejected == {"missing_field": 2, "bad_time": 1}
    frame.with_columns(pl.lit([1]).alias("input_tokens")).write_parquet(path)
    with pytest.raises(TrafficError, match="holds List"):
        read(path)


def test_columns_are_mapped_to_classes_and_models(write: Write) -> None:
    head = "arrival_s,input_tokens,output_tokens,tier,deployment\n"
    path = write("t.csv", head + "0,1,1,gold,m-1\n1,2,2,free,m-2\n")
    trace = read(path, class_column="tier", model_column="deployment")
    assert trace.requests.select("class", "model").rows() == [("gold", "m-1"), ("free", "m-2")]
    with pytest.raises(TrafficError, match="no column 'teir' for the class; did you mean tier"):
        read(path, class_column="teir")
    nested = '{"arrival_s": 0, "input_tokens": 1, "output_tokens": 1, "metadata": {"team": "blue"}}'
    assert read(write("t.jsonl", nested), class_column="metadata.team").requests["class"].to_list() == ["blue"]


@pytest.mark.parametrize("format", ["vllm-bench", "servegen", "openai-usage"])
def test_formats_without_columns_say_so(write: Write, format: str) -> None:
    content = {
        "vllm-bench": SAME["vllm-bench"],
        "servegen": "0,0.5,1.2,Gamma,0.694,2.88\n",
        "openai-usage": json.dumps(page(bucket(0, usage(3, 9, 5)))),
    }[format]
    with pytest.raises(TrafficError, match="take class_column and model_column away"):
        read(write("t", content), class_column="tier")

"""The account of rows: one reason a row, the first that applies; rows_read = n_requests + sum(rejected)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import TrafficError
from planner.traffic.schema import REASONS
from planner.traffic.trace import read

Write = Callable[[str, str | bytes], Path]
HEAD = "arrival_s,input_tokens,output_tokens,cached_input_tokens,total_tokens,request_id,status\n"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("0,100,10,0,110,a", "bad_line"),
        ("0,100,10,0,110,a,ok,more", "bad_line"),
        (",x,-1,9,9,b,failed", "missing_field"),
        ("-1,x,,9,9,b,failed", "missing_field"),
        ("-1,x,10,9,9,b,failed", "bad_time"),
        ("0,x,10,9,9,b,failed", "bad_number"),
        ("0,100,10,x,9,b,failed", "bad_number"),
        ("0,100,10,200,9,b,failed", "total_mismatch"),
        ("0,100,10,200,110,b,failed", "cached_exceeds_input"),
        ("0,100,0,0,100,b,failed", "failed"),
        ("0,100,0,0,100,first,ok", "duplicate_id"),
        ("0,0,0,0,0,b,ok", "zero_output"),
        ("0,0,5,0,5,b,ok", "zero_input"),
    ],
)
def test_the_first_reason_that_applies(write: Write, row: str, reason: str) -> None:
    trace = read(write("t.csv", HEAD + "0,1,1,,2,first,ok\n" + row + "\n9,1,1,,,last,\n"))
    assert trace.rejected == {reason: 1}
    assert trace.rows_read == 3
    assert trace.n_requests == 2
    assert trace.bad_line_numbers == ((3,) if reason == "bad_line" else ())


def test_reasons_are_in_the_order_in_which_they_are_looked_for(write: Write) -> None:
    trace = read(write("t.csv", HEAD + "0,0,5,,,,\n0,5,0,,,,\n0,x,1,,,,\nx,1,1,,,,\n1,2\n0,1,1,,,,\n"))
    assert list(trace.rejected) == [reason for reason in REASONS if reason in trace.rejected]
    assert list(trace.rejected) == ["bad_line", "bad_time", "bad_number", "zero_output", "zero_input"]


def test_a_failed_try_does_not_hide_its_retry(write: Write) -> None:
    rows = [
        "0,5,5,,,a,failed",
        "1,5,5,,,a,ok",
        "2,5,5,,,a,ok",
        "3,x,5,,,b,ok",
        "4,5,5,,,b,ok",
        "5,5,5,,,,ok",
        "6,5,5,,,,ok",
    ]
    trace = read(write("t.csv", HEAD + "\n".join(rows)))
    assert trace.rejected == {"bad_number": 1, "failed": 1, "duplicate_id": 1}
    assert [ns / 1e9 for ns in trace.requests["arrival_ns"]] == [0, 3, 4, 5]  # rows without an id are each their own


def test_time_runs_from_the_first_accepted_arrival(write: Write) -> None:
    trace = read(write("t.csv", HEAD + "5,0,1,,,,\n7,1,1,,,,\n9,1,1,,,,\n12,1,0,,,,\n"))
    assert trace.requests["arrival_ns"].to_list() == [0, 2 * 10**9]


def test_unsorted_rows_are_sorted_stably_with_a_warning(write: Write) -> None:
    trace = read(
        write("t.csv", HEAD + "".join(f"{t},{n},1,,,,\n" for t, n in [(5, 1), (2, 2), (2, 3), (9, 4), (2, 5), (5, 6)]))
    )
    assert trace.requests["input_tokens"].to_list() == [2, 3, 5, 1, 6, 4]
    assert trace.out_of_order_rows == 4
    assert [notice.code for notice in trace.warnings] == ["unsorted"]


def test_a_stray_quote_costs_its_own_line_only(write: Write) -> None:
    body = 'arrival_s,input_tokens,output_tokens\n0,1,1\n1,"2,2\n2,3,3\n3,4,4\n'
    trace = read(write("t.csv", body))
    assert (trace.n_requests, trace.rejected, trace.bad_line_numbers) == (3, {"bad_line": 1}, (3,))


def test_a_quoted_field_may_hold_separators_quotes_and_lines(write: Write) -> None:
    body = 'arrival_s,input_tokens,output_tokens,class\n0,1,1,"a, ""b""\nc"\n1,2,2,d\n"2","1,024",3,e\n'
    trace = read(write("t.csv", body))
    assert (trace.rows_read, trace.rejected) == (3, {"bad_number": 1})
    assert trace.requests["class"].to_list() == ['a, "b"\nc', "d"]


def test_bytes_that_are_no_text_are_replaced_with_a_warning(write: Write) -> None:
    body = b"arrival_s,input_tokens,output_tokens,class\n0,1,1,caf\xe9\n1,\xff,1,x\n2,\x005,1,x\n\x00\x00\n"
    trace = read(write("t.csv", body))
    assert trace.rejected == {"bad_line": 1, "bad_number": 2}
    assert [notice.code for notice in trace.warnings] == ["invalid_utf8"]


def test_lines_of_json_that_are_no_objects_are_bad_lines(write: Write) -> None:
    good = '{"arrival_s": 1, "input_tokens": 5, "output_tokens": 2}'
    bad = [
        '{"arrival_s": 1, "input_tok',
        '{"arrival_s": 1, "input_tokens": .5, "output_tokens": 2}',
        '{"arrival_s": NaN, "input_tokens": 5, "output_tokens": 2}',
        '{"arrival_s": 1, "input_tokens": 5, "input_tokens": 6, "output_tokens": 2}',
        "[1, 2]",
        "5",
        '{"arrival_s": 1, "input_tokens": 5, "output_tokens": 2} x',
        '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ]
    lines = [line for pair in zip(bad, [good] * len(bad), strict=True) for line in pair]
    trace = read(write("t.jsonl", "\n".join(lines)))
    assert trace.rejected == {"bad_line": len(bad)}
    assert trace.bad_line_numbers == tuple(range(1, 2 * len(bad), 2))
    assert trace.n_requests == len(bad)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("512", None),
        ("512.0", None),
        ("5.12e2", None),
        ('"512"', "bad_number"),
        ("true", "bad_number"),
        ("[512]", "bad_number"),
        ("1e400", "bad_number"),
        ("-1", "bad_number"),
        ("37.5", "bad_number"),
        ("null", "missing_field"),
        ('""', "missing_field"),
    ],
)
def test_counts_in_json_are_numbers(write: Write, value: str, reason: str | None) -> None:
    other = '{"arrival_s": 0, "input_tokens": 1, "output_tokens": 1}\n'
    trace = read(write("t.jsonl", other + f'{{"arrival_s": 1, "input_tokens": {value}, "output_tokens": 2}}\n'))
    assert trace.rejected == ({reason: 1} if reason else {})


def test_stamps_in_json_keep_their_nanoseconds(write: Write) -> None:
    stamps = ["1780000000.123456789", '"1780000000.123456790"', "1780000000.1234568e0"]
    lines = [f'{{"arrival_s": {stamp}, "input_tokens": 1, "output_tokens": 1}}' for stamp in stamps]
    assert read(write("t.jsonl", "\n".join(lines))).requests["arrival_ns"].to_list() == [0, 1, 11]


def test_a_line_longer_than_any_should_be(write: Write) -> None:
    head = "arrival_s,input_tokens,output_tokens\n"
    trace = read(write("t.csv", f"{head}0,1,1\n{'9' * 3_000_000},1,1\n1,{'7' * 3_000_000},2\n"))
    assert trace.rejected == {"bad_time": 1, "bad_number": 1}


def test_stamps_with_and_without_a_zone_are_refused(write: Write) -> None:
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    with pytest.raises(TrafficError, match="1 stamps name a time zone and 2 do not"):
        read(write("t.csv", head + "2024-05-10 00:00:00Z,1,1\n" + "2024-05-10 00:00:01,1,1\n" * 2))
    zoned = read(write("t.csv", head + "2024-05-10 00:00:00+00:00,1,1\n2024-05-10 02:00:01+02:00,1,1\n"))
    assert zoned.span_ns == 10**9


def test_dates_beside_plain_numbers_are_refused(write: Write) -> None:
    rows = [
        f'{{"startTime": {at}, "prompt_tokens": 1, "completion_tokens": 1}}' for at in ('"2026-05-04T11:30:00Z"', "5.5")
    ]
    with pytest.raises(TrafficError, match="1 arrivals are dates and 1 are plain numbers"):
        read(write("t.jsonl", "\n".join(rows)))


def test_the_error_of_an_unusable_trace_counts_its_reasons(write: Write) -> None:
    with pytest.raises(TrafficError) as error:
        read(write("t.csv", "arrival_s,input_tokens,output_tokens\n0,1\n0,0,0\n0,x,1\n"))
    assert "no usable row among 3: 1 bad_line" in str(error.value)
    assert "1 zero_output" in str(error.value)

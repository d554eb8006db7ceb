"""What a trace file may be: hostile, packed, torn; each is read rightly or refused with the way out."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import PlannerError, RunError, TrafficError
from planner.traffic import source
from planner.traffic.trace import read

Write = Callable[[str, str | bytes], Path]
HEAD = "arrival_s,input_tokens,output_tokens\n"
ROWS = HEAD + "0,100,10\n1.5,200,20\n"
FIRST = '{"arrival_s": 0, "input_tokens": 100, "output_tokens": 10}'
SECOND = '{"arrival_s": 1.5, "input_tokens": 2e2, "output_tokens": 20}'


def test_a_line_may_end_in_any_way_and_every_line_is_a_row(write: Write) -> None:
    """Old lines among new ones: CR alone, LF, CR LF, and CR CR LF as a copy in text mode leaves them."""
    trace = read(write("t.csv", HEAD.strip() + "\r\n0,1,1\n1,2,2\r2,4,4\r\n3,8,8\r\r\n4,x,1\r5,16,16"))
    assert (trace.rows_read, trace.n_requests, trace.rejected) == (6, 5, {"bad_number": 1})
    assert int(trace.requests["input_tokens"].sum()) == 31
    lines = read(write("t.jsonl", f"{FIRST}\r{SECOND}\n{FIRST}\r\n{{\r"))
    assert (lines.rows_read, lines.n_requests, lines.bad_line_numbers) == (4, 3, (4,))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """Ten gigabytes with a hole in them, and a terabyte: both at once."""
    path = tmp_path / "t.csv"
    path.write_text(ROWS, encoding="utf-8")
    for size in (source.MAX_BYTES + 1, 10**12):
        with path.open("r+b") as file:
            file.truncate(size)
        with pytest.raises(TrafficError, match=r"t.csv: it holds more than 4 GB; cut it, or sample it"):
            read(path)


def sums(path: Path) -> tuple[int, int, int]:
    trace = read(path)
    assert trace.rows_read == trace.n_requests + sum(trace.rejected.values())
    columns = ("input_tokens", "output_tokens")
    return trace.n_requests, *(int(trace.requests[c].sum()) for c in columns)


@pytest.mark.parametrize(
    "content",
    [
        ROWS,
        ROWS.rstrip("\n"),
        ROWS.replace("\n", "\r\n"),
        ROWS.replace("\n", "\r\n").rstrip(),
        ROWS.replace("\n", "\r"),
        b"\xef\xbb\xbf" + ROWS.encode(),
        "# a comment\n\n" + ROWS.replace("\n1.5", "\n\n  \n# another\n1.5"),
        ROWS.replace(",", ";"),
        ROWS.replace(",", "\t"),
        ROWS.replace(",", " , "),
        ROWS.upper(),
        '"arrival_s","input_tokens","output_tokens"\n"0","100","10"\n1.5,200,20\n',
        gzip.compress(ROWS.encode()),
        gzip.compress(HEAD.encode()) + gzip.compress(b"0,100,10\n1.5,200,20\n"),
        f"{FIRST}\n{SECOND}",
        f"[{FIRST},\n {SECOND}]",
        f'{{"data": [{FIRST}, {SECOND}]}}',
    ],
)
def test_one_trace_in_many_wrappings(write: Write, content: str | bytes) -> None:
    path = write("any-name.txt", content)  # the name says nothing
    assert sums(path) == (2, 300, 30)
    assert read(path).span_ns == 1_500_000_000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\n \n\n", "empty"),
        (HEAD, "no rows"),
        ("a,b,c\n1,2,3\n", "no known trace format"),
        ("arrival_s,input_tokens\n0,1\n", "it lacks 'output_tokens'"),
        ("num_prefill_tokens,num_decode_tokens\n1,2\n", "for vidur it lacks 'arrived_at'"),
        ("arrival_s,input_tokens,input_tokens,output_tokens\n0,1,2,3\n", "'input_tokens' stands twice"),
        ("arrival_s,input_tokens,Input_Tokens,output_tokens\n0,1,2,3\n", "'input_tokens' stands twice"),
        (HEAD + "0,1,0\nx,1,1\n", "no usable row among 2: 1 bad_time"),
        (ROWS.encode("utf-16"), "UTF-16"),
        (ROWS.encode("utf-16-le"), "UTF-16"),
        (ROWS.encode("utf-16-be"), "UTF-16"),
        (b"PK\x03\x04" + bytes(40), "zip"),
        (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd"),
        (b"PAR1" + bytes(40), "Parquet file cannot be read"),
        (gzip.compress(gzip.compress(ROWS.encode())), "compressed twice"),
        (gzip.compress(ROWS.encode() * 5000)[:-20], "ends before its end"),
        (gzip.compress(ROWS.encode())[:6], "ends before its end"),
        (gzip.compress(ROWS.encode()) + b"left over", "after the end"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 60, "damaged"),
        ('[{"arrival_s": 0, "input_tokens": 1, "output_tokens": 1},\n{"arriv', "cut off"),
        (
            FIRST.replace('"output', '"input_tokens": 5, "output'),
            ":1: no line of it is a JSON object with keys, nor is the whole one JSON list: a key stands twice",
        ),
        ("{}\n{}\n", "an object without a key"),
        ("#\n[1, 2]\n", ":2: "),
        (b"\x04\x22\x4d\x18" + bytes(40), "lz4"),
        (b"\xff\x06\x00\x00sNaPpY" + bytes(40), "snappy"),
        (b"t.csv".ljust(257, b"\0") + b"ustar" + bytes(250), "a tar archive"),
        (gzip.compress(b"t.csv".ljust(257, b"\0") + b"ustar" + bytes(250)), "a tar archive"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "git lfs pull"),
        ("\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "it is a web page"),
        ("%PDF-1.7\n", "a PDF document"),
        (bytes(9000), "nothing but zero bytes"),
        (HEAD.replace(",", ";") + "0,5;10;5\n", "such as '0,5'; write numbers with a decimal point"),
    ],
)
def test_refused_with_its_name_and_the_way_out(write: Write, content: str | bytes, says: str) -> None:
    path = write("t.csv", content)
    with pytest.raises(TrafficError) as error:
        read(path)
    text = str(error.value)
    assert says in text
    assert text.startswith(str(path))
    assert all(fault.way_out for fault in error.value.faults)
    assert error.value.exit_status == 2


def test_a_gzip_bomb_is_bounded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_SMALL_BYTES", 1_000_000)
    path = write("bomb.gz", gzip.compress(bytes(8_000_000)))
    with pytest.raises(TrafficError, match="unpack to more than"):
        read(path)


def test_a_file_beyond_the_bound_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_BYTES", 40)
    with pytest.raises(TrafficError, match="more than"):
        read(write("t.csv", ROWS))
    with pytest.raises(TrafficError, match="unpack to more than"):
        read(write("t.csv.gz", gzip.compress(b"arrival_s" * 100)))


def test_no_file_names_the_nearest(write: Write, tmp_path: Path) -> None:
    write("requests.csv", ROWS)
    with pytest.raises(TrafficError, match=r"no such file; did you mean requests\.csv"):
        read(tmp_path / "request.csv")


@pytest.mark.parametrize("path", [".", "/dev/null", "a\x00b", "x" * 300])
def test_what_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(TrafficError):
        read(path)


def test_below_a_file_there_is_no_file(write: Write) -> None:
    with pytest.raises(TrafficError, match="no file can be there"):
        read(write("t.csv", ROWS) / "x.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_the_surroundings_fault(write: Write) -> None:
    path = write("t.csv", ROWS)
    path.chmod(0)
    with pytest.raises(RunError, match="permissions"):
        read(path)


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(ROWS.encode()))
    writer.start()
    assert sums(pipe)[0] == 2
    writer.join()


def test_the_digest_is_of_the_content(write: Write) -> None:
    plain = read(write("a.csv", ROWS)).digest
    assert plain.startswith("sha256:")
    assert read(write("b.csv.gz", gzip.compress(ROWS.encode()))).digest == plain
    assert read(write("c.csv", ROWS + "2,1,1\n")).digest != plain


def test_a_named_format_is_held_to(write: Write) -> None:
    path = write("t.csv", ROWS)
    with pytest.raises(TrafficError, match="unknown trace format 'genric'; did you mean generic"):
        read(path, format="genric")
    with pytest.raises(TrafficError, match=r"no column 'TIMESTAMP'.*azure needs"):
        read(path, format="azure")
    assert read(path, format="generic").format == "generic"


def test_every_fault_is_a_planner_error(write: Write) -> None:
    # Bytes without sense: any cut of a good file and any flip of a bit is read or refused, never a crash.
    good = gzip.compress(ROWS.encode())
    for k in range(len(good)):
        for torn in (good[:k], good[:k] + bytes([good[k] ^ 0x41]) + good[k + 1 :]):
            try:
                read(write("t.gz", torn))
            except PlannerError:
                continue

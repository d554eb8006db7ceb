"""Laws of readers on random files: the account adds up, and a plain loop over the rows agrees with the columns."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import sys
import tempfile
from collections import Counter
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from planner.errors import PlannerError, TrafficError
from planner.traffic import transform
from planner.traffic.cells import iso_nanoseconds, nanoseconds, tokens
from planner.traffic.trace import read

S = 10**9
MAX = 2**32 - 1


def read_text(content: str | bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read(path)


def decimal(text: str, most: int) -> Decimal | None:
    """A number from 0 to `most`, the slow and obvious way."""
    if not text.isascii() or "_" in text:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() and 0 <= value <= most else None


def whole(text: str) -> int | None:
    """A count."""
    value = decimal(text, MAX)
    return None if value is None or value != value.to_integral_value() else int(value)


def time_ns(text: str) -> int | None:
    """Seconds to nanoseconds."""
    value = decimal(text, 2**33)
    return None if value is None else round(Fraction(value) * S)


def reason_of(row: tuple[str, str, str, str, str], seen: set[str]) -> str | None:
    at, n_in, n_out, total, name = row
    if not (at and n_in and n_out):
        return "missing_field"
    if time_ns(at) is None:
        return "bad_time"
    a, b = whole(n_in), whole(n_out)
    if a is None or b is None or (total and whole(total) is None):
        return "bad_number"
    if total and whole(total) != a + b:
        return "total_mismatch"
    if name in seen:
        return "duplicate_id"
    if name:
        seen.add(name)
    return "zero_output" if b == 0 else "zero_input" if a == 0 else None


numbers = st.one_of(
    st.integers(0, 9).map(str),
    st.integers(0, 10**6).map(str),
    st.sampled_from(
        ["", "x", "-1", "1.5", "3.0", "2e2", "1,0", "nan", "inf", "1e400", "+7", str(MAX), str(MAX + 1), "5."]
    ),
)
times = st.one_of(
    st.integers(0, 10**5).map(str),
    st.decimals(0, 10**6, places=9).map(str),
    st.floats(0, 1e9).map(repr),
    st.sampled_from(["", "-1", "nan", "inf", "1e3", "1e400", "now", "0.0000000005"]),
)
rows = st.tuples(times, numbers, numbers, st.sampled_from(["", "", "", "5", "x"]), st.sampled_from(["", "", "a", "b"]))


@given(st.lists(rows, max_size=30))
def test_columns_agree_with_a_loop_over_rows(table: list[tuple[str, str, str, str, str]]) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["arrival_s", "input_tokens", "output_tokens", "total_tokens", "request_id"])
    writer.writerows(table)
    seen: set[str] = set()
    reasons = [reason_of(row, seen) for row in table]
    kept = [
        (time_ns(row[0]) or 0, whole(row[1]), whole(row[2]))
        for row, why in zip(table, reasons, strict=True)
        if why is None
    ]
    try:
        trace = read_text(stream.getvalue())
    except TrafficError:
        assert not kept
        return
    assert trace.rows_read == len(table)
    assert trace.rejected == {why: n for why, n in Counter(reasons).items() if why}
    assert trace.n_requests == len(kept)
    ordered = sorted(kept, key=lambda request: request[0])
    assert trace.requests.rows() == [(at - ordered[0][0], a, b) for at, a, b in ordered]


cells = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r"), max_size=12)


BLANKS = "".join(
    char for char in map(chr, range(sys.maxunicode + 1)) if char.isspace() and not "\x1c" <= char <= "\x1f"
)
"""White space as Unicode has it; Python takes four separators of files and records for such, too."""


@given(st.lists(st.one_of(st.just("0,1,2"), st.just("1.5,3,4"), cells), max_size=20))
@example(["\x1f"])
def test_no_line_is_lost(lines: list[str]) -> None:
    text = "\n".join(["arrival_s,input_tokens,output_tokens", "7,8,9", *lines])
    trace = read_text(text)
    assert trace.rows_read == trace.n_requests + sum(trace.rejected.values())
    shown = [line for line in lines if line.strip(BLANKS) and not line.strip(BLANKS).startswith("#")]
    quoted = any('"' in line for line in shown)
    assert trace.rows_read == 1 + len(shown) or (quoted and trace.rows_read <= 1 + len(shown))
    assert trace.n_requests >= 1 + shown.count("0,1,2") + shown.count("1.5,3,4") - 2 * quoted


objects = st.dictionaries(
    st.sampled_from(["arrival_s", "input_tokens", "output_tokens", "class"]),
    st.one_of(st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(), st.text(max_size=4), st.just([1])),
)


@given(
    st.lists(
        st.one_of(objects.map(json.dumps), st.text(max_size=20).filter(lambda t: not {*t} & {*"\r\n"})), max_size=15
    )
)
def test_no_line_of_json_is_lost(lines: list[str]) -> None:
    good = '{"arrival_s": 1, "input_tokens": 2, "output_tokens": 3}'
    trace = read_text("\n".join([good, *lines, good]).encode("utf-8", "surrogatepass"))
    assert trace.rows_read == trace.n_requests + sum(trace.rejected.values())
    shown = [line for line in lines if line.encode().strip() and not line.encode().strip().startswith(b"#")]
    assert trace.rows_read == len(shown) + 2


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(PlannerError):  # any other error is a crash
        read_text(content)


@given(st.integers(0, 9 * 10**9 - 1), st.integers(0, S - 1))
def test_nanoseconds_survive_their_spelling(seconds: int, part: int) -> None:
    ns = seconds * S + part
    text = f"{seconds}.{part:09d}"
    assert nanoseconds(pl.Series([text, text.rstrip("0"), f"{text}000"]), "s").to_list() == [ns] * 3
    assert nanoseconds(pl.Series([str(ns)]), "ns").to_list() == [ns]
    assert nanoseconds(pl.Series([f"{ns // 10**6}.{ns % 10**6:06d}"]), "ms").to_list() == [ns]


@given(st.datetimes(), st.integers(1, 9), st.integers(-14 * 60, 14 * 60))
def test_stamps_with_a_zone_are_compared_in_utc(moment: Any, digits: int, offset_min: int) -> None:
    if not 1700 < moment.year < 2250:
        return
    sign = "-" if offset_min < 0 else "+"
    zone = f"{sign}{abs(offset_min) // 60:02d}:{abs(offset_min) % 60:02d}"
    fraction = f"{moment.microsecond:06d}000"[:digits]
    plain = f"{moment:%Y-%m-%d %H:%M:%S}.{fraction}".replace(f"{moment:%Y}", f"{moment.year:04d}", 1)
    found, zoned = iso_nanoseconds(pl.Series([plain, plain + "Z", plain + zone]))
    assert zoned.to_list() == [False, True, True]
    assert found[0] == found[1] == found[2] + offset_min * 60 * S


@given(st.lists(st.text("0123456789.eE+-, x", max_size=8), max_size=20))
def test_counts_are_read_alike_alone_and_in_company(texts: list[str]) -> None:
    together = tokens(pl.Series(texts, dtype=pl.String)).to_list()
    assert together == [tokens(pl.Series([text])).to_list()[0] for text in texts]
    assert together == [whole(text) if text == text.strip() else None for text in texts]


arrivals = st.lists(st.integers(0, 10**15), min_size=1, max_size=40).map(sorted)


@given(arrivals, st.floats(0.01, 100), st.integers(1, 10**15))
def test_the_clock_keeps_order_and_count(times_ns: list[int], speedup: float, cap_ns: int) -> None:
    frame = pl.DataFrame({"arrival_ns": times_ns})
    fast = transform.faster(frame, speedup)["arrival_ns"]
    assert fast.is_sorted()
    exact = [Fraction(t) / Fraction(repr(speedup)) for t in times_ns]
    assert all(abs(found - wanted) <= Fraction(1, 2) for found, wanted in zip(fast.to_list(), exact, strict=True))
    capped = transform.idle_cap(frame, cap_ns)["arrival_ns"].to_list()
    gaps = [min(b - a, cap_ns) for a, b in itertools.pairwise(times_ns)]
    assert [b - a for a, b in itertools.pairwise(capped)] == gaps


@given(arrivals, st.floats(0.05, 6), st.integers(0, 2**63 - 1))
def test_copies_keep_every_request_of_the_whole_ones(times_ns: list[int], scale: float, seed: int) -> None:
    start = [t - times_ns[0] for t in times_ns]
    frame = pl.DataFrame(
        {"arrival_ns": start, "input_tokens": range(len(start))},
        schema={"arrival_ns": pl.Int64, "input_tokens": pl.UInt32},
    )
    found = transform.copies(frame, scale, span_ns=start[-1] + 1, key=1, seed=seed)
    assert found["arrival_ns"].is_sorted()
    assert found.height == 0 or (found["arrival_ns"].min(), found["arrival_ns"].max()) <= (start[-1], start[-1])
    counts = dict(found["input_tokens"].value_counts().iter_rows())
    assert all(int(scale) <= counts.get(k, 0) <= int(scale) + (scale % 1 > 0) for k in range(len(start)))

"""Cells of a trace: exact whole numbers of tokens and of nanoseconds, whatever the spelling."""

from __future__ import annotations

import polars as pl
import pytest

from planner.traffic.cells import Tick, is_missing, iso_nanoseconds, nanoseconds, tokens

BIG = 2**32 - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512", 512),
        ("0512", 512),
        ("+5", 5),
        ("512.0", 512),
        ("5.", 5),
        ("1.2e3", 1200),
        ("12e-1", None),
        ("0", 0),
        ("-0", 0),
        (str(BIG), BIG),
        (str(BIG + 1), None),
        ("1,024", None),
        ("1_024", None),
        ("37.5", None),
        ("4.00000000000000000001", None),
        ("-5", None),
        ("inf", None),
        ("nan", None),
        ("1e400", None),
        ("1e999999999", None),
        ("1e-999999999", None),
        ("0x10", None),
        ("５", None),  # a digit elsewhere, no number here
        ("many", None),
        ('"512"', None),
        (None, None),
    ],
)
def test_tokens(text: str | None, value: int | None) -> None:
    assert tokens(pl.Series([text], dtype=pl.String)).to_list() == [value]
    # In company, too: the plain spellings beside it take another road.
    assert tokens(pl.Series(["7", text], dtype=pl.String)).to_list() == [7, value]


@pytest.mark.parametrize(
    ("text", "unit", "ns"),
    [
        ("0", "s", 0),
        ("12", "s", 12_000_000_000),
        ("1.5", "s", 1_500_000_000),
        ("1.5e3", "s", 1_500_000_000_000),
        (".5", "s", 500_000_000),
        ("+2", "s", 2_000_000_000),
        ("61.0000001", "s", 61_000_000_100),
        ("0.30000000000000004", "s", 300_000_000),  # a float's spelling of 0.3
        ("2.9999999999999996", "s", 3_000_000_000),
        ("1780000000.123456789", "s", 1_780_000_000_123_456_789),
        ("27000", "ms", 27_000_000_000),
        ("45500.25", "ms", 45_500_250_000),
        ("7.5", "us", 7_500),
        ("1780000000123456789", "ns", 1_780_000_000_123_456_789),
        ("9223372036854775807", "ns", 2**63 - 1),
        ("9223372036854775808", "ns", None),
        ("1780000000123", "s", None),  # milliseconds taken for seconds: beyond any date
        ("-1", "s", None),
        ("-1e-400", "s", None),
        ("-0.0", "s", 0),
        ("inf", "s", None),
        ("nan", "s", None),
        ("1e400", "s", None),
        ("noon", "s", None),
        ("2024-01-01 00:00:00", "s", None),
        ("1:30", "s", None),
    ],
)
def test_nanoseconds(text: str, unit: Tick, ns: int | None) -> None:
    assert nanoseconds(pl.Series([text]), unit).to_list() == [ns]
    assert nanoseconds(pl.Series(["1", text]), unit).to_list()[1] == ns


def test_neighbours_above_2_to_the_53_stay_apart() -> None:
    # A float steps by 256 at 1.78e18.
    stamps = ["1780000000123456789", "1780000000123456829", "1780000000123456879"]
    assert nanoseconds(pl.Series(stamps), "ns").diff().to_list() == [None, 40, 50]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01 00:00:00", 0),
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01 00:00:00.1", 10**8),
        ("1970-01-01 00:00:00.0779500", 77_950_000),
        ("1970-01-01 00:00:00.77950", 779_500_000),
        ("1970-01-01 00:00:00.000000100", 100),
        ("1970-01-01 00:00:00,5", 5 * 10**8),
        ("1970-01-01 00:00:00.9999999999", 10**9),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1970-01-01 01:00:00+0100", 0),
        ("1969-12-31 23:00:00-01", 0),
        ("1970-01-01 05:30:00+05:30", 0),
        ("1970-01-01 00:01", 60 * 10**9),
        ("1969-12-31 23:59:59", -(10**9)),
        ("2024-02-29 00:00:00", 19_782 * 86_400 * 10**9),
        ("2023-02-29 00:00:00", None),
        ("2024-13-01 00:00:00", None),
        ("2024-01-01 24:00:00", None),
        ("2024-01-01 00:60:00", None),
        ("2024-01-01 00:00:60", None),
        ("2024-01-01", None),
        ("9999-01-01 00:00:00", None),
        ("1708992000", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_iso(text: str | None, ns: int | None) -> None:
    times, _ = iso_nanoseconds(pl.Series([text], dtype=pl.String))
    assert times.to_list() == [ns]


def test_iso_says_which_stamps_have_a_zone() -> None:
    texts = ["2024-01-01 00:00:00", "2024-01-01 00:00:00Z", "2024-01-01 00:00:00+00:00", "2023-02-29 00:00:00Z"]
    assert iso_nanoseconds(pl.Series(texts))[1].to_list() == [False, True, True, False]


def test_missing_is_absent_empty_or_null() -> None:
    frame = pl.DataFrame({"x": [None, "", "null", "NULL", "None", r"\N", "nan", "0", "nullify"]})
    assert frame.select(is_missing("x")).to_series().to_list() == [True] * 6 + [False] * 3

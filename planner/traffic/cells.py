"""Text of one cell -> an exact whole number: tokens, or nanoseconds of a clock. No float touches a value on the way.

Each function takes a whole column. Plain spellings are read by polars; the rare rest (exponents, signs) one by one,
each distinct text once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Literal

from planner.traffic.schema import MAX_TOKENS

if TYPE_CHECKING:
    import polars as pl

Tick = Literal["s", "ms", "us", "ns"]
Unit = Literal["s", "ms", "us", "ns", "iso", "iso|s"]
DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Decimal places from the unit to a nanosecond."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_MAX_NS = 2**63 - 1
_DAY_NS = 86_400 * 10**9
_ISO = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
    r"\s*(Z|z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)?(?: UTC)?$"
)
_NULLS = ["", "null", "none", r"\n"]


def is_missing(name: str) -> pl.Expr:
    """Whether the text of column `name` stands for no value."""
    import polars as pl

    column = pl.col(name)
    short = column.str.len_bytes() <= 4
    return column.is_null() | (short & column.str.to_lowercase().is_in(_NULLS))


def tokens(texts: pl.Series, most: int = MAX_TOKENS) -> pl.Series:
    """Token counts as Int64; null where the text is not a whole number from 0 to `most`.

    >>> import polars as pl
    >>> tokens(pl.Series(["512", "512.0", "1.2e3", "1,024", "37.5", "-1", "inf"])).to_list()
    [512, 512, 1200, None, None, None, None]
    """
    import polars as pl

    plain = texts.str.contains(r"^[0-9]{1,9}$")
    fast = pl.select(pl.when(plain).then(texts)).to_series().cast(pl.Int64, strict=False)
    return _fill(fast, texts, plain, lambda text: _one_count(text, most))


def _one_count(text: str, most: int) -> int | None:
    value = _exact(text)
    if value is None or value != value.to_integral_value() or not 0 <= value <= most:
        return None
    return int(value)


def nanoseconds(texts: pl.Series, unit: Tick) -> pl.Series:
    """Nanoseconds as Int64 of a clock that counts `unit`s; null where the text is no time or is negative.

    Digits beyond the nanosecond are rounded, half to even.

    >>> import polars as pl
    >>> nanoseconds(pl.Series(["1.5", "0.0000000016", "1e-9", "-1", "nan"]), "s").to_list()
    [1500000000, 2, 1, None, None]
    """
    import polars as pl

    places = DIGITS[unit]
    plain = texts.str.contains(rf"^[0-9]{{1,{19 - places}}}(\.[0-9]{{0,18}})?$")
    read = pl.select(pl.when(plain).then(texts)).to_series().cast(pl.Decimal(38, places), strict=False)
    fast = read.to_physical().cast(pl.Int64, strict=False)  # null beyond 64 bits
    return _fill(fast, texts, plain, lambda text: _one_time(text, places))


def _one_time(text: str, places: int) -> int | None:
    value = _exact(text)
    if value is None:
        return None
    ns = int(value.scaleb(places).to_integral_value(rounding=ROUND_HALF_EVEN))
    return ns if 0 <= ns <= _MAX_NS and value >= 0 else None


def _exact(text: str) -> Decimal | None:
    """The number that `text` spells, if it is one and of a size that can matter."""
    if len(text) > 400 or not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    if value == 0:
        return Decimal(0)
    if value.adjusted() > 19:
        return None
    # Far below a nanosecond only the sign and not being whole still matter.
    return value if value.adjusted() >= -30 else Decimal("1e-30").copy_sign(value)


def _fill(fast: pl.Series, texts: pl.Series, plain: pl.Series, one: Callable[[str], int | None]) -> pl.Series:
    """`fast` where the spelling is plain, else what `one` makes of the text."""
    import polars as pl

    if plain.all():  # nulls aside
        return fast
    rest = texts.filter(~plain & texts.is_not_null()).unique()
    known = {text: one(text) for text in rest.to_list()}
    found = {text: value for text, value in known.items() if value is not None}
    slow = texts.replace_strict(list(found), list(found.values()), default=None, return_dtype=pl.Int64)
    return pl.select(pl.when(plain).then(fast).otherwise(slow)).to_series()


def iso_nanoseconds(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Nanoseconds since 1970 of ISO stamps (null where the text is none), and which of them name a zone.

    A stamp without a zone is taken as if in UTC; a caller compares such stamps only among themselves.

    >>> import polars as pl
    >>> times, zoned = iso_nanoseconds(pl.Series(["1970-01-01 00:00:01.5", "1970-01-01T02:00:00+02:00", "noon"]))
    >>> times.to_list(), zoned.to_list()
    ([1500000000, 0, None], [False, True, False])
    """
    import polars as pl

    parts = texts.str.extract_groups(_ISO).struct
    days = parts.field("1").str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64)
    hours, minutes = (parts.field(k).cast(pl.Int64) for k in ("2", "3"))
    seconds = parts.field("4").fill_null("00").cast(pl.Int64)
    fraction = parts.field("5").fill_null("").str.pad_end(10, "0")
    ns = fraction.str.slice(0, 9).cast(pl.Int64) + (fraction.str.slice(9, 1) >= "5").cast(pl.Int64)
    zone = parts.field("6")
    sign = pl.select(pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)).to_series()
    offset = zone.str.extract_groups(r"^[+-]([0-9]{2}):?([0-9]{2})?$").struct
    ahead = offset.field("1").cast(pl.Int64).fill_null(0) * 60 + offset.field("2").cast(pl.Int64).fill_null(0)
    legal = (hours < 24) & (minutes < 60) & (seconds < 60) & (days.abs() < 106_000) & (ahead <= 24 * 60)
    total = days * _DAY_NS + ((hours * 60 + minutes - sign * ahead) * 60 + seconds) * 10**9 + ns
    times = pl.select(pl.when(legal.fill_null(False)).then(total)).to_series()
    return times, (zone.is_not_null() & times.is_not_null()).fill_null(False)

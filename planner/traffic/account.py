"""The one account of rows: which are requests, which are refused and why, in what order they arrive.

Every per-request reader ends here. What comes in is one frame of text (`Raw`); the law is
rows_read = n_requests + sum(rejected).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from planner.errors import Notice
from planner.traffic.cells import Unit, is_missing, iso_nanoseconds, nanoseconds, tokens
from planner.traffic.schema import MAX_TOKENS, REASONS, Trace, request_schema
from planner.traffic.source import Source

if TYPE_CHECKING:
    import polars as pl

_COUNTS = ("input", "output", "cached", "total")
_LISTED_LINES = 1000
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]+", re.ASCII)
_HOUR_NS, _SUNDAY = 3600 * 10**9, 6


@dataclass(frozen=True, slots=True)
class Raw:
    """Rows as text. Columns of `frame`: `arrival input output`, where the format has them `cached total id session
    class model` (String), `failed cache_hit` (Boolean) and `hash_ids` (List of Int64)."""

    frame: pl.DataFrame
    unit: Unit
    bad_lines: tuple[int, ...] = ()
    warnings: tuple[Notice, ...] = ()
    block_tokens: int | None = None


def account(raw: Raw, *, source: Source, format: str) -> Trace:
    """The trace that the rows make.

    Raises:
        TrafficError: stamps of two kinds that cannot be compared, or no row is a request.
    """
    import polars as pl

    times, is_local = _arrivals(raw.frame["arrival"], raw.unit, source)
    frame = raw.frame.with_columns(times.alias("time"))
    frame = plain_reasons(frame, needed=("arrival", "input", "output"), counts=_COUNTS)
    frame = frame.with_columns(_later_reason(frame).alias("reason"))
    counted = dict(frame.filter(pl.col("reason").is_not_null())["reason"].value_counts().iter_rows())
    if raw.bad_lines:
        counted["bad_line"] = counted.get("bad_line", 0) + len(raw.bad_lines)
    rejected = {reason: counted[reason] for reason in REASONS if reason in counted}
    rows_read = frame.height + len(raw.bad_lines)
    kept = frame.filter(pl.col("reason").is_null())
    if not kept.height:
        raise _nothing_left(rows_read, rejected, raw, frame, source, format)
    out_of_order = int((kept["time"] < kept["time"].cum_max()).sum())
    warnings = [*raw.warnings, *_odd_hashes(kept, raw.block_tokens)]
    if out_of_order:
        message = f"{out_of_order:,} rows came after a later arrival; sorted by time, ties in the order of the file"
        warnings.append(Notice("unsorted", message))
        warnings += _clock_set_back(kept["time"], out_of_order) if is_local else []
        kept = kept.sort("time", maintain_order=True)
    return Trace(
        requests=_requests(kept),
        format=format,
        path=source.path,
        digest=source.digest,
        rows_read=rows_read,
        rejected=rejected,
        warnings=tuple(warnings),
        out_of_order_rows=out_of_order,
        bad_line_numbers=tuple(sorted(raw.bad_lines)[:_LISTED_LINES]),
        block_tokens=raw.block_tokens if "hash_ids" in kept.columns else None,
    )


def _clock_set_back(times: pl.Series, out_of_order: int) -> list[Notice]:
    """Names the hour that a local clock shows twice in autumn: on a Sunday stamps go back by up to an hour, once."""
    steps = times.diff()
    back = (steps < 0).arg_true().to_list()
    if len(back) != 1 or not -_HOUR_NS <= steps[back[0]] <= -_HOUR_NS // 2:
        return []
    at = datetime.fromtimestamp(times[back[0] - 1] // 10**9, tz=UTC)
    if at.weekday() != _SUNDAY:
        return []
    message = (
        f"stamps name no zone and go back by an hour on Sunday {at:%Y-%m-%d} after {at:%H:%M}, as clocks do in autumn: "
        f"{out_of_order:,} rows of the hour after that stand among those of the hour before; write stamps in UTC"
    )
    return [Notice("clock_set_back", message)]


def _arrivals(texts: pl.Series, unit: Unit, source: Source) -> tuple[pl.Series, bool]:
    """Nanoseconds on the file's own clock, null where the stamp is none, and whether it is a clock without a zone.

    Raises:
        TrafficError: stamps with a zone beside stamps without, or dates beside plain numbers.
    """
    import polars as pl

    if unit != "iso" and unit != "iso|s":  # noqa: PLR1714 (so that the type narrows)
        return nanoseconds(texts, unit), False
    times, zoned = iso_nanoseconds(texts)
    n_zoned = int(zoned.sum())
    n_naive = times.len() - times.null_count() - n_zoned
    if n_zoned and n_naive:
        what = f"{n_zoned:,} stamps name a time zone and {n_naive:,} do not, so their order is unknown"
        raise source.refuse(what, "write all of them in one zone, with or without its name")
    if unit == "iso":
        return times, n_naive > 0
    seconds = nanoseconds(texts, "s")
    n_numbers = seconds.len() - seconds.null_count()
    if n_numbers and n_zoned + n_naive:
        what = f"{n_zoned + n_naive:,} arrivals are dates and {n_numbers:,} are plain numbers"
        raise source.refuse(what, "write all of them in one way")
    return pl.select(times.fill_null(seconds)).to_series(), n_naive > 0


def plain_reasons(
    frame: pl.DataFrame, *, needed: tuple[str, ...], counts: tuple[str, ...], most: int = MAX_TOKENS
) -> pl.DataFrame:
    """`frame` with the counts read into `n_<name>` and `reason`, the first that a row's own values give; null if none.

    Looks at what is there of `time` (parsed arrivals), `total`, `cached`, `failed` and `cache_hit`.
    """
    import polars as pl

    present = [name for name in counts if name in frame.columns]
    frame = frame.with_columns(tokens(frame[name], most).alias(f"n_{name}") for name in present)
    none = pl.lit(False)
    # A column that was read without a null has neither missing nor bad values: the usual case, and the cheap one.
    parsed = {name: frame[f"n_{name}" if name in present else "time"] for name in (*needed, *present)}
    holed = [name for name, column in parsed.items() if column.null_count()]
    bad_counts = [pl.col(f"n_{name}").is_null() & ~is_missing(name) for name in holed if name in present]
    given = {name: pl.col(name) if name in frame.columns else none for name in ("failed", "cache_hit")}
    tests = {
        "missing_field": pl.any_horizontal(none, *(is_missing(name) for name in holed if name in needed)),
        "bad_time": pl.col("time").is_null() if "time" in frame.columns else none,
        "bad_number": pl.any_horizontal(none, *bad_counts),
        "total_mismatch": pl.col("n_total") != pl.col("n_input") + pl.col("n_output") if "total" in present else none,
        "cached_exceeds_input": pl.col("n_cached") > pl.col("n_input") if "cached" in present else none,
        "failed": given["failed"],
        "response_cache_hit": given["cache_hit"],
    }
    reasons = [pl.when(test).then(pl.lit(reason)) for reason, test in tests.items()]
    return frame.with_columns(pl.coalesce(reasons).alias("reason"))


def _later_reason(frame: pl.DataFrame) -> pl.Series:
    """All reasons: `duplicate_id` looks at rows that nothing speaks against yet, so a failed try hides no retry."""
    import polars as pl

    duplicate = pl.lit(False)
    if "id" in frame.columns:
        known = ~is_missing("id") & pl.col("reason").is_null()
        # Rows that do not count get a number of their own, so that they are never the first of an identifier.
        key = pl.when(known).then(pl.col("id")).otherwise(pl.concat_str(pl.lit("\x00"), pl.int_range(pl.len())))
        duplicate = known & ~key.is_first_distinct()
    reason = (
        pl.when(pl.col("reason").is_not_null())
        .then(pl.col("reason"))
        .when(duplicate)
        .then(pl.lit("duplicate_id"))
        .when(pl.col("n_output") == 0)
        .then(pl.lit("zero_output"))
        .when(pl.col("n_input") == 0)
        .then(pl.lit("zero_input"))
    )
    return frame.select(reason).to_series()


def _requests(kept: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    columns = {
        "arrival_ns": pl.col("time") - pl.col("time").first(),
        "input_tokens": pl.col("n_input"),
        "output_tokens": pl.col("n_output"),
    }
    if "cached" in kept.columns:
        columns["cached_input_tokens"] = pl.col("n_cached").fill_null(0)
    for name, column in (("class", "class"), ("model", "model"), ("session", "session_id"), ("hash_ids", "hash_ids")):
        if name in kept.columns:
            columns[column] = pl.col(name)
    schema = request_schema()
    return kept.select(expression.cast(schema[name]).alias(name) for name, expression in columns.items()).rechunk()


def _odd_hashes(kept: pl.DataFrame, block_tokens: int | None) -> tuple[Notice, ...]:
    """A warning where the number of block hashes does not fit the prompt; none at all is a prompt without a prefix."""
    import polars as pl

    if block_tokens is None or "hash_ids" not in kept.columns:
        return ()
    n = pl.col("hash_ids").list.len().cast(pl.Int64)
    whole = pl.col("n_input") // block_tokens
    n_odd = kept.filter((n > 0) & ((n < whole) | (n > -(-pl.col("n_input") // block_tokens)))).height
    if not n_odd:
        return ()
    return (
        Notice(
            "hash_count",
            f"{n_odd:,} prompts do not have one hash per {block_tokens:,} tokens: are the blocks of another size?",
        ),
    )


def _nothing_left(
    rows_read: int, rejected: dict[str, int], raw: Raw, frame: pl.DataFrame, source: Source, format: str
) -> Exception:
    if not rows_read:
        return source.refuse(
            "the trace has no rows", f"it was read as {format}: at least one row is needed below the header"
        )
    counts = ", ".join(f"{n:,} {reason} ({REASONS[reason]})" for reason, n in rejected.items())
    way_out = f"read as {format}; is that the right format, and the right file?"
    if rejected.get("bad_time"):
        stamp = frame.filter(reason="bad_time")["arrival"][0]
        counts += f", such as {stamp[:40]!r}"
        is_number = stamp.isascii() and stamp.isdigit()
        if _DECIMAL_COMMA.fullmatch(stamp):
            way_out = "write numbers with a decimal point"
        elif is_number and raw.unit == "iso":
            way_out = "a plain number has no unit: name its column arrival_s, arrival_ms, arrival_us or arrival_ns"
        elif is_number:
            way_out = f"so many {raw.unit.removeprefix('iso|')} are beyond any clock: is the unit of the column right?"
    return source.refuse(
        f"no usable row among {rows_read:,}: {counts}", way_out, line=raw.bad_lines[0] if raw.bad_lines else None
    )

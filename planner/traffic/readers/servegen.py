"""ServeGen client windows: no header, `start_s, rate, cv of gaps, family, shape, scale_s`, 600 s a window.

An aggregate: it says how many requests to expect, not when each came. A window whose row is broken is unknown, not
silent; a silent one has rate 0 and may have no family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from planner.errors import Notice
from planner.traffic import csv_rows
from planner.traffic.cells import is_missing, nanoseconds
from planner.traffic.readers.table import Wanted
from planner.traffic.schema import REASONS, Trace, request_schema
from planner.traffic.source import Source

if TYPE_CHECKING:
    import polars as pl

WINDOW_S = 600
_FIELDS = ("start", "rate", "cv", "family", "shape", "scale")
_RATE = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class ServegenReader:
    """Reads the rate windows of one client."""

    name: str = "servegen"
    title: str = "ServeGen client windows"

    def sniff(self, columns: Sequence[str]) -> bool:
        """Whether a first line of these fields is a window: numbers, and a family's name or nothing in the fourth."""
        if len(columns) != len(_FIELDS):
            return False
        numbers = [columns[k] for k in (0, 1, 2, 4, 5)]
        family = columns[3]
        return all(_is_number(text) for text in numbers) and (family == "" or family.isalpha())

    def read(self, source: Source, wanted: Wanted) -> Trace:
        """Expected requests, peak rate and how much of the span is known.

        Raises:
            TrafficError: no row is a window.
        """
        import polars as pl

        if wanted.class_column or wanted.model_column:
            raise source.refuse(
                "rate windows have no columns of classes or models", "take class_column and model_column away"
            )
        table = csv_rows.read(source, has_header=False, n_fields=len(_FIELDS))
        frame = table.frame.rename({str(k): name for k, name in enumerate(_FIELDS)})
        frame = frame.with_columns(
            nanoseconds(frame["start"], "s").alias("time"),
            pl.when(pl.col("rate").str.contains(_RATE))
            .then(pl.col("rate"))
            .cast(pl.Float64, strict=False)
            .alias("n_rate"),
        )
        windows, rejected = _judge(frame, len(table.bad_lines))
        rows_read = frame.height + len(table.bad_lines)
        if not windows.height:
            counts = ", ".join(f"{n:,} {reason}" for reason, n in rejected.items()) or "none"
            raise source.refuse(
                f"no usable window among {rows_read:,} rows: {counts}",
                "a window is start_s,rate,cv,family,shape,scale_s",
            )
        warnings = []
        if out_of_order := int((windows["time"] < windows["time"].cum_max()).sum()):
            warnings.append(Notice("unsorted", f"{out_of_order:,} windows came after a later one; sorted by start"))
            windows = windows.sort("time", maintain_order=True)
        if (closest := windows["time"].diff().min()) is not None and closest < WINDOW_S * 10**9:  # type: ignore[operator]
            what = f"windows start {closest / 1e9:g} s apart and last {WINDOW_S} s each, so they overlap"  # type: ignore[operator]
            raise source.refuse(what, "one file holds the windows of one client, each once")
        return Trace(
            requests=pl.DataFrame(schema=dict(list(request_schema().items())[:3])),
            format=self.name,
            path=source.path,
            digest=source.digest,
            rows_read=rows_read,
            rejected=rejected,
            warnings=tuple(warnings),
            out_of_order_rows=out_of_order,
            bad_line_numbers=table.bad_lines[:1000],
            is_aggregate=True,
            totals=_totals(windows),
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _judge(frame: pl.DataFrame, n_bad: int) -> tuple[pl.DataFrame, dict[str, int]]:
    """The usable windows, and the refused rows by reason."""
    import polars as pl

    rate = pl.col("n_rate")
    reason = (
        pl.when(is_missing("start") | is_missing("rate"))
        .then(pl.lit("missing_field"))
        .when(pl.col("time").is_null())
        .then(pl.lit("bad_time"))
        .when(rate.is_null() | ~rate.is_finite() | (rate < 0))
        .then(pl.lit("bad_number"))
    )
    frame = frame.with_columns(reason.alias("reason"))
    known = frame.filter(pl.col("reason").is_null())
    windows = known.filter(pl.col("time").is_first_distinct())
    counted = dict(frame.drop_nulls("reason")["reason"].value_counts().iter_rows())
    counted["bad_line"] = n_bad
    counted["duplicate_id"] = known.height - windows.height
    return windows, {name: counted[name] for name in REASONS if counted.get(name)}


def _totals(windows: pl.DataFrame) -> dict[str, object]:
    starts = windows["time"].to_list()
    # Exact sums: rates are decimal texts, and a float sum would depend on the order of the rows.
    expected = sum((Fraction(text) for text in windows["rate"].to_list()), Fraction(0)) * WINDOW_S
    return {
        "expected_requests": float(expected),
        "covered_s": float(WINDOW_S * len(starts)),
        "duration_s": (starts[-1] - starts[0]) / 1e9 + WINDOW_S,
        "peak_rate_req_per_s": windows["n_rate"].max(),
        "mean_rate_req_per_s": float(expected / (WINDOW_S * len(starts))),
        "window_s": float(WINDOW_S),
    }


READER = ServegenReader()

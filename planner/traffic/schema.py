"""What a trace becomes: a frame of requests with one schema, and an exact account of the rows that made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planner.errors import Notice

if TYPE_CHECKING:
    import polars as pl

# Reasons for which a row is refused, in the order in which they are looked for: a row has the first that applies.
REASONS: dict[str, str] = {
    "bad_line": "not valid JSON, or the wrong number of fields",
    "missing_field": "a needed value is absent, empty or null",
    "bad_time": "a stamp that is not a time, is not finite, or (relative clocks) is negative",
    "bad_number": "a token count that is text, has a thousands separator, is negative, fractional or not finite",
    "total_mismatch": "a given total that is not input + output",
    "cached_exceeds_input": "more cached tokens than input tokens",
    "failed": "the source says the request failed",
    "response_cache_hit": "answered by the gateway's own response cache: no model ran",
    "duplicate_id": "an identifier seen before in this file; the first is kept",
    "zero_output": "no output token",
    "zero_input": "no input token",
}

MAX_TOKENS = 2**32 - 1
"""The most tokens that one request can have in the request frame."""

NO_ROW = 2**64 - 1
"""In `after_row`: the request comes at its own time, after none."""
NO_SESSION = 2**64 - 1
"""In `session`: the request belongs to none."""


def kv_tokens() -> pl.Expr:
    """KV tokens of a request at its end: the last token is never attended to."""
    import polars as pl

    return pl.col("input_tokens").cast(pl.Int64) + pl.col("output_tokens") - 1


def chain_schema() -> dict[str, pl.DataType]:
    """Columns of requests that may wait for others, beside arrival and lengths.

    A request with a predecessor comes `delay_ns` after that has ended; its own `arrival_ns` is the begin of the chain.
    """
    import polars as pl

    return {"after_row": pl.UInt64(), "delay_ns": pl.UInt64(), "session": pl.UInt64()}


def request_schema() -> dict[str, pl.DataType]:
    """Columns and types of the request frame; the ones after `output_tokens` are there when the source has them.

    `arrival_ns` counts from the first accepted arrival and does not fall; ties keep the order of the file.
    """
    import polars as pl

    return {
        "arrival_ns": pl.Int64(),
        "input_tokens": pl.UInt32(),
        "output_tokens": pl.UInt32(),
        "cached_input_tokens": pl.UInt32(),
        "class": pl.String(),
        "model": pl.String(),
        "session_id": pl.String(),
        "hash_ids": pl.List(pl.Int64()),
    }


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as read: its requests in order of arrival, and what became of every row of the file."""

    requests: pl.DataFrame
    """The accepted requests, columns of `request_schema`; empty for an aggregate."""
    format: str
    """The reader that read it."""
    path: str
    digest: str
    """`sha256:` of the file's content, decompressed."""
    rows_read: int
    rejected: dict[str, int]
    """Refused rows by reason (keys of `REASONS`, only those that occur)."""
    warnings: tuple[Notice, ...] = ()
    out_of_order_rows: int = 0
    """Accepted rows that came after a later arrival in the file."""
    bad_line_numbers: tuple[int, ...] = ()
    """Where the `bad_line` rows stand in the file, counted from 1."""
    block_tokens: int | None = None
    """Tokens that one entry of `hash_ids` stands for."""
    is_aggregate: bool = False
    """Sums over many requests, with no arrivals of their own: `totals` has what is known."""
    totals: dict[str, Any] = field(default_factory=dict)

    @property
    def n_requests(self) -> int:
        """Accepted requests."""
        return self.requests.height

    @property
    def span_ns(self) -> int:
        """From the first accepted arrival to the last."""
        return int(self.requests["arrival_ns"][-1]) if self.requests.height else 0

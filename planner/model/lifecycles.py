"""Request lifecycles of a real engine: when each request came, began, gave its first and its last token; and what ran.

The table has a row a request, in the order in which they were sent; the file beside it says how the engine was set up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import FactError, Fault
from planner.model.engine_setup import Setup, read_setup

if TYPE_CHECKING:
    import polars as pl

__all__ = ["COLUMNS", "Lifecycles", "read_lifecycles"]

COLUMNS = ("queued_s", "scheduled_s", "first_token_s", "last_token_s", "input_tokens", "output_tokens")
"""Columns that a table must have; `request_id` and `shared_prefix_tokens` are optional."""


@dataclass(frozen=True, slots=True)
class Lifecycles:
    """A run: its requests and its setup."""

    requests: pl.DataFrame
    setup: Setup
    n_left_out: int
    """Rows without all of their times, or without tokens: requests that failed."""


def read_lifecycles(table: Path, meta: Path, *, chip: str | None = None, model: str | None = None) -> Lifecycles:
    """Reads a run; `chip` names it where neither the file nor its name does, `model` replaces the one that is named.

    Raises:
        FactError: a file cannot be read, or lacks or spoils what is needed.
    """
    import polars as pl

    try:
        requests = pl.read_csv(table)
        tree = json.loads(meta.read_text(encoding="utf-8"))
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise FactError(Fault(f"cannot be read: {error}", "write CSV or Parquet", file=str(table))) from None
    if missing := [name for name in COLUMNS if name not in requests.columns]:
        raise FactError(
            Fault(f"has no column {', '.join(missing)}", f"needed are {', '.join(COLUMNS)}", file=str(table))
        )
    if "request_id" not in requests.columns:
        requests = requests.with_row_index("request_id")
    if "shared_prefix_tokens" not in requests.columns:
        requests = requests.with_columns(shared_prefix_tokens=pl.lit(0))
    times = ["queued_s", "scheduled_s", "first_token_s", "last_token_s"]
    tokens = ["input_tokens", "output_tokens", "shared_prefix_tokens"]
    try:
        requests = requests.select(
            pl.col("request_id").cast(pl.Utf8), pl.col(times).cast(pl.Float64), pl.col(tokens).cast(pl.UInt32)
        )
    except pl.exceptions.PolarsError as error:
        raise FactError(
            Fault(f"a column is not of numbers: {error}", "times are seconds, lengths whole tokens", file=str(table))
        ) from None
    requests = requests.with_columns(pl.col("shared_prefix_tokens").fill_null(0))
    whole = requests.drop_nulls().filter(pl.min_horizontal("input_tokens", "output_tokens") > 0)
    spoilt = whole.filter(
        (pl.col("first_token_s") < pl.col("queued_s")) | (pl.col("last_token_s") < pl.col("first_token_s"))
    )
    if spoilt.height or not whole.height:
        what = f"request {spoilt['request_id'][0]} ends before it begins" if spoilt.height else "no request has an end"
        raise FactError(Fault(what, "take such rows away", file=str(table)))
    return Lifecycles(whole, read_setup(tree, table, meta, chip=chip, model=model), requests.height - whole.height)

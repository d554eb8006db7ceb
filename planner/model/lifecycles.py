"""Request lifecycles of a real engine: when each request came, began, gave its first and its last token; and what ran.

The table has a row a request, in the order in which they were sent; the file beside it says how the engine was set up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import FactError, Fault
from planner.model.engine_setup import Setup, read_setup
from planner.model.text_table import reason, text_table, with_numbers

if TYPE_CHECKING:
    import polars as pl

__all__ = ["COLUMNS", "Lifecycles", "read_lifecycles"]

COLUMNS = ("queued_s", "scheduled_s", "first_token_s", "last_token_s", "input_tokens", "output_tokens")
"""Columns that a table must have; `request_id` and `shared_prefix_tokens` are optional."""

_TIMES = list(COLUMNS[:4])
_TOKENS = [*COLUMNS[4:], "shared_prefix_tokens"]
_MOST_TOKENS = 2**31
_OPTIONAL = ("request_id", "shared_prefix_tokens")
_META = "--meta is the JSON file that says how the engine was set up"


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

    requests, tree = _read(table, meta)
    requests = _typed(requests, table)
    requests = requests.with_columns(pl.col("shared_prefix_tokens").fill_null(0))
    whole = requests.drop_nulls().filter(pl.min_horizontal("input_tokens", "output_tokens") > 0)
    spoilt = whole.filter(
        (pl.col("first_token_s") < pl.col("queued_s")) | (pl.col("last_token_s") < pl.col("first_token_s"))
    )
    if spoilt.height or not whole.height:
        what = f"request {spoilt['request_id'][0]} ends before it begins" if spoilt.height else "no request has an end"
        raise FactError(Fault(what, "take such rows away", file=str(table)))
    return Lifecycles(whole, read_setup(tree, table, meta, chip=chip, model=model), requests.height - whole.height)


def _read(table: Path, meta: Path) -> tuple[pl.DataFrame, Any]:
    """The rows as text and the tree of the setup; what is wrong with either file is raised together."""
    import polars as pl

    faults: list[Fault] = []
    requests, tree = pl.DataFrame(), None
    try:
        requests = text_table(table, "requests", COLUMNS, (*COLUMNS, *_OPTIONAL))
    except FactError as error:
        faults.extend(error.faults)
    try:
        tree = json.loads(meta.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        what = f"is not JSON: {error.msg}"
        faults.append(Fault(what, _META, file=str(meta), line=error.lineno, col=error.colno))
    except (OSError, ValueError) as error:
        faults.append(Fault(f"cannot be read: {reason(error)}", _META, file=str(meta)))
    if faults:
        raise FactError(*faults)
    return requests, tree


def _typed(requests: pl.DataFrame, table: Path) -> pl.DataFrame:
    """The rows with numbers as numbers, each column that stands here; an empty cell is null."""
    import polars as pl

    def are_tokens(values: pl.Series) -> pl.Series:
        return (values == values.floor()) & values.is_between(0, _MOST_TOKENS)

    faults: list[Fault] = []
    kinds = (
        (_TIMES, "a time in seconds", lambda values: values.is_finite()),
        (_TOKENS, "a whole number of tokens", are_tokens),
    )
    typed = requests
    for names, kind, holds in kinds:
        try:
            typed = with_numbers(typed, table, names, kind=kind, holds=holds)
        except FactError as error:
            faults.extend(error.faults)
    if faults:
        raise FactError(*faults)
    if "request_id" not in typed.columns:
        typed = typed.with_row_index("request_id")
    if "shared_prefix_tokens" not in typed.columns:
        typed = typed.with_columns(shared_prefix_tokens=pl.lit(0.0))
    return typed.select(pl.col("request_id").cast(pl.Utf8), *_TIMES, pl.col(_TOKENS).cast(pl.UInt32))

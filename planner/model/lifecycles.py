"""Request lifecycles of a real engine: when each request came, began, gave its first and its last token; and what ran.

The table has a row a request, in the order in which they were sent; the file beside it says how the engine was set up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import FactError, Fault
from planner.facts import catalog

if TYPE_CHECKING:
    import polars as pl

__all__ = ["COLUMNS", "Lifecycles", "Setup", "read_lifecycles"]

COLUMNS = ("queued_s", "scheduled_s", "first_token_s", "last_token_s", "input_tokens", "output_tokens")
"""Columns that a table must have; `request_id` and `shared_prefix_tokens` are optional."""
BLOCK_TOKENS = 16
MEMORY_FRAC = 0.9
"""Defaults of vLLM where the file does not say."""
_FORM_FACTORS = ("-sxm", "-server", "-se")


@dataclass(frozen=True, slots=True)
class Setup:
    """How the engine was set up."""

    model: str
    chip: str
    tp: int
    engines: int
    """Data-parallel engines, each with limits of its own."""
    expert_parallel: bool
    max_batch: int
    chunk_tokens: int
    block_tokens: int
    context_tokens: int | None
    kv_dtype: str | None
    n_blocks: int | None
    """Blocks of an engine's cache, where the file has them."""
    memory_frac: float
    memory_bytes: float | None
    prefix_cache: bool
    is_ahead: bool
    """Steps are formed one ahead (asynchronous scheduling)."""


@dataclass(frozen=True, slots=True)
class Lifecycles:
    """A run: its requests and its setup."""

    requests: pl.DataFrame
    setup: Setup


def read_lifecycles(table: Path, meta: Path, *, chip: str | None = None) -> Lifecycles:
    """Reads a run; `chip` names it where neither the file nor its name does.

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
    if not isinstance(tree, dict) or not isinstance(tree.get("engine_kwargs"), dict):
        raise FactError(Fault("has no engine_kwargs", "they say which model ran, and how", file=str(meta)))
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
    spoilt = requests.filter(
        pl.any_horizontal(pl.all().is_null())
        | (pl.min_horizontal("input_tokens", "output_tokens") == 0)
        | (pl.col("first_token_s") < pl.col("queued_s"))
        | (pl.col("last_token_s") < pl.col("first_token_s"))
    )
    if spoilt.height or not requests.height:
        what = (
            f"request {spoilt['request_id'][0]} has no tokens, or ends before it begins" if spoilt.height else "empty"
        )
        raise FactError(Fault(what, "take such rows away", file=str(table)))
    return Lifecycles(requests, _setup(tree, table, meta, chip))


def _setup(tree: Mapping[str, Any], table: Path, meta: Path, chip: str | None) -> Setup:
    given: Mapping[str, Any] = tree["engine_kwargs"]
    cache: Mapping[str, Any] = tree.get("kv_cache") or {}
    hardware: Mapping[str, Any] = tree.get("hardware") or {}
    resolved: Mapping[str, Any] = tree.get("resolved_config") or {}
    scheduler: Mapping[str, Any] = resolved.get("scheduler_config") or {}
    faults = [
        Fault(f"engine_kwargs has no {name}", "write what the engine was started with", file=str(meta))
        for name in ("model", "max_num_seqs", "max_num_batched_tokens")
        if given.get(name) is None
    ]
    if faults:
        raise FactError(*faults)
    kv_dtype = str(given.get("kv_cache_dtype") or "auto")
    return Setup(
        model=str(given["model"]),
        chip=chip or _chip(str(hardware.get("device_name") or ""), table),
        tp=int(given.get("tensor_parallel_size") or 1),
        engines=int(given.get("data_parallel_size") or 1),
        expert_parallel=bool(given.get("enable_expert_parallel")),
        max_batch=int(given["max_num_seqs"]),
        chunk_tokens=int(given["max_num_batched_tokens"]),
        block_tokens=int(cache.get("block_size") or BLOCK_TOKENS),
        context_tokens=given.get("max_model_len"),
        kv_dtype="fp8" if kv_dtype.startswith("fp8") else None,
        n_blocks=cache.get("num_gpu_blocks"),
        memory_frac=float(cache.get("gpu_memory_utilization") or MEMORY_FRAC),
        memory_bytes=hardware.get("device_total_memory_bytes"),
        prefix_cache=bool(cache.get("enable_prefix_caching", True)),
        is_ahead=bool(scheduler.get("async_scheduling", True)),
    )


def _chip(device: str, table: Path) -> str:
    """The chip whose name is in the device's or, without one, begins that of the file; the longest that does."""
    known = catalog.load().names("chips")
    spellings = {_plain(name.removesuffix(suffix)): name for suffix in (*_FORM_FACTORS, "") for name in known}
    of_device = [spelling for spelling in spellings if spelling in _plain(device)]
    of_file = [spelling for spelling in spellings if _plain(table.name).startswith(spelling)]
    for found in (of_device, of_file):
        if found:
            return spellings[max(found, key=len)]
    raise FactError(
        Fault("neither the device nor the name of the file says which chip ran", "--chip NAME", file=str(table))
    )


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())

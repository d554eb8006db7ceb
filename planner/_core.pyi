"""The Rust core as Python sees it. Private: `planner/core.py` is its one caller.

Specs are JSON bytes that the engine reads strictly (an unknown field is refused); tables cross both ways by the Arrow
PyCapsule protocol (`__arrow_c_stream__`), numeric columns only.
"""

from typing import final

__all__ = [
    "EngineError",
    "Offered",
    "Realised",
    "Sim",
    "Table",
    "__version__",
    "build_info",
    "finish",
    "merge",
    "plan",
    "quantiles",
    "sample",
    "split",
    "steady",
    "step_times",
]

__version__: str

class EngineError(Exception):
    """`args` is (kind, where, what, way_out); kind is input, infeasible, stuck or bug."""

@final
class Table:
    """Columns of numbers that any Arrow-aware frame reads without a copy."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

@final
class Realised:
    """A profile whose realisations several walk over: a span of them is drawn once, by all of them."""

    def __new__(cls, spec: bytes) -> Realised: ...

@final
class Offered:
    """The requests of some cells, drawn as they are asked for.

    `beside` has for each class the recorded rows (arrival_ns UInt64, sorted, input_tokens and output_tokens UInt32), a
    `Realised`, or None, as its source asks.
    """

    def __new__(cls, spec: bytes, beside: list[object], cells: list[int], keeps_rows: bool) -> Offered: ...
    def next(self, most: int) -> tuple[Table, list[int], bool]:
        """Requests of the cells, one cell after the other, how many of each cell, and whether they are the last.

        Of all cells at most `most` are gone through. Columns arrival_ns UInt64, class_ix UInt16, input_tokens and
        output_tokens UInt32, and row UInt64 if rows are kept and there are any.
        """

    def expected(self) -> list[float]:
        """About how many requests come of each class, in all cells."""

    def seen(self) -> list[list[tuple[int, int, int]]]:
        """By cell asked for and class: requests so far, those of them drawn again, the least KV tokens of one."""

@final
class Sim:
    """The simulation of one cell: feed requests, advance in slices, take tables."""

    def __new__(cls, spec: bytes) -> Sim: ...
    def feed(self, requests: object) -> None:
        """Hand in requests: arrival_ns UInt64 (sorted), class_ix UInt16, input_tokens UInt32, output_tokens UInt32.

        Optional: session UInt64; after_row and delay_ns UInt64, for requests that follow others.
        """

    def feed_blocks(self, blocks: object) -> None:
        """Hand in hashes of prompts that were fed: row UInt64 (ascending), hash UInt64, in prompt order.

        Optional: n UInt32, how many consecutive hashes from hash on a row stands for.
        """

    def end_of_requests(self) -> None:
        """No more requests will come."""

    def advance(self, budget: int) -> tuple[int, int, bool]:
        """Work through up to `budget` events; returns simulated nanoseconds, events so far, and whether it is done."""

    def take(self, what: str) -> Table:
        """Of the finished run: classes, class_windows, placed, work, sketches, requests, timeline or batches."""

def plan(spec: bytes) -> str:
    """What a deployment takes and holds, as JSON."""

def step_times(spec: bytes, batches: object) -> Table:
    """The cost of a step for each row of `batches`; rows of one `load_ix` (optional) are one step."""

def steady(spec: bytes, rows: object) -> tuple[Table, list[tuple[str, str] | None]]:
    """Closed loops at fixed concurrency, a row each; for each group why it cannot run, as (what, way out)."""

def sample(spec: bytes) -> Table:
    """Random arrivals or lengths."""

def quantiles(sketches: object, queries: bytes) -> list[float | None]:
    """Means and quantiles of merged sketches in seconds, in the order of the queries."""

def merge(what: str, tables: list[object]) -> Table:
    """The classes, class_windows, work or sketches of several cells as one table, whatever the order of theirs."""

def finish(what: str, work: object) -> Table:
    """Work in seconds, joules and counts: of the measured span (deployments) or by window (windows)."""

def split(spec: bytes, requests: object) -> Table:
    """The cell of each request: cell_ix UInt32."""

def build_info() -> list[tuple[str, str]]:
    """Version, profile, target and spec version."""

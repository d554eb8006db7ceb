"""vLLM benchmark results: one JSON object with parallel lists, start times in seconds of a monotonic clock.

A request with a text in `errors` failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.traffic import json_rows
from planner.traffic.account import Raw, account
from planner.traffic.readers.table import Wanted, cell_texts
from planner.traffic.schema import Trace
from planner.traffic.source import Source

_LISTS = ("start_times", "input_lens", "output_lens")


@dataclass(frozen=True, slots=True)
class VllmBenchReader:
    """Reads the result file of a vLLM serving benchmark, written with its detailed lists."""

    name: str = "vllm-bench"
    title: str = "vLLM benchmark result"

    def sniff(self, columns: Sequence[str]) -> bool:
        """Whether a JSON object with these keys is such a result, be it with its detailed lists or without."""
        return {"input_lens", "output_lens"} <= set(columns) or {"request_throughput", "total_input_tokens"} <= set(
            columns
        )

    def read(self, source: Source, wanted: Wanted) -> Trace:
        """The requests that the benchmark sent.

        Raises:
            TrafficError: not one result, lists absent or of unlike lengths, or no row is a request.
        """
        import polars as pl

        if wanted.class_column or wanted.model_column:
            raise source.refuse(
                "a benchmark result has no columns of classes or models", "take class_column and model_column away"
            )
        whole = json_rows.document(source)
        if not isinstance(whole, dict):
            raise source.refuse(
                "it is not one JSON object", "split a file of several results: each has a clock of its own"
            )
        lacking = [name for name in _LISTS if not isinstance(whole.get(name), list)]
        if lacking:
            what = f"the result has no list {', '.join(map(repr, lacking))}"
            raise source.refuse(what, "run the benchmark with --save-detailed, in a version that records start times")
        names = [*_LISTS, *(name for name in ("errors",) if isinstance(whole.get(name), list))]
        lengths = {name: len(whole[name]) for name in names}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
            raise source.refuse(
                f"its lists are of unlike lengths: {shown}", "which entries belong together cannot be known"
            )
        columns = {
            role: cell_texts(whole[name], is_count=role != "arrival")
            for role, name in zip(("arrival", "input", "output"), _LISTS, strict=True)
        }
        frame = pl.DataFrame(columns)
        if "errors" in lengths:
            failed = pl.Series("failed", [_failed(error) for error in whole["errors"]], dtype=pl.Boolean)
            frame = frame.with_columns(failed)
        return account(Raw(frame, "s"), source=source, format=self.name)


def _failed(error: Any) -> bool:
    return bool(error.strip() if isinstance(error, str) else error)


READER = VllmBenchReader()

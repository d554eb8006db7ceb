"""What each replica did and when, as a trace that Perfetto and Chrome open: one bar a stretch of equal steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

FILE = "timeline.json"
MAX_SPANS = 200_000
"""Stretches kept of a simulation, from its begin on; about 30 MB of trace."""

Event = dict[str, Any]


def write(timeline: pl.DataFrame, file: IO[str]) -> None:
    """Write the table `timeline` of a result in Chrome's trace event format."""
    file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
    for at, event in enumerate(_events(timeline)):
        file.write((",\n" if at else "") + json.dumps(event, ensure_ascii=False, separators=(",", ":")))
    file.write("\n]}\n")


def _events(timeline: pl.DataFrame) -> Iterator[Event]:
    """A process for each variant, seed and pool, a thread for each replica; times in microseconds."""
    columns = ("variant", "seed", "pool", "replica_ix")
    processes: dict[tuple[str, int, str], int] = {}
    for variant, seed, pool, replica in timeline.select(columns).unique(maintain_order=True).iter_rows():
        key = (variant, seed, pool)
        if key not in processes:
            processes[key] = len(processes) + 1
            yield _name("process_name", processes[key], 0, f"{pool} ({variant}, seed {seed})")
        yield _name("thread_name", processes[key], replica, f"replica {replica}")
    for row in timeline.iter_rows(named=True):
        yield {
            "name": _title(row["n_decoding"], row["n_prompts"]),
            "cat": "step",
            "ph": "X",
            "ts": row["begin_ns"] / 1000,
            "dur": (row["end_ns"] - row["begin_ns"]) / 1000,
            "pid": processes[row["variant"], row["seed"], row["pool"]],
            "tid": row["replica_ix"],
            "args": {"steps": row["steps"], "decoding": row["n_decoding"], "prompts": row["n_prompts"]},
        }


def _title(n_decoding: int, n_prompts: int) -> str:
    if n_prompts and n_decoding:
        return f"prefill {n_prompts}, decode {n_decoding}"
    return f"prefill {n_prompts}" if n_prompts else f"decode {n_decoding}"


def _name(what: str, process: int, thread: int, name: str) -> Event:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}

"""The Mooncake trace with its prefix hashes, from the shared folder, many times over: each time other conversations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl

TRACE = Path(__file__).resolve().parents[3] / "shared" / "traces" / "mooncake_conversation_trace.jsonl.gz"
HASH_TOKENS = 512
_APART = 10**6


def requests(copies: int, span_ns: int) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """Requests over `span_ns`, and the hashes of their prompts; none where the folder is not there."""
    if not TRACE.exists():
        return None
    with gzip.open(TRACE) as lines:
        rows = [json.loads(line) for line in lines]
    whole = copies * (rows[-1]["timestamp"] + 1)
    table, hashes = [], []
    for copy in range(copies):
        begin = copy * (rows[-1]["timestamp"] + 1)
        for row in rows:
            at = (begin + row["timestamp"]) * span_ns // whole
            hashes += [(len(table), copy * _APART + each) for each in row["hash_ids"]]
            table.append((at, 0, row["input_length"], row["output_length"]))
    names = {"arrival_ns": pl.UInt64, "class_ix": pl.UInt16, "input_tokens": pl.UInt32, "output_tokens": pl.UInt32}
    blocks = pl.DataFrame(hashes, schema={"row": pl.UInt64, "hash": pl.UInt64}, orient="row")
    return pl.DataFrame(table, schema=names, orient="row"), blocks

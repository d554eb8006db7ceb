"""Writing requests in the project's own plain form (`readers/generic.py`), exact to the nanosecond.

CSV and JSON lines have `arrival_s` as a decimal number, Parquet has `arrival_ns` as a whole one.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from planner.errors import Fault, RunError, TrafficError
from planner.traffic.schema import Trace

if TYPE_CHECKING:
    import polars as pl

Form = Literal["csv", "jsonl", "parquet"]
_LINES = 100_000


def requests_of(trace: Trace) -> pl.DataFrame:
    """The requests of a trace as a table to write, with `block_tokens` beside block hashes.

    Raises:
        TrafficError: the trace is an aggregate.
    """
    import polars as pl

    if trace.is_aggregate:
        what = f"{trace.format} has sums and no requests"
        raise TrafficError(Fault(what, "there is nothing to write, request by request", file=trace.path))
    if trace.block_tokens is None:
        return trace.requests
    return trace.requests.with_columns(pl.lit(trace.block_tokens, dtype=pl.UInt32).alias("block_tokens"))


def every(requests: pl.DataFrame, n: int) -> pl.DataFrame:
    """Each n-th request in order of arrival, from the first on; their clock is left as it is."""
    return requests.gather_every(n)


def write(requests: pl.DataFrame, path: Path, form: Form, *, replace: bool = False) -> None:
    """Writes `requests` at `path`; the file appears complete or not at all.

    Raises:
        TrafficError: the file is there and `replace` is not asked for, or its folder is not there.
        RunError: it cannot be written.
    """
    if path.exists() and not replace:
        raise TrafficError(Fault("the file is there already", "name another with -o, or use --force", file=str(path)))
    if not path.parent.is_dir():
        raise TrafficError(Fault("there is no such folder", "make it first", file=str(path.parent)))
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                dump(requests, stream, form)
            Path(temporary).chmod(0o666 & ~_umask())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RunError(
            Fault(f"it cannot be written: {error.strerror or error}", "name another place with -o", file=str(path))
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def dump(requests: pl.DataFrame, stream: IO[bytes], form: Form) -> None:
    """Writes `requests` to an open file. CSV has no place for block hashes and leaves them out."""
    import polars as pl

    if form == "parquet":
        requests.write_parquet(stream)
        return
    rest = requests.drop("arrival_ns")
    seconds = _decimal(requests["arrival_ns"])
    if form == "csv":
        table = rest.drop("hash_ids", "block_tokens", strict=False)
        table.insert_column(0, seconds)
        # In parts as text: polars would hide what is wrong with the stream behind an error of its own.
        for start in range(0, max(table.height, 1), _LINES):
            stream.write(table.slice(start, _LINES).write_csv(include_header=start == 0).encode())
        return
    others = rest.select(pl.struct(pl.all()).struct.json_encode().str.slice(1)).to_series()
    lines = pl.select(pl.concat_str(pl.lit('{"arrival_s":'), seconds, pl.lit(","), others)).to_series()
    for start in range(0, lines.len(), _LINES):
        stream.write("\n".join([*lines.slice(start, _LINES).to_list(), ""]).encode())


def _decimal(ns: pl.Series) -> pl.Series:
    """Nanoseconds as seconds in decimal text, without trailing zeros."""
    import polars as pl

    whole, part = ns // 10**9, (ns % 10**9).cast(pl.String).str.pad_start(9, "0").str.strip_chars_end("0")
    text = pl.when(part == "").then(whole.cast(pl.String)).otherwise(pl.format("{}.{}", whole, part))
    return pl.select(text.alias("arrival_s")).to_series()

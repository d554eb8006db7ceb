"""Prefixes of prompts as chain hashes: blocks of tokens, each named together with all that is before it.

Kept as runs of consecutive numbers, a few to a request; `expand` makes the table of single blocks where it is needed.
A number is 16 bits for the class (or the trace that classes share) and 48 for the block inside it; the numbers are
given out, not computed from tokens, so that no two prefixes ever share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import core
from planner.errors import Fault, TrafficError

if TYPE_CHECKING:
    import polars as pl

GROUP_BLOCK_TOKENS = 32
"""Tokens of a block of drawn prefixes, where no trace sets another and no class has sessions."""
SESSION_BLOCK_TOKENS = 256
"""The same with sessions: their prompts are long, and every turn has all blocks of the turns before it."""
_SPACE = 48
_OWN = 1 << 47
_INDEX = 19
_COPY = 28


def run_schema() -> dict[str, pl.DataType]:
    """Runs of blocks: `n` consecutive hashes from `first_hash` on; runs of a row in prompt order."""
    import polars as pl

    return {"row": pl.UInt64(), "first_hash": pl.UInt64(), "n": pl.UInt32()}


def of_sessions(frame: pl.DataFrame, head_tokens: int, block_tokens: int) -> pl.DataFrame:
    """The blocks of sessions' prompts: the head is shared by the class, what follows is the session's own."""
    import polars as pl

    full = pl.col("input_tokens").cast(pl.UInt64) // block_tokens
    _check(frame["session"].max(), (frame["input_tokens"].max() or 0) // block_tokens)  # type: ignore[operator]
    n_head = pl.min_horizontal(full, pl.lit(head_tokens // block_tokens, pl.UInt64))
    own = pl.lit(_OWN, pl.UInt64) + pl.col("session") * (1 << _INDEX) + n_head
    return _two(frame, pl.lit(0, pl.UInt64), n_head, own, full - n_head)


def of_groups(
    frame: pl.DataFrame, reuse_frac: float, block_tokens: int, *, key: int, seed: int
) -> tuple[pl.DataFrame, float]:
    """The blocks of prompts that repeat earlier ones in groups, and the share of tokens that do."""
    import polars as pl

    tokens = frame["input_tokens"]
    drawn = core.sample(
        {
            "kind": "prefixes",
            "seed": seed,
            "key": key,
            "reuse_frac": reuse_frac,
            "block_tokens": block_tokens,
            "input_tokens": tokens.to_list(),
        }
    )
    _check(frame.height, (tokens.max() or 0) // block_tokens)  # type: ignore[operator]
    trunk = pl.col("trunk_blocks").cast(pl.UInt64)
    row = pl.int_range(pl.len(), dtype=pl.UInt64)
    full = pl.lit(tokens).cast(pl.UInt64) // block_tokens
    own = pl.lit(_OWN, pl.UInt64) + row * (1 << _INDEX) + trunk
    runs = _two(drawn, pl.col("group") * (1 << _INDEX), trunk, own, full - trunk)
    repeated = int(drawn["repeated_blocks"].cast(pl.UInt64).sum()) * block_tokens
    return runs, repeated / max(1, int(tokens.cast(pl.UInt64).sum()))


def of_trace(frame: pl.DataFrame) -> pl.DataFrame:
    """The blocks of recorded prompts from `hash_ids` (numbers of `dense`) and `copy`; copies share nothing.

    Consecutive numbers become one run.
    """
    import polars as pl

    _check(0, 0, frame["copy"].max())
    ids = frame.select(pl.int_range(pl.len(), dtype=pl.UInt64).alias("row"), "copy", "hash_ids")
    single = ids.explode("hash_ids").drop_nulls("hash_ids")
    number = pl.col("hash_ids").cast(pl.UInt64)
    is_next = (pl.col("row") == pl.col("row").shift()) & (number == number.shift() + 1)
    run = (~is_next).fill_null(value=True).cum_sum().alias("run")
    starts = (
        single.with_columns(run)
        .group_by("run", maintain_order=True)
        .agg(
            pl.col("row").first(),
            (number.first() + pl.col("copy").first().cast(pl.UInt64) * (1 << _COPY)).alias("first_hash"),
            pl.len().cast(pl.UInt32).alias("n"),
        )
    )
    return starts.drop("run")


def dense(hash_ids: pl.Series) -> pl.Series:
    """A trace's block hashes as small numbers, in the order of the hashes."""
    import polars as pl

    flat = hash_ids.explode()
    known = flat.drop_nulls().unique().sort()
    if known.len() >= 1 << _COPY:
        raise TrafficError(Fault(f"{known.len():,} different blocks in one trace", f"at most {(1 << _COPY) - 1:,}"))
    if known.len() and known[0] >= 0 and known[-1] < 1 << _COPY:
        return hash_ids
    numbers = pl.DataFrame({"hash": known}).with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    return hash_ids.list.eval(pl.element().replace_strict(numbers["hash"], numbers["number"], return_dtype=pl.Int64))


def expand(runs: pl.DataFrame) -> pl.DataFrame:
    """The single blocks of runs: `row hash`, both UInt64, rows rising, in prompt order."""
    import polars as pl

    each = pl.int_ranges(0, pl.col("n"), dtype=pl.UInt32).alias("step")
    single = runs.filter(pl.col("n") > 0).with_columns(each).explode("step", empty_as_null=False)
    return single.select("row", (pl.col("first_hash") + pl.col("step").cast(pl.UInt64)).alias("hash"))


def in_space(runs: pl.DataFrame, number: int) -> pl.DataFrame:
    """The runs under the 16 bits of a class or trace, so that those of others never meet them."""
    import polars as pl

    return runs.with_columns(pl.col("first_hash") + pl.lit(number << _SPACE, pl.UInt64))


def _two(frame: pl.DataFrame, first: pl.Expr, n_first: pl.Expr, second: pl.Expr, n_second: pl.Expr) -> pl.DataFrame:
    """Two runs a row, those without a block left out."""
    import polars as pl

    row = pl.int_range(pl.len(), dtype=pl.UInt64).alias("row")
    heads = frame.select(row, first.alias("first_hash"), n_first.cast(pl.UInt32).alias("n"))
    tails = frame.select(row, second.alias("first_hash"), n_second.cast(pl.UInt32).alias("n"))
    return pl.concat([heads, tails]).filter(pl.col("n") > 0).sort("row", maintain_order=True)


def _check(owner: object, index: object, copy: object = 0) -> None:
    limits = ((owner, 28, "sessions or requests"), (index, _INDEX, "blocks in one prompt"), (copy, 19, "copies"))
    for value, bits, noun in limits:
        if isinstance(value, int) and value >= 1 << bits:
            raise TrafficError(Fault(f"too many {noun} for prefixes: {value:,}", f"at most {(1 << bits) - 1:,}"))

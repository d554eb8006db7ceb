"""The requests of a scenario as a table to write: what a run would offer, in the project's own plain form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.scenario.schema import Scenario
from planner.traffic.requests import ScenarioTraffic, for_scenario
from planner.traffic.schema import NO_ROW, NO_SESSION

if TYPE_CHECKING:
    import polars as pl


def make(scenario: Scenario, seed: int, *, prefixes: bool = True) -> tuple[pl.DataFrame, ScenarioTraffic]:
    """The requests of `scenario` under `seed`, and what is said about them.

    Columns `arrival_ns input_tokens output_tokens class model`; `session_id`, `after_row` and `delay_ns` where
    requests wait for others (rows count from 0, a request without a predecessor has none); `hash_ids` and
    `block_tokens` where prefixes are known.
    """
    import polars as pl

    traffic = for_scenario(scenario, seed, prefixes=prefixes)
    names, models = list(scenario.traffic), [cls.model for cls in scenario.traffic.values()]
    ix = pl.col("class_ix").cast(pl.UInt32)
    columns = [
        pl.col("arrival_ns").cast(pl.Int64),
        pl.col("input_tokens"),
        pl.col("output_tokens"),
        ix.replace_strict(range(len(names)), names, return_dtype=pl.String).alias("class"),
        ix.replace_strict(range(len(models)), models, return_dtype=pl.String).alias("model"),
    ]
    if "after_row" in traffic.frame.columns:
        has_session, waits = pl.col("session") != NO_SESSION, pl.col("after_row") != NO_ROW
        columns += [
            pl.when(has_session).then(pl.col("session").cast(pl.String)).alias("session_id"),
            pl.when(waits).then(pl.col("after_row")).alias("after_row"),
            pl.when(waits).then(pl.col("delay_ns")).alias("delay_ns"),
        ]
    frame = traffic.frame.select(columns)
    blocks = traffic.blocks
    if blocks is None:
        return frame, traffic
    lists = blocks.group_by("row", maintain_order=True).agg(pl.col("hash").cast(pl.Int64).alias("hash_ids"))
    rows = frame.select(pl.int_range(pl.len(), dtype=pl.UInt64).alias("row"))
    hashes = rows.join(lists, on="row", how="left", maintain_order="left")["hash_ids"]
    empty = pl.Series([[]], dtype=pl.List(pl.Int64))
    block_tokens = pl.lit(traffic.block_tokens, pl.UInt32).alias("block_tokens")
    return frame.with_columns(hashes.fill_null(empty).alias("hash_ids"), block_tokens), traffic

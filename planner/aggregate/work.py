"""Replica time as chip time: the core's rows of work, weighted by chips and summed by pool.

Every utilisation is chip-seconds over chip-seconds, so a replica of eight chips counts eight times a replica of one.
Work against a data-sheet rate is in chip-seconds too: bytes / (bytes/s of a chip) is the time that one chip would take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from planner.fleet.fleet import Fleet

TIMES = {
    "busy_chip_s": "busy_s",
    "prefill_chip_s": "prefill_s",
    "decode_chip_s": "decode_s",
    "memory_chip_s": "memory_s",
    "compute_chip_s": "compute_s",
    "network_chip_s": "network_s",
    "launch_chip_s": "launch_s",
    "power_chip_s": "power_s",
    "down_chip_s": "down_s",
    "off_chip_s": "off_s",
}
"""Chip time -> the replica time that it is made of."""
RATES = {"flop_chip_s": ("flop", "flop_per_s"), "bytes_chip_s": ("bytes", "bytes_per_s")}
"""Chip time at the data-sheet rate -> work and rate."""
ENERGY = ("prefill_j", "decode_j")
COUNTS = (
    "input_tokens",
    "output_tokens",
    "recomputed_tokens",
    "prefix_hit_tokens",
    "cached_input_tokens",
    "preemptions",
)
FLOATS = (*TIMES, *RATES, "kv_chip_s", *ENERGY)

Sums = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Windows:
    """Work of a pool by window; a window that is not listed had none."""

    window_ix: NDArray[np.int64]
    sums: Mapping[str, NDArray[np.float64]]


def weights_rate(spec: Mapping[str, Any]) -> float:
    """Dense data-sheet rate of a chip in the format that the bulk of the weights computes in."""
    part = "experts_rate" if spec["model"].get("moe") else "rest_rate"
    rate = spec["chip"]["flop_per_s"].get(spec["precision"][part])
    return float(rate if rate is not None else spec["chip"]["flop_per_s"]["bf16"])


def chip_work(work: pl.DataFrame, fleet: Fleet) -> pl.DataFrame:
    """Rows of the core's `deployments` or `windows` with their pool, in chip-seconds, joules and counts."""
    import polars as pl

    pool_ix = {pool.name: ix for ix, pool in enumerate(fleet.pools)}
    of = pl.DataFrame(
        {
            "deployment_ix": range(len(fleet.placed)),
            "pool": [pool_ix[p.pool] for p in fleet.placed],
            "chips": [float(p.n_chips) for p in fleet.placed],
            "flop_per_s": [weights_rate(p.spec) for p in fleet.placed],
            "bytes_per_s": [float(p.spec["chip"]["memory_bytes_per_s"]) for p in fleet.placed],
            "kv_capacity": [float(p.plan["kv_capacity_tokens"]) for p in fleet.placed],
        },
        schema={
            "deployment_ix": pl.UInt32,
            "pool": pl.UInt32,
            "chips": pl.Float64,
            "flop_per_s": pl.Float64,
            "bytes_per_s": pl.Float64,
            "kv_capacity": pl.Float64,
        },
    )
    keys = ["deployment_ix", *(["window_ix"] if "window_ix" in work.columns else [])]
    return work.join(of, on="deployment_ix", how="left", maintain_order="left").select(
        *keys,
        pl.col("pool").alias("pool_ix"),
        *((pl.col(name) * pl.col("chips")).alias(new) for new, name in TIMES.items()),
        *((pl.col(amount) / pl.col(rate)).alias(new) for new, (amount, rate) in RATES.items()),
        (pl.col("kv_token_s") / pl.col("kv_capacity") * pl.col("chips")).alias("kv_chip_s"),
        *ENERGY,
        *COUNTS,
    )


def pool_sums(work: pl.DataFrame, pool_ix: int) -> dict[str, float]:
    """The whole work of one pool; counts are whole numbers."""
    mine = work.filter(work["pool_ix"] == pool_ix)
    sums: dict[str, float] = {name: math.fsum(mine[name]) for name in FLOATS}
    return sums | {name: sum(mine[name].to_list()) for name in COUNTS}


def pool_windows(work: pl.DataFrame, pool_ix: int) -> Windows:
    """The work of one pool by window, deployments added in their order."""
    import numpy as np

    mine = work.filter(work["pool_ix"] == pool_ix)
    parts = mine.partition_by("deployment_ix", maintain_order=True)
    places = [part["window_ix"].to_numpy().astype(np.int64) for part in parts]
    window_ix = np.unique(np.concatenate(places)) if places else np.empty(0, dtype=np.int64)
    sums = {name: np.zeros(window_ix.size) for name in (*FLOATS, *COUNTS)}
    for place, part in zip(places, parts, strict=True):
        at = np.searchsorted(window_ix, place)
        for name, total in sums.items():
            total[at] += part[name].to_numpy().astype(np.float64)
    return Windows(window_ix, sums)

"""A closed loop at fixed concurrency through the simulator, as serving benchmarks run it.

Every client sends its next request when the last one ends; all start at once, and some waves follow. What `steady.rs`
gives in closed form comes out of the replicas' own scheduling here: the first wave, chunked prompts beside decoding
sequences, a cache that is full, a prefill pool before a decode pool and the link between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import Infeasible

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Lengths", "Loop", "fitting", "run"]

WAVES = 10
_LONGEST_S = 365 * 86_400
_NO_ROW = 2**64 - 1
_TIMES = ("arrival", "start", "first_token", "end")
_TOKENS = ("input_tokens", "output_tokens")
_GROUP_BATCH = 64
"""What a group holds at most where reserves gave way, as `StepModel::squeezed` has it."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens, drawn uniformly from `low` to `high`, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Loop:
    """What is run: a pool of `n_replicas`, or one of them behind a prefill pool."""

    deployment: Mapping[str, Any]
    concurrency: int
    input: Lengths
    output: Lengths
    n_replicas: int = 1
    prefill: Mapping[str, Any] | None = None
    n_prefill: int = 1
    link: Mapping[str, Any] | None = None
    n_requests: int | None = None
    """In all; None = ten for each client."""
    delay_s: float = 0.0
    """From the end of a request to the arrival of the client's next."""
    stagger_s: float = 0.0
    """Between the first arrivals of two clients."""
    seed: int = 1


def fitting(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    """The deployment, or where it does not fit the same with its reserves given to weights and cache.

    Raises:
        Infeasible: it does not fit even so.
    """
    try:
        core.plan(deployment)
    except Infeasible:
        groups = deployment["layout"]["dp"]
        serving = {
            **deployment["serving"],
            "runtime_reserve_bytes": 0.0,
            "collective_buffer_bytes": 0.0,
            "collective_buffer_pair_bytes": None,
            "activation_bytes": 0.0,
            "max_batch": min(deployment["serving"]["max_batch"], _GROUP_BATCH * groups),
        }
        tight = {**deployment, "serving": serving}
        core.plan(tight)
        return tight
    return deployment


def run(loop: Loop) -> pl.DataFrame:
    """Each request's times in seconds, in the order of sending, from the first arrival to the last token:
    `arrival_s start_s first_token_s end_s input_tokens output_tokens ttft_s tpot_s`; those that were refused are left
    out.

    Raises:
        Infeasible: a deployment does not fit.
    """
    import polars as pl

    n = loop.n_requests or WAVES * loop.concurrency
    row = pl.int_range(n, dtype=pl.UInt64, eager=True)
    lengths = core.sample(
        {
            "kind": "lengths",
            "seed": loop.seed,
            "key": 0,
            "n": n,
            "input": {"dist": "uniform", "low": loop.input.low, "high": loop.input.high},
            "output": {"dist": "uniform", "low": loop.output.low, "high": loop.output.high},
            "context_tokens": None,
        }
    )
    is_first = row < loop.concurrency
    client = row.clip(upper_bound=loop.concurrency - 1)
    frame = lengths.select(
        (client * round(loop.stagger_s * 1e9)).alias("arrival_ns"),
        pl.lit(0, pl.UInt16).alias("class_ix"),
        "input_tokens",
        "output_tokens",
        pl.select(pl.when(is_first).then(_NO_ROW).otherwise(row - loop.concurrency).cast(pl.UInt64))
        .to_series()
        .alias("after_row"),
        pl.select(pl.when(is_first).then(0).otherwise(round(loop.delay_s * 1e9)).cast(pl.UInt64))
        .to_series()
        .alias("delay_ns"),
    )
    tables = core.simulate(_spec(loop), frame)
    assert tables.requests is not None
    requests = tables.requests.filter(pl.col("fate") == core.FATES.index("completed"))
    gaps = pl.col("output_tokens").cast(pl.Int64) - 1
    seconds = requests.select(
        *((pl.col(f"{name}_ns").cast(pl.Float64) / 1e9).alias(f"{name}_s") for name in _TIMES), *_TOKENS
    )
    return seconds.with_columns(
        ttft_s=pl.col("first_token_s") - pl.col("arrival_s"),
        tpot_s=pl.when(gaps > 0).then((pl.col("end_s") - pl.col("first_token_s")) / gaps),
    )


def _spec(loop: Loop) -> dict[str, Any]:
    placed: list[dict[str, Any]] = [{"pool_ix": 0, "n_replicas": loop.n_replicas, "deployment": loop.deployment}]
    if loop.prefill is not None:
        placed[0]["role"] = "decode"
        split = {"role": "prefill", "decode_targets": [1]}
        placed.insert(0, {"pool_ix": 0, "n_replicas": loop.n_prefill, "deployment": loop.prefill, **split})
    spec: dict[str, Any] = {
        "spec_version": int(core.build_info()["sim_spec_version"]),
        "seed": loop.seed,
        "warmup_ns": 0,
        "length_ns": _LONGEST_S * 10**9,
        "drain_ns": 0,
        "window_ns": 3600 * 10**9,
        "router": "least-outstanding-tokens",
        "n_pools": 1,
        "classes": [{"limits": [], "targets": [{"deployments": [0], "share": None}], "chains_go_on": True}],
        "deployments": placed,
        "keep_requests": True,
    }
    return spec if loop.link is None else {**spec, "link": dict(loop.link)}

"""A measured run replayed through the simulator: the same arrivals and lengths, under the engine's own limits."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import FactError, Fault, Notice
from planner.facts import catalog
from planner.model.lifecycles import Lifecycles
from planner.model.spec import deployment_spec

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["ENGINE", "FIRST_STEP", "METRICS", "QUANTILES", "ROOM", "Replayed", "Run", "errors", "prepare", "replay"]

METRICS = ("ttft_s", "tpot_s", "e2e_s")
QUANTILES = (50, 90, 95, 99)
ENGINE = "vllm"
FIRST_STEP = "first_step_s"
"""Among the figures of a fit: how much longer the first step of each replica takes, not a figure of the engine."""
ROOM = 1.5
"""A fit may find rates so many times those of the chip's facts."""
_RATES = ("memory_bytes_per_s", "scale_up_bytes_per_s", "scale_out_bytes_per_s")
_LONGEST_S = 1e5
_WINDOW_NS = 10**9


@dataclass(frozen=True, slots=True)
class Run:
    """What is replayed: a deployment of `n_replicas`, the requests in the order of arrival, and what was measured."""

    chip: str
    model: str
    deployment: dict[str, Any]
    n_replicas: int
    placed: dict[str, Any]
    requests: pl.DataFrame
    """Of the run, sorted by arrival."""
    table: pl.DataFrame
    blocks: pl.DataFrame
    hash_tokens: int
    measured: pl.DataFrame
    n_left_out: int
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay: each request's metrics in seconds, in the order of `Run.requests`, and the work by second."""

    requests: pl.DataFrame
    windows: pl.DataFrame
    kv_capacity_tokens: int


def prepare(run: Lifecycles) -> Run:
    """The deployment that ran, as far as the files say, with the model's own step costs.

    Raises:
        FactError: the model or chip is not known, or the cache of the run cannot be.
    """
    import polars as pl

    setup, known = run.setup, catalog.load()
    chip = known.chip(setup.chip)
    try:
        model = known.model(setup.model)
    except FactError as error:
        way_out = "--model NAME, or --model FILE: a model file, or the checkpoint's config.json"
        raise FactError(*(replace(fault, way_out=fault.way_out or way_out) for fault in error.faults)) from None
    # Engines of a mixture step together; those of a dense model are replicas.
    is_joint = model.moe is not None and setup.engines > 1
    groups = setup.engines if is_joint else 1
    spec, _, notices = deployment_spec(
        chip,
        model,
        engine=known.engine(ENGINE),
        serving=known.serving(),
        tp=setup.tp,
        dp=groups,
        pp=setup.pp,
        ep=None if is_joint or setup.expert_parallel else 1,
        precision=setup.precision,
        kv_dtype=setup.kv_dtype,
        max_batch=setup.max_batch * groups,
        chunk_tokens=setup.chunk_tokens * groups,
    )
    profiled = known.serving().profiled_bytes.number
    spec["serving"] |= {"block_tokens": setup.block_tokens, "runtime_reserve_bytes": profiled}
    if setup.context_tokens is not None:
        spec["model"]["context_tokens"] = min(spec["model"]["context_tokens"], setup.context_tokens)
    spec["chip"]["memory_bytes"] = (setup.memory_bytes or spec["chip"]["memory_bytes"]) * setup.memory_frac
    spec["engine"]["attention_apart"] = True
    if setup.n_blocks is not None:
        _set_blocks(spec, (setup.n_blocks - 1) * groups)  # one block stands for nothing
    longest = min(core.plan(spec)["max_sequence_tokens"], spec["model"]["context_tokens"])
    if not setup.is_chunked and longest > setup.chunk_tokens:
        what = f"prompts are not cut, but a step takes {setup.chunk_tokens} tokens and a sequence up to {longest}"
        raise FactError(Fault(what, "write the max_model_len of the run; vLLM keeps it within the step"))
    largest = run.requests.select(
        total=pl.col("input_tokens").cast(pl.Int64) + pl.col("output_tokens"), id="request_id"
    )
    total, request = largest.sort("total", descending=True).row(0)
    if total - 1 > longest:
        what = f"request {request} has {total} tokens, and the engine of the file serves up to {longest}"
        raise FactError(Fault(what, "write the max_model_len and the num_gpu_blocks of the run"))
    times = ("queued_s", "scheduled_s", "first_token_s", "last_token_s")
    first = run.requests["queued_s"].min()
    requests = run.requests.with_columns(pl.col(times) - first).sort("queued_s", maintain_order=True)
    hash_tokens = setup.block_tokens
    table = requests.select(
        arrival_ns=(pl.col("queued_s") * 1e9).round().cast(pl.UInt64),
        class_ix=pl.lit(0, dtype=pl.UInt16),
        input_tokens="input_tokens",
        output_tokens="output_tokens",
    )
    return Run(
        chip=chip.name,
        model=model.name,
        deployment=spec,
        n_replicas=1 if is_joint else setup.engines,
        placed={
            "prefix_cache": setup.prefix_cache,
            "async_scheduling": setup.is_ahead,
            "whole_prompts": not setup.is_chunked,
        },
        requests=requests,
        table=table,
        blocks=_hashes(requests, hash_tokens, groups),
        hash_tokens=hash_tokens,
        measured=_metrics(requests, "queued_s", "first_token_s", "last_token_s"),
        n_left_out=run.n_left_out,
        notices=(*setup.notices, *notices),
    )


def _set_blocks(spec: dict[str, Any], n_blocks: int) -> None:
    """Make the memory such that the cache has as many blocks."""
    spec["serving"] |= {"activation_bytes": 0.0, "runtime_reserve_bytes": 0.0}
    roomy = copy.deepcopy(spec)
    roomy["chip"]["memory_bytes"] = 1e15
    memory = core.plan(roomy)["memory"]
    groups = spec["layout"]["dp"]
    cache = n_blocks // groups * spec["serving"]["block_tokens"] * memory["kv_bytes_per_token"]
    spec["chip"]["memory_bytes"] = memory["capacity_bytes"] - memory["kv_bytes"] + cache + 1.0
    if core.plan(spec)["kv_blocks"] != n_blocks // groups * groups:
        raise FactError(Fault(f"a cache of {n_blocks} blocks cannot be laid out"))


def _hashes(requests: pl.DataFrame, block_tokens: int, groups: int = 1) -> pl.DataFrame:
    """Hashes of whole prompt blocks. How much a prompt shares is known, not with which: it is taken to be the last
    earlier one that fills just as many blocks, as when a conversation goes on, or else the last that is long enough.

    Each of `groups` engines has a cache of its own; requests go to them in turn, as a balance of load comes to.
    """
    import polars as pl

    chains: list[list[int]] = []
    fresh = 0
    for n_input, shared in requests.select("input_tokens", "shared_prefix_tokens").iter_rows():
        n, n_shared = n_input // block_tokens, min(shared, n_input) // block_tokens
        same = [chain for chain in chains if len(chain) == n_shared]
        longer = same or [chain for chain in chains if len(chain) >= n_shared]
        chain = longer[-1][:n_shared] if longer else []
        chains.append([*chain, *range(fresh, fresh + n - len(chain))])
        fresh += n
    rows = [(row, each * groups + row % groups) for row, chain in enumerate(chains) for each in chain]
    return pl.DataFrame(rows, schema={"row": pl.UInt64, "hash": pl.UInt64}, orient="row")


def _metrics(requests: pl.DataFrame, queued: str, first: str, last: str) -> pl.DataFrame:
    import polars as pl

    gaps = pl.col("output_tokens").cast(pl.Int64) - 1
    return requests.select(
        ttft_s=pl.col(first) - pl.col(queued),
        tpot_s=pl.when(gaps > 0).then((pl.col(last) - pl.col(first)) / gaps),
        e2e_s=pl.col(last) - pl.col(queued),
    )


def replay(run: Run, engine: dict[str, Any] | None = None) -> Replayed:
    """Simulates the run, with other figures of the engine where given, and what its first step takes longer.

    A request counts from when its replica first looks at it: the engine's own clock reads the same.
    """
    import polars as pl

    figures = dict(engine or {})
    first_s = figures.pop(FIRST_STEP, 0.0)
    deployment = _with(run.deployment, figures) if figures else run.deployment
    last_ns = int(run.table["arrival_ns"][-1])
    spec = {
        "spec_version": int(core.build_info()["sim_spec_version"]),
        "seed": 1,
        "warmup_ns": 0,
        "length_ns": last_ns + 1,
        "drain_ns": round(_LONGEST_S * 1e9),
        "window_ns": _WINDOW_NS,
        "router": "least-requests",
        "n_pools": 1,
        "hash_block_tokens": run.hash_tokens,
        "classes": [{"limits": [], "targets": [{"deployments": [0], "share": None}]}],
        "deployments": [{"pool_ix": 0, "n_replicas": run.n_replicas, "deployment": deployment, **run.placed}],
        "keep_requests": True,
    }
    tables = core.simulate(spec, run.table, run.blocks if run.placed["prefix_cache"] else None)
    assert tables.requests is not None
    seconds = tables.requests.select(
        pl.col("seen_ns", "start_ns", "first_token_ns", "end_ns").cast(pl.Float64) / 1e9,
        pl.col("output_tokens"),
    )
    is_first = pl.int_range(pl.len()) < run.n_replicas
    seconds = seconds.with_columns(pl.col("first_token_ns", "end_ns") + pl.when(is_first).then(first_s).otherwise(0.0))
    metrics = _metrics(seconds, "seen_ns", "first_token_ns", "end_ns")
    times = seconds.select(
        queued_s="seen_ns", scheduled_s="start_ns", first_token_s="first_token_ns", last_token_s="end_ns"
    )
    capacity = int(tables.deployments["kv_capacity_tokens"][0]) * run.n_replicas
    return Replayed(pl.concat([metrics, times], how="horizontal"), tables.windows, capacity)


def _with(deployment: dict[str, Any], engine: dict[str, Any]) -> dict[str, Any]:
    """The deployment with other figures of the engine. For a share above 1 the chip is raised and all are lowered."""
    merged = {**deployment["engine"], **engine}
    if all(value is None or value <= 1.0 for name, value in engine.items() if name.endswith("_eff_frac")):
        return {**deployment, "engine": merged}
    chip = {**deployment["chip"]} | {name: deployment["chip"][name] * ROOM for name in _RATES}
    chip["flop_per_s"] = {name: None if rate is None else rate * ROOM for name, rate in chip["flop_per_s"].items()}
    lowered = {
        name: value / ROOM
        for name, value in merged.items()
        if name.endswith("_eff_frac") and name != "unpack_eff_frac" and value is not None
    }
    return {**deployment, "chip": chip, "engine": {**merged, **lowered}}


def errors(measured: pl.DataFrame, simulated: pl.DataFrame) -> dict[str, dict[str, float | None]]:
    """Simulated over measured less one, of the mean and quantiles of each metric."""
    import numpy as np

    found: dict[str, dict[str, float | None]] = {}
    for metric in METRICS:
        pairs = [_values(frame, metric) for frame in (measured, simulated)]
        if not all(len(values) for values in pairs):
            found[metric] = dict.fromkeys(("mean", *(f"p{q}" for q in QUANTILES)))
            continue
        found[metric] = {"mean": float(pairs[1].mean() / pairs[0].mean() - 1.0)}
        for q in QUANTILES:
            ours, theirs = (float(np.quantile(values, q / 100)) for values in reversed(pairs))
            found[metric][f"p{q}"] = ours / theirs - 1.0
    return found


def _values(frame: pl.DataFrame, metric: str) -> np.ndarray:
    return frame[metric].drop_nulls().to_numpy()

"""The table `curves`: what each deployment of a run could give at every batch, for the requests that it did serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.aggregate.columns import CURVES, schema_of
from planner.model.curve import Stream, curve

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.inputs import SeedRun, VariantRun
    from planner.fleet.fleet import Placed, PoolLayout

__all__ = ["curves"]

LEAST_CACHED_FRAC = 0.01
"""Below it what is missing of the prompts is under way at the span's edges, not in a cache."""


def curves(runs: Sequence[VariantRun]) -> pl.DataFrame:
    """A row for each variant, seed, deployment and batch: time between tokens, and tokens a second of all replicas.

    The request is the mean of those offered to the model; prompt tokens found in a prefix cache are not computed, in
    the proportion that the run found.
    """
    import polars as pl

    rows = [row for run in runs for seed in run.seeds for row in _of_seed(run, seed)]
    return pl.DataFrame(rows, schema=schema_of(CURVES), orient="row")


def _of_seed(run: VariantRun, seed: SeedRun) -> Iterator[dict[str, Any]]:
    for pool, placed, role in _entries(run):
        stream = _stream(run, seed, placed.model, role)
        if stream is None:
            continue
        for point in curve(placed.spec, placed.plan, stream):
            yield {
                "variant": run.scenario.name,
                "seed": seed.seed,
                "pool": pool.name,
                "model": placed.model,
                "layout": placed.label.removeprefix(placed.model).strip(),
                "role": role,
                "replicas": placed.n_replicas,
                "chip_rated_w": placed.n_replicas * placed.n_chips * pool.chip.tdp_w.number,
                "prompt_tokens": stream.prompt_tokens,
                "cached_tokens": stream.cached_tokens,
                "mean_output_tokens": stream.output_tokens,
                "n_seqs": point.n_seqs,
                "tpot_s": point.tpot_s,
                "tokens_per_s_in": placed.n_replicas * point.tokens_per_s_in,
                "tokens_per_s_out": placed.n_replicas * point.tokens_per_s_out,
            }


def _entries(run: VariantRun) -> Iterator[tuple[PoolLayout, Placed, str]]:
    for pool in run.fleet.pools:
        entries = run.scenario.fleet.pools[pool.name].deploy
        for placed, entry in zip(pool.placed, entries, strict=True):
            if placed.n_replicas:
                yield pool, placed, entry.role


def _stream(run: VariantRun, seed: SeedRun, model: str, role: str) -> Stream | None:
    """The mean request of a model; None where none was offered."""
    ixs = [ix for ix, traffic in enumerate(run.scenario.traffic.values()) if traffic.model == model]
    counts: Mapping[int, Mapping[str, int]] = {row["class_ix"]: row for row in seed.sim.classes.to_dicts()}
    offered, prompts, outputs = (sum(counts[ix][n] for ix in ixs) for n in ("offered", "input_tokens", "output_tokens"))
    if not offered or not outputs:
        return None
    # Computed prompt tokens for each output token, over the measured span; where none was computed all count.
    mine = [ix for ix, placed in enumerate(run.fleet.placed) if placed.model == model]
    work = [row for row in seed.sim.deployments.to_dicts() if row["deployment_ix"] in mine]
    made_in, made_out = (sum(row[name] for row in work) for name in ("input_tokens", "output_tokens"))
    prompt, output = prompts / offered, outputs / offered
    computed = min(prompt, made_in / made_out * output) if made_in and made_out else prompt
    has_cache = any(entry.prefix_cache for pool in run.scenario.fleet.pools.values() for entry in pool.deploy)
    if not has_cache or computed > (1 - LEAST_CACHED_FRAC) * prompt:
        computed = prompt
    return Stream(computed, prompt - computed, output, role)

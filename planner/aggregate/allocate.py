"""Joint cost shared out over classes of requests, by what each uses of the replicas that serve it.

A pool's cost goes to its deployments by their chips, chips without a replica in proportion. A deployment's cost goes to
prefill and decode as `cost.allocation` says, and from there to the classes of its model: prefill by their input tokens,
decode by their output tokens, of the requests that the pool served. What serves no class, or served nothing, is held
for all and shared as the rest is. Amounts are whole nano-dollars, so that the classes sum to the whole exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.aggregate.cost import NANO, share_out
from planner.aggregate.latency import METRICS

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.inputs import Span
    from planner.fleet.fleet import Fleet

_NS = 1_000_000_000
MTOK = 1_000_000
S_PER_H = 3600


@dataclass(frozen=True, slots=True)
class Use:
    """A deployment as its cost is shared out: whole numbers, in proportion."""

    pool_ix: int
    chips: int
    prefill: int
    decode: int
    """What goes to input and to output."""
    input_by_class: tuple[int, ...]
    output_by_class: tuple[int, ...]
    input_tokens: int
    """Computed in the span."""
    output_tokens: int


@dataclass(frozen=True, slots=True)
class ClassUse:
    """What a class did in the span."""

    name: str
    tenant: str | None
    completed: int
    tasks: int
    """Sessions and agents' tasks that completed."""


@dataclass(frozen=True, slots=True)
class Uses:
    """Everything that the shares of a simulation depend on."""

    deployments: tuple[Use, ...]
    classes: tuple[ClassUse, ...]
    n_pools: int


def uses(
    fleet: Fleet,
    classes: Sequence[tuple[str, str, str | None]],
    work: pl.DataFrame,
    counts: pl.DataFrame,
    sketches: pl.DataFrame,
    *,
    allocation: str,
) -> Uses:
    """What each deployment did for each class: `classes` are name, model and tenant, `work` the rows of
    `work.chip_work`, `counts` the simulator's classes.
    """
    rows = {row["class_ix"]: row for row in counts.to_dicts()}
    served = _served(sketches)
    pool_ix = {pool.name: ix for ix, pool in enumerate(fleet.pools)}
    did = {row["deployment_ix"]: row for row in work.to_dicts()}
    made = []
    for ix, placed in enumerate(fleet.placed):
        here = pool_ix[placed.pool]
        inputs, outputs = [], []
        for class_ix, (_, model, _) in enumerate(classes):
            given = _tokens(served, class_ix, here, rows[class_ix]) if model == placed.model else (0, 0)
            inputs.append(given[0])
            outputs.append(given[1])
        if not any(inputs):  # none of its requests are counted in this pool: prompts that are handed over, say
            for class_ix, (_, model, _) in enumerate(classes):
                if model == placed.model:
                    inputs[class_ix], outputs[class_ix] = _tokens(served, class_ix, None, rows[class_ix])
        row: Mapping[str, Any] = did.get(ix, {})
        tokens = (int(row.get("input_tokens", 0)), int(row.get("output_tokens", 0)))
        busy = (round(row.get("prefill_chip_s", 0.0) * _NS), round(row.get("decode_chip_s", 0.0) * _NS))
        shares = {"busy-time": busy, "tokens": tokens, "output": (0, 1)}[allocation]
        prefill, decode = shares
        made.append(
            Use(
                pool_ix=here,
                chips=placed.n_replicas * placed.n_chips,
                prefill=prefill,
                decode=decode,
                input_by_class=tuple(inputs),
                output_by_class=tuple(outputs),
                input_tokens=tokens[0],
                output_tokens=tokens[1],
            )
        )
    asked = tuple(
        ClassUse(name, tenant, rows[ix]["span_completed"], served.get((ix, None, "task"), 0))
        for ix, (name, _, tenant) in enumerate(classes)
    )
    return Uses(tuple(made), asked, len(fleet.pools))


def _served(sketches: pl.DataFrame) -> dict[tuple[int, int | None, str], int]:
    """How many values a class has of a metric, in each pool and (None) in all."""
    found: dict[tuple[int, int | None, str], int] = {}
    columns = (sketches[name].to_list() for name in ("class_ix", "pool_ix", "metric_ix", "count"))
    for class_ix, pool_ix, metric_ix, count in zip(*columns, strict=True):
        for pool in (pool_ix, None):
            key = (class_ix, pool, METRICS[metric_ix])
            found[key] = found.get(key, 0) + count
    return found


def _tokens(
    served: Mapping[tuple[int, int | None, str], int], class_ix: int, pool_ix: int | None, row: Mapping[str, int]
) -> tuple[int, int]:
    """Input and output tokens of a class in a pool: its first tokens and gaps there, times its mean prompt."""
    firsts = served.get((class_ix, pool_ix, "ttft"), 0)
    mean_input = row["input_tokens"] / row["offered"] if row["offered"] else 0.0
    return round(firsts * mean_input), firsts + served.get((class_ix, pool_ix, "itl"), 0)


def by_class(nano_by_pool: Sequence[int], of: Uses) -> list[int] | None:
    """Nano-dollars of each class; they sum to those of the pools. None if no class was served."""
    n = len(of.classes)
    sums, rest = [0] * n, 0
    for pool_ix, nano in enumerate(nano_by_pool):
        here = [use for use in of.deployments if use.pool_ix == pool_ix and use.chips]
        if not here:
            rest += nano
            continue
        for use, part in zip(here, share_out(nano, [use.chips for use in here]), strict=True):
            for amount, weights in zip(_phases(part, use), (use.input_by_class, use.output_by_class), strict=True):
                if not amount:
                    continue
                if not any(weights):
                    rest += amount
                    continue
                for ix, share in enumerate(share_out(amount, weights)):
                    sums[ix] += share
    if not any(sums):
        return None
    return [own + held for own, held in zip(sums, share_out(rest, sums), strict=True)]


def _phases(nano: int, use: Use) -> tuple[int, int]:
    if use.prefill + use.decode:
        prefill, decode = share_out(nano, [use.prefill, use.decode])
        return prefill, decode
    prefill, decode = share_out(nano, [sum(use.input_by_class), sum(use.output_by_class)])
    return prefill, decode


def tokens_of_classes(of: Uses) -> list[tuple[float, float]]:
    """Input and output tokens computed in the span for each class."""
    found = [(0.0, 0.0)] * len(of.classes)
    for use in of.deployments:
        for ix in range(len(of.classes)):
            before = found[ix]
            found[ix] = (
                before[0] + _part(use.input_tokens, use.input_by_class, ix),
                before[1] + _part(use.output_tokens, use.output_by_class, ix),
            )
    return found


def _part(tokens: int, weights: Sequence[int], ix: int) -> float:
    whole = sum(weights)
    return tokens * weights[ix] / whole if whole else 0.0


def class_figures(nano_by_pool: Sequence[int], of: Uses, span: Span) -> list[dict[str, float | None]]:
    """What each class costs: an hour, per million tokens, per completed request and per completed task."""
    nanos = by_class(nano_by_pool, of)
    hours = span.span_s / S_PER_H
    made = []
    for ix, (one, tokens) in enumerate(zip(of.classes, tokens_of_classes(of), strict=True)):
        usd_per_h = None if nanos is None else nanos[ix] / NANO
        usd = None if usd_per_h is None else usd_per_h * hours
        made.append(
            {
                "usd_per_h": usd_per_h,
                "usd_per_mtok_all": _over(usd, sum(tokens) / MTOK),
                "usd_per_mtok_out_whole": _over(usd, tokens[1] / MTOK),
                "usd_per_request": _over(usd, one.completed),
                "usd_per_task": _over(usd, one.tasks),
            }
        )
    return made


def tenants(of: Uses, figures: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """USD an hour of each tenant: those of its classes."""
    found: dict[str, float | None] = {}
    for one, row in zip(of.classes, figures, strict=True):
        if one.tenant is not None:
            usd, before = row["usd_per_h"], found.get(one.tenant, 0.0)
            found[one.tenant] = None if usd is None or before is None else before + usd
    return found


def _over(usd: float | None, n: float) -> float | None:
    return None if usd is None or n <= 0 else usd / n

"""The interval of one long run: its measured span cut into batches, each as good as a run of its own.

Means of long batches are nearly independent, so the figure of the whole run has the interval figure -+ t(n - 1) x s /
sqrt(n), with s the spread of the n batches' figures (method of batch means: Law, Simulation Modeling and Analysis,
9.5.3; Schmeiser 1982 for 10 to 30 batches). Batches are made of whole windows. A quantile of latency is that of the
whole run, with the spread of the batches' own quantiles (batch quantiles: Seila, Management Science 28, 1982, 899-912),
where a batch has at least `LEAST_BEYOND` requests beyond it. Its interval holds the mean of these, too: steps are of
few lengths, and a quantile that lies between two of them is one or the other in a run, and their mean over many.

A request is of the batch in which it came, a task of that in which it began, a gap between tokens of that in which it
ended. Gaps are many, but a long step is one for all that wait for it, so requests are counted for them, too. Peaks have
no interval; several seeds give them one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.aggregate import intervals, latency
from planner.aggregate.inputs import SeedRun, Span
from planner.aggregate.metrics import METRICS
from planner.aggregate.work import COUNTS, FLOATS
from planner.fleet import batched

if TYPE_CHECKING:
    from planner.aggregate.work import Windows

Tree = dict[str, Any]

N_BATCHES = (20, 10)
"""How many batches there are: the first number that the run has windows for; with fewer there is no interval."""
LEAST_BEYOND = 5
"""A batch tells a quantile where so many of its requests, or tasks, are expected beyond it."""
_RATE_UNITS = frozenset({"req/s", "tok/s", "tok/s/chip", "USD/h", "USD/Mtok", "J/token", "kgCO2e/Mtok"})
_SHARES = frozenset({"attainment_frac", "busy_frac", "mfu_frac", "mbu_frac", "kv_frac"})
_TOTAL_UNITS = frozenset({"kWh", "kgCO2e"})
_DRAW_UNIT = "W"
_LATENCIES = frozenset(f"classes.*.{metric}_s" for metric in latency.METRICS)
_OF_LIMITS = ("classes.*.limits.value", "classes.*.limits.margin_frac")


@dataclass(frozen=True, slots=True)
class Batch:
    """A stretch of a run as a run of its own."""

    seed: SeedRun
    """Its requests by class; the sketches are its own, or empty."""
    span: Span
    works: tuple[dict[str, float], ...]
    """Its work by pool."""


def cut(seed: SeedRun, span: Span, windows: Sequence[Windows]) -> list[Batch]:
    """The run in batches of equally many whole windows; none where it is too short. `windows` are the pools'."""
    found = places(span)
    counts = seed.sim.class_windows.to_dicts() if found else []
    made = []
    for ix, inside in enumerate(found):
        bounds = replace(span, warmup_ns=inside.start * span.window_ns, length_ns=inside.stop * span.window_ns)
        works = tuple(_work(pool, inside) for pool in windows)
        one = _requests(seed, [row for row in counts if row["window_ix"] in inside])
        made.append(Batch(_with_latencies(one, ix), bounds, works))
    return made


def places(span: Span) -> list[range]:
    """The windows of each batch; windows that are left over are at the begin. None where there are too few."""
    full = span.full_windows
    n = next((n for n in N_BATCHES if len(full) >= n), 0)
    each = len(full) // n if n else 0
    first = full.stop - n * each
    return [range(first + ix * each, first + (ix + 1) * each) for ix in range(n)]


def _with_latencies(one: SeedRun, ix: int) -> SeedRun:
    """A batch with the latencies of its requests, where they were told apart."""
    import polars as pl

    if one.sim.batches is None:
        return one
    classes = one.sim.classes
    sketches, counts = batched.of_batch(one.sim.batches, ix, classes.height)
    columns = {
        f"span_{name}": pl.Series([found[class_ix] for class_ix in classes["class_ix"]], dtype=pl.UInt64)
        for name, found in counts.items()
    }
    return replace(one, tables=replace(one.sim, sketches=sketches, classes=classes.with_columns(**columns)))


def told(classes: Tree, whole: Tree, share: float) -> Tree:
    """The figures of a batch's classes without the quantiles that so few requests do not tell.

    `whole` are those of the run, of which a batch has the `share`.
    """
    return {name: _told(figures, whole[name], share) for name, figures in classes.items()}


def _told(figures: Tree, whole: Tree, share: float) -> Tree:
    def is_told(metric: str, label: str) -> bool:
        quantile = latency.QUANTILES[label]
        n = whole["tasks" if metric == "task" else "offered"] * share
        return quantile is None or n * min(quantile, 1 - quantile) >= LEAST_BEYOND

    kept = dict(figures)
    for metric in latency.METRICS:
        values = figures[f"{metric}_s"].items()
        kept[f"{metric}_s"] = {label: value if is_told(metric, label) else None for label, value in values}
    kept["limits"] = [
        limit if is_told(limit["metric"], limit["quantile"]) else limit | {"value": None, "margin_frac": None}
        for limit in figures["limits"]
    ]
    return kept


def _work(windows: Windows, inside: range) -> dict[str, float]:
    """The work of some windows: times and energy rounded once, counts exact."""
    here = (windows.window_ix >= inside.start) & (windows.window_ix < inside.stop)
    sums: dict[str, float] = {name: math.fsum(windows.sums[name][here]) for name in FLOATS}
    return sums | {name: int(windows.sums[name][here].sum()) for name in COUNTS}


def _requests(seed: SeedRun, rows: Sequence[Mapping[str, int]]) -> SeedRun:
    """The run with the requests of some rows of windows alone."""
    import polars as pl

    sim = seed.sim
    columns: dict[str, list[int]] = {name: [0] * sim.classes.height for name in sim.classes.columns}
    columns["class_ix"] = sim.classes["class_ix"].to_list()
    place = {class_ix: at for at, class_ix in enumerate(columns["class_ix"])}
    for row in rows:
        for name, value in row.items():
            if name in columns and name != "class_ix":
                columns[name][place[row["class_ix"]]] += value
    for name in ("offered", "completed", "attained"):
        if name in columns:
            columns[f"span_{name}"] = columns[name]
        else:
            columns[f"span_{name}"] = [0] * sim.classes.height
            for row in rows:
                columns[f"span_{name}"][place[row["class_ix"]]] += row[name]
    classes = pl.DataFrame(columns, schema=sim.classes.schema)
    return replace(seed, tables=replace(sim, classes=classes, sketches=sim.sketches.clear()))


def ends(tree: Tree, batches: Sequence[Tree], *, times: float) -> tuple[Tree, Tree]:
    """The low and the high ends of the figures of `tree`, in its shape; None where batches tell nothing.

    `times` is how often a batch fits the span: what adds up over time is scaled by it.
    """
    halves, middles = (intervals.over_seeds(batches, each) for each in (intervals.half_width, intervals.mean))
    return _ends(tree, halves, middles, (), -times), _ends(tree, halves, middles, (), times)


def _ends(tree: Any, half: Any, middle: Any, path: tuple[str, ...], times: float) -> Any:
    if isinstance(tree, Mapping):
        return {
            key: _ends(value, half and half[key], middle and middle[key], (*path, key), times)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        halves, middles = (each if isinstance(each, list) else [None] * len(tree) for each in (half, middle))
        return [_ends(*each, path, times) for each in zip(tree, halves, middles, strict=True)]
    if not isinstance(tree, int | float) or isinstance(tree, bool):
        return None if tree is None else tree
    sort = _sort(path)
    if half is None or sort is None:
        return None
    if sort == "total":
        return tree + half * times
    if _is_quantile(path):
        tree = min(tree, middle) if times < 0 else max(tree, middle)
    return tree + half * math.copysign(1.0, times)


def _is_quantile(path: tuple[str, ...]) -> bool:
    """Whether a figure there is a quantile, or as far from a limit as one."""
    return latency.QUANTILES.get(path[-1]) is not None or path[-2:-1] == ("limits",)


def _sort(path: tuple[str, ...]) -> str | None:
    """Whether the figure there is a mean over time (`rate`), adds up over it (`total`), or neither."""
    names = [path, (path[0], "*", *path[2:])]
    for parts in names:
        for n in (len(parts), len(parts) - 1):
            found = _SORTS.get(".".join(parts[:n]))
            if found is not None:
                return None if found == "draw" and path[-1] != "mean" else "rate" if found == "draw" else found
    return None


def _sorts() -> dict[str, str]:
    made = dict.fromkeys(_OF_LIMITS, "rate")
    for metric in METRICS:
        if metric.path in _LATENCIES or metric.unit in _RATE_UNITS or metric.name in _SHARES:
            made[metric.path] = "rate"
        elif metric.unit in _TOTAL_UNITS:
            made[metric.path] = "total"
        elif metric.unit == _DRAW_UNIT and metric.keys:
            made[metric.path] = "draw"
    return made


_SORTS = _sorts()

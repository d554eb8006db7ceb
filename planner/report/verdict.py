"""The answer in a sentence: whether the limits hold, and what binds - class, metric, pool and hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.report.figures.busy import stretches
from planner.report.figures.series import by_bin

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["Binding", "binding", "word"]

ENDS = ("completed", "rejected", "timed_out", "cancelled")
_WORDS: Mapping[str | None, str] = {"met": "Yes", "missed": "No", "unknown": "Unknown", None: "No limits"}


@dataclass(frozen=True, slots=True)
class Binding:
    """The limit with the least to spare, and where and when it binds."""

    klass: str
    limit_ix: int
    pool: str | None
    """The pool where the class's quantile is highest; None where nothing of it was served."""
    start_s: float | None
    """Begin and end of the stretch in which fewest of the class were inside its limits, or most of it was asked."""
    end_s: float | None
    is_worst: bool
    """Whether that stretch is the worst one (some were outside) or only the fullest."""


def word(tree: Mapping[str, Any]) -> str:
    """Yes, No, Unknown or No limits."""
    return _WORDS[tree["verdict"]]


def binding(result: Result, variant: str) -> Binding | None:
    """What binds; None without limits."""
    tree = result.variants[variant]
    found = [
        (limit["margin_frac"] if limit["margin_frac"] is not None else float("-inf"), name, ix)
        for name, figures in tree["classes"].items()
        for ix, limit in enumerate(figures["limits"])
        if limit["met"] is not None
    ]
    if not found:
        return None
    _, name, ix = min(found)
    limit = tree["classes"][name]["limits"][ix]
    pool = _pool(result, variant, name, limit["metric"], float(limit["quantile"][1:]) / 100)
    start, end, is_worst = _stretch(result, variant, name)
    return Binding(name, ix, pool, start, end, is_worst)


def _pool(result: Result, variant: str, klass: str, metric: str, quantile: float) -> str | None:
    from planner import core

    sketches = result.tables["sketches"]
    mine = sketches.filter(
        (sketches["variant"] == variant) & (sketches["class"] == klass) & (sketches["metric"] == metric)
    )
    columns = ("class_ix", "pool_ix", "metric_ix", "is_bucket", "key_ns", "count", "sum_s", "sum_fs")
    worst: tuple[float, str] | None = None
    for pool in dict.fromkeys(mine["pool"].to_list()):
        of_pool = mine.filter(mine["pool"] == pool)
        value = core.quantiles(of_pool.select(columns), [core.Query(of_pool["class_ix"][0], metric, quantile)])[0]
        if value is not None and (worst is None or value > worst[0]):
            worst = (value, pool)
    return worst[1] if worst else None


def _stretch(result: Result, variant: str, klass: str) -> tuple[float | None, float | None, bool]:
    run = result.variants[variant]["run"]
    what = stretches(run)
    sums = {
        name: [
            sum(values)
            for values in by_bin(result, "class_windows", variant, what, [], name, where=[("class", klass)]).get(
                (), [[]] * what.n
            )
        ]
        for name in ("offered", "attained", *ENDS)
    }
    shares = []
    for ix in range(what.n):
        ended = sum(sums[end][ix] for end in ENDS)
        if ended and what.start_s(ix) >= run["warmup_s"]:
            shares.append((sums["attained"][ix] / ended, ix))
    worst = min(shares, default=None)
    is_worst = worst is not None and worst[0] < max(shares)[0]
    if is_worst and worst is not None:
        ix = worst[1]
    elif any(sums["offered"]):
        ix = max(range(what.n), key=lambda at: (sums["offered"][at], -at))
    else:
        return None, None, False
    return what.start_s(ix), min(what.start_s(ix + 1), run["length_s"]), is_worst

"""Error bands from residuals of points that a fit did not see, and the errors themselves.

A residual is log(measured / predicted). A regime is what is new to the calibration (a deployment of known chips and
models, a chip, a model) x mode x concurrency up to 16, up to 128, or more; its 80 % band is the range from the 10th to
the 90th percentile of its residuals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.model.folds import KINDS, Fold

if TYPE_CHECKING:
    import numpy as np

__all__ = ["RANGES", "coverage", "errors", "midway", "range_of", "spearman", "table"]

RANGES = (16, 128, None)
"""Upper ends of the concurrency ranges."""
QUANTILES = (0.1, 0.9)
_LEAST = 30
"""A regime with fewer residuals takes the band of all its modes and ranges."""


def range_of(concurrency: float) -> int:
    """Index of the concurrency range."""
    return next(i for i, end in enumerate(RANGES) if end is None or concurrency <= end)


def table(
    rows: Sequence[Mapping[str, Any]],
    residuals: Mapping[tuple[str, str], np.ndarray],
    metrics: Sequence[str] = ("tpot", "ttft"),
) -> list[dict[str, Any]]:
    """The band of every regime and metric, as factors on the prediction."""
    import numpy as np

    mode = np.array([row["mode"] for row in rows])
    span = np.array([range_of(row["concurrency"]) for row in rows])
    found = []
    for metric in metrics:
        for kind in KINDS:
            all_of = residuals[kind, metric]
            for name in ("agg", "disagg"):
                for place, end in enumerate(RANGES):
                    inside = np.isfinite(all_of) & (mode == name) & (span == place)
                    if inside.sum() < _LEAST:
                        inside = np.isfinite(all_of) & (mode == name)
                    if inside.sum() < _LEAST:
                        inside = np.isfinite(all_of)
                    low, middle, high = np.quantile(all_of[inside], (QUANTILES[0], 0.5, QUANTILES[1]))
                    found.append(
                        {
                            "metric": metric,
                            "new": kind,
                            "mode": name,
                            "concurrency_to": end,
                            "low": round(float(np.exp(min(low, middle))), 4),
                            "high": round(float(np.exp(max(high, middle))), 4),
                            "n": int(inside.sum()),
                        }
                    )
    return found


def midway(near: tuple[float, float], far: tuple[float, float], wider: float = 1.0) -> tuple[float, float]:
    """The band half way between two on a log scale, `wider` times as wide.

    For a chip or a model that was not measured: the residuals of new deployments (`near`) are too narrow a band, those
    of folds that lose whole stacks with a chip or a model (`far`) too wide a one.
    """
    low, high = (0.5 * (math.log(a) + math.log(b)) * wider for a, b in zip(near, far, strict=True))
    return math.exp(low), math.exp(high)


def coverage(
    rows: Sequence[Mapping[str, Any]], residuals: Mapping[tuple[str, str], np.ndarray], fits: Sequence[Fold]
) -> list[dict[str, Any]]:
    """Share of rows whose residual is inside a band that was made without their fold: of each kind, in all and by fold.

    The bands are those of a prediction: of new deployments as they are, of a new chip or model half way.
    """
    import numpy as np

    regime = [(row["mode"], RANGES[range_of(row["concurrency"])]) for row in rows]
    found = []
    for metric in ("tpot", "ttft"):
        for kind in KINDS:
            inside: dict[str, np.ndarray] = {}
            for fold in (fold for fold in fits if fold.kind == kind):
                kept = {key: np.where(fold.is_out, np.nan, values) for key, values in residuals.items()}
                by_key = {
                    (one["new"], one["mode"], one["concurrency_to"]): (one["low"], one["high"])
                    for one in table(rows, kept, (metric,))
                }
                at = np.where(fold.is_out & np.isfinite(residuals[kind, metric]))[0]
                ends = [(by_key["deployment", *regime[i]], by_key[kind, *regime[i]]) for i in at]
                factors = [near if kind == "deployment" else midway(near, far) for near, far in ends]
                measured = np.exp(residuals[kind, metric][at])
                inside[fold.name] = np.array(
                    [low <= one <= high for one, (low, high) in zip(measured, factors, strict=True)], dtype=bool
                )
            named = inside if kind != "deployment" else {}
            for name, values in [("all", np.concatenate(list(inside.values()))), *sorted(named.items())]:
                share = round(float(np.mean(values)), 4) if len(values) else None
                found.append({"metric": metric, "new": kind, "fold": name, "n": len(values), "in_band_frac": share})
    return found


def errors(
    rows: Sequence[Mapping[str, Any]],
    residuals: Mapping[tuple[str, str], np.ndarray],
    before: Mapping[str, np.ndarray],
) -> list[dict[str, Any]]:
    """Errors |predicted / measured - 1| on each kind of fold, in all and by mode, engine and concurrency range."""
    import numpy as np

    names = {
        "mode": np.array([row["mode"] for row in rows]),
        "engine": np.array([row["backend"] for row in rows]),
        "concurrency_to": np.array([str(RANGES[range_of(row["concurrency"])]) for row in rows]),
        "chip": np.array([row["chip"] for row in rows]),
        "model": np.array([row["model"] for row in rows]),
    }
    found = []
    for metric in ("tpot", "ttft"):
        ape_before = np.abs(np.exp(-before[metric]) - 1.0)
        for kind in KINDS:
            ape = np.abs(np.exp(-residuals[kind, metric]) - 1.0)
            groups: list[tuple[str, str, np.ndarray]] = [("all", "", np.isfinite(ape))]
            for by, column in names.items():
                groups += [(by, one, np.isfinite(ape) & (column == one)) for one in sorted(set(column.tolist()))]
            for by, one, inside in groups:
                if not inside.any():
                    continue
                found.append(
                    {
                        "metric": metric,
                        "new": kind,
                        "by": by,
                        "value": one,
                        "n": int(inside.sum()),
                        "median": round(float(np.median(ape[inside])), 4),
                        "mean": round(float(np.mean(ape[inside])), 4),
                        "median_before": round(float(np.median(ape_before[inside])), 4),
                        "mean_before": round(float(np.mean(ape_before[inside])), 4),
                    }
                )
    return found


def spearman(a: np.ndarray, b: np.ndarray) -> float | None:
    """Rank correlation, ties at their mean rank; None for fewer than three pairs or no variation."""
    import numpy as np

    if len(a) < 3:
        return None

    def ranks(values: np.ndarray) -> np.ndarray:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        mean_rank: np.ndarray = ends - (counts - 1) / 2.0
        return mean_rank[inverse]

    x, y = ranks(a), ranks(b)
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else None

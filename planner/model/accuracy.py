"""How far off predictions are: errors on folds, and rank correlation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.model.bands import RANGES, range_of
from planner.model.folds import KINDS

if TYPE_CHECKING:
    import numpy as np

__all__ = ["errors", "spearman"]


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

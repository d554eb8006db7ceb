"""Simulated points beside the steady state's: errors of both on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.model.calibration import Calibration, Prediction
from planner.model.points import Points, steady
from planner.model.simulated import SEED, corrected, first_token_s, sample, simulate_points
from planner.model.validate import errors_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["check_simulated"]

_BY = {"mode": "mode", "engine": "backend"}


def check_simulated(
    points: Points, calibration: Calibration, predicted: Prediction, *, n: int | None, seed: int = SEED
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Errors of simulated and steady TTFT and TPOT on `n` clean rows (None = all), and the simulated seconds by row.

    `pooled` are the same without the corrections of stacks, as for a stack that nobody has measured.
    """
    import numpy as np

    rows = sample(points, n, seed)
    found = simulate_points(points, calibration.engines, rows, seed)
    part = calibration.simulated
    plain = {"ttft_s": first_token_s(points, found, part["client"]), "tpot_s": found.tpot_s}
    known = {"ttft": part["corrections"], "tpot": calibration.tree["corrections"]["tpot"]}
    values = {f"{metric}_s": corrected(points, plain[f"{metric}_s"], metric, known[metric]) for metric in known}
    pooled, _ = steady(points, calibration.engines, calibration.habits)
    measured = measured_s(points)
    simulated = np.isfinite(values["tpot_s"])

    def both(inside: np.ndarray) -> dict[str, Any]:
        return {
            metric: {
                name: errors_of(table[f"{metric}_s"][inside], measured[metric][inside])
                for name, table in (("simulated", values), ("steady", predicted.values))
            }
            for metric in ("ttft", "tpot")
        }

    labels = {by: np.array([str(row[column]) for row in points.rows]) for by, column in _BY.items()}
    result = {
        "rows": len(rows),
        "simulated": int(simulated.sum()),
        "sample": n,
        "seed": seed,
        "requests": found.n_requests,
        **both(simulated),
        "pooled": {
            metric: {
                name: errors_of(table[f"{metric}_s"][simulated], measured[metric][simulated])
                for name, table in (("simulated", plain), ("steady", pooled))
            }
            for metric in ("ttft", "tpot")
        },
        "by": [
            {"by": by, "value": value, "rows": int((simulated & (column == value)).sum())}
            | both(simulated & (column == value))
            for by, column in labels.items()
            for value in sorted(set(column[simulated].tolist()))
        ],
        "left_out": [dict(one) for one in part["errors"]],
    }
    return result, values


def measured_s(points: Points) -> Mapping[str, np.ndarray]:
    """What was measured; a TPOT at one output token does not exist."""
    import numpy as np

    return {
        "ttft": points.numbers("ttft_ms") / 1e3,
        "tpot": np.where(points.numbers("osl_mean") > 1.0, points.numbers("tpot_ms") / 1e3, np.nan),
    }

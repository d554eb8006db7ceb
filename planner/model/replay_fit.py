"""A few physical coefficients of an engine, fitted to the first requests of a measured run.

What is fitted: the shares of the memory bandwidth that weights and keys and values get, of the arithmetic that prompts
get, the fixed time of a step and, between chips, the share of the links. All arrivals are replayed, but only what was
measured of the first requests counts. Damped least squares with a robust loss on logarithms; the starts hold weakly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.model.replay import METRICS, Run, replay

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["Coefficient", "fit_first"]

SCALE = 0.05
"""Log residual from which on the loss is linear."""
FLOOR_S = {"ttft_s": 0.05, "tpot_s": 0.001, "e2e_s": 0.1}
"""Times that are small beside these count less."""
_ROUNDS = 15


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A figure of the engine: where the fit starts, its range, and how weakly it holds on (log)."""

    names: tuple[str, ...]
    start: float
    low: float
    high: float
    spread: float


MEMORY = Coefficient(("memory_eff_frac",), 0.82, 0.3, 1.0, 0.3)
CACHE = Coefficient(("kv_read_eff_frac",), 0.75, 0.3, 1.0, 0.3)
ARITHMETIC = Coefficient(("prefill_eff_frac",), 0.65, 0.1, 1.0, 0.5)
STEP = Coefficient(("host_s",), 1e-3, 1e-5, 3e-2, 1.0)
LINK = Coefficient(("link_eff_frac", "prefill_link_eff_frac"), 0.5, 0.05, 1.0, 0.5)
_IN_STEP = (
    "host_sequence_s",
    "launch_layer_s",
    "launch_moe_s",
    "launch_mla_s",
    "launch_sparse_s",
    "launch_linear_s",
    "collective_log_s",
)
"""What is fixed in a step is one coefficient, not these by layer."""


def fit_first(run: Run, n: int) -> dict[str, float]:
    """The engine's figures that reproduce the first `n` requests best."""
    import numpy as np

    n_chips = run.deployment["layout"]["tp"] * run.deployment["layout"]["dp"] * run.deployment["layout"]["pp"]
    fitted = [MEMORY, CACHE, ARITHMETIC, STEP, *([LINK] if n_chips > 1 else [])]
    start = np.log([each.start for each in fitted])
    low, high = (np.log([getattr(each, end) for each in fitted]) for end in ("low", "high"))
    weight = 1.0 / np.array([each.spread for each in fitted]) ** 2
    measured = _logs(run.measured, n)

    def off(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = _logs(replay(run, _engine(fitted, x)).requests, n) - measured
        return found

    def loss(x: np.ndarray, r: np.ndarray) -> float:
        a = np.abs(r) / SCALE
        return float(np.where(a < 1.0, 0.5 * a * a, a - 0.5).sum() + 0.5 * (weight * (x - start) ** 2).sum())

    x, damping = start, 0.1
    r = off(x)
    best = loss(x, r)
    for _ in range(_ROUNDS):
        slopes = np.empty((len(r), len(x)))
        for i, each in enumerate(fitted):
            step = np.zeros(len(x))
            step[i] = 0.02 if each is not STEP else 0.05
            slopes[:, i] = (off(x + step) - off(x - step)) / (2.0 * step[i])
        robust = 1.0 / np.maximum(1.0, np.abs(r) / SCALE) / SCALE**2
        curve = slopes.T @ (robust[:, None] * slopes) + np.diag(weight)
        downhill = slopes.T @ (robust * r) + weight * (x - start)
        for _ in range(6):
            move = -np.linalg.solve(curve + damping * np.diag(np.diag(curve)), downhill)
            tried = np.clip(x + np.clip(move, -0.4, 0.4), low, high)
            r_tried = off(tried)
            if (now := loss(tried, r_tried)) < best:
                gain = best - now
                x, r, best, damping = tried, r_tried, now, damping / 3.0
                break
            damping *= 4.0
        else:
            break
        if gain < 1e-3 * best:
            break
    return _engine(fitted, x)


def _engine(fitted: list[Coefficient], x: np.ndarray) -> dict[str, Any]:
    import numpy as np

    values = np.exp(x)
    engine = dict.fromkeys(_IN_STEP, 0.0)
    for each, value in zip(fitted, values, strict=True):
        engine |= dict.fromkeys(each.names, min(float(value), each.high))
    return engine


def _logs(frame: pl.DataFrame, n: int) -> np.ndarray:
    """Logarithms of what the first `n` requests took, metric by metric; 0 where there is no value."""
    import numpy as np

    columns = []
    for metric in METRICS:
        values = frame[metric].head(n).to_numpy()
        columns.append(np.log(np.nan_to_num(values, nan=1.0) + FLOOR_S[metric]))
    return np.concatenate(columns)

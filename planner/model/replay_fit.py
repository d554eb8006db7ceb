"""A few physical coefficients of an engine, fitted to the first requests of a measured run.

What is fitted: the shares of the memory bandwidth that weights and keys and values get, of the arithmetic that prompts
get, the fixed time of a step and, between chips, the share of the links. All arrivals are replayed, but only what was
measured of the first requests counts: what each took, and the means of a few stretches of them, which decide. Who
shares a step with whom turns on nanoseconds, so the times of one request jump where a coefficient moves a little; the
means do not, and the search begins in several places. Damped least squares with a robust loss on logarithms; the starts
hold weakly.

The first stretch pays for what an engine does once (kernels that are compiled, shapes that are met for the first time),
so only its time between tokens counts; and one time that is far from the simulated moves a mean as one a factor `FAR`
off does. What the very first step of an engine takes more than the rest of the fit says is a figure of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.model.replay import FIRST_STEP, METRICS, ROOM, Run, replay

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["Coefficient", "fit_first"]

SCALE, MEAN_SCALE = 0.05, 0.01
"""Log residuals of a request and of a mean from which on the loss is linear."""
FLOOR_S = {"ttft_s": 0.05, "tpot_s": 0.001, "e2e_s": 0.1}
"""Times that are small beside these count less."""
FAR = 2.7
FIRST_S = 0.02
"""A first step that is longer by less is like any other."""
_STRETCHES = 5
_REQUEST_WEIGHT = 0.5
_STARTS, _FOLLOWED = 24, 3
_WIDTH = 1.5
"""Starts are spread over so many of a coefficient's spreads, either way."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A figure of the engine: where the fit starts, its range, and how weakly it holds on (log)."""

    names: tuple[str, ...]
    start: float
    low: float
    high: float
    spread: float


MEMORY = Coefficient(("memory_eff_frac",), 0.82, 0.3, ROOM, 0.3)
CACHE = Coefficient(("kv_read_eff_frac",), 0.75, 0.3, ROOM, 0.3)
ARITHMETIC = Coefficient(("prefill_eff_frac",), 0.65, 0.1, 1.2, 0.5)
STEP = Coefficient(("host_s",), 1e-3, 1e-5, 3e-2, 1.0)
LINK = Coefficient(("link_eff_frac", "prefill_link_eff_frac"), 0.5, 0.05, ROOM, 0.5)
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
    """The engine's figures that reproduce the first `n` requests best. A share above 1 says that the chip does more
    than its facts.
    """
    n_chips = run.deployment["layout"]["tp"] * run.deployment["layout"]["dp"] * run.deployment["layout"]["pp"]
    fitted = [MEMORY, CACHE, ARITHMETIC, STEP, *([LINK] if n_chips > 1 else [])]
    search = _Search(run, min(n, run.measured.height), fitted)
    points = _starts(fitted)
    by_loss = sorted(range(1, len(points)), key=lambda at: search.loss(points[at], search.off(points[at])))
    ends = [search.descend(points[at], rounds=6, step=0.05) for at in (0, *by_loss[:_FOLLOWED])]
    best, x = min(ends, key=lambda end: end[0])
    for step in (0.03, 0.1):
        now, moved = search.descend(x, rounds=8, step=step)
        if now < best:
            best, x = now, moved
    return _engine(fitted, x) | _first_step(run, _engine(fitted, x))


def _first_step(run: Run, engine: dict[str, Any]) -> dict[str, float]:
    """What the first request of each replica waits longer than a later one would, if that is more than chance."""
    import numpy as np

    measured, simulated = (
        frame["ttft_s"].head(run.n_replicas).to_numpy() for frame in (run.measured, replay(run, engine).requests)
    )
    longer_s = float(np.maximum(np.nan_to_num(measured - simulated), 0.0).mean())
    return {FIRST_STEP: longer_s} if longer_s > max(FIRST_S, 0.5 * float(simulated.mean())) else {}


class _Search:
    """Residuals of a run in the coefficients' logarithms, and the way down from a point."""

    def __init__(self, run: Run, n: int, fitted: Sequence[Coefficient]) -> None:
        import numpy as np

        self.run, self.n, self.fitted = run, n, fitted
        self.start = np.log([each.start for each in fitted])
        self.low, self.high = (np.log([getattr(each, end) for each in fitted]) for end in ("low", "high"))
        self.hold = 1.0 / np.array([each.spread for each in fitted]) ** 2
        self.measured = _times(run.measured, n)
        self.weight = _weights(self.measured, n)

    def off(self, x: np.ndarray) -> np.ndarray:
        """Simulated over measured as logarithms, of each request and of the means of stretches, in units from which on
        the loss is linear; 0 where there is no value."""
        import numpy as np

        simulated = _times(replay(self.run, _engine(self.fitted, x)).requests, self.n)
        single, means = [], []
        for metric, ours, theirs in zip(METRICS, simulated, self.measured, strict=True):
            floor = FLOOR_S[metric]
            single.append(np.nan_to_num(np.log((ours + floor) / (theirs + floor))) / SCALE)
            near = np.clip(theirs, (ours + floor) / FAR - floor, (ours + floor) * FAR - floor)
            for at, part in enumerate(_stretches(self.n)):
                is_known = ~np.isnan(ours[part] + near[part])
                if _counts(metric, at) and is_known.any():
                    pair = [times[part][is_known].mean() + 0.01 * floor for times in (ours, near)]
                    means.append(np.log(pair[0] / pair[1]) / MEAN_SCALE)
                else:
                    means.append(0.0)
        return np.concatenate([*single, means])

    def loss(self, x: np.ndarray, r: np.ndarray) -> float:
        import numpy as np

        a = np.abs(r)
        held = 0.5 * (self.hold * (x - self.start) ** 2).sum()
        return float((self.weight * np.where(a < 1.0, 0.5 * a * a, a - 0.5)).sum() + held)

    def descend(self, x: np.ndarray, *, rounds: int, step: float) -> tuple[float, np.ndarray]:
        """The loss that is reached from `x`, and where; slopes are taken over `step` either way."""
        import numpy as np

        damping, r = 0.1, self.off(x)
        best = self.loss(x, r)
        for _ in range(rounds):
            slopes = np.empty((len(r), len(x)))
            for i, each in enumerate(self.fitted):
                aside = np.zeros(len(x))
                aside[i] = step * min(1.0, each.spread / 0.3)
                slopes[:, i] = (self.off(x + aside) - self.off(x - aside)) / (2.0 * aside[i])
            robust = self.weight / np.maximum(1.0, np.abs(r))
            curve = slopes.T @ (robust[:, None] * slopes) + np.diag(self.hold)
            downhill = slopes.T @ (robust * r) + self.hold * (x - self.start)
            gain = 0.0
            for _ in range(5):
                move = -np.linalg.solve(curve + damping * np.diag(np.diag(curve)), downhill)
                tried = np.clip(x + np.clip(move, -0.5, 0.5), self.low, self.high)
                r_tried = self.off(tried)
                if (now := self.loss(tried, r_tried)) < best:
                    gain = best - now
                    x, r, best, damping = tried, r_tried, now, damping / 4.0
                    break
                damping *= 5.0
            if gain < 2e-3 * best:
                break
        return best, x


def _starts(fitted: Sequence[Coefficient]) -> list[np.ndarray]:
    """The usual start, and a Halton sequence around it."""
    import numpy as np

    def digits(at: int, base: int) -> float:
        share, place = 0.0, 1.0
        while at:
            place /= base
            at, digit = divmod(at, base)
            share += digit * place
        return share

    points = [np.log([each.start for each in fitted])]
    for at in range(1, _STARTS):
        aside = [
            (2.0 * digits(at, base) - 1.0) * _WIDTH * each.spread
            for each, base in zip(fitted, (2, 3, 5, 7, 11), strict=False)
        ]
        low, high = (np.log([getattr(each, end) for each in fitted]) for end in ("low", "high"))
        points.append(np.clip(points[0] + np.array(aside), low, high))
    return points


def _engine(fitted: Sequence[Coefficient], x: np.ndarray) -> dict[str, Any]:
    import numpy as np

    values = np.exp(x)
    engine = dict.fromkeys(_IN_STEP, 0.0)
    for each, value in zip(fitted, values, strict=True):
        engine |= dict.fromkeys(each.names, min(float(value), each.high))
    return engine


def _times(frame: pl.DataFrame, n: int) -> list[np.ndarray]:
    """What the first `n` requests took, metric by metric, in seconds; NaN where there is no value."""
    return [frame[metric].head(n).to_numpy().astype(float) for metric in METRICS]


def _stretches(n: int) -> list[np.ndarray]:
    import numpy as np

    return np.array_split(np.arange(n), min(_STRETCHES, n))


def _counts(metric: str, stretch: int) -> bool:
    """Whether a stretch says how long steps take, as far as this metric goes."""
    return metric == "tpot_s" or stretch > 0


def _weights(measured: list[np.ndarray], n: int) -> np.ndarray:
    import numpy as np

    parts = _stretches(n)
    single = [
        np.full(len(part), _REQUEST_WEIGHT if _counts(metric, at) else 0.0)
        for metric in METRICS
        for at, part in enumerate(parts)
    ]
    return np.concatenate([*single, np.ones(len(measured) * len(parts))])

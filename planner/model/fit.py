"""The fit of a calibration: coefficients and stack corrections at once, by damped least squares with a robust loss.

Minimised is the sum over rows of the Student loss nu log(1 + (r / s)^2 / nu) of the log residuals r of TPOT and TTFT,
plus the squared distances of the coefficients from their starts and of the corrections from zero, each in its own
spread. Fitting both together is what keeps the coefficients from bending towards one stack that was measured often: its
correction takes up what is its own. Where corrections have heavy tails (`TAILS`) their squared distances grow like the
rows' loss, so that one stack that is far off for reasons of its own does not bend them either. Rows of one deployment
count less than their number (`weights`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.model.stacks import Design

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Fit", "Target", "minimise", "weights"]

NU = 1.5
"""Degrees of freedom of the loss: low, as runs with hidden settings are far off."""
SCALES = {"tpot": 0.06, "ttft": 0.2}
"""Log residual that counts as one: twice to three times the repeats' noise."""
TAILS = {"tpot": 2.0, "ttft": math.inf}
"""Degrees of freedom of the corrections before any data; infinite: normal."""
ALIKE = 0.1
"""How much rows of one deployment share what they are off by."""
_STEP = 1e-4
_SETTLED = 1e-5
"""The fit ends where a round from fresh slopes gains less of the loss: along flat directions it creeps."""


@dataclass(frozen=True, slots=True)
class Target:
    """One metric: measured logarithms (NaN = none), its corrections and its scale."""

    measured: np.ndarray
    design: Design
    scale: float
    tails: float = math.inf
    """Degrees of freedom of the corrections before any data."""

    def far(self, effects: np.ndarray) -> float:
        """How far corrections are from nothing, as a part of the loss."""
        import numpy as np

        far = self.design.penalty * effects**2
        return float(np.sum(far if self.tails == math.inf else self.tails * np.log1p(far / self.tails)))

    def penalty(self, effects: np.ndarray) -> np.ndarray:
        """The squared distances' weights that have the same slope there: less for a correction that is far off."""
        penalty = self.design.penalty
        return penalty if self.tails == math.inf else penalty / (1.0 + penalty * effects**2 / self.tails)


@dataclass(frozen=True, slots=True)
class Fit:
    """Where the fit ended."""

    theta: np.ndarray
    """Logarithms of the coefficients."""
    effects: tuple[np.ndarray, ...]
    """Corrections of each target's design."""
    loss: float
    n_rounds: int
    spread: np.ndarray
    """Standard deviation of the log coefficients, from the curvature at the end."""
    slopes: tuple[np.ndarray, ...]
    """Of each target's log metric, a column for each log coefficient; taken near the end."""


def weights(deployments: Sequence[str]) -> np.ndarray:
    """Weight of each row: n rows of one deployment count as n / (1 + 0.1 (n - 1))."""
    import numpy as np

    count = dict.fromkeys(deployments, 0)
    for name in deployments:
        count[name] += 1
    return np.array([1.0 / (1.0 + (count[name] - 1) * ALIKE) for name in deployments])


def minimise(
    predict: Callable[[np.ndarray], Sequence[np.ndarray]],
    targets: Sequence[Target],
    weight: np.ndarray,
    *,
    prior: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    start: np.ndarray | None = None,
    slopes: Sequence[np.ndarray] | None = None,
    most_rounds: int = 100,
    most_fresh: int = 25,
    nu: float = NU,
    tick: Callable[[int, float], None] = lambda _round, _loss: None,
) -> Fit:
    """Fits log coefficients within their range; `predict` gives the log metrics of every row for them.

    `weight` is zero where a row is left out, `nu` the degrees of freedom of the loss; `prior` is start,
    low, high (logarithms) and spread. Slopes serve for as long as they bring gain, and are then taken anew, at most
    `most_fresh` times; `slopes` are those of another fit to begin with.
    """
    import numpy as np

    centre, low, high, spread = prior
    theta = centre.copy() if start is None else start.copy()
    used = [(weight > 0) & np.isfinite(target.measured) for target in targets]
    rows = [np.where(mask)[0] for mask in used]
    matrices = [target.design.matrix[at] for target, at in zip(targets, rows, strict=True)]
    effects = [np.zeros(target.design.matrix.shape[1]) for target in targets]
    sizes = [len(theta), *(len(e) for e in effects)]
    starts = np.cumsum([0, *sizes])

    def residuals(predicted: Sequence[np.ndarray], current: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [
            (predicted[k][at] + matrices[k] @ current[k] - targets[k].measured[at]) / targets[k].scale
            for k, at in enumerate(rows)
        ]

    def loss_of(parts: Sequence[np.ndarray], at: np.ndarray, current: Sequence[np.ndarray]) -> float:
        total = float(np.sum(((at - centre) / spread) ** 2))
        for k, part in enumerate(parts):
            total += float(nu * np.sum(weight[rows[k]] * np.log1p(part**2 / nu)))
            total += targets[k].far(current[k])
        return total

    predicted = predict(theta)
    parts = residuals(predicted, effects)
    loss, damping, done = loss_of(parts, theta, effects), 1e-2, 0
    index = [np.r_[0 : sizes[0], starts[k + 1] : starts[k + 2]] for k in range(len(rows))]
    own = np.arange(sizes[0])

    def curvature() -> tuple[np.ndarray, np.ndarray]:
        penalty = np.concatenate([spread**-2.0, *(t.penalty(e) for t, e in zip(targets, effects, strict=True))])
        matrix, pull = np.diag(penalty), penalty * np.concatenate([theta - centre, *effects])
        for k, at in enumerate(rows):
            jacobian = np.hstack([slope[k][at], matrices[k]]) / targets[k].scale
            robust = weight[at] / (1.0 + parts[k] ** 2 / nu)
            matrix[np.ix_(index[k], index[k])] += jacobian.T @ (jacobian * robust[:, None])
            pull[index[k]] += jacobian.T @ (robust * parts[k])
        return matrix, pull

    is_fresh, n_fresh = slopes is None, 0
    slope: Sequence[np.ndarray] = slopes or ()
    for done in range(1, most_rounds + 1):
        if is_fresh:
            slope, n_fresh = slopes_at(predict, theta, predicted, high), n_fresh + 1
        matrix, pull = curvature()
        gain = 0.0
        for _ in range(8):
            damped = matrix.copy()
            damped[own, own] *= 1.0 + damping
            step = np.linalg.solve(damped, -pull)
            new_theta = np.clip(theta + step[: sizes[0]], low, high)
            new_effects = [e + step[starts[k + 1] : starts[k + 2]] for k, e in enumerate(effects)]
            new_predicted = predict(new_theta)
            new_parts = residuals(new_predicted, new_effects)
            new_loss = loss_of(new_parts, new_theta, new_effects)
            if new_loss < loss:
                gain = loss - new_loss
                theta, effects, predicted, parts, loss = new_theta, new_effects, new_predicted, new_parts, new_loss
                damping = max(damping / 5.0, 1e-6)
                break
            damping *= 5.0
        tick(done, loss)
        is_small = gain < loss * _SETTLED
        if is_small and (is_fresh or n_fresh >= most_fresh):
            break
        is_fresh = is_small
        damping = 1e-2 if is_fresh else damping
    spread_now = np.sqrt(np.diag(np.linalg.inv(curvature()[0]))[: sizes[0]])
    return Fit(theta, tuple(effects), loss, done, spread_now, tuple(slope))


def slopes_at(
    predict: Callable[[np.ndarray], Sequence[np.ndarray]],
    theta: np.ndarray,
    predicted: Sequence[np.ndarray],
    high: np.ndarray,
) -> list[np.ndarray]:
    """How each log metric of every row moves with each log coefficient, at most to its end of the range."""
    import numpy as np

    slopes = [np.empty((len(one), len(theta))) for one in predicted]
    for j in range(len(theta)):
        moved = theta.copy()
        step = _STEP if theta[j] + _STEP <= high[j] else -_STEP
        moved[j] += step
        for slope, other, here in zip(slopes, predict(moved), predicted, strict=True):
            slope[:, j] = (other - here) / step
    return slopes

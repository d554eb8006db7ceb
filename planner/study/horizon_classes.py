"""A class of traffic hour by hour: what its requests get of all the deployments that serve it, by the shares they take.

A request gets the latency of the deployment that it comes to. So the distribution of the class is the mixture of the
deployments' own by their shares; each of those runs straight between its known quantiles, from 0 to the least of them,
and beyond the greatest as before it. A quantile of the mixture lies between the deployments' own, and is the same as
theirs where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.aggregate.latency import METRICS, QUANTILES
from planner.study.walk import OF_PHASE, StageHours

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from planner.scenario import Scenario

    Array = NDArray[np.float64]

_HALVINGS = 40
_NONE_FRAC = 1e-6
"""A share so small is none."""
_LEVELS = {label: quantile for label, quantile in QUANTILES.items() if quantile is not None}


@dataclass(frozen=True, slots=True)
class ClassHours:
    """A class hour by hour."""

    latencies: Mapping[str, Array]
    attainment_frac: Array
    margin_frac: Array
    """The least spare of its limits, as a share of the limit; nan where one has no value."""
    is_met: NDArray[np.bool_]


def class_hours(scenario: Scenario, hours: Sequence[StageHours], inside: NDArray[np.bool_], name: str) -> ClassHours:
    """The latencies and limits of a class in each hour; `inside` are those that no surface is beyond."""
    import numpy as np

    mine = [one for one in hours if name in one.shares and (one.shares[name] > _NONE_FRAC).any()]
    none = np.full(inside.size, np.nan)
    latencies: dict[str, Array] = {}
    for metric in METRICS:
        some = [one for one in mine if metric in OF_PHASE[one.stage.surface.phase]]
        if some:
            latencies |= _mixed(some, name, metric)
    attained = none
    if mine and all(one.stage.surface.phase == "mixed" for one in mine):
        attained = _mean([one.latencies[name]["attainment_frac"] for one in mine], _weights(mine, name))
    spec = scenario.traffic[name].slo
    if spec is None:
        return ClassHours(latencies, attained, none, inside)
    limits = scenario.slo[spec]
    margins = [1 - latencies.get(f"{lim.metric}_s.{lim.label}", none) / lim.limit_s for lim in limits.limits]
    asked = limits.attainment_frac
    if asked is not None and not np.isnan(attained).all():
        margins.append(1 - (1 - attained) / (1 - asked) if asked < 1 else attained - 1)
    margin = np.min(margins, axis=0)
    return ClassHours(latencies, attained, margin, (margin >= 0) & inside)


def _weights(some: Sequence[StageHours], name: str) -> Array:
    """The shares of the stages, of all that they serve together: a row a stage."""
    import numpy as np

    found = np.array([np.where(one.shares[name] > _NONE_FRAC, one.shares[name], 0.0) for one in some])
    total = found.sum(axis=0)
    made: Array = np.divide(found, total, out=np.zeros_like(found), where=total > 0)
    return made


def _mixed(some: Sequence[StageHours], name: str, metric: str) -> dict[str, Array]:
    """Mean and quantiles of a metric over the stages; nan where one that serves some has none."""
    import numpy as np

    keys = {label: f"{metric}_s.{label}" for label in QUANTILES}
    if len(some) == 1:
        return {key: some[0].latencies[name][key] for key in keys.values()}
    weights = _weights(some, name)
    found = {keys["mean"]: _mean([one.latencies[name][keys["mean"]] for one in some], weights)}
    known = np.array([[one.latencies[name][keys[label]] for label in _LEVELS] for one in some])
    known = np.maximum.accumulate(known, axis=1)
    lacking = (np.isnan(known).any(axis=1) & (weights > 0)).any(axis=0)
    known = np.where(np.isnan(known), 0.0, known)
    for ix, (label, quantile) in enumerate(_LEVELS.items()):
        found[keys[label]] = np.where(lacking, np.nan, _quantile(known, weights, ix, quantile))
    return found


def _mean(values: Sequence[Array], weights: Array) -> Array:
    """The mean by weight; what has no weight counts for nothing, also where it is nan."""
    import numpy as np

    parts = [np.where(weight > 0, weight * value, 0.0) for value, weight in zip(values, weights, strict=True)]
    made: Array = sum(parts[1:], start=parts[0])
    return made


def _quantile(known: Array, weights: Array, ix: int, quantile: float) -> Array:
    """Where the mixture passes a quantile, by halving between the least and the greatest of the stages' own.

    `known` are quantiles by stage, level and hour.
    """
    import numpy as np

    own = known[:, ix]
    low = np.where(weights > 0, own, np.inf).min(axis=0)
    high = np.where(weights > 0, own, 0.0).max(axis=0)
    low = np.minimum(low, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = sum(
            (weight * _below(stage, middle) for weight, stage in zip(weights, known, strict=True)),
            start=np.zeros_like(middle),
        )
        is_less = below < quantile
        low, high = np.where(is_less, middle, low), np.where(is_less, high, middle)
    made: Array = high
    return made


def _below(stage: Array, value: Array) -> Array:
    """The share of a stage's requests below a value in each hour."""
    import numpy as np

    found = np.zeros_like(value)
    before, before_frac = np.zeros_like(value), 0.0
    fracs = [*_LEVELS.values(), 1.0]
    end = stage[-1] + (stage[-1] - stage[-2]) * ((1.0 - fracs[-2]) / (fracs[-2] - fracs[-3]))
    for at, frac in zip([*stage, end], fracs, strict=True):
        width = at - before
        part = np.divide(value - before, width, out=(value >= at).astype(float), where=width > 0)
        found = found + (frac - before_frac) * np.clip(part, 0.0, 1.0)
        before, before_frac = at, frac
    return found

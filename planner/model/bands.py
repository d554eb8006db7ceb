"""Error bands from residuals of points that a fit did not see.

A residual is log(measured / predicted). A regime is mode x concurrency up to 16, up to 128, or more; its 80 % band is
the middle `SHARE` of the residuals of new deployments. What else is new of a row adds to
either side as independent errors add, on a log scale: side = sqrt(regime^2 + extra^2). The extra of a novelty is taken
from the folds that leave it out: with r their residuals and h their sides of a band made without their fold, it is the
root of the quantile of r^2 - h^2 that, taken in the same way without each fold, holds `SHARE` of it (`_level`).
What can be new:

- `deployment`: its stack (engine, model, precision, mode) was measured on this chip;
- `stack`: chip, model and engine were measured, but not together;
- `chip`, `model`: not measured at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.model.folds import KINDS, Fold
from planner.model.stacks import on_chip

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NEW", "RANGES", "Residuals", "coverage", "extras", "left_out", "novelty", "range_of", "regimes", "widened"]

METRICS = ("tpot", "ttft")

NEW = ("deployment", "stack", "chip", "model")
"""What of a row the calibration has not seen."""
RANGES = (16, 128, None)
"""Upper ends of the concurrency ranges."""
QUANTILES = (0.1, 0.9)
"""Ends of the range of residuals that a table of them gives."""
SHARE: Mapping[str, float] = {"tpot": 0.77, "ttft": 0.78}
"""What of the folds' residuals a band holds, so that it holds 80 % or more of one more deployment, chip or model: a
fold takes up to two fifths of the points with it (`docs/explanation/validation.md`).
"""
_LEAST = 30
"""A regime with fewer residuals takes the band of all its modes and ranges."""
_NARROWEST = 0.01
"""A side of a band is at least this wide, as a logarithm."""
_MOST = 0.99

Residuals = Mapping[tuple[str, str], "np.ndarray"]
"""By kind of fold and metric, a value for each row; NaN where there is none."""


def range_of(concurrency: float) -> int:
    """Index of the concurrency range."""
    return next(i for i, end in enumerate(RANGES) if end is None or concurrency <= end)


def novelty(rows: Sequence[Mapping[str, Any]], fits: Sequence[Fold]) -> dict[str, np.ndarray]:
    """For each kind of fold what is new of each row to the fit that left it out; an index into `NEW`."""
    import numpy as np

    labels = np.array([on_chip(row) for row in rows])
    found: dict[str, np.ndarray] = {}
    for fold in fits:
        new = found.setdefault(fold.kind, np.zeros(len(rows), dtype=int))
        if fold.kind == "deployment":
            new[fold.is_out] = ~np.isin(labels[fold.is_out], labels[~fold.is_out])
        else:
            new[fold.is_out] = NEW.index(fold.kind)
    return found


def regimes(
    rows: Sequence[Mapping[str, Any]],
    residuals: Residuals,
    fits: Sequence[Fold],
    metrics: Sequence[str] = METRICS,
) -> list[dict[str, Any]]:
    """The band of every metric and regime where only a deployment is new, as factors on the prediction."""
    import numpy as np

    found = []
    for metric in metrics:
        judged = _Judged(rows, residuals, fits, metric)
        for (mode, place), (low, high) in judged.regimes(np.ones(len(rows), dtype=bool)).items():
            ends = {"low": round(float(np.exp(low)), 4), "high": round(float(np.exp(high)), 4)}
            found.append({"metric": metric, "mode": mode, "concurrency_to": RANGES[place], **ends})
    return found


def left_out(
    rows: Sequence[Mapping[str, Any]], residuals: Residuals, metrics: Sequence[str] = METRICS
) -> list[dict[str, Any]]:
    """The range of the residuals themselves, by kind of fold, metric and regime, as factors on the prediction."""
    import numpy as np

    mode = np.array([row["mode"] for row in rows])
    place = np.array([range_of(row["concurrency"]) for row in rows])
    found = []
    for metric in metrics:
        for kind in KINDS:
            off = residuals[kind, metric]
            for name in ("agg", "disagg"):
                for ix, end in enumerate(RANGES):
                    inside = _enough(off, [(mode == name) & (place == ix), mode == name])
                    low, middle, high = np.quantile(off[inside], (QUANTILES[0], 0.5, QUANTILES[1]))
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


def _enough(values: np.ndarray, among: Sequence[np.ndarray]) -> np.ndarray:
    """Which values to take: those of the first of `among` that has enough of them, else all."""
    import numpy as np

    is_known = np.isfinite(values)
    return next((at for one in among if (at := is_known & one).sum() >= _LEAST), is_known)


def extras(
    rows: Sequence[Mapping[str, Any]],
    residuals: Residuals,
    fits: Sequence[Fold],
    metrics: Sequence[str] = METRICS,
) -> list[dict[str, Any]]:
    """What each novelty adds to a side of a band, as a logarithm, and how many residuals say so."""
    found = []
    for metric in metrics:
        judged = _Judged(rows, residuals, fits, metric)
        for new, name in enumerate(NEW):
            extra = round(math.sqrt(judged.extra2(new)), 4)
            found.append({"metric": metric, "new": name, "extra": extra, "n": int(judged.is_of(new).sum())})
    return found


def widened(band: tuple[float, float], by: Iterable[float]) -> tuple[float, float]:
    """A band with its sides lengthened by independent errors, as logarithms.

    >>> [round(end, 4) for end in widened((math.exp(-0.3), math.exp(0.4)), [0.4, 0.0])]
    [0.6065, 1.7607]
    """
    more = sum(one * one for one in by)
    low, high = (math.sqrt(math.log(end) ** 2 + more) for end in band)
    return math.exp(-low), math.exp(high)


def coverage(rows: Sequence[Mapping[str, Any]], residuals: Residuals, fits: Sequence[Fold]) -> list[dict[str, Any]]:
    """Share of rows whose residual is inside a band that was made wholly without their fold: of each novelty, in all
    and by fold.
    """
    import numpy as np

    found = []
    for metric in METRICS:
        judged = _Judged(rows, residuals, fits, metric)
        for new, name in enumerate(NEW):
            inside: dict[str, np.ndarray] = {}
            for ix, fold in enumerate(fits):
                at = judged.is_of(new) & (judged.fold == ix)
                if at.any():
                    inside[fold.name] = judged.excess[at] <= judged.extra2(new, without=ix)
            named = inside if name in {"chip", "model"} else {}
            for one, values in [("all", np.concatenate([*inside.values(), np.array([])])), *sorted(named.items())]:
                share = round(float(np.mean(values)), 4) if len(values) else None
                found.append({"metric": metric, "new": name, "fold": one, "n": len(values), "in_band_frac": share})
    return found


class _Judged:
    """One metric's residuals on folds, each with r^2 - h^2, where h is its side of a regime's band without its fold."""

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], residuals: Residuals, fits: Sequence[Fold], metric: str
    ) -> None:
        import numpy as np

        self.mode = np.array([row["mode"] for row in rows])
        self.place = np.array([range_of(row["concurrency"]) for row in rows])
        self.known = residuals["deployment", metric]
        self.share = SHARE[metric]
        new = novelty(rows, fits)
        # A row has one residual of each kind of fold: they are laid end to end.
        self.fold, self.new, self.excess = (np.array([], dtype=kind) for kind in (int, int, float))
        for ix, fold in enumerate(fits):
            off = residuals[fold.kind, metric]
            at = np.where(fold.is_out & np.isfinite(off))[0]
            ends = self.regimes(~fold.is_out)
            sides = np.array([ends[self.mode[i], self.place[i]][int(off[i] > 0)] for i in at]).reshape(-1)
            self.fold = np.concatenate([self.fold, np.full(len(at), ix)])
            self.new = np.concatenate([self.new, new[fold.kind][at]])
            self.excess = np.concatenate([self.excess, off[at] ** 2 - sides**2])

    def regimes(self, inside: np.ndarray) -> dict[tuple[str, int], tuple[float, float]]:
        """The logarithms of the ends of each regime's band, from the residuals of new deployments among `inside`."""
        import numpy as np

        known = np.where(inside, self.known, np.nan)
        found = {}
        for mode in ("agg", "disagg"):
            for place in range(len(RANGES)):
                at = _enough(known, [(self.mode == mode) & (self.place == place), self.mode == mode])
                low, high = np.quantile(self.known[at], (0.5 - 0.5 * self.share, 0.5 + 0.5 * self.share))
                found[mode, place] = (min(float(low), -_NARROWEST), max(float(high), _NARROWEST))
        return found

    def is_of(self, new: int, without: int | None = None) -> np.ndarray:
        """Which residuals are of a novelty, and not of one fold."""
        is_of: np.ndarray = (self.new == new) & (self.fold != (-1 if without is None else without))
        return is_of

    def extra2(self, new: int, without: int | None = None) -> float:
        """The square of what a novelty adds, from all folds but one; of a novelty without residuals, that of the one
        before.
        """
        import numpy as np

        at = self.is_of(new, without)
        if new == 0:
            return 0.0
        if not at.any():
            return self.extra2(new - 1, without)
        level = _level(self.excess[at], self.fold[at], self.share)
        return max(float(np.quantile(self.excess[at], level)), 0.0)


def _level(excess: np.ndarray, fold: np.ndarray, share: float) -> float:
    """The quantile of the excesses of the other folds that holds `share` of each fold's, on average over all.

    Folds differ (a chip or a model is off as a whole), so that a share of all of them would hold less.
    """
    import numpy as np

    names = sorted(set(fold.tolist()))
    if len(names) < 2:
        return share

    def held(level: float) -> float:
        inside = [excess[fold == one] <= np.quantile(excess[fold != one], level) for one in names]
        return float(np.mean(np.concatenate(inside)))

    return _first(held, share)


def _first(held: Callable[[float], float], wanted: float) -> float:
    """The least level, to a thousandth, that holds as much as wanted; the most allowed if none does."""
    low, high = wanted - 0.05, _MOST
    if held(low) >= wanted:
        return low
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if held(middle) >= wanted else (middle, high)
    return high

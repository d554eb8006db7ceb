"""How far off the model may be for a deployment: the 80 % bands of its times, as factors on them.

A deployment has the band of its regime in the calibration, longer for each thing that is new (`bands.py`). The inferred
chip under its own engine has that of the posterior's figures instead: of the time between tokens at low load, and
beyond that the wider of it and of the peak's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.facts.schema import Chip
from planner.model.calibration import GRADES, Calibration
from planner.model.posterior import Posterior
from planner.model.unknowns import CHIP

__all__ = ["Trust", "inferred", "measured", "of"]

_LOW_LOAD = 16


@dataclass(frozen=True, slots=True)
class Trust:
    """Low and high end of the time between tokens and of that to the first, over what the model says; and the grade."""

    tpot: tuple[float, float]
    ttft: tuple[float, float]
    grade: str


def of(chip: Chip, row: Mapping[str, Any]) -> Trust:
    """The bands of a row as points have it: `chip model backend precision mode concurrency` (of a replica here)."""
    from planner.model import calibration, posterior

    if chip.name == CHIP and row["backend"] == chip.engine:
        return _rounded(inferred(row["model"], int(row["concurrency"]), posterior.shipped()))
    return _rounded(measured(row, calibration.shipped()))


def measured(row: Mapping[str, Any], calibration: Calibration) -> Trust:
    """The bands of the calibration."""
    return Trust(calibration.band(row, "tpot"), calibration.band(row, "ttft"), calibration.grade(row))


def inferred(model: str, clients: int, posterior: Posterior) -> Trust:
    """The bands of the inferred chip; a model of no headline has the widest of those that have one."""
    names = sorted({name.split("/")[0] for name in posterior.tree["figures"]})
    low = high = 1.0
    for name in [model] if model in names else names:
        for metric in ("min_tbt", "peak_mixed_tps_per_kw")[: 1 if clients <= _LOW_LOAD else 2]:
            figure = f"{name}/{metric}"
            best, ends = posterior.best.figures[figure], posterior.band(figure)
            down, up = (ends[0] / best, ends[1] / best) if metric == "min_tbt" else (best / ends[1], best / ends[0])
            low, high = min(low, down), max(high, up)
    return Trust((low, high), (low, high), GRADES[1])


def _rounded(trust: Trust) -> Trust:
    """To four digits: the last bits of a logarithm differ between machines."""
    tpot, ttft = ((round(low, 4), round(high, 4)) for low, high in (trust.tpot, trust.ttft))
    return Trust(tpot, ttft, trust.grade)

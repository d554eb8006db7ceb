"""Stack corrections: what a measured stack is off the pooled model by, shrunk towards nothing where little is measured.

A correction is a sum over levels, from what many points share (a serving engine at a precision) to one stack on one
chip. Each level is a line in logarithms of load features; a ridge penalty, the variance that the level is allowed,
does the shrinking. A level that was never measured adds nothing, so an unseen chip or model keeps what its engine,
precision and stack are known for.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["AGE_QUARTERS", "LEVELS", "Design", "Level", "design", "effect", "on_chip"]

"""The constant, and logarithms of the load centred on the middle of the measured points."""
_CENTRES = {"concurrency": (3.5, 1.5), "input": (7.5, 1.0), "output": (6.8, 1.0), "chips": (1.5, 1.0)}
_DATE_CENTRE, _QUARTER_DAYS, _DATE_ENDS = datetime.date(2026, 1, 1), 90.0, (-3.0, 2.0)
"""Dates count in quarters from the middle of the measured ones, and as the first or last outside of those."""
AGE_QUARTERS = 0.4 * (_DATE_ENDS[1] - _DATE_ENDS[0])
"""Half of the middle 80 % of the measured dates, in quarters."""
_SLOPE_SHARE = 0.6
"""Slopes are allowed this share of their level's spread."""


@dataclass(frozen=True, slots=True)
class Level:
    """Rows that agree in `keys` share one correction."""

    keys: tuple[str, ...]
    features: tuple[str, ...]
    spread: float
    """Standard deviation of the correction, as a logarithm."""


_STACK = ("backend", "model", "precision", "mode")
LEVELS: Mapping[str, tuple[Level, ...]] = {
    "tpot": (
        Level(("backend",), ("date",), 0.1),
        Level(_STACK, ("date",), 0.05),
        Level(("backend", "precision"), ("1", "concurrency"), 0.02),
        Level(("chip",), ("1",), 0.02),
        Level(("backend", "model"), ("1", "concurrency"), 0.05),
        Level(_STACK, ("1", "concurrency", "input", "output", "chips"), 0.1),
        Level((*_STACK, "chip"), ("1", "concurrency", "input", "output"), 0.1),
    ),
    "ttft": (
        Level(("backend", "mode", "harness"), ("1", "concurrency", "input", "output"), 0.2),
        Level(("backend", "precision"), ("1", "concurrency"), 0.04),
        Level(("chip",), ("1",), 0.04),
        Level(("backend", "model"), ("1", "concurrency"), 0.1),
        Level(_STACK, ("1", "concurrency", "input", "output", "chips"), 0.25),
        Level((*_STACK, "chip"), ("1", "concurrency", "input", "output"), 0.2),
    ),
}


def label(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    """What rows of one correction have in common, in words: `trtllm/fp4`."""
    return "/".join(str(row[key] or ("inferencex" if key == "harness" else "-")) for key in keys)


def on_chip(row: Mapping[str, Any]) -> str:
    """The stack of a row on its chip: `trtllm/gpt-oss-120b/fp4/agg/b200-sxm`; what the row does not say is `-`."""
    return "/".join(str(row.get(key) or "-") for key in (*_STACK, "chip"))


def features(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The load features of each row."""
    import numpy as np

    def centred(name: str, values: list[float]) -> np.ndarray:
        centre, scale = _CENTRES[name]
        # A load far outside what was measured is corrected like the farthest that was.
        clipped: np.ndarray = np.clip((np.log(np.array(values)) - centre) / scale, -3.0, 3.0)
        return clipped

    one = [max(float(row["chips"] or 8.0), 1.0) if row["mode"] == "agg" else 8.0 for row in rows]
    return {
        "1": np.ones(len(rows)),
        "concurrency": centred("concurrency", [row["concurrency"] for row in rows]),
        "input": centred("input", [row["isl_mean"] for row in rows]),
        "output": centred("output", [row["osl_mean"] for row in rows]),
        "chips": centred("chips", one),
        "date": np.array([_quarters(row.get("measured_on")) for row in rows]),
    }


def _quarters(day: str | None) -> float:
    """Quarters from the middle of the measured dates; a row without a date is there."""
    if not day:
        return 0.0
    quarters = (datetime.datetime.fromisoformat(day).date() - _DATE_CENTRE).days / _QUARTER_DAYS
    return min(max(quarters, _DATE_ENDS[0]), _DATE_ENDS[1])


@dataclass(frozen=True, slots=True)
class Design:
    """The corrections of a set of rows as a linear model."""

    matrix: np.ndarray
    penalty: np.ndarray
    names: tuple[tuple[int, str, str], ...]
    """Level index, label and feature of each column."""


def design(
    rows: Sequence[Mapping[str, Any]], levels: Sequence[Level], more: Mapping[str, np.ndarray] | None = None
) -> Design:
    """Columns for every level, label and feature among `rows`, in sorted order; `more` has features beside the load."""
    import numpy as np

    by_feature = {**features(rows), **(more or {})}
    columns, penalty, names = [], [], []
    for level_ix, level in enumerate(levels):
        labels = [label(row, level.keys) for row in rows]
        for name in sorted(set(labels)):
            mask = np.array([one == name for one in labels], dtype=float)
            for feature in level.features:
                spread = level.spread * (1.0 if feature == "1" else _SLOPE_SHARE)
                columns.append(mask * by_feature[feature])
                penalty.append(1.0 / spread**2)
                names.append((level_ix, name, feature))
    matrix = np.array(columns).T if columns else np.zeros((len(rows), 0))
    return Design(np.ascontiguousarray(matrix), np.array(penalty), tuple(names))


def effect(
    rows: Sequence[Mapping[str, Any]],
    levels: Sequence[Level],
    known: Sequence[Mapping[str, Mapping[str, float]]],
    more: Mapping[str, np.ndarray] | None = None,
) -> np.ndarray:
    """The logarithm of the correction of each row; `known` has for each level label -> feature -> value, `more` has
    features beside the load.
    """
    import numpy as np

    by_feature = {**features(rows), **(more or {})}
    total = np.zeros(len(rows))
    for level, table in zip(levels, known, strict=True):
        labels = [label(row, level.keys) for row in rows]
        for feature in level.features:
            values = np.array([table.get(one, {}).get(feature, 0.0) for one in labels])
            total += values * by_feature[feature]
    return total

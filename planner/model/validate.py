"""`planner validate`: predictions for points that were measured, or are to be, and how far off they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.model import accuracy, bands
from planner.model.calibration import Calibration, Prediction
from planner.model.energy import measured_of
from planner.model.points import Points

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["PointsCheck", "check_energy", "check_points", "cross_validated"]

COLUMNS = ("ttft_s", "ttft_low_s", "ttft_high_s", "tpot_s", "tpot_low_s", "tpot_high_s")
"""Of the table of predictions, beside `point`, `grade` and `infeasible_reason`."""
_BY = {"mode": "mode", "engine": "backend", "chip": "chip", "model": "model", "concurrency": ""}


@dataclass(frozen=True, slots=True)
class PointsCheck:
    """A prediction for each row, and what the errors come to where there is something to compare with."""

    table: pl.DataFrame
    result: dict[str, Any]


def check_points(points: Points, calibration: Calibration) -> PointsCheck:
    """Predicts every row of `points`, in their order.

    Errors count every row with a measured value and a prediction; a TPOT at one output token does not exist.
    """
    import numpy as np
    import polars as pl

    found = calibration.predict(points)
    names = [str(row["point"] if row["point"] is not None else i) for i, row in enumerate(points.rows)]
    columns: dict[str, Any] = {"point": names}
    for name in COLUMNS:
        columns[name] = pl.Series(found.values[name], dtype=pl.Float64, nan_to_null=True)
    columns["grade"] = found.grades
    columns["infeasible_reason"] = pl.Series([reason or None for reason in found.reasons], dtype=pl.Utf8)
    measured = {
        "ttft": points.numbers("ttft_ms") / 1e3,
        "tpot": np.where(points.numbers("osl_mean") > 1.0, points.numbers("tpot_ms") / 1e3, np.nan),
    }
    everything = np.ones(len(points.rows), dtype=bool)
    result: dict[str, Any] = {
        "rows": len(points.rows),
        "predicted": int(np.isfinite(found.values["tpot_s"]).sum()),
        "infeasible": sum(bool(reason) for reason in found.reasons),
        "tpot": summary(found, measured["tpot"], "tpot", everything),
        "ttft": summary(found, measured["ttft"], "ttft", everything),
        "by": _by(points, found, measured),
    }
    return PointsCheck(pl.DataFrame(columns), result)


ENERGY = ("chip_w", "j_per_output_token", "itl_p50_s")


def check_energy(points: Points, calibration: Calibration) -> PointsCheck:
    """Mean power of a chip, energy per output token and median gap of every energy row, in their order."""
    import numpy as np
    import polars as pl

    values, reasons = calibration.energy().predict(points, calibration.engines, calibration.habits)
    measured = measured_of(points)
    columns: dict[str, Any] = {"point": [row["point"] for row in points.rows]}
    known = calibration.tree["energy"]["known"]
    result: dict[str, Any] = {
        "rows": len(points.rows),
        "predicted": int(np.isfinite(values["chip_w"]).sum()),
        "infeasible": sum(bool(reason) for reason in reasons),
    }
    for name in ENERGY:
        factors = np.array([calibration.energy_band(row, name) for row in points.rows]).reshape(-1, 2)
        stem, unit = name.rsplit("_", 1)
        ends = (f"{stem}_low_{unit}", f"{stem}_high_{unit}")
        for column, data in ((name, values[name]), *zip(ends, (values[name][:, None] * factors).T, strict=True)):
            columns[column] = pl.Series(data, dtype=pl.Float64, nan_to_null=True)
        low, high = values[name] * factors[:, 0], values[name] * factors[:, 1]
        result[name] = _off(values[name], measured[name], low, high)
    columns["grade"] = [
        "estimate" if row["chip"] in known["chip"] and row["model"] in known["model"] else "assumed"
        for row in points.rows
    ]
    columns["infeasible_reason"] = pl.Series([reason or None for reason in reasons], dtype=pl.Utf8)
    return PointsCheck(pl.DataFrame(columns), result)


def summary(found: Prediction, measured: np.ndarray, metric: str, inside: np.ndarray) -> dict[str, Any]:
    """Median and mean of |predicted / measured - 1|, rank correlation, share inside the band; null without rows."""
    import numpy as np

    name = f"{metric}_s"
    at = np.where(inside)[0]
    ends = (found.values[f"{metric}_low_s"][at], found.values[f"{metric}_high_s"][at])
    return _off(found.values[name][at], measured[at], *ends)


def _off(predicted: np.ndarray, measured: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    import numpy as np

    at = np.isfinite(predicted) & np.isfinite(measured) & (measured > 0)
    inside = (measured[at] >= low[at]) & (measured[at] <= high[at])
    return errors_of(predicted, measured) | {"in_band_frac": float(np.mean(inside)) if at.any() else None}


def errors_of(predicted: np.ndarray, measured: np.ndarray) -> dict[str, Any]:
    """Median and mean of |predicted / measured - 1| and the rank correlation; null without pairs."""
    import numpy as np

    at = np.isfinite(predicted) & np.isfinite(measured) & (measured > 0)
    if not at.any():
        return {"n": 0, "median_ape": None, "mape": None, "spearman": None}
    off = np.abs(predicted[at] / measured[at] - 1.0)
    return {
        "n": int(at.sum()),
        "median_ape": float(np.median(off)),
        "mape": float(np.mean(off)),
        "spearman": accuracy.spearman(predicted[at], measured[at]),
    }


def _by(points: Points, found: Prediction, measured: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """The same by mode, engine, chip, model and concurrency range, and for clean rows."""
    import numpy as np

    groups: list[tuple[str, Sequence[str]]] = [("clean", [str(bool(row["clean"])).lower() for row in points.rows])]
    for by, column in _BY.items():
        if column:
            groups.append((by, [str(row[column]) for row in points.rows]))
        else:
            groups.append((by, [_range(row["concurrency"]) for row in points.rows]))
    table = []
    for by, labels in groups:
        column_of = np.array(labels)
        for value in sorted(set(labels)):
            inside = column_of == value
            table.append(
                {
                    "by": by,
                    "value": value,
                    "rows": int(inside.sum()),
                    **{metric: summary(found, measured[metric], metric, inside) for metric in ("tpot", "ttft")},
                }
            )
    return table


def _range(concurrency: float | None) -> str:
    if concurrency is None:
        return "-"
    ends = bands.RANGES
    place = bands.range_of(concurrency)
    if ends[place] is None:
        return f"over {ends[place - 1]}"
    return f"up to {ends[place]}"


def cross_validated(calibration: Calibration) -> list[dict[str, Any]]:
    """The errors that the calibration had on what each of its folds left out, as its file says."""
    return [dict(one) for one in calibration.tree["errors"]]

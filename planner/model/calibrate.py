"""`planner calibrate`: coefficients, stack corrections, bands and errors, from a table of measured points.

Rows that a fit does not use, by name: `doubtful` (marked unclean), `duplicate` (the same settings and the same figures
as an earlier row), `unplaced` (no deployment, it does not fit memory, or its engine is none of those fitted). A TPOT at
one output token does not exist and is not read (`one_token`); its TTFT is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import FactError, Fault
from planner.model import accuracy, bands, best
from planner.model.calibration import Calibration
from planner.model.coefficients import ENGINES, engines_and_habits, flat_names, prior
from planner.model.energy import chip_facts, fit_energy, read_energy
from planner.model.fit import SCALES, TAILS, Fit, Target, minimise, weights
from planner.model.folds import KINDS, Fold, folds
from planner.model.points import MEASURED, Points, read_points, steady
from planner.model.simulated import fit_simulated
from planner.model.stacks import LEVELS, Design, design, on_chip

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Calibrated", "calibrate"]

METRICS = ("tpot", "ttft")
_FOLD_SLOPES = 1
_LEAST_ROWS = 50
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Used:
    """The rows that a fit uses, and how many it does not, by rule."""

    points: Points
    left_out: dict[str, int]
    notes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration as the tree of its file."""

    tree: dict[str, Any]


def usable(points: Points) -> Used:
    """Rows to fit on; the rules are those of the module's text."""
    kept, seen = [], set()
    left_out = {"doubtful": 0, "duplicate": 0, "unplaced": 0, "unmeasured": 0}
    notes = {"one_token": 0}
    for row, ix in zip(points.rows, points.group_ix, strict=True):
        same = tuple(row[name] for name in sorted(row) if name not in {"point", "clean", "measured_on"})
        if not row["clean"]:
            left_out["doubtful"] += 1
        elif same in seen:
            left_out["duplicate"] += 1
        elif ix < 0 or row["backend"] not in ENGINES:
            left_out["unplaced"] += 1
        elif row["ttft_ms"] is None and row["tpot_ms"] is None:
            left_out["unmeasured"] += 1
        elif row["osl_mean"] <= 1.0 and row["tpot_ms"] is not None:
            notes["one_token"] += 1
            kept.append({**row, "tpot_ms": None})
        else:
            kept.append(row)
        seen.add(same)
    from planner.model.points import place

    return Used(place(kept), left_out, notes)


def calibrate(
    path: Path,
    *,
    date: str,
    energy: Path | None = None,
    tick: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> Calibrated:
    """Fits the points of `path`, and the energy points where given, and judges the fits on folds.

    `date` is written into the file. `tick` is told what is being fitted, and how many fits of how many are done.

    Raises:
        FactError: the file cannot be read as points, or has too few of them.
    """
    import numpy as np

    points = read_points(path)
    for row in points.rows:
        for name in MEASURED:
            if row[name] is not None and not row[name] > 0:
                raise FactError(Fault(f"{name} {row[name]:g} is not a time", "leave it empty", file=str(path)))
    used = usable(points)
    rows = used.points.rows
    if len(rows) < _LEAST_ROWS:
        raise FactError(Fault(f"{len(rows)} usable points", f"a fit needs {_LEAST_ROWS}", file=str(path)))
    _name_deployments(rows)
    designs = {metric: design(rows, LEVELS[metric]) for metric in METRICS}
    measured = {metric: np.log(used.points.numbers(f"{metric}_ms") / 1e3) for metric in METRICS}
    targets = [Target(measured[metric], designs[metric], SCALES[metric], TAILS[metric]) for metric in METRICS]
    weight = weights([str(row["deployment"]) for row in rows])

    def predict(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        engines, habits = engines_and_habits(np.exp(theta))
        found, _ = steady(used.points, engines, habits)
        return np.log(found["tpot_s"]), np.log(found["ttft_s"])

    fits = folds(rows)
    n_fits = len(fits) + 1
    tick("all points", 0, n_fits)
    whole = minimise(predict, targets, weight, prior=prior())
    tick("all points", 1, n_fits)

    def fitted(fold: Fold) -> list[np.ndarray]:
        part = minimise(
            predict,
            targets,
            np.where(fold.is_out, 0.0, weight),
            prior=prior(),
            start=whole.theta,
            slopes=whole.slopes,
            most_fresh=_FOLD_SLOPES,
        )
        return [
            target.measured - (one + target.design.matrix @ effect)
            for target, one, effect in zip(targets, predict(part.theta), part.effects, strict=True)
        ]

    residuals = {(kind, metric): np.full(len(rows), np.nan) for kind in KINDS for metric in METRICS}
    with ThreadPoolExecutor(2) as pool:
        for done, (fold, found) in enumerate(zip(fits, pool.map(fitted, fits), strict=True), start=2):
            for metric, values in zip(METRICS, found, strict=True):
                residuals[fold.kind, metric][fold.is_out] = values[fold.is_out]
            tick(f"{fold.kind} {fold.name}", done, n_fits)
    before = dict(
        zip(METRICS, (m - p for m, p in zip(measured.values(), predict(prior()[0]), strict=True)), strict=True)
    )
    tree = _tree(path, used, date, whole, designs, residuals, before, fits)
    tree["best"] = best.measure(path, Calibration(tree))
    engines, habits = engines_and_habits([float(_digits(value)) for value in np.exp(whole.theta)])
    tree["simulated"] = fit_simulated(used.points, engines, tick)
    if energy is not None:
        tree["energy"] = energy_section(energy, engines, habits, tick)
    return Calibrated(tree)


_ENDS = ("value", "low", "high")


def energy_section(
    path: Path,
    engines: Mapping[str, Any],
    habits: Mapping[str, Any],
    tick: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> dict[str, Any]:
    """The part of the file on power and energy, fitted under these engines."""
    import numpy as np

    points = read_energy(path)
    model, residuals = fit_energy(points, engines, habits, tick=tick)
    found: dict[str, Any] = {
        "data": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "n_rows": len(points.rows)},
        "known": {name: sorted({str(row[name]) for row in points.rows}) for name in ("chip", "model")},
        "host_sequence_s": _digits(model.host_sequence_s),
        "draws": {chip: {k: _digits(v) for k, v in draw.items()} for chip, draw in model.draws.items()},
        "chips": {
            chip: {name: dict(zip(_ENDS, map(_digits, ends), strict=True)) for name, ends in draws.items()}
            for chip, draws in chip_facts(points, engines, habits).items()
        },
        "corrections": model.corrections,
        "bands": [],
        "errors": [],
    }
    for kind, by_metric in residuals.items():
        for metric, values in by_metric.items():
            known = values[np.isfinite(values)]
            ape = np.abs(np.exp(-known) - 1.0)
            low, high = np.exp(np.quantile(known, bands.QUANTILES))
            head = {"metric": metric, "new": kind, "n": len(known)}
            found["bands"].append({**head, "low": round(float(low), 4), "high": round(float(high), 4)})
            middle = {"median": round(float(np.median(ape)), 4), "mean": round(float(np.mean(ape)), 4)}
            found["errors"].append({**head, **middle})
    return found


def _name_deployments(rows: list[dict[str, Any]]) -> None:
    """A table without the column `deployment` gets one: what is equal in all settings but lengths and concurrency."""
    for row in rows:
        if row["deployment"] is None:
            row["deployment"] = "/".join(
                str(row[name])
                for name in (
                    "model",
                    "chip",
                    "backend",
                    "precision",
                    "mode",
                    "chips",
                    "attention_dp",
                    "prefill_chips",
                    "decode_chips",
                )
            )


def _tree(
    path: Path,
    used: Used,
    date: str,
    fit: Fit,
    designs: Mapping[str, Design],
    residuals: Mapping[tuple[str, str], np.ndarray],
    before: Mapping[str, np.ndarray],
    fits: Sequence[Fold],
) -> dict[str, Any]:
    """The calibration file: everything that a prediction needs, and how good it is."""
    rows = used.points.rows
    return {
        "schema": "calibration/1",
        "title": "Serving engines, fitted to measured points",
        "made": {"command": "planner calibrate POINTS.csv", "date": date},
        "data": {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "n_rows": sum(used.left_out.values()) + len(rows),
            "n_used": len(rows),
            "left_out": used.left_out,
            "notes": used.notes,
            "n_deployments": len({row["deployment"] for row in rows}),
        },
        "known": {
            "chips": sorted({row["chip"] for row in rows}),
            "models": sorted({row["model"] for row in rows}),
            "engines": sorted({row["backend"] for row in rows}),
            "stacks": sorted({on_chip(row) for row in rows}),
        },
        "coefficients": _coefficients(fit),
        "corrections": {
            metric: _corrections(designs[metric], effects, metric)
            for metric, effects in zip(METRICS, fit.effects, strict=True)
        },
        "bands": bands.regimes(rows, residuals, fits),
        "extras": bands.extras(rows, residuals, fits),
        "left_out": bands.left_out(rows, residuals),
        "coverage": bands.coverage(rows, residuals, fits),
        "errors": accuracy.errors(rows, residuals, before),
    }


def _coefficients(fit: Fit) -> list[dict[str, Any]]:
    import numpy as np

    found = []
    for (coefficient, engine), log, spread in zip(flat_names(), fit.theta, fit.spread, strict=True):
        low, high = np.exp(log - 1.645 * spread), np.exp(log + 1.645 * spread)
        found.append(
            {
                "name": coefficient.name,
                "engine": engine or "all",
                "value": _digits(np.exp(log)),
                "low": _digits(max(low, coefficient.low)),
                "high": _digits(min(high, coefficient.high)),
            }
        )
    return found


def _corrections(design_: Design, effects: np.ndarray, metric: str) -> list[dict[str, dict[str, float]]]:
    """For each level label -> feature -> value; what is nothing to four digits is left out."""
    levels: list[dict[str, dict[str, float]]] = [{} for _ in LEVELS[metric]]
    for (level_ix, name, feature), value in zip(design_.names, effects, strict=True):
        rounded = round(float(value), _DIGITS)
        if rounded != 0.0:
            levels[level_ix].setdefault(name, {})[feature] = rounded
    return levels


def _digits(value: float) -> float:
    return float(f"{value:.5g}")

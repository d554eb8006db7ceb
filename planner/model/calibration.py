"""A calibration as it is shipped: read from its file, and what it predicts for a table of points."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import FactError, Fault
from planner.facts import catalog
from planner.model import bands, vendors
from planner.model.coefficients import engines_and_habits, flat_names
from planner.model.energy import EnergyModel
from planner.model.points import Points, place, steady, whole_row
from planner.model.stacks import AGE_QUARTERS, LEVELS, effect, on_chip

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Calibration", "Prediction", "load", "shipped"]

FILE = catalog.DATA / "calibration" / "serving-points.yaml"
METRICS = ("ttft", "tpot")
GRADES = ("estimate", "assumed")
_UNMEASURED = {"pp": 1, "prefill_pp": 1, "decode_pp": 1, "draft_tokens": 0}
"""Columns of points, and above what no measured point is."""
"""Inside what was measured (chip, model and engine were), and outside."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Row by row: seconds with their 80 % band (NaN without an answer), the grade, and why there is no answer."""

    values: dict[str, np.ndarray]
    """`ttft_s ttft_low_s ttft_high_s tpot_s tpot_low_s tpot_high_s`, and what else the core says of the row."""
    grades: list[str]
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients, corrections, bands and what they were fitted on."""

    tree: Mapping[str, Any]
    _vendors: dict[str, dict[str, vendors.Vendor]] = field(default_factory=dict, compare=False, repr=False)
    """By name and metric, made when first asked for."""

    @property
    def engines(self) -> dict[str, dict[str, Any]]:
        """The engine fields of the core by engine name; `generic` is the mean of the measured ones."""
        return self._parts()[0]

    @property
    def habits(self) -> dict[str, dict[str, Any]]:
        """What scheduling and client add, by engine name."""
        return self._parts()[1]

    def _parts(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        by_key = {(one["name"], one["engine"]): float(one["value"]) for one in self.tree["coefficients"]}
        missing = [
            f"{c.name} of {engine or 'all'}" for c, engine in flat_names() if (c.name, engine or "all") not in by_key
        ]
        if missing:
            raise FactError(Fault(f"the calibration has no {', '.join(missing)}", "calibrate again with this version"))
        return engines_and_habits([by_key[c.name, engine or "all"] for c, engine in flat_names()])

    def predict(self, points: Points) -> Prediction:
        """TTFT and TPOT of each row, corrected for its stack, with the band of its regime."""
        import numpy as np

        values, reasons = self._of_one_vendor(points)
        rows = points.rows
        at = [i for i, ix in enumerate(points.group_ix) if ix >= 0]
        for metric in METRICS:
            factors = np.full((len(rows), 2), np.nan)
            factors[at] = [self.band(rows[i], metric) for i in at]
            off = np.zeros(len(rows))
            off[at] = [self.vendor(vendors.vendor_of(rows[i]), metric).middle for i in at]
            seconds = values[f"{metric}_s"] * np.exp(off)
            values[f"{metric}_s"] = seconds
            values[f"{metric}_low_s"] = seconds * factors[:, 0]
            values[f"{metric}_high_s"] = seconds * factors[:, 1]
        grades = [self.grade(row) if ix >= 0 else GRADES[1] for row, ix in zip(rows, points.group_ix, strict=True)]
        return Prediction(values, grades, reasons)

    def _of_one_vendor(self, points: Points) -> tuple[dict[str, np.ndarray], list[str]]:
        """What a row would take if the chips of every vendor were served as those of the measured points are."""
        import numpy as np

        found, reasons = steady(points, *self._parts())
        at = [i for i, ix in enumerate(points.group_ix) if ix >= 0]
        values = dict(found)
        for metric in METRICS:
            log = np.zeros(len(points.rows))
            log[at] = effect([points.rows[i] for i in at], LEVELS[metric], self.tree["corrections"][metric])
            values[f"{metric}_s"] = found[f"{metric}_s"] * np.exp(log)
        return values, reasons

    def vendor(self, name: str, metric: str) -> vendors.Vendor:
        """What is known of a vendor's chips; one that is not told ('') is taken to be measured."""
        if name not in self._vendors:
            self._vendors[name] = self._vendor(name)
        return self._vendors[name][metric]

    def _vendor(self, name: str) -> dict[str, vendors.Vendor]:
        if not name or name in {vendors.vendor_of({"chip": chip}) for chip in self.tree["known"]["chips"]}:
            return dict.fromkeys(METRICS, vendors.MEASURED)
        published = catalog.load().names("published")
        if name in published:
            return {metric: own for metric, (own, _) in self._published(name).items()}
        # Of several published vendors the one that turned out farthest off stands for one of whom nothing is known.
        told = [self._published(other) for other in published]
        return {metric: max((one[metric][1] for one in told), key=lambda each: each.extra) for metric in METRICS}

    def _published(self, name: str) -> dict[str, tuple[vendors.Vendor, vendors.Vendor]]:
        import numpy as np

        points = place([whole_row(row) for row in vendors.rows_of(name)])
        values, _ = self._of_one_vendor(points)
        off = {metric: np.log(points.numbers(f"{metric}_ms") / 1e3 / values[f"{metric}_s"]) for metric in METRICS}
        ends = {metric: [self._band_of_one_vendor(row, metric) for row in points.rows] for metric in METRICS}
        return vendors.found(points.rows, off, {metric: np.abs(np.log(each)) for metric, each in ends.items()})

    def energy(self) -> EnergyModel:
        """Draws and corrections of power and energy.

        Raises:
            FactError: the calibration was made without energy points.
        """
        part = self.tree.get("energy")
        if part is None:
            raise FactError(
                Fault("the calibration has no energy part", "make one with planner calibrate --energy FILE")
            )
        return EnergyModel(float(part["host_sequence_s"]), part["draws"], part["corrections"])

    @property
    def simulated(self) -> Mapping[str, Any]:
        """Client figures, stack corrections and left-out errors of simulated first tokens.

        A calibration from before there were any has the habits of its steady state, and no corrections.
        """
        part: Mapping[str, Any] = self.tree.get("simulated") or {
            "client": self.habits,
            "corrections": [{} for _ in LEVELS["ttft"]],
            "errors": [],
        }
        return part

    def energy_band(self, row: Mapping[str, Any], metric: str) -> tuple[float, float]:
        """Low and high end of the 80 % band of an energy point, as factors on the prediction.

        A chip whose draw was never measured has the draws of its facts and a band twice as wide on a log scale.
        """
        part = self.tree["energy"]
        kind = "deployment" if row["model"] in part["known"]["model"] else "model"
        wider = 1.0 if row["chip"] in part["known"]["chip"] else 2.0
        for one in part["bands"]:
            if (one["metric"], one["new"]) == (metric, kind):
                return float(one["low"]) ** wider, float(one["high"]) ** wider
        raise FactError(Fault(f"no band for {metric}, new {kind}", "calibrate again"))

    def what_is_new(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Which of chip, model and engine the calibration has not seen; if none, `stack` where they were not measured
        together (at the row's precision and mode), else `deployment`. Pipeline stages and drafts, which no measured
        point has, count as a model that was not seen.
        """
        known = self.tree["known"]
        pairs = (("chip", "chips", "chip"), ("model", "models", "model"), ("engine", "engines", "backend"))
        new = tuple(name for name, table, column in pairs if row[column] not in known[table])
        if "model" not in new and any((row.get(name) or 0) > least for name, least in _UNMEASURED.items()):
            new = (*new, "model")
        return new or (("deployment",) if on_chip(row) in known.get("stacks", ()) else ("stack",))

    def grade(self, row: Mapping[str, Any]) -> str:
        """How well a prediction for such a row is founded."""
        return GRADES[0 if self.what_is_new(row)[0] in {"deployment", "stack"} else 1]

    def age(self, engine: str, metric: str) -> float:
        """What it moves a metric, as a logarithm, that nobody knows when an engine ran: from the middle of the measured
        dates to either end of the middle 80 % of them.
        """
        table = self.tree["corrections"][metric][0].get(engine, {})
        return abs(float(table.get("date", 0.0))) * AGE_QUARTERS

    def band(self, row: Mapping[str, Any], metric: str) -> tuple[float, float]:
        """Low and high end of the 80 % band, as factors on the prediction: that of the row's regime, longer for each
        thing that is new, a vendor among them. An unseen engine counts like an unseen model.
        """
        ends = self._band_of_one_vendor(row, metric)
        extra = self.vendor(vendors.vendor_of(row), metric).extra
        return bands.widened(ends, [extra]) if extra else ends

    def _band_of_one_vendor(self, row: Mapping[str, Any], metric: str) -> tuple[float, float]:
        extra = {one["new"]: float(one["extra"]) for one in self.tree.get("extras", ()) if one["metric"] == metric}
        names = ["model" if name == "engine" else name for name in self.what_is_new(row)]
        end = bands.RANGES[bands.range_of(row["concurrency"])]
        for one in self.tree["bands"]:
            if (one["metric"], one["mode"], one["concurrency_to"]) == (metric, row["mode"], end) and extra:
                return bands.widened((float(one["low"]), float(one["high"])), [extra[name] for name in names])
        raise FactError(Fault(f"no band for {metric}, {row['mode']}, concurrency to {end}", "calibrate again"))


def load(path: Path) -> Calibration:
    """The calibration of a file.

    Raises:
        FactError: it cannot be read, or is not a calibration.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except (OSError, yaml.YAMLError) as error:
        raise FactError(
            Fault(f"cannot read the calibration: {error}", "make one with planner calibrate", file=str(path))
        ) from None
    if not isinstance(tree, dict) or tree.get("schema") != "calibration/1":
        raise FactError(Fault("is not a calibration", "its first line is 'schema: calibration/1'", file=str(path)))
    return Calibration(tree)


@functools.cache
def shipped() -> Calibration:
    """The calibration in the catalogue."""
    return load(FILE)

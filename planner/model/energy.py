"""Measured power and energy: a table of steady serving points, as points of the core, and the fit of a chip's draw.

A row is a server at a batch cap (`docs/explanation/power.md` has the columns). What the table leaves open is settled by
rules that are named here, once:

- `prompt_by_task`: prompts are not recorded; a task has one mean length.
- `batch_cap`: without a mean batch, the cap is the batch.
- `chips_are_true`: the degree of tensor parallelism is the chips over the attention groups, whatever the column says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import FactError
from planner.model.fit import Fit, Target, minimise, weights
from planner.model.folds import folds
from planner.model.points import POOLS, Points, place, steady
from planner.model.stacks import Level, design, effect, features
from planner.model.text_table import text_table, with_numbers

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ENERGY_LEVELS", "EnergyModel", "chip_facts", "draws_of", "fit_energy", "read_energy"]

NEEDED = ("task", "model", "precision", "chip", "chips", "max_num_seqs")
OPTIONAL = (
    "dp",
    "avg_batch",
    "avg_output_tokens",
    "output_tokens_per_s",
    "itl_p50_ms",
    "power_w",
    "j_per_output_token",
)
_TEXTS = ("task", "model", "precision", "chip")
PROMPT_TOKENS = {"lm-arena-chat": 150.0, "gpqa": 250.0, "sourcegraph-fim": 400.0}
OUTPUT_TOKENS = {"lm-arena-chat": 620.0, "gpqa": 5800.0, "sourcegraph-fim": 250.0}
_OTHER_TASK = 200.0, 600.0
_PRECISIONS = {"bfloat16": "bf16", "bf16": "bf16", "fp8": "fp8", "mxfp4": "fp4", "nvfp4": "fp4", "fp4": "fp4"}
ENGINE = "vllm"
KINDS = ("deployment", "model")

_ONE = ("1", "concurrency")
_LOAD = ("concurrency", "concurrency2", "step", "chips")
_LONE = ("lone", "lone_concurrency")
_STACK = ("chip", "model", "task", "precision", "n_chips")
ENERGY_LEVELS: Mapping[str, tuple[Level, ...]] = {
    "step": (
        Level((), _LOAD, 0.25),
        Level(("chip", "kind", "precision"), _ONE, 0.25),
        Level(("task",), _ONE, 0.2),
        Level(("task", "kind", "precision"), ("1",), 0.2),
        Level(("chip", "task"), _ONE, 0.1),
        Level(("chip",), _LONE, 0.5),
    ),
    "itl": (
        Level(("task",), _ONE, 0.1),
        Level(("chip", "task"), _ONE, 0.1),
        Level(("chip", "model", "precision", "n_chips"), _ONE, 0.05),
        Level(_STACK, _ONE, 0.1),
    ),
    "power": (
        Level((), _LOAD, 0.25),
        Level(("kind", "precision"), ("1",), 0.2),
        Level(("task",), ("1",), 0.15),
        Level(("chip",), _LONE, 0.4),
    ),
}
"""Step: a step over the core's. ITL: the median gap over the mean step. Power: the draw over the core's. Of all servers
by the batch, the length of a step (`step`) and the chips; `lone`: long outputs on one chip, which waits for its host.
"""
LONE_TASK = "gpqa"
_STEP_S = 20e-3
"""The step that `step` is a logarithm over."""
NU_POWER = 4.0
"""Degrees of freedom of the loss of draws, which no hidden setting doubles; of the others that of `fit.py`."""
SCALES = {"step": 0.1, "itl": 0.05, "power": 0.05}


def read_energy(path: Path) -> Points:
    """The points of a CSV file, as points of the core.

    Raises:
        FactError: the file cannot be read, a column is missing, or a number is not one.
    """
    table = text_table(path, "energy points", NEEDED, (*NEEDED, *OPTIONAL))
    table = with_numbers(table, path, [name for name in (*NEEDED, *OPTIONAL) if name not in _TEXTS])
    points = place([_row(row, ix) for ix, row in enumerate(table.iter_rows(named=True))])
    for row in points.rows:
        row["kind"] = "mixture" if points.models.get(row["model"], {}).get("moe") else "dense"
    return points


def _row(row: Mapping[str, Any], ix: int) -> dict[str, Any]:
    task, precision = row["task"] or "-", row["precision"] or ""
    chips, dp = row.get("chips"), row.get("dp") or 1.0
    measured = {name: row.get(name) for name in OPTIONAL[3:]}
    return {
        "point": str(ix),
        "deployment": "/".join(str(row[name]) for name in ("task", "model", "precision", "chip", "chips")),
        "model": _model_name(row["model"] or ""),
        "chip": row["chip"],
        "backend": ENGINE,
        "precision": _PRECISIONS.get(precision, precision),
        "mode": "agg",
        "harness": None,
        "task": task,
        "clean": True,
        "isl_mean": PROMPT_TOKENS.get(task, _OTHER_TASK[0]),
        "osl_mean": row.get("avg_output_tokens") or OUTPUT_TOKENS.get(task, _OTHER_TASK[1]),
        "concurrency": row.get("avg_batch") or row.get("max_num_seqs"),
        "chips": chips,
        "n_chips": int(chips or 0),
        "kind": "",
        "attention_dp": dp,
        "pp": None,
        **dict.fromkeys(POOLS["disagg"]),
        "prefill_workers": None,
        "decode_workers": None,
        **measured,
    }


def _model_name(checkpoint: str) -> str:
    """The catalogue's name of a checkpoint, or the checkpoint where it has none."""
    from planner.facts import catalog

    try:
        return catalog.load().model(checkpoint).name
    except FactError:
        return checkpoint


@dataclass(frozen=True, slots=True)
class EnergyModel:
    """Draws of the chips that were measured, and corrections of step, median gap and draw."""

    host_sequence_s: float
    """In place of the engine's: these servers and their client are not those of the serving points."""
    draws: Mapping[str, Mapping[str, float]]
    """By chip: `active_w`, `low_load_w`, `high_load_w` and `max_w` in place of its facts."""
    corrections: Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]]

    def predict(
        self, points: Points, engines: Mapping[str, Any], habits: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray], list[str]]:
        """`chip_w`, `j_per_output_token` and `itl_p50_s` of each row, and why a row has none."""
        import numpy as np

        found, reasons = steady(points, engines, habits, self.draws)
        more = _features(points.rows, found["tpot_s"])
        logs = {name: effect(points.rows, ENERGY_LEVELS[name], self.corrections[name], more) for name in ENERGY_LEVELS}
        slow = steady(points, with_host(engines, self.host_sequence_s), habits, self.draws)[0]
        step_s = slow["tpot_s"] * np.exp(logs["step"])
        chip_w = found["chip_w"] * np.exp(logs["power"])
        return {
            "chip_w": chip_w,
            "j_per_output_token": chip_w * points.numbers("chips") * step_s / slow["n_seqs"],
            "itl_p50_s": step_s * np.exp(logs["itl"]),
        }, reasons


def _features(rows: Sequence[Mapping[str, Any]], step_s: np.ndarray) -> dict[str, np.ndarray]:
    """What draws are corrected by beside the load; a step that has no length counts as a middle one."""
    import numpy as np

    batch = features(rows)["concurrency"]
    lone = np.array([float(row["task"] == LONE_TASK and row["n_chips"] == 1) for row in rows])
    known = np.where(np.isfinite(step_s), step_s, _STEP_S)
    return {
        "concurrency2": batch**2,
        "step": np.clip(np.log(known / _STEP_S), -3.0, 3.0),
        "lone": lone,
        "lone_concurrency": lone * batch,
    }


def with_host(engines: Mapping[str, Any], host_sequence_s: float) -> dict[str, Any]:
    """The engines, with what the host takes a sequence and step on these servers."""
    return {**engines, ENGINE: {**engines[ENGINE], "host_sequence_s": host_sequence_s}}


def fit_energy(
    points: Points,
    engines: Mapping[str, Any],
    habits: Mapping[str, Any],
    *,
    tick: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> tuple[EnergyModel, dict[str, dict[str, np.ndarray]]]:
    """Draws and corrections fitted to `points`, and log residuals of what each kind of fold left out."""
    import numpy as np

    rows = points.rows
    fits = [fold for fold in folds(rows) if fold.kind in KINDS]
    whole = _fit(points, engines, habits, np.zeros(len(rows), dtype=bool))
    residuals = {kind: {name: np.full(len(rows), np.nan) for name in MEASURED} for kind in KINDS}
    for done, fold in enumerate(fits, start=1):
        model = _fit(points, engines, habits, fold.is_out)
        predicted, _ = model.predict(points, engines, habits)
        for name, values in measured_of(points).items():
            residuals[fold.kind][name][fold.is_out] = np.log(values / predicted[name])[fold.is_out]
        tick(f"energy, {fold.kind} {fold.name}", done, len(fits))
    return whole, residuals


MEASURED = ("chip_w", "j_per_output_token", "itl_p50_s")


def measured_of(points: Points) -> dict[str, np.ndarray]:
    """What was measured, by the names of predictions; NaN where it was not."""
    return {
        "chip_w": points.numbers("power_w") / points.numbers("chips"),
        "j_per_output_token": points.numbers("j_per_output_token"),
        "itl_p50_s": points.numbers("itl_p50_ms") / 1e3,
    }


def _fit(points: Points, engines: Mapping[str, Any], habits: Mapping[str, Any], is_out: np.ndarray) -> EnergyModel:
    """First the pace, with what the host takes a sequence; then the median gap over it; then the draw.

    The draw is fitted at the chip's own pace, without host and corrections: kernels that are slower than they need be
    draw no less for it, and a chip that waits for its host is an exception that the corrections hold.
    """
    import numpy as np

    rows = points.rows
    weight = np.where(is_out, 0.0, weights([row["deployment"] for row in rows]))
    own = steady(points, engines, habits)[0]
    more = _features(rows, own["tpot_s"])
    designs = {name: design(rows, ENERGY_LEVELS[name], more) for name in ENERGY_LEVELS}
    measured = measured_of(points)
    # Sequences over their token rate is the mean step; a table without the batch has its cap.
    step_s = own["n_seqs"] / points.numbers("output_tokens_per_s")

    def pace(theta: np.ndarray) -> tuple[np.ndarray]:
        host = with_host(engines, float(np.exp(theta[0])))
        return (np.log(steady(points, host, habits)[0]["tpot_s"]),)

    def one(name: str, log_measured: np.ndarray) -> tuple[Target]:
        return (Target(log_measured, designs[name], SCALES[name]),)

    host_prior = (np.log([20e-6]), np.log([1e-6]), np.log([2e-4]), np.array([1.0]))
    host = minimise(pace, one("step", np.log(step_s)), weight, prior=host_prior)
    none = (np.zeros(1), np.full(1, -1.0), np.full(1, 1.0), np.full(1, 1e-6))
    gap = minimise(lambda _: (np.log(step_s),), one("itl", np.log(measured["itl_p50_s"])), weight, prior=none)

    drawn = _draw(points, engines, habits, one("power", np.log(measured["chip_w"])), weight)
    effects = {"step": host.effects[0], "itl": gap.effects[0], "power": drawn.effects[0]}
    corrections: dict[str, list[dict[str, dict[str, float]]]] = {}
    for name, levels in ENERGY_LEVELS.items():
        tables: list[dict[str, dict[str, float]]] = [{} for _ in levels]
        for (level_ix, label, feature), value in zip(designs[name].names, effects[name], strict=True):
            if round(float(value), 4) != 0.0:
                tables[level_ix].setdefault(label, {})[feature] = round(float(value), 4)
        corrections[name] = tables
    return EnergyModel(float(np.exp(host.theta[0])), draws_of(points, drawn.theta), corrections)


_SHARES = ((0.3, 0.02, 2.0, 0.5), (0.5, 0.02, 6.0, 0.7), (0.42, 0.2, 0.7, 0.3), (0.93, 0.7, 1.0, 0.05))
"""Start, low, high and spread of a chip's shares of its rated power: of the memory at full rate, of the arithmetic at
full rate, of a step before any work, and of where all of it saturates.
"""


def _draw(
    points: Points,
    engines: Mapping[str, Any],
    habits: Mapping[str, Any],
    target: Sequence[Target],
    weight: np.ndarray,
    *,
    is_fact: bool = False,
) -> Fit:
    """The logarithms of the shares of each chip, in the order of their names, and the corrections of the target."""
    import numpy as np

    def predict(theta: np.ndarray) -> tuple[np.ndarray]:
        return (np.log(steady(points, engines, habits, draws_of(points, theta, is_fact))[0]["chip_w"]),)

    start, low, high, spread = np.tile(np.array(_SHARES).T, len(points.chips))
    prior = np.log(start), np.log(low), np.log(high), spread
    return minimise(predict, target, weight, prior=prior, nu=NU_POWER)


def draws_of(points: Points, theta: np.ndarray, is_fact: bool = False) -> dict[str, dict[str, float]]:
    """The draws of each chip; as facts of it, the high load is one that it bears."""
    import numpy as np

    from planner.facts import catalog

    facts = catalog.load()
    found = {}
    for i, name in enumerate(sorted(points.chips)):
        chip = points.chips[name]
        # Of the data sheet: the chip's own limit may be a fact that was fitted here.
        rated_w = facts.chip(name).tdp_w.number
        memory, compute, active, most = (float(x) * rated_w for x in np.exp(theta[4 * i : 4 * i + 4]))
        low = active + memory * chip["low_load_memory_frac"]
        high = low + compute * chip["high_load_compute_frac"]
        if is_fact:
            low = min(low, most)
            high = min(high, most)
        found[name] = {"active_w": active, "low_load_w": low, "high_load_w": high, "max_w": most}
    return found


def chip_facts(
    points: Points, engines: Mapping[str, Any], habits: Mapping[str, Any]
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """By chip and draw its value with the ends of its 90 % range, fitted without any correction: facts of a chip, for
    runs, which know no stack's corrections.
    """
    import numpy as np

    rows = points.rows
    target = Target(np.log(measured_of(points)["chip_w"]), design(rows, ()), SCALES["power"])
    fit = _draw(points, engines, habits, (target,), weights([row["deployment"] for row in rows]), is_fact=True)
    value = draws_of(points, fit.theta, True)
    ends = [draws_of(points, fit.theta + sign * 1.645 * fit.spread, True) for sign in (-1.0, 1.0)]
    return {
        chip: {name: (draw, ends[0][chip][name], ends[1][chip][name]) for name, draw in draws.items()}
        for chip, draws in value.items()
    }

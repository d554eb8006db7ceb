"""How much less the best measured stack spends on launches and collectives than the pooled model, stack by stack.

A fit over all engines and versions is the middle of them: the best runs of a model have kernels written for it. At one
or two sequences a step is launches, waits and one reading of the weights, so such rows of a table say what share of
the pooled launches a stack needs, and at larger batches the pooled model takes over by itself, as arithmetic and
memory rule there. A row counts if nobody speculated, and if its decode workers are known or cannot matter (at most
two requests in flight).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.model.calibration import Calibration
from planner.model.points import place, read_points

__all__ = ["LAUNCHES", "STACK", "measure", "scaled"]

STACK = ("backend", "model", "precision", "mode")

LAUNCHES = (
    "launch_layer_s",
    "launch_moe_s",
    "launch_mla_s",
    "launch_sparse_s",
    "launch_linear_s",
    "collective_base_s",
    "collective_log_s",
)
_MOST_SEQUENCES = 2.0
_LEAST = 0.1


def scaled(engine: Mapping[str, Any], launch_frac: float) -> dict[str, Any]:
    """The engine with this share of its launches and waits."""
    return {name: value * launch_frac if name in LAUNCHES else value for name, value in engine.items()}


def measure(path: Path, calibration: Calibration) -> list[dict[str, Any]]:
    """For each stack (engine, model, precision, mode) the least share of launches that a measured row shows, 1 without
    such a row, and whether it was ever measured with attention data parallelism.
    """
    import polars as pl

    points = read_points(path)
    table = pl.read_csv(path, infer_schema_length=0)
    texts = table["spec_decode"].to_list() if "spec_decode" in table.columns else ["off"] * table.height
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    lone = []
    for row, text in zip(points.rows, texts, strict=True):
        if text != "off" or row["tpot_ms"] is None or _refused(row):
            continue
        stack = {name: str(row[name]) for name in STACK}
        entry = found.setdefault(tuple(stack.values()), {**stack, "has_attention_dp": False, "launch_frac": 1.0})
        entry["has_attention_dp"] |= bool((row["attention_dp"] or row["decode_attention_dp"] or 1.0) > 1.0)
        known = row["mode"] == "agg" or row["decode_workers"] is not None
        if row["concurrency"] / (row["decode_workers"] or 1.0) <= (_MOST_SEQUENCES if known else 1.0):
            lone.append(row)
    placed = place(lone)
    whole = calibration.predict(placed).values["tpot_s"]
    half = _with_half(calibration).predict(placed).values["tpot_s"]
    for row, all_s, half_s in zip(lone, whole, half, strict=True):
        entry = found[tuple(str(row[name]) for name in STACK)]
        launches_s = 2.0 * float(all_s - half_s)
        if launches_s > 0:
            frac = round(max(1.0 + (row["tpot_ms"] / 1e3 - float(all_s)) / launches_s, _LEAST), 4)
            if frac < entry["launch_frac"]:
                entry |= {"launch_frac": frac, "chip": row["chip"], "tpot_ms": row["tpot_ms"]}
    return [found[key] for key in sorted(found)]


def _refused(row: Mapping[str, Any]) -> bool:
    """A row whose layout is in doubt, unless it is a split one whose workers alone are not known."""
    return not row["clean"] and not (row["mode"] == "disagg" and row["decode_workers"] is None)


def _with_half(calibration: Calibration) -> Calibration:
    halved = [
        {**one, "value": one["value"] * 0.5} if one["name"] in LAUNCHES else one
        for one in calibration.tree["coefficients"]
    ]
    return Calibration({**calibration.tree, "coefficients": halved})

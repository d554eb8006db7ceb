"""`planner validate --points --simulate`: closed loops through the simulator beside the steady state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.model.calibration import Calibration
    from planner.model.points import Points
    from planner.model.validate import PointsCheck

METRICS = ("ttft", "tpot")
SIDES = ("simulated", "steady")


def simulated(
    points: Points, used: Calibration, check: PointsCheck, *, n: int | None, seed: int
) -> tuple[PointsCheck, str]:
    """The check with the simulated values and their errors added, and the text of them."""
    import polars as pl

    from planner.model.simulated_check import check_simulated

    result, values = check_simulated(points, used, used.predict(points), n=n, seed=seed)
    columns = {
        f"simulated_{name}": pl.Series(column, dtype=pl.Float64, nan_to_null=True) for name, column in values.items()
    }
    added = replace(check, table=check.table.with_columns(**columns), result={**check.result, "simulated": result})
    return added, _text(result)


def _text(result: dict[str, Any]) -> str:
    of = "all clean points" if result["sample"] is None else f"a sample of clean points, seed {result['seed']}"
    head = "   ".join(f"{side + ' ' + metric:>15s} {'mean':>7s}" for metric in METRICS for side in SIDES)
    ran = f"{result['simulated']} of {result['rows']} run in closed loop"
    lines = [
        "",
        "",
        f"{ran} ({of}), {result['requests']:,} requests; medians:",
        f"{'':24s} {'rows':>6s}   {head}",
    ]
    everything = {"by": "all", "value": "", "rows": result["simulated"], **{m: result[m] for m in METRICS}}
    pooled = {"by": "without", "value": "stacks", "rows": result["simulated"], **result["pooled"]}
    for one in (everything, *result["by"], pooled):
        cells = "   ".join(
            f"{_share(one[metric][side]['median_ape']):>15s} {_share(one[metric][side]['mape']):>7s}"
            for metric in METRICS
            for side in SIDES
        )
        lines.append(f"{one['by'] + ' ' + one['value']:24s} {one['rows']:6d}   {cells}")
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"

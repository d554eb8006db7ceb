"""How far off the model says that a replay may be: the bands of its calibration, carried through the same run.

A band on the time between tokens is a factor on the steps. Where requests queue, a step that is some percent longer
moves every wait behind it by more, so the run is simulated again with all step times at either end of the band: that of
as many requests as ran at a time. A first token without a queue has a band of its own; the wider end counts. Engines
get faster by the quarter and a run does not say when it was, so its band is wider by what that may move.

The calibration's chips have facts that are agreed on. Where those of this chip have ranges (its memory bandwidth, its
arithmetic, its links), the run is simulated at either end of them too, and the two distances are added as squares.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.facts import catalog
from planner.facts.fact import Fact
from planner.model import bands
from planner.model.calibration import Calibration
from planner.model.replay import ENGINE, METRICS, QUANTILES, Replayed, Run, replay

if TYPE_CHECKING:
    import polars as pl

__all__ = ["band"]

_RATES = ("memory_bytes_per_s", "scale_up_bytes_per_s", "scale_out_bytes_per_s")
_LATENCIES = ("scale_up_latency_s", "scale_out_latency_s")


def band(run: Run, replayed: Replayed, calibration: Calibration) -> dict[str, Any]:
    """The 80 % band of every statistic of a replay without a fit, and whether what was measured is inside.

    `factors` are those of the calibration for this chip, model and engine; `seconds` and `is_inside` have each metric's
    mean and quantiles.
    """
    row = {"chip": run.chip, "model": run.model, "backend": ENGINE, "mode": "agg", "concurrency": _running(replayed)}
    alone = {**row, "concurrency": 1.0}
    factors = {
        metric: bands.widened(calibration.band(at, metric), [calibration.age(ENGINE, metric)])
        for metric, at in (("tpot", row), ("ttft", alone))
    }
    ends = [_statistics(replay(_slower(run, factor)).requests) for factor in factors["tpot"]]
    by_facts = [_statistics(replay(_at_facts(run, end)).requests) for end in ("high", "low")]
    middle, measured = _statistics(replayed.requests), _statistics(run.measured)
    seconds: dict[str, dict[str, list[float] | None]] = {metric: {} for metric in METRICS}
    inside: dict[str, dict[str, bool | None]] = {metric: {} for metric in METRICS}
    for metric in METRICS:
        for name, value in middle[metric].items():
            low, high, real = ends[0][metric][name], ends[1][metric][name], measured[metric][name]
            if value is None or low is None or high is None or real is None:
                seconds[metric][name] = inside[metric][name] = None
                continue
            if metric == "ttft_s":
                low, high = min(low, value * factors["ttft"][0]), max(high, value * factors["ttft"][1])
            low = value / _together(value / low, _over(value, by_facts[0][metric][name]))
            high = value * _together(high / value, _over(by_facts[1][metric][name], value))
            seconds[metric][name] = [low, high]
            inside[metric][name] = low <= real <= high
    new = calibration.what_is_new(row)
    return {
        "new": list(new),
        "running": row["concurrency"],
        "grade": calibration.grade(row),
        "factors": {metric: list(both) for metric, both in factors.items()},
        "seconds": seconds,
        "is_inside": inside,
    }


def _running(replayed: Replayed) -> float:
    """Requests that ran at a time, on average over the run."""
    times = replayed.requests
    held = (times["last_token_s"] - times["scheduled_s"]).sum()
    span = float(times["last_token_s"].max()) - float(times["scheduled_s"].min())  # type: ignore[arg-type]
    return max(float(held) / span, 1.0)


def _slower(run: Run, factor: float) -> Run:
    """The run with every part of a step `factor` times as long."""
    deployment: dict[str, Any] = copy.deepcopy(run.deployment)
    chip, engine = deployment["chip"], deployment["engine"]
    for name in _RATES:
        chip[name] /= factor
    for name in _LATENCIES:
        chip[name] *= factor
    chip["flop_per_s"] = {name: None if rate is None else rate / factor for name, rate in chip["flop_per_s"].items()}
    for name, value in engine.items():
        if name.endswith("_s") and value is not None:
            engine[name] = value * factor
    return replace(run, deployment=deployment)


def _over(a: float | None, b: float | None) -> float:
    return 1.0 if a is None or b is None else a / b


def _together(a: float, b: float) -> float:
    """Two factors, at least 1, whose logarithms are added as squares."""
    return math.exp(math.hypot(math.log(max(a, 1.0)), math.log(max(b, 1.0))))


def _at_facts(run: Run, end: str) -> Run:
    """The run with the chip's rates at one end of what its facts say."""
    chip = catalog.load().chip(run.chip)

    def share(fact: Fact | None) -> float:
        at, used = (None, None) if fact is None else (getattr(fact, end), fact.used)
        return at / used if isinstance(at, float) and isinstance(used, float) else 1.0

    facts = dict(
        zip(_RATES, (chip.memory_bytes_per_s, chip.scale_up.bytes_per_s, chip.scale_out.bytes_per_s), strict=True)
    )
    deployment: dict[str, Any] = copy.deepcopy(run.deployment)
    rates = deployment["chip"]
    rates |= {name: rates[name] * share(fact) for name, fact in facts.items()}
    rates["flop_per_s"] = {
        name: None if rate is None else rate * share(chip.flop_per_s.get(name))
        for name, rate in rates["flop_per_s"].items()
    }
    return replace(run, deployment=deployment)


def _statistics(requests: pl.DataFrame) -> Mapping[str, Mapping[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for metric in METRICS:
        values = requests[metric].drop_nulls()
        found[metric] = {"mean": values.mean()}  # type: ignore[dict-item]
        for q in QUANTILES:
            found[metric][f"p{q}"] = values.quantile(q / 100, interpolation="linear")
    return found

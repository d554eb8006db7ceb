"""A short piece of traffic at a high rate, made of pieces of recorded traces: what a surface's sample needs of an hour.

A trace at scale N is N copies of its span. Where only a minute of them is simulated, drawing all N hours would cost
more than simulating: so N windows of that length are cut, evenly spread, out of as few whole copies as hold them. Each
window is a rotated copy as `scale` makes them, and hours of the trace average out, as an even load asks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.traffic.offered import ClassTraffic, ScenarioTraffic, merged
from planner.traffic.requests import for_class, for_scenario

if TYPE_CHECKING:
    import polars as pl

    from planner.scenario import Scenario
    from planner.scenario.schema import TrafficClass


def short_traffic(scenario: Scenario, seed: int, *, prefixes: bool) -> ScenarioTraffic:
    """The requests of `scenario` as `for_scenario` draws them, those of traces by windows where that is less."""
    length_s = scenario.run.length_s
    assert length_s is not None
    classes = scenario.traffic
    knows_prefixes = any(c.sessions or c.agents or c.prefix_reuse_frac is not None for c in classes.values())
    if (prefixes and knows_prefixes) or not any(c.trace for c in classes.values()):
        return for_scenario(scenario, seed, prefixes=prefixes)
    made: dict[str, ClassTraffic] = {}
    for name, cls in classes.items():
        found = _windows(cls, name=name, seed=seed, scenario=scenario, length_ns=round(length_s * 1e9))
        if found is None:
            return for_scenario(scenario, seed, prefixes=prefixes)
        made[name] = found
    frame, runs = merged(list(made.values()))
    return ScenarioTraffic(frame, round(length_s * 1e9), made, runs, None)


def _windows(cls: TrafficClass, *, name: str, seed: int, scenario: Scenario, length_ns: int) -> ClassTraffic | None:
    """`scale` windows of a trace, superposed; a class without a trace is drawn; None where windows are no gain."""
    if cls.trace is None:
        return for_class(cls, name=name, seed=seed, length_ns=length_ns, base_dir=scenario.base_dir)
    one = cls.model_copy(update={"scale": 1.0, "repeat": False})
    first = for_class(one, name=name, seed=seed, length_ns=None, base_dir=scenario.base_dir, prefixes=True)
    span_ns = first.span_ns
    n_copies = math.ceil(cls.scale)
    if first.runs is not None or length_ns * 2 > span_ns or n_copies < 2:
        return None
    n_whole = min(n_copies, math.ceil(n_copies * length_ns / span_ns) + 1)
    wholes = [first.frame] + [
        for_class(one, name=name, seed=seed + (k << 20), length_ns=None, base_dir=scenario.base_dir).frame
        for k in range(1, n_whole)
    ]
    per_whole = math.ceil(n_copies / n_whole)
    parts = []
    for copy in range(n_copies):
        whole, turn = wholes[copy % n_whole], copy // n_whole
        start_ns = (2 * turn + 1) * span_ns // (2 * per_whole)
        window = _cut(whole, start_ns, length_ns, span_ns)
        if copy == n_copies - 1 and cls.scale < n_copies:
            kept = round(window.height * (cls.scale - (n_copies - 1)))
            window = _every(window, kept)
        parts.append(window)
    import polars as pl

    frame = pl.concat(parts).sort("arrival_ns", maintain_order=True)
    return replace(first, frame=frame, span_ns=length_ns, runs=None, block_tokens=0)


def _cut(whole: pl.DataFrame, start_ns: int, length_ns: int, span_ns: int) -> pl.DataFrame:
    """The rows in [start, start + length), the span wrapped round, on a clock that begins there."""
    import polars as pl

    columns = ["arrival_ns", "input_tokens", "output_tokens"]
    moved = whole.select(((pl.col("arrival_ns").cast(pl.Int64) - start_ns) % span_ns).alias("arrival_ns"), *columns[1:])
    return moved.filter(pl.col("arrival_ns") < length_ns).sort("arrival_ns", maintain_order=True)


def _every(window: pl.DataFrame, kept: int) -> pl.DataFrame:
    """`kept` rows, evenly spread."""
    if kept >= window.height:
        return window
    places = [k * window.height // kept for k in range(kept)] if kept else []
    return window[places]

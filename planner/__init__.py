"""Plan the capacity of fleets that serve large language models.

`load` reads a scenario, `run` simulates it, `Result.metric` reads a figure off the result:

>>> import planner
>>> scenario = planner.load("scenarios/01-one-rack.yaml", sets=["run.length=1 min", "run.warmup=10 s"])
>>> result = planner.run(scenario)
>>> result.variants["base"]["verdict"]
'met'
>>> result.metric("usd_per_h").columns
['variant', 'value', 'low', 'high']

`Result.figure` draws a figure, `Result.save` and `Result.load` write and read its folder, `compare` sets two results
side by side, and `frontier` asks what a chip gives for its latency, power and price. `sweep` answers a scenario at
every point of its axes, `headroom` says how much more load its fleet takes. `plan` finds the racks to buy, as
`planner optimize` does (that name is its package's): its `Result.plan` has the purchases and the proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.model.sweep import Lengths
    from planner.optimize.plan import optimize as plan
    from planner.report.compare import Comparison, compare
    from planner.scenario.load import load
    from planner.scenario.schema import Scenario
    from planner.study.breakeven import BreakEven, break_even
    from planner.study.frontier import Frontier, frontier
    from planner.study.headroom import Headroom, headroom
    from planner.study.run import run
    from planner.study.sweep import Sweep, sweep

__all__ = [
    "BreakEven",
    "Comparison",
    "Frontier",
    "Headroom",
    "Lengths",
    "Result",
    "Scenario",
    "Sweep",
    "break_even",
    "compare",
    "frontier",
    "headroom",
    "load",
    "plan",
    "run",
    "sweep",
]

_HOME = {
    "BreakEven": "planner.study.breakeven",
    "Comparison": "planner.report.compare",
    "Frontier": "planner.study.frontier",
    "Headroom": "planner.study.headroom",
    "Lengths": "planner.model.sweep",
    "Result": "planner.aggregate.result",
    "Scenario": "planner.scenario",
    "Sweep": "planner.study.sweep",
    "break_even": "planner.study.breakeven",
    "compare": "planner.report.compare",
    "frontier": "planner.study.frontier",
    "headroom": "planner.study.headroom",
    "load": "planner.scenario",
    "plan": "planner.optimize.plan:optimize",
    "run": "planner.study.run",
    "sweep": "planner.study.sweep",
}


def __getattr__(name: str) -> Any:
    # Names are imported when they are used: `import planner` costs nothing.
    if name not in _HOME:
        raise AttributeError(f"module 'planner' has no attribute '{name}'")
    import importlib

    module, _, own_name = _HOME[name].partition(":")
    return getattr(importlib.import_module(module), own_name or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

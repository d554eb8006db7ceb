"""Plan the capacity of fleets that serve large language models.

`load` reads a scenario, `run` simulates it, `Result.metric` reads a figure off the result:

>>> import planner
>>> callable(planner.load) and callable(planner.run)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.report.compare import compare
    from planner.scenario.load import load
    from planner.scenario.schema import Scenario
    from planner.study.run import run

__all__ = ["Result", "Scenario", "compare", "load", "run"]

_HOME = {
    "Result": "planner.aggregate.result",
    "compare": "planner.report.compare",
    "Scenario": "planner.scenario",
    "load": "planner.scenario",
    "run": "planner.study.run",
}


def __getattr__(name: str) -> Any:
    # Names are imported when they are used: `import planner` costs nothing.
    if name not in _HOME:
        raise AttributeError(f"module 'planner' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)

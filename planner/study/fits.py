"""Whether a run fits the simulator's clock, and whether a fleet holds any request of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner import units
from planner.errors import Fault, Infeasible, ScenarioError
from planner.fleet.cells import targets
from planner.traffic.schema import kv_tokens

if TYPE_CHECKING:
    import polars as pl

    from planner.fleet.fleet import Fleet
    from planner.scenario import Scenario

MAX_RUN_S = 100 * 366 * 86_400.0
"""The longest run with its drain that the simulator's clock is made for."""


def check_span(scenario: Scenario, length_ns: int) -> None:
    """Refuse a run that is longer than can be simulated, or whose traces end within its warm-up.

    Raises:
        ScenarioError: with the place and the way out.
    """
    run = scenario.run
    length_s = length_ns / 1e9
    if length_s + run.drain_s > MAX_RUN_S:
        what = f"the run lasts {units.format(length_s, 'time')} and drains {units.format(run.drain_s, 'time')}"
        way_out = f"together at most {units.format(MAX_RUN_S, 'time')}: give run.length"
        if run.length_s is None:
            way_out += ", or see with planner trace inspect whether a trace's clock is in another unit"
        raise ScenarioError(_at(scenario, "run.length", what, way_out))
    if run.warmup_s >= length_s:
        what = f"the warm-up is not shorter than the run, which lasts as its trace does: {length_s:,.9g} s"
        way_out = "nothing would be measured: shorten it, or give run.length and repeat: true"
        raise ScenarioError(_at(scenario, "run.warmup", what, way_out))


def _at(scenario: Scenario, path: str, what: str, way_out: str) -> Fault:
    """A fault where the value at `path` was written, if it was."""
    origin = scenario.origins.get(path)
    if origin is None:
        return Fault(what, way_out, path=path)
    return Fault(what, way_out, path=path, file=origin.file, line=origin.line, col=origin.col)


def check_fits(scenario: Scenario, fleet: Fleet, shortest_kv_tokens: Sequence[int]) -> None:
    """Refuse a class of which no request fits any replica that it may use. Raises `Infeasible`.

    `shortest_kv_tokens`, by class, is what the request needs that needs least; 0 without requests.
    """
    faults = []
    for shortest, name in zip(shortest_kv_tokens, scenario.traffic, strict=True):
        longest = longest_sequence(scenario, fleet, name)
        if shortest > longest:
            if longest == _context_tokens(scenario, fleet, name):  # then no more chips would help
                what = f"its shortest request is {shortest:,} tokens long, its model takes {longest:,} at most"
                way_out = "shorten input and output, or choose a model with a longer context"
            else:
                what = (
                    f"its shortest request needs {shortest:,} tokens of KV cache, the largest replica holds {longest:,}"
                )
                way_out = "use more chips a replica, or kv_dtype: fp8"
            faults.append(Fault(what, way_out, path=f"traffic.{name}"))
    if faults:
        raise Infeasible(*faults)


def kv_tokens_needed(requests: pl.DataFrame, class_ix: int) -> pl.Series:
    """KV tokens of each request of a class at its end."""
    import polars as pl

    return requests.filter(pl.col("class_ix") == class_ix).select(kv_tokens().alias("kv_tokens"))["kv_tokens"]


def longest_sequence(scenario: Scenario, fleet: Fleet, name: str) -> int:
    """KV tokens of the longest sequence that any replica of a class holds."""
    return max(
        int(fleet.placed[deployment].plan["max_sequence_tokens"])
        for target in targets(scenario, fleet, name)
        for deployment in target["deployments"]
    )


def _context_tokens(scenario: Scenario, fleet: Fleet, name: str) -> int:
    """Tokens that the model of a class takes at most."""
    ixs = [ix for target in targets(scenario, fleet, name) for ix in target["deployments"]]
    return max(int(fleet.placed[ix].spec["model"]["context_tokens"]) for ix in ixs)

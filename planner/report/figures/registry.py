"""The figures by name: what each is, how it is made, and why some cannot be made from a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, ScenarioError, near
from planner.report.figures import style
from planner.report.figures.live import Time
from planner.report.figures.sheet import Sheet
from planner.report.figures.style import Look, look

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

__all__ = ["FIGURES", "MORE", "SIX", "Drawn", "drawn", "frames", "look_of", "select"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; the module has `frame`, `draw`, `alt` and `sheet`, by these names or with a prefix."""

    name: str
    title: str
    caption: str
    """How it is read, and on which basis it stands."""
    module: str
    prefix: str = ""
    has_time: bool = False
    """Whether it has an axis of time, `time_of_rows` of the module."""

    def part(self, name: str) -> Callable[..., Any]:
        """`frame`, `draw`, `alt` or `sheet`."""
        found: Callable[..., Any] = getattr(import_module(f"planner.report.figures.{self.module}"), self.prefix + name)
        return found


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure of one variant: `chart` is None where the result holds nothing to draw, and `why` says so."""

    figure: Figure
    rows: pl.DataFrame
    chart: Any
    alt: str
    sheet: Sheet
    why: str = ""
    time: Time | None = None
    """Its axis of time, if it has one."""


_SIX = (
    Figure(
        "demand",
        "Demand against capacity",
        "Tokens a second asked of each deployment, and the most it gives in a steady stream inside the tightest time "
        "between tokens that its classes allow, at their mean lengths. Fullest first.",
        "demand",
        has_time=True,
    ),
    Figure(
        "latency",
        "Latency by quantile",
        "All requests that arrived in the measured span, all seeds together. The diamond is the limit: a curve that "
        "passes above it misses. At most five classes, those with the tightest limits.",
        "latency",
    ),
    Figure(
        "operating-point",
        "A user's speed against the fleet's yield",
        "Each deployment's curve from one sequence (right) to its largest batch (left), and where the run was: a "
        "class's median speed, the deployment's output a kW of rated chips. A dot below its curve has room.",
        "operating_point",
    ),
    Figure("cost", "What an hour costs", "Every hour of capacity held, used or not; colours are the pools'.", "cost"),
    Figure(
        "busy",
        "How busy each pool is",
        "Chip time with a step running. A replica with a single request is busy too: room is judged by the first "
        "figure.",
        "busy",
        has_time=True,
    ),
    Figure(
        "sensitivity",
        "What the cost hangs on",
        "The cost of an hour while one fact goes from its low to its high and all else stays. The simulation is held, "
        "unless the run drew samples of its facts (run.samples).",
        "sensitivity",
    ),
)
_MORE = (
    Figure(
        "horizon",
        "How full the pools are over the horizon",
        "The fullest hour of each stretch of days (line) and their mean (foot of the band), over the load up to which "
        "every class holds.",
        "horizon",
        has_time=True,
    ),
    Figure("power", "Power", "At the meter, by pool; a window without work is not drawn.", "over_time", "power_", True),
    Figure("kv", "KV cache in use", "Share of the placed chips' cache, by pool.", "over_time", "kv_", True),
    Figure(
        "mbu", "Memory bandwidth in use", "Bytes moved over the data sheet's rate, by pool.", "over_time", "mbu_", True
    ),
    Figure(
        "in-flight",
        "Requests in the system",
        "Offered and not yet ended, by class, at the end of each stretch; mean over the seeds.",
        "over_time",
        "in_flight_",
        True,
    ),
    Figure(
        "attainment",
        "Requests inside their limits",
        "Of those that ended in a stretch, the share inside every limit of the class.",
        "over_time",
        "attainment_",
        True,
    ),
    Figure(
        "energy",
        "Energy a token against load",
        "A dot a stretch of time: facility energy over output tokens, against output tokens a second.",
        "work",
        "energy_",
    ),
    Figure(
        "steps",
        "What the steps' time went to",
        "Busy chip time of each deployment: memory, arithmetic, links, launches.",
        "work",
        "steps_",
    ),
    Figure(
        "balance",
        "Prompts and answers",
        "Busy chip time of each deployment for prompts (prefill) and for answers (decode).",
        "work",
        "balance_",
    ),
    Figure(
        "batch",
        "Sequences in a step",
        "Share of the busy time by how many sequences a replica's step decoded; from the kept timeline.",
        "work",
        "batch_",
    ),
)
SIX = tuple(figure.name for figure in _SIX)
MORE = tuple(figure.name for figure in _MORE)
FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in (*_SIX, *_MORE)}
REFUSED: Mapping[str, str] = {
    "queue": "a result counts who waits only together with who is served: see in-flight",
    "racks": "the racks that each demand needs take a run a rack count: planner optimize, or planner sweep",
    "rack-down": "the page has a table of it where the scenario asks (fleet.survive)",
    "tco-carbon": "the frontier of cost and carbon takes many fleets: planner optimize",
    "price-surface": "cost over limit and power price takes a run a point: planner sweep",
}
"""Figures that no single result can show -> why, and what can."""
NEEDS: Mapping[str, str] = {
    "batch": "the result kept no timeline (run with --keep timeline)",
    "horizon": "the run has no horizon (run.horizon)",
}
"""Figures that not every result has -> what they need."""


def select(names: Sequence[str] | None, result: Result | None = None) -> tuple[Figure, ...]:
    """The figures that are meant: the six by default, every one that a result can hold for `all`.

    Where a result has a horizon its figure belongs to the default ones.

    Raises:
        ScenarioError: a name is unknown, or no single result can show it; the message says what can.
    """
    if not names:
        trees = result.variants.values() if result is not None else ()
        has_horizon = any(tree.get("horizon") for tree in trees)
        return tuple(FIGURES[name] for name in (*SIX, *(["horizon"] if has_horizon else [])))
    if "all" in names:
        return tuple(FIGURES.values())
    faults = []
    for name in names:
        if name in REFUSED:
            faults.append(Fault(f"no result can show the figure '{name}'", REFUSED[name]))
        elif name not in FIGURES:
            faults.append(Fault(f"no figure '{name[:60]}'{near(name, [*FIGURES, 'all'])}"))
    if faults:
        raise ScenarioError(*faults)
    return tuple(FIGURES[name] for name in dict.fromkeys(names))


def look_of(result: Result) -> Look:
    """The colours of a result's pools, the same in every figure and variant."""
    return look([pool for tree in result.variants.values() for pool in tree["pools"]])


def frames(result: Result, figures: Sequence[Figure]) -> dict[str, pl.DataFrame]:
    """The frame of each figure, all variants in one."""
    return {figure.name: figure.part("frame")(result) for figure in figures}


def drawn(figure: Figure, rows: pl.DataFrame, variant: str, look: Look) -> Drawn:
    """A figure of one variant."""
    mine = rows.filter(rows["variant"] == variant)
    if mine.is_empty():
        return Drawn(figure, mine, None, "", Sheet((), ()), NEEDS.get(figure.name, "nothing to show"))
    module = import_module(f"planner.report.figures.{figure.module}")
    time = module.time_of_rows(mine) if figure.has_time else None
    with style.unchecked():
        chart = figure.part("draw")(mine, look)
    return Drawn(figure, mine, chart, figure.part("alt")(mine), figure.part("sheet")(mine), time=time)

"""One figure of both sides of a comparison: whether it may be subtracted, the difference, and how sure that is.

A difference has up to two intervals. That of the simulation is over the seeds, paired where both have the same ones
(`intervals.paired`), or over the batches of one long run. That of the facts is over `run.samples`, paired sample by
sample where both drew the same ones. `better` and `worse` are beyond the simulation's interval; a figure that neither
direction favours `differs`.

Figures on different bases are not subtracted: absolute amounts over spans of other lengths, totals of which one leaves
out what the other charges, shares by other rules. They are shown, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.aggregate import intervals
from planner.aggregate.leaves import SUMMED, Leaf
from planner.report.compare_sides import Side

__all__ = ["Bases", "Row", "Worlds", "row", "samples"]

_ABSOLUTE = ("kWh", "kgCO2e")
_LEVEL_FRAC = intervals.LEVEL_FRAC


@dataclass(frozen=True, slots=True)
class Worlds:
    """A difference over samples of the uncertain facts, the same ones on both sides."""

    n: int
    low: float
    high: float
    better_frac: float | None
    """Share of them in which the other is better; None for a figure without a direction."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both sides."""

    leaf: Leaf
    base: float | None
    other: float | None
    difference: float | None
    frac: float | None
    low: float | None
    high: float | None
    verdict: str | None
    """better | worse | within noise | same | differs; None where there is no difference."""
    is_sure: bool
    """Whether the verdict rests on an interval."""
    worlds: Worlds | None
    refused: str
    """Why the two are not compared, or nothing."""

    @property
    def is_there(self) -> bool:
        """Whether either side has the figure."""
        return self.base is not None or self.other is not None

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        worlds = self.worlds
        return {
            "path": self.leaf.path,
            "unit": self.leaf.metric.unit,
            "direction": self.leaf.metric.direction,
            "base": self.base,
            "other": self.other,
            "difference": self.difference,
            "frac": self.frac,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
            "is_sure": self.is_sure,
            "samples": None
            if worlds is None
            else {"n": worlds.n, "low": worlds.low, "high": worlds.high, "better_frac": worlds.better_frac},
            "refused": self.refused or None,
        }


# -- bases -------------------------------------------------------------------------------------------------------------


class Bases:
    """Why a figure of one tree is on another basis than that of another."""

    def __init__(self, base: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        spans = [tuple(tree["run"][key] for key in ("length_s", "warmup_s")) for tree in (base, other)]
        self.span = f"over {spans[0][0] - spans[0][1]:g} s and over {spans[1][0] - spans[1][1]:g} s"
        self.has_span = spans[0] != spans[1]
        n = [tree["run"]["seeds"] for tree in (base, other)]
        self.seeds = f"sums over {n[0]:g} and {n[1]:g} seeds" if n[0] != n[1] else ""
        rules_ = [tree["cost"]["allocation"] for tree in (base, other)]
        self.allocation = f"joint cost is shared by {rules_[0]} and by {rules_[1]}" if rules_[0] != rules_[1] else ""
        self.cost = _left_out(base["cost"]["left_out"], other["cost"]["left_out"])
        self.carbon = _left_out(base["carbon"]["left_out"], other["carbon"]["left_out"])

    def of(self, leaf: Leaf) -> str:
        """The reason, or nothing."""
        metric = leaf.metric
        section = metric.section.removesuffix(".*")
        if section in SUMMED or leaf.general in {"classes.*.offered", "classes.*.completed"}:
            return self.span if self.has_span else self.seeds if section in SUMMED else ""
        if metric.unit in _ABSOLUTE and self.has_span:
            return self.span
        if "usd" in metric.name:
            if self.allocation and (section == "classes" or metric.name in {"usd_per_mtok_in", "usd_per_mtok_out"}):
                return self.allocation
            return self.cost
        if metric.name in {"embodied_kgco2e", "kgco2e"} or metric.name.startswith("kgco2e_per"):
            return self.carbon
        return ""


def _left_out(base: Sequence[str], other: Sequence[str]) -> str:
    """What one side counts and the other leaves out, in words."""
    only_base = [name for name in base if name not in other]
    only_other = [name for name in other if name not in base]
    parts = []
    if only_base:
        parts.append(f"the base leaves out {', '.join(only_base)}")
    if only_other:
        parts.append(f"the other leaves out {', '.join(only_other)}")
    return " and ".join(parts)


# -- rows --------------------------------------------------------------------------------------------------------------


def row(leaf: Leaf, base: Side, other: Side, refused: str, pairs: Sequence[tuple[float, float]]) -> Row:
    a, b = leaf.of(base.tree), leaf.of(other.tree)
    if a is None or b is None or refused:
        return Row(leaf, a, b, None, None, None, None, None, False, None, refused)
    difference = b - a
    low, high = _interval(leaf, base.tree, other.tree, difference)
    is_sure = low is not None
    verdict = _verdict(leaf, difference, low, high)
    frac = difference / abs(a) if a else None
    return Row(leaf, a, b, difference, frac, low, high, verdict, is_sure, _worlds(leaf, pairs), "")


def _interval(
    leaf: Leaf, base: Mapping[str, Any], other: Mapping[str, Any], difference: float
) -> tuple[float | None, float | None]:
    """The 90 % interval of a difference: over the same seeds, or over the batches of two long runs."""
    seeds = [[each["run"]["seed"] for each in tree["seeds"]] for tree in (base, other)]
    if seeds[0] == seeds[1] and len(seeds[0]) > 1:
        values = [[leaf.of(each) for each in tree["seeds"]] for tree in (base, other)]
        found = intervals.paired(*values)
        if found is None or found.low is None or found.high is None:
            return None, None
        times = len(seeds[0]) if leaf.metric.section in SUMMED else 1
        return times * found.low, times * found.high
    halves = []
    for tree in (base, other):
        middle, low, high = leaf.of(tree), leaf.of(tree["low"]), leaf.of(tree["high"])
        if middle is None or low is None or high is None:
            return None, None
        halves.append(max(middle - low, high - middle))  # an end may be cut off where the figure cannot go further
    half = math.sqrt(halves[0] * halves[0] + halves[1] * halves[1])
    return difference - half, difference + half


def _verdict(leaf: Leaf, difference: float, low: float | None, high: float | None) -> str:
    if difference == 0:
        return "same"
    if low is not None and high is not None and low <= 0 <= high:
        return "within noise"
    if leaf.metric.direction == "neither":
        return "differs"
    return "better" if (difference < 0) == (leaf.metric.direction == "less") else "worse"


def samples(base: Side, other: Side) -> dict[str, list[tuple[float, float]]]:
    """Pairs of a figure in the same worlds, by its path; nothing where the two did not draw the same."""
    import polars as pl

    trees = [side.tree["uncertainty"] for side in (base, other)]
    if any(tree is None for tree in trees) or any(trees[0][key] != trees[1][key] for key in ("samples", "seed")):
        return {}
    frames = [
        side.result.tables["samples"].filter((pl.col("variant") == side.variant) & (pl.col("kind") == "figure"))
        for side in (base, other)
    ]
    both = frames[0].join(frames[1], on=["sample_ix", "name"], how="inner", maintain_order="left")
    found: dict[str, list[tuple[float, float]]] = {}
    for name, a, b in zip(both["name"], both["value"], both["value_right"], strict=True):
        if a is not None and b is not None:
            found.setdefault(name, []).append((a, b))
    return found


def _worlds(leaf: Leaf, pairs: Sequence[tuple[float, float]]) -> Worlds | None:
    if len(pairs) < 2:
        return None
    from planner.study.spread import quantile

    differences = [b - a for a, b in pairs]
    ends = [quantile(differences, share) for share in ((1 - _LEVEL_FRAC) / 2, (1 + _LEVEL_FRAC) / 2)]
    direction = leaf.metric.direction
    better = None
    if direction != "neither":
        better = sum((d < 0) if direction == "less" else (d > 0) for d in differences) / len(differences)
    return Worlds(len(pairs), ends[0], ends[1], better)

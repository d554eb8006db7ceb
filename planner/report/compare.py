"""Two results side by side: the same figures, what differs beyond noise, and what was asked and known differently.

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.aggregate import intervals
from planner.aggregate.leaves import SUMMED, Leaf, leaves, matching, near_names
from planner.errors import Fault, ScenarioError, near
from planner.report.gate import Check, check, rules

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["Against", "Comparison", "Row", "Side", "compare", "open_side"]

_ABSOLUTE = ("kWh", "kgCO2e")
_LEVEL_FRAC = intervals.LEVEL_FRAC


@dataclass(frozen=True, slots=True)
class Side:
    """One variant of a result."""

    label: str
    """As it was named: a folder, or FOLDER:VARIANT."""
    variant: str
    result: Result

    @property
    def tree(self) -> dict[str, Any]:
        """Its figures."""
        return self.result.variants[self.variant]


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


@dataclass(frozen=True, slots=True)
class Against:
    """The base against one other."""

    other: Side
    rows: tuple[Row, ...]
    scenario: tuple[dict[str, Any], ...]
    """Paths that are asked differently: `path base other`."""
    notes: tuple[str, ...]
    """What is worth knowing before a verdict is believed."""
    facts: tuple[dict[str, Any], ...]
    """Facts that are known differently, or used by one side only."""
    gates: tuple[Check, ...]

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            **_about(self.other),
            "figures": [row.to_json() for row in self.rows],
            "notes": list(self.notes),
            "scenario": list(self.scenario),
            "facts": list(self.facts),
            "gates": [each.to_json() for each in self.gates],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A base against one or several others."""

    base: Side
    against: tuple[Against, ...]

    @property
    def n_broken(self) -> int:
        """Rules that do not hold."""
        return sum(not each.is_held for one in self.against for each in one.gates)

    def row(self, figure: str, other: int = 0) -> Row:
        """The row of a figure. Raises `ScenarioError` if there is none, or several."""
        rows = {row.leaf.path: row for row in self.against[other].rows}
        found = matching(figure, {path: row.leaf for path, row in rows.items()})
        if len(found) != 1:
            names = {path: row.leaf for path, row in rows.items()}
            what = (
                f"several figures are named '{figure}'" if found else f"no figure '{figure}'{near_names(figure, names)}"
            )
            raise ScenarioError(Fault(what))
        return rows[found[0].path]

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {"base": _about(self.base), "against": [one.to_json() for one in self.against]}


def _about(side: Side) -> dict[str, Any]:
    tree = side.tree
    return {
        "label": side.label,
        "variant": side.variant,
        "title": tree["title"],
        "verdict": tree["verdict"],
        "inputs": side.result.inputs,
    }


def open_side(text: str) -> Side | list[Side]:
    """The variant that `FOLDER` or `FOLDER:VARIANT` names, a folder or an address; all of several where it names none.

    Raises:
        ScenarioError: it is no result, or has no such variant. RunError: it is damaged, or of a later version.
    """
    from planner.aggregate.result import Result

    cuts = [ix for ix, char in enumerate(text) if char == ":"]
    cut = next((ix for ix in cuts if Path(text[:ix]).is_dir()), cuts[-1] if cuts else 0)  # a name may have colons
    folder, variant = text[:cut], text[cut + 1 :]
    if Path(text).exists() or not folder or variant.startswith("//"):  # `s3://bucket/run` names no variant
        result = Result.load(text)
        sides = [Side(f"{text}:{name}" if len(result.variants) > 1 else text, name, result) for name in result.variants]
        return sides if len(sides) > 1 else sides[0]
    result = Result.load(folder)
    if variant not in result.variants:
        raise ScenarioError(Fault(f"{folder} has no variant '{variant[:64]}'{near(variant[:64], result.variants)}"))
    return Side(text, variant, result)


def compare(
    base: Result | Side | str | Path,
    *others: Result | Side | str | Path,
    gate: Sequence[str] = (),
    figures: Sequence[str] = (),
) -> Comparison:
    """`base` beside each of `others`: results, or folders of results (`FOLDER:VARIANT` for one variant of several).

    A base of several variants without others is its first variant against the rest; of a plan beside others the peak
    that is dearest to meet is meant. `gate` are rules
    (`planner.report.gate`) that each other has to hold; `figures` limits the rows to some.

    Raises:
        ScenarioError: a name means nothing, or figures that were asked for are on different bases.
        RunError: a result is damaged, or of a later version.
    """
    first, *rest = _shown(_sides(base)) if others else _sides(base)
    sides = [side for other in others for side in _sides(other, like=first.variant)]
    if not others:
        sides = rest
        if not sides:
            raise ScenarioError(Fault("one result is nothing to compare", "name another, or run --all variants"))
    elif rest and not isinstance(base, Side):
        names = ", ".join(f"{first.label.rpartition(':')[0]}:{side.variant}" for side in (first, *rest))
        raise ScenarioError(Fault("the base has several variants", f"name one of {names}"))
    asked = rules(gate, first.tree)
    made = tuple(_against(first, side, asked, figures) for side in sides)
    return Comparison(first, made)


def _sides(of: Result | Side | str | Path, like: str | None = None) -> list[Side]:
    if isinstance(of, Side):
        return [of]
    if isinstance(of, str | Path):
        found = open_side(str(of))
        sides = found if isinstance(found, list) else [found]
    else:
        sides = [Side(name, name, of) for name in of.variants]
    if like is not None:
        sides = _shown(sides)
    if like is not None and len(sides) > 1:
        sides = [side for side in sides if side.variant == like]
        if not sides:
            raise ScenarioError(
                Fault(f"'{of}' has several variants and none is named '{like}'", "write FOLDER:VARIANT")
            )
    return sides


def _shown(sides: list[Side]) -> list[Side]:
    """Of the periods of a plan the one that is shown; other variants as they are."""
    plan = sides[0].result.plan
    if plan is None or len(sides) == 1:
        return sides
    return [side for side in sides if side.variant == plan["shown"]]


def _against(base: Side, other: Side, asked: Sequence[Any], figures: Sequence[str]) -> Against:
    known = leaves(base.tree)
    known |= {path: leaf for path, leaf in leaves(other.tree).items() if path not in known}
    wanted = list(known.values())
    if figures:
        faults = [
            Fault(f"no figure '{name[:80]}'{near_names(name[:80], known)}")
            for name in figures
            if not matching(name, known)
        ]
        if faults:
            raise ScenarioError(*faults)
        meant = {leaf.path for name in figures for leaf in matching(name, known)}
        wanted = [leaf for leaf in wanted if leaf.path in meant]
    reasons = _Bases(base.tree, other.tree)
    gated = {leaf.path for rule in asked for leaf in matching(rule.figure, known)}
    refused = [leaf for leaf in wanted if (figures or leaf.path in gated) and reasons.of(leaf)]
    if refused:
        raise ScenarioError(
            *(Fault(f"{leaf.path} cannot be compared: {reasons.of(leaf)}", "make the two alike") for leaf in refused)
        )
    samples = _samples(base, other)
    rows = tuple(_row(leaf, base, other, reasons.of(leaf), samples.get(leaf.path, ())) for leaf in wanted)
    asked_differently = _asked_differently(base, other)
    return Against(
        other=other,
        rows=rows,
        notes=_notes(base, other, [row["path"] for row in asked_differently]),
        scenario=asked_differently,
        facts=_known_differently(base, other),
        gates=tuple(check(asked, base.tree, other.tree)),
    )


# -- bases -------------------------------------------------------------------------------------------------------------


class _Bases:
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


def _row(leaf: Leaf, base: Side, other: Side, refused: str, pairs: Sequence[tuple[float, float]]) -> Row:
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
        low, high = leaf.of(tree["low"]), leaf.of(tree["high"])
        if low is None or high is None:
            return None, None
        halves.append((high - low) / 2)
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


def _samples(base: Side, other: Side) -> dict[str, list[tuple[float, float]]]:
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


def _notes(base: Side, other: Side, paths: Sequence[str]) -> tuple[str, ...]:
    """Whether a token of one is a token of the other, and whether both were made by one model of the world."""
    notes = []
    work = [path for path in paths if path.startswith("traffic.") and path.split(".")[-1] not in _LOADS]
    if work:
        notes.append(
            "the traffic differs in more than its load: a token of one is not the work of a token of the other"
        )
    builds = [side.result.built.get("core_version") for side in (base, other)]
    sources = [side.result.built.get("core_sources") for side in (base, other)]
    if builds != builds[::-1] or sources != sources[::-1]:
        notes.append("the two were simulated by different versions of the core")
    return tuple(notes)


_LOADS = frozenset({"rate", "scale", "speedup", "concurrency", "slo", "tenant", "priority"})
"""Keys of a class that change how much is asked or how it is judged, not what a request is."""


# -- what differs ------------------------------------------------------------------------------------------------------


def _asked_differently(base: Side, other: Side) -> tuple[dict[str, Any], ...]:
    """Leaves of the resolved scenarios that differ, in the order of the files."""
    left, right = (_scenario_leaves(side) for side in (base, other))
    return tuple(
        {"path": path, "base": left.get(path), "other": right.get(path)}
        for path in dict.fromkeys((*left, *right))
        if left.get(path) != right.get(path)
    )


def _scenario_leaves(side: Side) -> dict[str, str | None]:
    from planner import yaml_tree

    node = yaml_tree.read(side.result.scenarios[side.variant], file=f"{side.label}/scenario.resolved.yaml")
    return {path: each.value for path, each in node.walk() if not isinstance(each.value, dict | list)}


_FACT = ("value", "value_text", "unit", "low", "high", "grade", "source")


def _known_differently(base: Side, other: Side) -> tuple[dict[str, Any], ...]:
    """Facts of which value, range, grade or source differ, and those that one side alone uses."""
    left, right = (_facts(side) for side in (base, other))
    return tuple(
        {"path": path, "base": left.get(path), "other": right.get(path)}
        for path in dict.fromkeys((*left, *right))
        if left.get(path) != right.get(path)
    )


def _facts(side: Side) -> dict[str, dict[str, Any]]:
    import polars as pl

    table = side.result.tables["facts"].filter(pl.col("variant") == side.variant)
    first = table.filter(pl.col("seed") == side.tree["seeds"][0]["run"]["seed"])
    return {row["path"]: {key: row[key] for key in _FACT} for row in first.to_dicts()}

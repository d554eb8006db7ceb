"""Two results side by side: the same figures, what differs beyond noise, and what was asked and known differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.aggregate.leaves import leaves, matching, near_names
from planner.errors import Fault, ScenarioError
from planner.report.compare_rows import Bases, Row, row, samples
from planner.report.compare_sides import Side, shown, sides_of
from planner.report.gate import Check, check, rules

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["Against", "Comparison", "compare"]


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
    first, *rest = shown(sides_of(base)) if others else sides_of(base)
    sides = [side for other in others for side in sides_of(other, like=first.variant)]
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
    reasons = Bases(base.tree, other.tree)
    gated = {leaf.path for rule in asked for leaf in matching(rule.figure, known)}
    refused = [leaf for leaf in wanted if (figures or leaf.path in gated) and reasons.of(leaf)]
    if refused:
        raise ScenarioError(
            *(Fault(f"{leaf.path} cannot be compared: {reasons.of(leaf)}", "make the two alike") for leaf in refused)
        )
    pairs = samples(base, other)
    rows = tuple(row(leaf, base, other, reasons.of(leaf), pairs.get(leaf.path, ())) for leaf in wanted)
    asked_differently = _asked_differently(base, other)
    return Against(
        other=other,
        rows=rows,
        notes=_notes(base, other, [each["path"] for each in asked_differently]),
        scenario=asked_differently,
        facts=_known_differently(base, other),
        gates=tuple(check(asked, base.tree, other.tree)),
    )


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

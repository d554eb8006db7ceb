"""A figure walked back: its formula, the figures that it is made of, and the facts behind it with their weights.

Everything is read off a result; nothing is simulated or priced again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.aggregate.cost_parts import PART_FORMULAS, PARTS
from planner.aggregate.leaves import Leaf, leaves, matching, near_names
from planner.errors import Fault, ScenarioError
from planner.report.compare_sides import Side

__all__ = ["Explained", "Input", "Weight", "explain", "overview"]

_TOKENS_IN, _TOKENS_OUT, _TOKENS_ALL = (f"fleet.tokens_per_s_{which}" for which in ("in", "out", "all"))
_MADE_OF: Mapping[str, tuple[str, ...]] = {
    "cost.usd_per_h": tuple(f"cost.parts.{part}" for part in PARTS),
    "cost.idle_usd_per_h": ("cost.usd_per_h", "pools.*.busy_frac", "pools.*.usd_per_h"),
    "cost.used_usd_per_h": ("cost.usd_per_h", "cost.idle_usd_per_h"),
    "cost.usd_per_mtok_in": ("cost.usd_per_h", "pools.*.usd_per_h", _TOKENS_IN),
    "cost.usd_per_mtok_out": ("cost.usd_per_h", "pools.*.usd_per_h", _TOKENS_OUT),
    "cost.usd_per_mtok_all": ("cost.usd_per_h", _TOKENS_ALL),
    "cost.usd_per_mtok_out_whole": ("cost.usd_per_h", _TOKENS_OUT),
    "energy.facility_kwh": ("energy.it_kwh",),
    "energy.it_kwh": ("pools.*.rack_it_w.mean",),
    "energy.j_per_token_in": ("energy.facility_kwh", _TOKENS_IN),
    "energy.j_per_token_out": ("energy.facility_kwh", _TOKENS_OUT),
    "energy.j_per_token_all": ("energy.facility_kwh", _TOKENS_ALL),
    "energy.j_per_token_out_whole": ("energy.facility_kwh", _TOKENS_OUT),
    "carbon.kgco2e": ("carbon.operational_kgco2e", "carbon.embodied_kgco2e"),
    "carbon.operational_kgco2e": ("energy.facility_kwh",),
    "carbon.kgco2e_per_mtok_all": ("carbon.kgco2e", _TOKENS_ALL),
    "carbon.kgco2e_per_mtok_out_whole": ("carbon.kgco2e", _TOKENS_OUT),
    "fleet.facility_w.mean": ("fleet.rack_it_w.mean",),
    "fleet.facility_w.peak": ("fleet.rack_it_w.peak",),
    "fleet.rack_it_w.mean": ("pools.*.rack_it_w.mean",),
    "classes.*.usd_per_h": ("cost.usd_per_h",),
    "classes.*.usd_per_mtok_all": ("classes.*.usd_per_h",),
    "classes.*.usd_per_mtok_out_whole": ("classes.*.usd_per_h",),
    "classes.*.usd_per_request": ("classes.*.usd_per_h", "classes.*.completed"),
    "classes.*.usd_per_task": ("classes.*.usd_per_h",),
    "classes.*.goodput_req_per_s": ("classes.*.rate_req_per_s", "classes.*.attainment_frac"),
}
"""Figures that a figure is made of, by their general paths."""


@dataclass(frozen=True, slots=True)
class Input:
    """A figure that another is made of, and what it is made of in turn."""

    leaf: Leaf
    value: float | None
    formula: str
    inputs: tuple[Input, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "path": self.leaf.path,
            "value": self.value,
            "unit": self.leaf.metric.unit,
            "basis": self.leaf.metric.basis,
            "formula": self.formula,
            "inputs": [each.to_json() for each in self.inputs],
        }


@dataclass(frozen=True, slots=True)
class Weight:
    """A fact behind a figure, and how much of the figure's swing is its."""

    path: str
    value: float | str | None
    unit: str
    low: float | None
    high: float | None
    grade: str
    is_assumed: bool
    source: str
    note: str
    figure_low: float | None
    figure_high: float | None
    swing: float | None
    share: float | None
    rank_correlation: float | None

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Explained:
    """One figure of one variant."""

    variant: str
    top: Input
    interval: tuple[float | None, float | None]
    """Over the seeds, or the batches of one long run."""
    over_facts: Mapping[str, Any] | None
    """Over the samples of the uncertain facts: low, median, high, n."""
    facts: tuple[Weight, ...]
    """With a swing or a correlation, widest first."""
    fixed: tuple[Weight, ...]
    """Read for this figure too, without a range."""
    assumed_frac: float | None
    sentence: str
    noise: float
    """A rank correlation up to it may be chance: 1.96 / sqrt(different draws - 1)."""

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "variant": self.variant,
            **self.top.to_json(),
            "low": self.interval[0],
            "high": self.interval[1],
            "over_facts": self.over_facts,
            "facts": [each.to_json() for each in self.facts],
            "fixed": [each.to_json() for each in self.fixed],
            "assumed_frac": self.assumed_frac,
            "sentence": self.sentence,
        }


def explain(side: Side, name: str) -> list[Explained]:
    """The figure that `name` means (`usd_per_mtok_out`, `classes.chat.limits.ttft.p95`), or every class's or pool's.

    Raises:
        ScenarioError: no figure has the name.
    """
    known = leaves(side.tree)
    found = matching(name, known)
    if not found:
        raise ScenarioError(Fault(f"no figure '{name[:80]}'{near_names(name[:80], known)}"))
    return [_explained(side, leaf, known) for leaf in found]


def overview(side: Side) -> list[Explained]:
    """Every figure of which the result keeps swings."""
    known = leaves(side.tree)
    figures = dict.fromkeys(_swings(side)["figure"].to_list())
    return [
        _explained(side, known[path], known)
        for path in figures
        if path in known and known[path].of(side.tree) is not None
    ]


def _explained(side: Side, leaf: Leaf, known: Mapping[str, Leaf]) -> Explained:
    tree = side.tree
    table = _facts(side)
    of_leaf = [row for row in _swings(side).to_dicts() if row["figure"] == leaf.path]
    rows = [row for row in of_leaf if row["swing"] is not None or row["rank_correlation"] is not None]
    total = math.fsum(row["swing"] or 0.0 for row in rows)
    weights = tuple(_weight(table.get(row["path"], {}), row, total) for row in rows)
    fixed = tuple(_weight(table.get(row["path"], {}), row, total) for row in of_leaf if row not in rows)
    assumed = math.fsum(row["swing"] or 0.0 for row in rows if row["is_assumed"]) / total if total > 0 else None
    uncertainty = tree["uncertainty"]
    return Explained(
        variant=side.variant,
        top=_input(tree, leaf, known, seen=()),
        interval=(leaf.of(tree["low"]), leaf.of(tree["high"])),
        over_facts=None if uncertainty is None else uncertainty["figures"].get(leaf.path),
        facts=weights,
        fixed=fixed,
        assumed_frac=assumed,
        sentence=_sentence(assumed, has_samples=uncertainty is not None, has_rows=bool(rows)),
        noise=0.0 if uncertainty is None else 1.96 / math.sqrt(max(1, uncertainty["simulated"] - 1)),
    )


def _input(tree: Mapping[str, Any], leaf: Leaf, known: Mapping[str, Leaf], *, seen: Sequence[str]) -> Input:
    formula = leaf.metric.formula
    if leaf.general.startswith("cost.parts."):
        formula = PART_FORMULAS[leaf.path.removeprefix("cost.parts.")]
    inner = []
    for general in _MADE_OF.get(leaf.general, ()):
        for other in _named(general, leaf, known):
            value = other.of(tree)
            if value is not None and other.path not in seen:
                inner.append(_input(tree, other, known, seen=(*seen, leaf.path)))
    return Input(leaf, leaf.of(tree), formula, tuple(inner))


def _named(general: str, leaf: Leaf, known: Mapping[str, Leaf]) -> list[Leaf]:
    """The figures of a general path; of the class or pool of `leaf` alone where it is one's."""
    found = [other for other in known.values() if other.general == general]
    same = [other for other in found if other.steps[:2] == leaf.steps[:2] and "*" in leaf.general and "*" in general]
    return same if "*" in leaf.general and general.split(".", maxsplit=1)[0] == leaf.general.split(".")[0] else found


def _sentence(assumed: float | None, *, has_samples: bool, has_rows: bool) -> str:
    """How sure the figure is, in words."""
    if assumed is not None:
        text = f"{assumed * 100:.0f} % of this figure's swing is assumed"
        return text if has_samples else f"{text}, the simulation held (run.samples draws what the simulator reads, too)"
    if has_rows:
        return "what moves this figure is known by rank correlation alone"
    if has_samples:
        return "no swing of this figure is kept; those of the headline figures and of limits are"
    return "no swing is kept of this figure: what the simulator reads is drawn with run.samples"


def _weight(fact: Mapping[str, Any], row: Mapping[str, Any], total: float) -> Weight:
    value, swing = fact.get("value"), row["swing"]
    same = ("path", "low", "high", "grade", "is_assumed", "figure_low", "figure_high", "swing", "rank_correlation")
    return Weight(
        value=fact.get("value_text") if value is None else value,
        unit=fact.get("unit") or "",
        source=fact.get("source", ""),
        note=fact.get("note", ""),
        share=swing / total if swing is not None and total > 0 else None,
        **{name: row[name] for name in same},
    )


def _swings(side: Side) -> Any:
    import polars as pl

    seed = side.tree["seeds"][0]["run"]["seed"]
    table = side.result.tables["swings"]
    return table.filter((pl.col("variant") == side.variant) & (pl.col("seed") == seed))


def _facts(side: Side) -> dict[str, dict[str, Any]]:
    import polars as pl

    seed = side.tree["seeds"][0]["run"]["seed"]
    table = side.result.tables["facts"]
    mine = table.filter((pl.col("variant") == side.variant) & (pl.col("seed") == seed))
    return {row["path"]: row for row in mine.to_dicts()}

"""Every figure of a result by one path: `cost.usd_per_h`, `classes.chat.ttft_s.p95`, `classes.chat.limits.ttft.p95`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner import units
from planner.aggregate.metrics import METRICS, Metric
from planner.errors import near

_STAR = ".*"
_LIMITS = "classes.*.limits[]"
SUMMED = frozenset({"requests", "tokens"})
"""Sections that are whole sums over the seeds."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One figure: its path, what it is of, and its row of the glossary."""

    path: str
    general: str
    """The path with `*` in place of the name of a class or pool: `classes.*.ttft_s.p95`."""
    metric: Metric
    steps: tuple[str | int, ...]
    """How to reach it in a tree of `result.json`."""

    def of(self, tree: Any) -> float | None:
        """The figure in a tree of the same shape; None where it is missing."""
        for step in self.steps:
            if isinstance(tree, Mapping):
                tree = tree.get(step)
            elif isinstance(tree, Sequence) and isinstance(step, int) and step < len(tree):
                tree = tree[step]
            else:
                return None
        return None if tree is None or isinstance(tree, str | bool | Mapping | list) else float(tree)


def leaves(tree: Mapping[str, Any]) -> dict[str, Leaf]:
    """Every figure of a variant, in the order of the glossary; limits as `classes.NAME.limits.METRIC.QUANTILE`."""
    found: dict[str, Leaf] = {}
    for metric in METRICS:
        if metric.section == _LIMITS:
            if metric.name == "value":
                found |= {leaf.path: leaf for leaf in _limits(tree, metric)}
        elif metric.unit != "-":
            for head, general in _heads(tree, metric.section):
                found |= {leaf.path: leaf for leaf in _below(tree, metric, head, general)}
    return found


def _heads(tree: Mapping[str, Any], section: str) -> Iterator[tuple[tuple[str, ...], str]]:
    if section.endswith(_STAR):
        plain = section.removesuffix(_STAR)
        for name in tree.get(plain, {}):
            yield (plain, name), section
    else:
        yield (section,), section


def _below(tree: Mapping[str, Any], metric: Metric, head: tuple[str, ...], general: str) -> Iterator[Leaf]:
    here: Any = tree
    for step in (*head, metric.name):
        here = here.get(step) if isinstance(here, Mapping) else None
    keys: Sequence[str] = metric.keys or (tuple(here) if isinstance(here, Mapping) else ("",))
    for key in keys:
        tail = (metric.name, key) if key else (metric.name,)
        steps = (*head, *tail)
        yield Leaf(".".join(steps), ".".join((general, *tail)), metric, steps)


def _limits(tree: Mapping[str, Any], metric: Metric) -> Iterator[Leaf]:
    for name, figures in tree.get("classes", {}).items():
        for ix, limit in enumerate(figures["limits"]):
            tail = f"limits.{limit['metric']}.{limit['quantile']}"
            steps = ("classes", name, "limits", ix, "value")
            yield Leaf(f"classes.{name}.{tail}", f"classes.*.{tail}", metric, steps)


def matching(name: str, known: Mapping[str, Leaf]) -> list[Leaf]:
    """The figures that a name means: a path, or the end of one (`usd_per_h`, `ttft_s.p95`): the whole fleet's where it
    has it, else that of every class or pool.
    """
    if name in known:
        return [known[name]]
    found = [leaf for leaf in known.values() if leaf.general == name or _end_of(leaf.general) == name]
    whole = [leaf for leaf in found if "*" not in leaf.general]
    return whole or found


def _end_of(general: str) -> str:
    """A general path without its section: `classes.*.ttft_s.p95` is `ttft_s.p95`."""
    head, _, rest = general.partition(f"{_STAR}.")
    return rest if rest else head.partition(".")[2]


def near_names(name: str, known: Mapping[str, Leaf]) -> str:
    """What is said of a name that means nothing."""
    return near(name, dict.fromkeys([*(_end_of(leaf.general) for leaf in known.values()), *known]))


def shown(value: float | None, metric: Metric) -> str:
    """A figure for people: three significant figures and its unit."""
    if value is None:
        return "-"
    kind = {"s": "time", "W": "power", "USD": "money"}.get(metric.unit)
    if kind is not None and (kind != "money" or value >= 0.01):
        return units.format(value, kind)
    if metric.unit == "1":
        return units.format(value, "frac" if metric.name.endswith("_frac") else "count")
    return f"{units.figures(value)} {metric.unit}"

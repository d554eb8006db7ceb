"""The published headline figures of one chip: what was printed, under which conditions, and where it contradicts."""

from __future__ import annotations

from dataclasses import dataclass

from planner import units
from planner.errors import near
from planner.facts import tables
from planner.facts.fact import Fact
from planner.facts.reading import Reader
from planner.facts.schema import Key, Member
from planner.yaml_tree import Node

METRICS: dict[str, str] = {
    "peak_mixed_tps_per_kw": "tokens_per_s_per_kw",
    "min_e2e_latency": "time",
    "min_tbt": "time",
    "mixed_tps_per_kw_at_reference_min_tbt": "tokens_per_s_per_kw",
}
"""Metric of a target -> kind of quantity."""


@dataclass(frozen=True, slots=True)
class Target:
    """One published comparison; values in the unit of the metric (s, tokens_per_s_per_kw), None where not printed."""

    id: str
    model: str
    reference: str
    """Chip of the reference system."""
    metric: str
    unit: str
    value: float | None
    """The chip that the headline is about."""
    reference_value: float | None
    ratio_claimed: float | None
    """What the text says."""
    ratio_derived: float | None
    """Better over worse of the printed figures."""
    at_tbt_s: float | None
    """Both sides at this time between tokens."""
    is_higher_better: bool
    grade: str
    source: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Headline:
    """The figures of one announcement; records are group facts with an `id`."""

    name: str
    title: str
    note: str
    conditions: dict[str, Fact]
    precision: dict[str, Fact]
    """Weights as run, by model."""
    rated_power_w: dict[str, Fact]
    targets: tuple[Target, ...]
    derived_per_chip: tuple[Fact, ...]
    derived_lower_bounds: tuple[Fact, ...]
    checks: tuple[Fact, ...]
    other_claims: tuple[Fact, ...]
    conflicts: tuple[Fact, ...]

    def target(self, name: str) -> Target:
        """A target by its id. Raises KeyError."""
        return {target.id: target for target in self.targets}[name]


def _records(kinds: dict[str, str], *optional: str) -> tuple[Member, ...]:
    return tuple(
        Member(k, k, kind, may_be_null=k in optional, is_needed=k not in optional) for k, kind in kinds.items()
    )


_LISTS: dict[str, tuple[Member, ...]] = {
    "derived_per_chip": _records(
        {"id": "text", "metric": "text", "value": "tokens_per_s", "reference_value": "tokens_per_s", "ratio": "ratio"}
    ),
    "derived_lower_bounds": _records({"id": "text", "metric": "text", "value": "bytes_per_s"}),
    "checks": _records(
        {"id": "text", "rule": "text", "result": "text", "holds": "bool", "saved": "texts"}, "holds", "saved"
    ),
    "other_claims": _records({"id": "text", "metric": "text", "value": "texts"}),
    "conflicts": _records({"id": "text", "a": "text", "b": "text", "resolution": "text", "value": "text"}, "value"),
}


def read_headline(reader: Reader, node: Node, name: str) -> Headline:
    """A headline file."""
    home = f"headline.{name}"
    items = node.value if isinstance(node.value, dict) else {}
    heads = {"schema", "title", "note"}
    known = (*heads, "conditions", "rated_power", "targets", *_LISTS)
    for key, child in items.items():
        if key not in known:
            reader.fault(child, f"unknown key '{key}'{near(key, known)}", path=key, at_key=True)
    empty = Node({}, node.line, node.col, file=node.file)
    conditions = reader.section(
        items.get("conditions", empty), tables.HEADLINE_CONDITIONS, path="conditions", home=f"{home}.conditions"
    )
    precision = conditions.pop("precision", {})
    power = reader.section(
        items.get("rated_power", empty), tables.HEADLINE_POWER, path="rated_power", home=f"{home}.rated_power"
    )
    targets = tuple(_target(reader, one, f"targets[{i}]") for i, one in enumerate(_list(reader, items, "targets")))
    records = {
        key: tuple(
            reader.fact(one, Key(key, key, "group", "", members=members), path=f"{key}[{i}]", home=f"{home}.{key}[{i}]")
            for i, one in enumerate(_list(reader, items, key))
        )
        for key, members in _LISTS.items()
    }
    return Headline(
        name=name,
        title=reader.text(node, "title", is_needed=True),
        note=reader.text(node, "note"),
        conditions={key: fact for key, fact in conditions.items() if isinstance(fact, Fact)},
        precision=precision if isinstance(precision, dict) else {},
        rated_power_w={key.removesuffix("_w"): fact for key, fact in power.items() if isinstance(fact, Fact)},
        targets=targets,
        **records,
    )


def _list(reader: Reader, items: dict[str, Node], key: str) -> list[Node]:
    child = items.get(key)
    if child is None:
        return []
    if isinstance(child.value, list):
        return child.value
    reader.fault(child, f"'{key}' is not a list", path=key)
    return []


def _target(reader: Reader, node: Node, path: str) -> Target:
    items = node.value if isinstance(node.value, dict) else {}
    metric = reader.text(node, "metric", is_needed=True, path=path)
    kind = METRICS.get(metric, "ratio")
    members = _records(
        {
            "id": "text",
            "model": "text",
            "reference": "text",
            "metric": "text",
            "value": kind,
            "reference_value": kind,
            "ratio_claimed": "ratio",
            "ratio_derived": "ratio",
            "at_tbt": "time",
            "better": "text",
        },
        *("value", "reference_value", "ratio_claimed", "ratio_derived", "at_tbt"),
    )
    fact = reader.fact(node, Key("target", "target", "group", "", members=members), path=path, home=path)
    if metric and metric not in METRICS:
        reader.fault(items["metric"], f"unknown metric '{metric}'{near(metric, METRICS)}", path=f"{path}.metric")
    group = fact.group

    def number(name: str) -> float | None:
        value = group.get(name)
        return value if isinstance(value, int | float) else None

    return Target(
        id=str(group.get("id", "")),
        model=str(group.get("model", "")),
        reference=str(group.get("reference", "")),
        metric=metric,
        unit=units.KINDS[kind].unit,
        value=number("value"),
        reference_value=number("reference_value"),
        ratio_claimed=number("ratio_claimed"),
        ratio_derived=number("ratio_derived"),
        at_tbt_s=number("at_tbt"),
        is_higher_better=group.get("better") == "higher",
        grade=fact.grade,
        source=fact.source,
        note=fact.note,
    )

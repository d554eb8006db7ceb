"""What explains a figure, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from planner import units
from planner.aggregate.leaves import shown
from planner.report.explain import Explained, Input, Weight
from planner.report.text import percent
from planner.words import plain, table

_MOST = 15
"""Facts that are listed; JSON has all."""
_LEAST = 0.001
"""Share of the swing from which a fact is listed, unless it correlates."""


def explained(found: Sequence[Explained], *, is_named: bool) -> str:
    """Each figure in full; `is_named` says of which variant it is."""
    lines: list[str] = []
    for one in found:
        lines += [*([""] if lines else []), *_one(one, is_named=is_named)]
    return "\n".join(lines)


def _one(one: Explained, *, is_named: bool) -> list[str]:
    top = one.top
    metric = top.leaf.metric
    head = f"{top.leaf.path} = {shown(top.value, metric)}"
    if is_named:
        head += f"   [{one.variant}]"
    lines = [plain(head), f"  of       {metric.basis}", f"  formula  {top.formula}"]
    if one.interval[0] is not None:
        low, high = (shown(end, metric) for end in one.interval)
        lines.append(f"  noise    {low} to {high} (90 % interval of the simulation)")
    if one.over_facts is not None and one.over_facts["low"] is not None:
        low, high = (shown(one.over_facts[end], metric) for end in ("low", "high"))
        lines.append(f"  facts    {low} to {high} (90 % of {one.over_facts['n']} samples of the uncertain facts)")
    if top.inputs:
        lines.append("  made of")
        lines += _tree(top.inputs, 4)
    told = [fact for fact in one.facts if (fact.share or 0) >= _LEAST or abs(fact.rank_correlation or 0) > one.noise]
    if told:
        lines.append("  facts that move it, each from its low to its high alone")
        lines += ["  " + line for line in table(_rows(told[:_MOST], one), left=_words(told))]
        if len(one.facts) > len(told[:_MOST]):
            lines.append(f"    ... and {len(one.facts) - len(told[:_MOST])} that move it less (--json lists all)")
    if one.fixed:
        shown_fixed = ", ".join(f"{each.path} {_value(each)} ({each.grade})" for each in one.fixed[:_MOST])
        lines.append(f"  without a range: {plain(shown_fixed)}")
    return [*lines, f"  {one.sentence}"]


def _tree(inputs: Sequence[Input], indent: int) -> list[str]:
    lines = []
    for each in inputs:
        value = shown(each.value, each.leaf.metric)
        lines.append(plain(f"{' ' * indent}{each.leaf.path} = {value}   ({each.formula})"))
        lines += _tree(each.inputs, indent + 2)
    return lines


def _rows(facts: Sequence[Weight], one: Explained) -> list[list[str]]:
    metric = one.top.leaf.metric
    rows = [["fact", "value", "low..high", "figure there", "share", "grade", "source"]]
    has_ranks = _has_ranks(facts)
    if has_ranks:
        rows[0].insert(5, "rank corr.")
    for fact in facts:
        ends = "-" if fact.low is None and fact.high is None else f"{_number(fact.low)}..{_number(fact.high)}"
        there = [shown(end, metric) for end in (fact.figure_low, fact.figure_high)]
        cells = [
            fact.path,
            _value(fact),
            ends,
            "-" if fact.swing is None else " .. ".join(there),
            "-" if fact.share is None else percent(fact.share),
            fact.grade,
            fact.source or "-",
        ]
        if has_ranks:
            cells.insert(5, "-" if fact.rank_correlation is None else f"{fact.rank_correlation:+.2f}")
        rows.append(cells)
    return rows


def _has_ranks(facts: Sequence[Weight]) -> bool:
    return any(fact.rank_correlation is not None for fact in facts)


def _words(facts: Sequence[Weight]) -> tuple[int, ...]:
    """Columns of words: the fact, its grade and its source."""
    return (0, 6, 7) if _has_ranks(facts) else (0, 5, 6)


def _value(fact: Weight) -> str:
    if isinstance(fact.value, str) or fact.value is None:
        return "-" if fact.value is None else fact.value[:40]
    return f"{units.figures(fact.value)} {fact.unit}".strip()


def _number(value: float | None) -> str:
    return "-" if value is None else units.figures(value)


def overview(found: Sequence[Explained], *, is_named: bool) -> str:
    """A line for each figure: its value, how much of its swing is assumed, and the fact that moves it most."""
    rows = [["figure", *(["variant"] if is_named else []), "value", "assumed", "moved most by", "grade"]]
    for one in found:
        lead = next((fact for fact in one.facts if fact.swing), None)
        rows.append(
            [
                one.top.leaf.path,
                *([one.variant] if is_named else []),
                shown(one.top.value, one.top.leaf.metric),
                "-" if one.assumed_frac is None else percent(one.assumed_frac),
                "-" if lead is None else f"{lead.path} ({percent(lead.share or 0.0)})",
                "-" if lead is None else lead.grade,
            ]
        )
    words = (0, 1, 4, 5) if is_named else (0, 3, 4)
    return "\n".join([*table(rows, left=words), "planner explain RESULT FIGURE walks one of them back to its facts"])

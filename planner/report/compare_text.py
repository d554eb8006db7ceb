"""A comparison as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from planner import units
from planner.aggregate.leaves import shown
from planner.report.compare import Against, Comparison
from planner.report.compare_rows import Row
from planner.report.text import percent
from planner.words import plain, table

HEADLINE = (
    "cost.usd_per_h",
    "cost.idle_usd_per_h",
    "cost.usd_per_mtok_in",
    "cost.usd_per_mtok_out",
    "cost.usd_per_mtok_all",
    "cost.usd_per_mtok_out_whole",
    "energy.j_per_token_all",
    "energy.j_per_token_out_whole",
    "carbon.kgco2e_per_mtok_out_whole",
    "fleet.racks",
    "fleet.chips",
    "fleet.facility_w.mean",
    "fleet.facility_w.peak",
    "fleet.provisioned_w",
    "fleet.tokens_per_s_out",
    "fleet.tokens_per_s_per_chip_out",
)
_CLASS = ("attainment_frac", "goodput_req_per_s", "usd_per_request", "usd_per_task")
_MOST = 40
"""Lines of what was asked or known differently; JSON has all."""


def comparison(found: Comparison, *, has_all: bool = False) -> str:
    """The base beside each other; the headline figures, or `has_all` of them."""
    lines: list[str] = []
    for one in found.against:
        lines += [*([""] if lines else []), *_one(found, one, has_all=has_all)]
    return "\n".join(lines)


def _one(found: Comparison, one: Against, *, has_all: bool) -> list[str]:
    base, other = found.base, one.other
    lines = [
        f"base   {plain(base.label)}: {plain(base.tree['title'])} ({base.tree['verdict'] or 'no limits'})",
        f"other  {plain(other.label)}: {plain(other.tree['title'])} ({other.tree['verdict'] or 'no limits'})",
    ]
    rows = [row for row in one.rows if row.is_there] if has_all else headline_rows(one)
    has_worlds = any(row.worlds is not None for row in rows)
    head = ["figure", "base", "other", "difference", "", "verdict", *(["samples better"] if has_worlds else [])]
    lines += table([head, *(_cells(row, has_worlds=has_worlds) for row in rows)], left=(0, 5))
    if any(row.verdict in {"better", "worse", "differs"} and not row.is_sure for row in rows):
        lines.append("  ? no interval: one short run of one seed; run.seeds: 3 or more makes intervals")
    reasons = dict.fromkeys(row.refused for row in one.rows if row.refused)
    lines += [f"  not compared where bases differ: {plain(reason)}" for reason in reasons]
    lines += [f"  {note}" for note in one.notes]
    lines += _listed("asked differently", [change(row) for row in one.scenario])
    lines += _listed("facts that differ", [*fact_lines(one.facts)])
    for gate in one.gates:
        lines.append(f"gate {'held  ' if gate.is_held else 'BROKEN'}  {plain(gate.rule)}   {plain(gate.shown)}")
    return lines


def headline_rows(one: Against) -> list[Row]:
    """The rows that are shown first: cost, energy, carbon, power and throughput of the fleet, limits of the classes."""
    return [row for row in one.rows if row.is_there and _is_headline(row)]


def _is_headline(row: Row) -> bool:
    leaf = row.leaf
    return (
        leaf.path in HEADLINE or ".limits." in leaf.general or leaf.general in {f"classes.*.{name}" for name in _CLASS}
    )


def _cells(row: Row, *, has_worlds: bool) -> list[str]:
    metric = row.leaf.metric
    verdict = row.verdict or ("other basis" if row.refused else "-")
    if verdict in {"better", "worse", "differs"} and not row.is_sure:
        verdict += " ?"
    frac = "" if row.frac is None else f"{row.frac * 100:+.{1 if abs(row.frac) < 0.1 else 0}f} %"
    difference = "-" if row.difference is None else signed(row.difference, shown(abs(row.difference), metric))
    cells = [row.leaf.path, shown(row.base, metric), shown(row.other, metric), difference, frac, verdict]
    if has_worlds:
        better = None if row.worlds is None or row.verdict == "same" else row.worlds.better_frac
        cells.append("" if better is None else percent(better))
    return cells


def signed(value: float, text: str) -> str:
    """The text of a size with its sign."""
    return text if value == 0 else f"{'+' if value > 0 else '-'}{text}"


def _listed(head: str, rows: Sequence[str]) -> list[str]:
    if not rows:
        return []
    more = [f"    ... and {len(rows) - _MOST} more (--json lists all)"] if len(rows) > _MOST else []
    return [f"  {head}:", *(f"    {plain(row)}" for row in rows[:_MOST]), *more]


def change(row: dict[str, Any]) -> str:
    """One path that is asked differently."""
    return f"{row['path']}: {_said(row['base'])} -> {_said(row['other'])}"


def _said(value: object) -> str:
    return "(nothing)" if value is None else str(value)


def fact_lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Facts with other values, then the things of which one side alone uses facts."""
    alone: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["base"] is not None and row["other"] is not None:
            yield f"{row['path']}: {_value(row['base'])} -> {_value(row['other'])}"
        else:
            thing = ".".join(row["path"].split(".")[:2])
            side = "other" if row["base"] is None else "base"
            alone[thing, side] = alone.get((thing, side), 0) + 1
    for (thing, side), n in alone.items():
        yield f"{thing}: only the {side} uses {'it' if n == 1 else f'its {n} facts'}"


def _value(fact: dict[str, Any]) -> str:
    value = (
        fact["value_text"] if fact["value"] is None else f"{units.figures(fact['value'])} {fact['unit'] or ''}".strip()
    )
    return f"{_said(value)} ({fact['grade']})"

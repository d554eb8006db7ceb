"""A comparison as one self-contained HTML page: no script, no request to any network, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planner.aggregate.leaves import shown
from planner.errors import Fault, RunError
from planner.report.compare import Against, Comparison
from planner.report.compare_rows import Row
from planner.report.compare_sides import Side
from planner.report.compare_text import change, fact_lines, headline_rows, signed
from planner.report.page_html import document, esc, item_list, section, table
from planner.report.text import percent
from planner.words import plain

__all__ = ["page", "write"]

_MARKS = {"better": "met", "worse": "missed"}
"""Verdict -> the mark that colours it; the word says it too."""


def page(found: Comparison) -> str:
    """The page, whole: each other beside the base, every figure, what differs, and the rules."""
    return document(
        found.base.tree["title"],
        "".join(_one(ix, found.base, one) for ix, one in enumerate(found.against)),
        eyebrow="Comparison",
        foot="Made by planner from finished results; nothing on this page was simulated anew.",
    )


def write(found: Comparison, out: Path) -> Path:
    """Write the page.

    Raises:
        RunError: the disk refused.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(found), encoding="utf-8")
    except OSError as error:
        raise RunError(Fault(f"cannot write {out}: {error.strerror or error}", "choose another file with -o")) from None
    return out


def _one(ix: int, base: Side, one: Against) -> str:
    parts = [("against", f"{one.other.label} against {base.label}", _verdicts(base, one))]
    parts.append(("headline", "Headline", _figures(headline_rows(one))))
    if one.gates:
        parts.append(("rules", "Rules", _rules(one)))
    reasons = list(dict.fromkeys(row.refused for row in one.rows if row.refused))
    if reasons:
        parts.append(("refused", "Not compared, since the bases differ", _list(reasons)))
    if one.notes:
        parts.append(("notes", "Before you decide", _list(one.notes)))
    if one.scenario:
        parts.append(("asked", "Asked differently", _list([change(row) for row in one.scenario])))
    if one.facts:
        parts.append(("known", "Known differently", _list(list(fact_lines(one.facts)))))
    every = _figures([row for row in one.rows if row.is_there])
    parts.append(("all", "Every figure", f"<details><summary>Show all of them</summary>{every}</details>"))
    made = "".join(section(plain(title), body, at=f"{name}-{ix}") for name, title, body in parts)
    return f'<article class="variant" aria-label="{esc(one.other.label)}">{made}</article>'


def _rules(one: Against) -> str:
    rows = []
    for gate in one.gates:
        mark = _mark("met", "held") if gate.is_held else _mark("missed", "BROKEN")
        rows.append([esc(gate.rule), esc(gate.shown), mark])
    return table("Rules", ["Rule", "Found", "Held"], rows, words=(0, 1, 2))


def _verdicts(base: Side, one: Against) -> str:
    rows = []
    for which, side in (("base", base), ("other", one.other)):
        verdict = side.tree["verdict"]
        mark = _mark(verdict or "", verdict or "no limits")
        rows.append([esc(which), esc(side.label), esc(side.tree["title"]), mark])
    return table("The two results", ["", "Result", "Title", "Limits"], rows, words=(0, 1, 2, 3))


def _figures(rows: Sequence[Row]) -> str:
    has_worlds = any(row.worlds is not None for row in rows)
    head = ["Figure", "Base", "Other", "Difference", "", "Verdict", *(["Samples better"] if has_worlds else [])]
    return table("Figures side by side", head, [_cells(row, has_worlds=has_worlds) for row in rows], words=(0, 5))


def _cells(row: Row, *, has_worlds: bool) -> list[str]:
    metric = row.leaf.metric
    word = row.verdict or ("other basis" if row.refused else "-")
    if word in {"better", "worse", "differs"} and not row.is_sure:
        word += " ?"
    difference = "-" if row.difference is None else signed(row.difference, shown(abs(row.difference), metric))
    frac = "" if row.frac is None else f"{row.frac * 100:+.1f} %"
    cells = [
        esc(row.leaf.path),
        _data(row.base, shown(row.base, metric)),
        _data(row.other, shown(row.other, metric)),
        _data(row.difference, difference),
        esc(frac),
        _mark(_MARKS.get(row.verdict or "", ""), word),
    ]
    if has_worlds:
        better = None if row.worlds is None or row.verdict == "same" else row.worlds.better_frac
        cells.append("" if better is None else esc(percent(better)))
    return cells


def _data(value: float | None, text: str) -> str:
    return f'<data value="{"" if value is None else repr(value)}">{esc(text)}</data>'


def _mark(kind: str, word: str) -> str:
    return f'<span class="mark {esc(kind.split(maxsplit=1)[0])}">{esc(word)}</span>' if kind else esc(word)


def _list(lines: Sequence[str]) -> str:
    return item_list(esc(line) for line in lines)

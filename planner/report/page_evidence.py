"""Sections 6 to 8 of the page: the facts behind the figures, what the model leaves out, how to do it again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planner.aggregate.store import scenario_files
from planner.report.figures.series import rows_of
from planner.report.page_html import View, anchor, esc, fact_number, item_list, section, share, table

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["again", "evidence", "left_out", "sources"]

_LONGEST_TEXT = 60
_ADDRESS = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}/[A-Za-z0-9._~/?=%+-]*")


def evidence(view: View) -> str | None:
    """Every fact used: those that move the cost first, each with its share of all swings; the rest folded away."""
    seed = view.tree["run"]["seed"]
    rows = [row for row in rows_of(view.result, "facts", view.name) if row["seed"] == seed]
    swung = [row for row in rows if row["swing_usd_per_h"]]
    rest = [row for row in rows if not row["swing_usd_per_h"]]
    whole = sum(row["swing_usd_per_h"] for row in swung)
    known = frozenset(_known(view.result))
    head = ["Fact", "Value", "Low", "High", "Grade", "Source"]
    shown = [[*_fact(row, known), _part(row["swing_usd_per_h"], whole)] for row in swung]
    body = (
        table("Facts that move the cost, widest swing first", [*head, "Share of swing"], shown, words=(0, 4, 5))
        if shown
        else "<p>No fact behind the cost has a range.</p>"
    )
    if rest:
        folded = table(
            "Facts that the simulation is made of", head, (_fact(row, known) for row in rest), words=(0, 4, 5)
        )
        body += (
            f"<details><summary>{len(rest)} further facts, which move the speed or nothing, not the cost at this "
            f"speed</summary>{folded}</details>"
        )
    body += (
        '<p class="note">Grades: measured, vendor, third-party, estimate, assumed, undisclosed (a placeholder with a '
        "range). Swings are one fact at a time with the simulation held. What a source is, section Sources says.</p>"
    )
    return section("Evidence", body, at=anchor(view.name, "evidence"), level=view.level)


def _fact(row: Mapping[str, Any], known: Collection[str]) -> list[str]:
    value = fact_number(row, "value") if row["value"] is not None else esc(_cut(row["value_text"] or "-"))
    grade = esc(row["grade"] or "")
    if row["is_assumed"]:
        grade = f'<span class="assumed">{grade}</span>'
    if row["replaces"]:
        grade += f' <span class="sub">in place of {esc(row["replaces"])}</span>'
    note = f' title="{esc(row["note"])}"' if row["note"] else ""
    return [
        f"<span{note}>{esc(row['path'])}</span>",
        value,
        fact_number(row, "low"),
        fact_number(row, "high"),
        grade,
        " ".join(f'<a href="#{anchor("source", name)}">{esc(name)}</a>' for name in _named(row["source"], known))
        or esc(row["source"] or "-"),
    ]


def _named(text: str | None, known: Collection[str]) -> list[str]:
    """The sources that a fact names, as far as the result says what they are."""
    if text in known:
        return [text] if text else []
    names = (text or "").split()
    return names if names and all(name in known for name in names) else []


def _known(result: Result) -> dict[str, dict[str, Any]]:
    """What the result says of its sources; nothing where an earlier version of planner wrote it."""
    if "sources" not in result.tables:
        return {}
    return {row["source"]: row for row in result.tables["sources"].iter_rows(named=True)}


def sources(result: Result) -> str | None:
    """What each source is: title, where it stands, its kind, how much of it was read, its date."""
    known = _known(result)
    if not known:
        return None
    frame = result.tables["facts"]
    moving = frame.filter(frame["swing_usd_per_h"].fill_null(0.0) > 0)["source"].unique(maintain_order=True).to_list()
    first = dict.fromkeys(name for text in moving for name in _named(text, known))
    head = ["Source", "Title", "Where", "Kind", "Read", "Date"]
    parts = []
    for title, names in (("Behind the cost", [*first]), ("Behind the speed", [n for n in known if n not in first])):
        if not names:
            continue
        told = table(title, head, (_source(known[name]) for name in names), words=range(len(head)))
        is_first = title == "Behind the cost"
        folded = f"<details><summary>{len(names)} further sources, of the other facts</summary>{told}</details>"
        parts.append(told if is_first else folded)
    note = (
        '<p class="note">Kinds: web, repository, paper, dataset, article, assumption (of this catalogue), own (stated '
        "in the scenario). Read says how much of it was read by who entered the fact. A link is followed only by a "
        "click.</p>"
    )
    return section("Sources", "".join(parts) + note, at="sources")


def _source(row: Mapping[str, Any]) -> list[str]:
    note = f'<br><span class="sub">{esc(row["note"])}</span>' if row["note"] else ""
    return [
        f'<span id="{anchor("source", row["source"])}">{esc(row["source"])}</span>',
        f'<div class="wrap">{esc(row["title"])}{note}</div>',
        f'<div class="wrap">{_where(row["where"])}</div>',
        esc(row["kind"] or "-"),
        esc(row["read"] or "-"),
        esc(row["date"] or "-"),
    ]


def _where(text: str | None) -> str:
    """An address as a link, which a reader may follow; anything else as it is."""
    if text and _ADDRESS.fullmatch(text):
        return f'<a href="https://{esc(text)}" rel="noopener noreferrer">{esc(text)}</a>'
    return esc(text or "-")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


def _part(swing: float, whole: float) -> str:
    part = swing / whole
    bar = f'<span class="track"><span class="bar ink" style="width:{part * 100:.1f}%" aria-hidden="true"></span></span>'
    return f'<data value="{part!r}">{esc(share(part))}</data>{bar}'


def left_out(view: View) -> str | None:
    """What is not in the figures: parts of the cost that nobody named, the model's own limits, what the run said."""
    items = []
    if view.tree["cost"]["left_out"]:
        names = ", ".join(esc(name) for name in view.tree["cost"]["left_out"])
        items.append(f"Of the cost: {names}. They are charged where the scenario names them.")
    if view.tree["carbon"]["left_out"]:
        items.append(f"Of the carbon: {', '.join(esc(name) for name in view.tree['carbon']['left_out'])}.")
    if not view.has_intervals:
        items.append("Chance: one short run was made, so no figure has an interval (run.seeds, or a longer run).")
    if view.tree["run"]["length_s"] < 86_400:
        length = view.num("time", "run", "length_s")
        items.append(f"The rest of the day and week: {length} were simulated, as the scenario asks.")
    items.append(
        "Network congestion between racks, a chip's throttling by heat, and a serving engine's faults. What the "
        "step-time model is known to miss is in the documentation, with residuals against measured points "
        "(<code>planner validate</code>)."
    )
    said = [f"{esc(notice['message'])}" for notice in view.tree["notices"]]
    body = item_list(items) + (f"<p>The run itself noted:</p>{item_list(said)}" if said else "")
    return section("Left out", body, at=anchor(view.name, "left-out"), level=view.level)


def again(result: Result) -> str | None:
    """The exact commands, seeds, digest and versions."""
    commands = "\n".join(_commands(result))
    built = [f"{esc(name)} {esc(value)}" for name, value in sorted(result.built.items())]
    settings = [
        f"<b>{esc(name)}</b>: seed {tree['run']['seed']}"
        + (f", {tree['run']['seeds']} seeds" * (tree["run"]["seeds"] > 1))
        for name, tree in result.variants.items()
    ]
    body = (
        "<p>In the folder of this result. The same input gives the same bytes, on any machine and any number of "
        f'workers.</p><pre tabindex="0"><code>{commands}</code></pre>'
        + item_list([*settings, f"Inputs: <code>{esc(result.inputs)}</code>", *built])
        + "<p>Every figure on this page is in <code>result.json</code>, every table in the Parquet files beside it, "
        "the rows of each drawing in <code>figures/</code>.</p>"
    )
    return section("Again", body, at="again")


def _commands(result: Result) -> Iterable[str]:
    for file in scenario_files(list(result.variants)).values():
        yield f"planner run {esc(file)}"

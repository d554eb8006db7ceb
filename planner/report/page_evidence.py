"""Sections 6 to 8 of the page: the facts behind the figures, what the model leaves out, how to do it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planner import units
from planner.aggregate.store import scenario_files
from planner.report.figures.series import rows_of
from planner.report.page_html import View, anchor, esc, item_list, section, share, table

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["again", "evidence", "left_out"]

_KIND_OF_UNIT = {spec.unit: name for name, spec in reversed(units.KINDS.items())}
_LONGEST_TEXT = 60


def evidence(view: View) -> str | None:
    """Every fact used: those that move the cost first, each with its share of all swings; the rest folded away."""
    seed = view.tree["run"]["seed"]
    rows = [row for row in rows_of(view.result, "facts", view.name) if row["seed"] == seed]
    swung = [row for row in rows if row["swing_usd_per_h"]]
    rest = [row for row in rows if not row["swing_usd_per_h"]]
    whole = sum(row["swing_usd_per_h"] for row in swung)
    head = ["Fact", "Value", "Low", "High", "Grade", "Source"]
    shown = [[*_fact(row), _part(row["swing_usd_per_h"], whole)] for row in swung]
    body = (
        table("Facts that move the cost, widest swing first", [*head, "Share of swing"], shown, words=(0, 4, 5))
        if shown
        else "<p>No fact behind the cost has a range.</p>"
    )
    if rest:
        folded = table("Facts that the simulation is made of", head, (_fact(row) for row in rest), words=(0, 4, 5))
        body += (
            f"<details><summary>{len(rest)} further facts, which move the speed or nothing, not the cost at this "
            f"speed</summary>{folded}</details>"
        )
    body += (
        '<p class="note">Grades: measured, vendor, third-party, estimate, assumed, undisclosed (a placeholder with a '
        "range). Swings are one fact at a time with the simulation held. Sources are ids of the catalogue's "
        "bibliography: <code>planner catalog show</code>.</p>"
    )
    return section("Evidence", body, at=anchor(view.name, "evidence"), level=view.level)


def _fact(row: Mapping[str, Any]) -> list[str]:
    kind = _KIND_OF_UNIT.get(row["unit"] or "")

    def number(value: float | None) -> str:
        if value is None:
            return ""
        text = units.format(value, kind) if kind else units.figures(value)
        return f'<data value="{value!r}">{esc(text)}</data>'

    value = number(row["value"]) if row["value"] is not None else esc(_cut(row["value_text"] or "-"))
    grade = esc(row["grade"] or "")
    if row["is_assumed"]:
        grade = f'<span class="assumed">{grade}</span>'
    if row["replaces"]:
        grade += f' <span class="sub">in place of {esc(row["replaces"])}</span>'
    note = f' title="{esc(row["note"])}"' if row["note"] else ""
    return [
        f"<span{note}>{esc(row['path'])}</span>",
        value,
        number(row["low"]),
        number(row["high"]),
        grade,
        esc(row["source"] or "-"),
    ]


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

"""Several variants in one table, on top of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report.figures import registry
from planner.report.page_html import View, anchor, esc, section, table

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["side_by_side"]

_COLUMNS = (
    ("Cost an hour", "money", ("cost", "usd_per_h")),
    ("USD/Mtok out", "plain", ("cost", "usd_per_mtok_out_whole")),
    ("USD/Mtok all", "plain", ("cost", "usd_per_mtok_all")),
    ("J/token out", "plain", ("energy", "j_per_token_out_whole")),
    ("CO2e/Mtok out", "mass_co2", ("carbon", "kgco2e_per_mtok_out_whole")),
    ("Power, mean", "power", ("fleet", "facility_w", "mean")),
    ("Power, peak", "power", ("fleet", "facility_w", "peak")),
    ("Racks", "count", ("fleet", "racks")),
)


def side_by_side(result: Result) -> str | None:
    """The variants' verdicts and headline figures beside each other; None for one variant."""
    if len(result.variants) == 1:
        return None
    look = registry.look_of(result)
    rows = []
    for name, tree in result.variants.items():
        view = View(result, name, tree, look)
        verdict = tree["verdict"] or "no limits"
        word = verdict.upper() if verdict == "missed" else verdict
        rows.append(
            [
                f'<a href="#{anchor(name, "variant")}">{esc(name)}</a>',
                f'<span class="mark {verdict.split()[0]}">{esc(word)}</span>',
                *(view.num(kind, *path) for _, kind, path in _COLUMNS),
            ]
        )
    body = table(
        "Variants side by side", ["Variant", "Verdict", *(title for title, _, _ in _COLUMNS)], rows, words=(0, 1)
    )
    note = (
        '<p class="note">Whole cost, facility energy, and carbon of operation and making over output tokens; all '
        "variants under the same traffic unless they change it.</p>"
    )
    return section("Side by side", body + note, at="side-by-side")

"""What is beside the run itself: months and years walked hour by hour, and the sites of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.report.page_figures import figure
from planner.report.page_html import View, anchor, esc, section, table

if TYPE_CHECKING:
    from planner.report.figures.registry import Drawn

__all__ = ["horizon", "sites"]


def horizon(view: View, made: Sequence[Drawn]) -> str | None:
    """The hours of `run.horizon`: how many hold, how full the pools are, what it costs, and how far that is off."""
    found = view.tree.get("horizon")
    if not found:
        return None
    at = ("horizon", "fleet")
    words = (
        f"<p>{view.num('count', 'horizon', 'hours')} hours on response surfaces: {view.num('money', *at, 'usd')} in "
        f"all, {view.num('energy_kwh', *at, 'facility_kwh')} at the meter, "
        f"{view.num('mass_co2', *at, 'operational_kgco2e')} of electricity, "
        f"{view.num('plain', *at, 'usd_per_mtok_out_whole')} USD/Mtok out.{_beyond(view)}</p>"
    )
    parts = [words, _classes(view), _pools(view), _checked(view)]
    for drawn in made:
        if drawn.figure.name == "horizon" and drawn.chart is not None:
            parts.append(figure(view, drawn, is_alone=True))
    return section("Over the horizon", "".join(parts), at=anchor(view.name, "horizon"), level=view.level)


def _beyond(view: View) -> str:
    if not view.tree["horizon"]["hours_beyond"]:
        return ""
    return f" {view.num('count', 'horizon', 'hours_beyond')} hours lie beyond the last sample and have no figures."


def _classes(view: View) -> str:
    rows = []
    for name in view.tree["horizon"]["classes"]:
        at = ("horizon", "classes", name)
        rows.append(
            [
                esc(name),
                view.num("count", *at, "hours_met"),
                view.num("count", *at, "hours_missed"),
                view.num("share", *at, "attainment_frac"),
                view.num("rate", *at, "mean_req_per_s"),
                view.num("rate", *at, "peak_req_per_s"),
                view.num("count", *at, "worst_hour"),
            ]
        )
    head = ["Class", "Hours met", "Hours missed", "Attained", "Mean load", "Peak hour's load", "Worst hour"]
    return table("Hours by class", head, rows)


def _pools(view: View) -> str:
    rows = []
    for name in view.tree["horizon"]["pools"]:
        at = ("horizon", "pools", name)
        rows.append(
            [
                view.swatch(name),
                view.num("share", *at, "mean_load_frac"),
                view.num("share", *at, "peak_load_frac"),
                view.num("power", *at, "facility_w", "mean"),
                view.num("power", *at, "facility_w", "peak"),
            ]
        )
    head = ["Pool", "Load, mean", "Load, peak hour", "Power, mean", "Power, peak hour"]
    return table("Load and power by pool; load is over what holds the limits", head, rows)


def _checked(view: View) -> str:
    """How far the surfaces are off, at hours that were simulated too."""
    checked = view.tree["horizon"]["checked"]
    if not checked["hours"]:
        return ""
    rows = []
    for ix, each in enumerate(checked["differences"]):
        at = ("horizon", "checked", "differences", ix)
        rows.append(
            [
                esc(each["class"]),
                f"{esc(each['metric'])} {esc(each['quantile'])}",
                view.num("signed", *at, "median_frac"),
                view.num("signed", *at, "worst_frac"),
            ]
        )
    told = (
        f'<p class="note">{view.num("count", "horizon", "checked", "hours")} of the hours were simulated in full: '
        f"simulated over what the surface says, less one. In "
        f"{view.num('count', 'horizon', 'checked', 'verdicts_differ')} of them the verdict is another.</p>"
    )
    return table("Surface against simulation", ["Class", "Metric", "Median", "Worst"], rows, words=(0, 1)) + told


def sites(view: View) -> str:
    """A row for each site, where there are several."""
    found = view.tree.get("sites") or {}
    if len(found) < 2:
        return ""
    rows = []
    for name in found:
        at = ("sites", name)
        rows.append(
            [
                esc(name),
                view.num("count", *at, "racks"),
                view.num("power", *at, "facility_w", "mean"),
                view.num("power", *at, "facility_w", "peak"),
                view.num("power", *at, "provisioned_w"),
                view.num("power", *at, "power_limit_w"),
                view.num("money", *at, "usd_per_h"),
                view.num("money", *at, "energy_usd_per_h"),
                view.num("mass_co2", *at, "operational_kgco2e"),
            ]
        )
    head = ["Site", "Racks", "Power, mean", "Power, peak", "Provisioned", "Limit", "Cost an hour", "Energy an hour"]
    return table("The fleet by site", [*head, "CO2e of the span"], rows)

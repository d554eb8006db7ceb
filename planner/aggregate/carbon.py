"""Operational carbon: facility energy times the grid's intensity. What making the racks emitted is left out here."""

from __future__ import annotations

from collections.abc import Mapping

from planner.aggregate.per_token import MTOK, over
from planner.facts.fact import Fact


def carbon(facility_kwh: float, intensity: Fact, tokens: Mapping[str, float]) -> dict[str, float | None]:
    """kgCO2e of the measured span, whole and per million tokens."""
    kgco2e = facility_kwh * intensity.number
    return {
        "operational_kgco2e": kgco2e,
        "kgco2e_per_mtok_all": over(kgco2e, (tokens["input"] + tokens["output"]) / MTOK),
        "kgco2e_per_mtok_out_whole": over(kgco2e, tokens["output"] / MTOK),
    }

"""What `planner optimize` aims at, within what, and over which spans of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from planner.scenario.fields import Bounds, Factor, Name, Quantity, Seconds, Share, Text, Whole
from planner.scenario.section import Section, Trouble

_Usd = Annotated[float, Quantity("money", Bounds(least=0.0))]
_Goal = Literal["tco", "capex", "energy", "carbon"]


class Weights(Section):
    """A sum of goals: what a unit of each counts, in dollars."""

    tco: Annotated[float, Factor(Bounds(least=0.0, most=1e6))] = 0.0
    """What a dollar of the discounted cost counts."""
    capex: Annotated[float, Factor(Bounds(least=0.0, most=1e6))] = 0.0
    """What a dollar of cash at order counts."""
    energy_usd_per_kwh: Annotated[float, Quantity("usd_per_kwh", Bounds(least=0.0))] = Field(0.0, alias="energy")
    """What a unit of electricity at the meter counts, beside its price."""
    carbon_usd_per_tco2e: Annotated[float, Quantity("usd_per_tco2e", Bounds(least=0.0))] = Field(0.0, alias="carbon")
    """What a ton of carbon counts."""

    def laws(self) -> Iterator[Trouble]:
        if not any((self.tco, self.capex, self.energy_usd_per_kwh, self.carbon_usd_per_tco2e)):
            yield Trouble((), "no goal has a weight", "write tco: 1, and what the others count beside it")


class VendorRange(Section):
    """How much of the fleet may be one vendor's: its share of the racks' purchase value, in every period."""

    min_frac: Share = Field(0.0, alias="min")
    """The least share."""
    max_frac: Share = Field(1.0, alias="max")
    """The greatest share."""

    def laws(self) -> Iterator[Trouble]:
        if self.max_frac < self.min_frac:
            yield Trouble(
                ("max",), f"max {self.max_frac:g} is below min {self.min_frac:g}", "write the smaller one as min"
            )


class Goal(Section):
    """What `planner optimize` aims at."""

    minimise: Annotated[_Goal | None, BeforeValidator(lambda v: None if isinstance(v, Mapping) else v)] = "tco"
    """The figure to make small; a map `{tco: 1, carbon: 100 USD/tCO2e}` makes a weighted sum small."""
    weights: Annotated[Weights | None, BeforeValidator(lambda v: v if isinstance(v, Mapping) else None)] = Field(
        None, alias="minimise"
    )
    """The weights, when `minimise` is a map."""
    then: _Goal | None = None
    """A second goal, among plans that are as good in the first."""
    subject_to: Literal["slo"] = "slo"
    """What has to hold."""
    horizon_years: Annotated[float, Quantity("years", Bounds(above=0.0, most=100.0))] | None = Field(
        None, alias="horizon"
    )
    """Years over which cost is counted; the length of all periods, or the racks' life, when absent."""
    budget_usd: Annotated[_Usd | None, BeforeValidator(lambda v: None if _is_by_period(v) else v)] = Field(
        None, alias="budget"
    )
    """Most cash for racks, network and storage; in total, or by period as {period: money}."""
    budget_by_period_usd: Annotated[
        dict[Name, _Usd] | None, BeforeValidator(lambda v: v if _is_by_period(v) else None)
    ] = Field(None, alias="budget")
    """The budget of each period, when `budget` is a map."""
    carbon_limit_kgco2e: Annotated[float, Quantity("mass_co2", Bounds(least=0.0))] | None = Field(
        None, alias="carbon_limit"
    )
    """Most carbon over the horizon: electricity at the meter, and the share of making the racks."""
    vendors: dict[Name, VendorRange] = Field(default_factory=dict)
    """Least and greatest share of a vendor (`nvidia`, `openai`, `amd`), by purchase value of the racks that stand."""
    order: Text | None = None
    """The date of the first order, as 2026-07-01: racks then come a lead time later at the earliest."""
    gap_frac: Annotated[float, Quantity("frac", Bounds(least=0.0, most=0.5))] = Field(0.001, alias="gap")
    """The search ends when no plan can be better by more than this."""
    nodes: Annotated[int, Whole(1, 100_000_000)] = 200_000
    """The search ends after so many nodes; the plan is then marked stopped."""
    time_limit_s: Seconds | None = Field(None, alias="time_limit")
    """The search ends after so long; the plan is then marked stopped, and may be another on another machine."""
    rounds: Annotated[int, Whole(1, 100)] = 6
    """How often a plan that misses a limit in the simulation is mended."""
    tries: Annotated[int, Whole(0, 10_000)] = 6
    """How many cheaper plans are simulated that the surfaces exclude only within their interval."""

    samples: Annotated[int, Whole(2, 10_000)] | None = None
    """Samples of the uncertain facts against which purchases are weighed; none when absent."""
    cvar_frac: Annotated[float, Quantity("frac", Bounds(above=0.0, most=1.0))] = Field(0.1, alias="cvar")
    """The share of worst samples whose mean cost is shown beside the expected one, and weighed by `risk`."""
    risk_frac: Annotated[float, Quantity("frac", Bounds(least=0.0, most=1.0))] = Field(0.0, alias="risk")
    """How much that mean weighs in what is ordered first under uncertain facts; the expected cost weighs the rest."""

    def laws(self) -> Iterator[Trouble]:
        if self.samples is None:
            for name, alias in (("cvar_frac", "cvar"), ("risk_frac", "risk")):
                if name in self.model_fields_set:
                    yield Trouble((alias,), "no samples are drawn: it changes nothing", "write samples too")
        if self.order is not None and _no_date(self.order):
            yield Trouble(("order",), f"{self.order} is no date", "write it as 2026-07-01")
        if self.then is not None and self.then == self.minimise:
            yield Trouble(("then",), f"the second goal is the first, {self.then}", "take it away, or name another")


def _is_by_period(value: Any) -> bool:
    return isinstance(value, Mapping) and "value" not in value


def _no_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return True
    return False


class Period(Section):
    """A span of the plan in which the fleet and its demand stay as they are."""

    name: Name
    """Its name in the plan."""
    start: Text | None = None
    """When it starts: a date (2027-01-01), or a time after the plan's start (6 months)."""
    length_years: Annotated[float, Quantity("years", Bounds(above=0.0, most=100.0))] = Field(alias="length")
    """How long it is."""
    growth: dict[Name, Annotated[float, Factor(Bounds(above=0.0, most=1e6))]] = Field(default_factory=dict)
    """Load of each class as a multiple of what the traffic section says."""

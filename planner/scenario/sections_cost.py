"""Where the fleet stands, what it costs, what is aimed at, and how long is simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from planner.facts.schema import Fact
from planner.scenario.fields import Bounds, FactOf, Name, Quantity, Seconds, SecondsOrNone, Share, Text, Whole
from planner.scenario.section import Section, Trouble, idle
from planner.scenario.spans import StartOf, spans

_Usd = Annotated[float, Quantity("money", Bounds(least=0.0))]
_Pue = Annotated[Fact, FactOf("ratio", Bounds(least=1.0, most=5.0))]
_PowerPrice = Annotated[Fact, FactOf("usd_per_kwh", Bounds(least=0.0, most=100.0))]
_Carbon = Annotated[Fact, FactOf("carbon_intensity", Bounds(least=0.0, most=5.0))]
_ByHour = AfterValidator(lambda value: spans(value, 24, "hours", first=0))
_ByMonth = AfterValidator(lambda value: spans(value, 12, "months", first=1))
_RoundTrip = Annotated[Fact, FactOf("time", Bounds(least=0.0, most=4.0))]
_ShareOfCapex = Annotated[Fact, FactOf("frac_per_year", Bounds(least=0.0, most=1.0))]


class Site(Section):
    """Where the racks stand: price of electricity, carbon of the grid, overhead of the building."""

    name: Text | None = None
    """A site of the catalogue that gives price (industrial), carbon and PUE; each can be set here."""
    grid: Text | None = None
    """A site of the catalogue of which only the carbon of its grid is taken."""
    power_price_usd_per_kwh: _PowerPrice | None = Field(None, alias="power_price")
    """Price of electricity."""
    pue: _Pue | None = None
    """Facility energy per IT energy; a plain number."""
    carbon_kgco2e_per_kwh: _Carbon | None = Field(None, alias="carbon")
    """Carbon of a unit of electricity."""
    power_price_by_hour: Annotated[dict[Text, _PowerPrice], _ByHour] = Field(default_factory=dict)
    """Price of electricity by hour of the local day, in place of `power_price`: `{22-6: 0.05 USD/kWh, 6-22: ...}`."""
    carbon_by_hour: Annotated[dict[Text, _Carbon], _ByHour] = Field(default_factory=dict)
    """Carbon of a unit of electricity by hour of the local day, in place of `carbon`."""
    pue_by_month: Annotated[dict[Text, _Pue], _ByMonth] = Field(default_factory=dict)
    """PUE by month, in place of `pue`: `{1-4: 1.1, 5-9: 1.25, 10-12: 1.1}`; the power limit counts with the highest."""
    power_limit_w: Annotated[float, Quantity("power")] | None = Field(None, alias="power_limit")
    """Most power at the meter: the racks' rated power times PUE has to stay inside."""
    positions: Annotated[int, Whole(1, 10_000_000)] | None = None
    """Rack positions of the floor: the racks' footprints have to fit."""
    round_trip_s: _RoundTrip | None = Field(None, alias="round_trip")
    """From the clients to the site and back: part of every ttft, e2e and task, and of the pause between two requests of
    a session; no time when absent."""
    round_trip_by_class: dict[Name, _RoundTrip] = Field(default_factory=dict)
    """The same by class, for clients that are nearer or farther than `round_trip` says: `{chat: 80 ms}`."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        for table, flat in (
            ("power_price_by_hour", "power_price"),
            ("carbon_by_hour", "carbon"),
            ("pue_by_month", "pue"),
        ):
            if table in data:
                yield from idle(data, [flat], f"`{table}` is given: take one of the two away")
        given = {flat for flat, table in _TABLES.items() if flat in data or table in data}
        if "carbon" in given:
            yield from idle(data, ["grid"], "the carbon is given: take one of the two away")
        if given == set(_TABLES):
            yield from idle(data, ["name"], "price, carbon and PUE are all given")


_TABLES = {"power_price": "power_price_by_hour", "carbon": "carbon_by_hour", "pue": "pue_by_month"}
"""A flat value of a site -> its table over time."""


class SiteShare(Site):
    """One of several sites, with its share of the fleet or its pools."""

    share_frac: Share | None = Field(None, alias="share")
    """Share of every pool's racks that stands here."""
    pools: tuple[Text, ...] | None = None
    """The pools that stand here."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        yield from super().rules(data)
        if ("share" in data) == ("pools" in data):
            yield Trouble((), "a site of several has its share or its pools", "write share: 50 % or pools: [NAME]")


class CostSpec(Section):
    """Money: what is not named here is the catalogue's, or left out where section 12 of the design says so."""

    life_years: Annotated[Fact, FactOf("years", Bounds(above=0.0, most=100.0))] | None = Field(None, alias="life")
    """Years over which a rack is paid off."""
    discount_frac: _ShareOfCapex | None = Field(None, alias="discount")
    """Cost of capital a year."""
    residual_frac: Annotated[Fact, FactOf("frac", Bounds(least=0.0, most=1.0))] | None = Field(None, alias="residual")
    """Share of capex that a rack is worth at the end of its life."""
    upkeep_frac: _ShareOfCapex | None = Field(None, alias="upkeep")
    """Repairs, and what of spares and support is not named by itself, as a share of capex a year."""
    network_usd_per_chip: Annotated[Fact, FactOf("usd_per_chip")] | None = Field(None, alias="network")
    """Scale-out network, for each chip."""
    storage_frac: Annotated[Fact, FactOf("frac", Bounds(least=0.0, most=10.0))] | None = Field(None, alias="storage")
    """Storage, as a share of the racks' capex."""
    installation_frac: Annotated[Fact, FactOf("frac", Bounds(least=0.0, most=10.0))] | None = Field(
        None, alias="installation"
    )
    """Delivery, cabling and commissioning, once, as a share of the racks' capex; not charged when absent."""
    spares_frac: Annotated[Fact, FactOf("frac", Bounds(least=0.0, most=10.0))] | None = Field(None, alias="spares")
    """Spare parts kept on site, once, as a share of the racks' capex; in `upkeep` when absent."""
    support_frac: _ShareOfCapex | None = Field(None, alias="support")
    """Support contracts, as a share of capex a year; in `upkeep` when absent."""
    space_usd_per_kw_month: Annotated[Fact, FactOf("usd_per_kw_month")] | None = Field(None, alias="space")
    """Floor space and cooling, for each kW of rated rack power; not charged when absent."""
    staff_usd_per_year: Annotated[Fact, FactOf("usd_per_year")] | None = Field(None, alias="staff")
    """People, for the whole fleet; not charged when absent."""
    software_usd_per_year: Annotated[Fact, FactOf("usd_per_year")] | None = Field(None, alias="software")
    """Licences, for the whole fleet; not charged when absent."""
    demand_usd_per_kw_month: Annotated[Fact, FactOf("usd_per_kw_month")] | None = Field(None, alias="demand")
    """Demand charge, for each kW of the facility's peak; not charged when absent."""
    insurance_frac: _ShareOfCapex | None = Field(None, alias="insurance")
    """Insurance and tax, as a share of capex a year; not charged when absent."""
    allocation: Literal["busy-time", "tokens", "output"] = "busy-time"
    """How joint cost is shared between input and output: by busy time of prefill and decode, evenly over all tokens, or
    all of it to output."""


class RunSpec(Section):
    """How long is simulated, how often, and what is measured."""

    length_s: Seconds | None = Field(None, alias="length")
    """Arrivals stop here; the trace's span when absent."""
    warmup_s: SecondsOrNone = Field(0.0, alias="warmup")
    """Requests that arrive earlier are served but not measured."""
    drain_s: SecondsOrNone = Field(600.0, alias="drain")
    """Time after the last arrival; what is not done by then is unfinished."""
    seed: Annotated[int, Whole(0, 2**63 - 1)] = 1
    """Where every random number starts from; further seeds count up from it."""
    seeds: Annotated[int, Whole(1, 1000)] = 1
    """Number of repetitions, each with its own seed; intervals are over them."""
    window_s: Annotated[float, Quantity("time", Bounds(least=1e-3, most=3.2e9))] = Field(60.0, alias="window")
    """Width of the rows of windows.parquet."""
    start: Annotated[str, StartOf()] | None = None
    """Local date and hour at which the run begins (`2027-07-01 09:00`), for what a site's tables say of hours and
    months; the mean over the day and the year when absent."""
    samples: Annotated[int, Whole(2, 10_000)] | None = None
    """Draws of the uncertain facts for intervals and the tornado; none are drawn when absent."""
    samples_simulated: Annotated[int, Whole(1, 10_000)] = 16
    """How many different draws of `samples` are simulated; the others share one and differ in money and power."""
    horizon_years: Annotated[float, Quantity("years", Bounds(above=0.0, most=20.0))] | None = Field(
        None, alias="horizon"
    )
    """Time over which the load is followed hour by hour (shapes, growth) on response surfaces, beside the run."""
    days: Annotated[int, Whole(0, 366)] = 2
    """Days of the horizon that are simulated to see how far the surfaces are off; that with the peak comes first."""
    split_s: Seconds | None = Field(None, alias="split")
    """Length of the parts that a long run is cut into, each simulated by itself with `warmup` on both sides."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        if "samples" not in data:
            yield from idle(data, ["samples_simulated"], "no samples are drawn: write samples too")
        if "horizon" not in data:
            yield from idle(data, ["days"], "no horizon is walked: write horizon too")

    def laws(self) -> Iterator[Trouble]:
        for key, value_s in (("split", self.split_s), ("warmup", self.warmup_s)):
            if self.split_s is not None and value_s is not None and round(value_s * 1e9) % round(self.window_s * 1e9):
                what = f"{key} is no multiple of the window, which is {self.window_s:g} s"
                yield Trouble((key,), what, "parts are cut between windows: write run.window too")
        if (
            self.samples is not None
            and self.samples_simulated > self.samples
            and "samples_simulated" in self.model_fields_set
        ):
            yield Trouble(
                ("samples_simulated",), "more draws are simulated than there are samples", "at most as many as samples"
            )
        if self.length_s is not None:
            if self.warmup_s >= self.length_s:
                yield Trouble(("warmup",), "the warm-up is not shorter than the run", "nothing would be measured")
            if self.split_s is not None and self.split_s <= self.warmup_s:
                yield Trouble(("split",), "the parts are not longer than the warm-up", "lengthen them")
            if (self.length_s + self.drain_s) / self.window_s > 10_000_000:
                yield Trouble(("window",), "the run would have more than ten million windows", "widen the window")

"""What happens to replicas while they serve: failures, maintenance, autoscaling, and drafts of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from planner.facts.schema import Fact
from planner.scenario.fields import Bounds, Count, FactOf, Factor, Quantity, Seconds, SecondsOrNone, Whole
from planner.scenario.section import Section, Trouble, needs

_PerYear = Annotated[Fact, FactOf("per_year", Bounds(least=0.0, most=1e5))]
_OfOne = Annotated[Fact, FactOf("frac", Bounds(least=0.0, most=1.0))]
_Repair = Annotated[Fact, FactOf("time", Bounds(above=0.0, most=3.2e7))]


class Speculation(Section):
    """Speculative decoding: a draft of tokens that one step verifies."""

    draft: Annotated[int, Whole(0, 64)]
    """Tokens that are drafted for each sequence and step."""
    acceptance_frac: _OfOne = Field(alias="acceptance")
    """Chance that a drafted token is accepted, given that those before it were; it has to be known, never assumed."""
    draft_cost_frac: _OfOne | None = Field(None, alias="draft_cost")
    """What drafting a token takes, as a share of a step without drafts; nothing when absent, and the result says so."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        way_out = (
            "measure it on prompts like these (engines report it) and write acceptance: 70 %, or take speculation away"
        )
        yield from needs(data, ["acceptance"] if "draft" in data else [], way_out)


class Failures(Section):
    """Failures that come by chance. `default` takes the catalogue's reliability facts."""

    rate_per_chip_year: _PerYear | None = Field(None, alias="rate")
    """Failures of a chip in a year, each of which takes its replica down."""
    repair_s: _Repair | None = Field(None, alias="repair")
    """Time until the replica serves again, in place of the catalogue's tray repair."""
    rack_rate_per_year: _PerYear | None = Field(None, alias="rack_rate")
    """Outages of a whole rack in a year, which take the replicas of all deployments on it."""
    rack_repair_s: _Repair | None = Field(None, alias="rack_repair")
    """Time until a rack serves again."""
    acceleration: Annotated[float, Factor(Bounds(above=0.0, most=1e6))] = 1.0
    """How many times more often everything fails: a short run then sees what a year would bring."""

    @classmethod
    def expand(cls, data: Any) -> Any:
        return {} if data == "default" else data


class Outage(Section):
    """Replicas that are down at a known time."""

    at_s: SecondsOrNone = Field(alias="at")
    """When they go down, from the begin of the run."""
    length_s: Seconds = Field(alias="length")
    """For how long."""
    replicas: Count = 1
    """How many, the first of the pool's."""


class Autoscale(Section):
    """Replicas that are switched on and off with the load, of each deployment of the pool by itself."""

    min: Count = 1
    """The fewest replicas of a deployment that serve."""
    max: Count | None = None
    """The most; all that its racks hold when absent."""
    target_frac: Annotated[float, Quantity("frac", Bounds(above=0.0, most=10.0))] = Field(0.7, alias="target")
    """Requests in the system over what the serving replicas hold at their largest batch; above it one is added."""
    delay_s: SecondsOrNone = Field(120.0, alias="delay")
    """Time between two decisions."""

    def laws(self) -> Iterator[Trouble]:
        if self.max is not None and self.max < self.min:
            yield Trouble(("max",), f"max {self.max} is below min {self.min}", "write the smaller one as min")

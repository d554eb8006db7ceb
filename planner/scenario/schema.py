"""The whole of a scenario: the file's top level as people write it, and `Scenario`, what the rest of planner reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from planner.errors import Notice
from planner.scenario.fields import Name, Text, Title, Whole
from planner.scenario.section import Section, Trouble
from planner.scenario.sections_clients import Agents, Burst, Pause, Region, Retries, Sessions, Shape, Turns
from planner.scenario.sections_cost import CostSpec, RunSpec, Site, SiteShare
from planner.scenario.sections_fleet import CountRange, Deploy, FleetSpec, Pool, Survive
from planner.scenario.sections_goal import Goal, Period, VendorRange, Weights
from planner.scenario.sections_operation import Autoscale, Failures, Outage, Speculation
from planner.scenario.sections_traffic import Dist, Limit, Slo, TrafficClass
from planner.scenario.tree import Origin, Tree

if TYPE_CHECKING:
    from planner.scenario.unsupported import Found

__all__ = [
    "Agents",
    "Autoscale",
    "Burst",
    "CostSpec",
    "CountRange",
    "Deploy",
    "Dist",
    "Failures",
    "FleetSpec",
    "Goal",
    "Limit",
    "Outage",
    "Pause",
    "Period",
    "Pool",
    "Question",
    "Region",
    "Retries",
    "RunSpec",
    "Scenario",
    "ScenarioFile",
    "Sessions",
    "Shape",
    "Site",
    "SiteShare",
    "Slo",
    "Speculation",
    "Survive",
    "Sweep",
    "TrafficClass",
    "Turns",
    "VendorRange",
    "Weights",
]


class Question(Section):
    """One question: the sections of a scenario after merging, without those that make variants of it."""

    schema_version: Annotated[int, Whole(1, 1)] = Field(1, alias="schema")
    """Version of this file format: 1."""
    title: Title
    """What the scenario is about, in a line; it heads the results."""
    question: Text | None = None
    """The question that the run has to answer."""
    traffic: dict[Name, TrafficClass]
    """The classes of requests, by name."""
    slo: dict[Name, Slo] = Field(default_factory=dict)
    """Sets of limits, by the name that classes use."""
    fleet: FleetSpec
    """The racks and how requests reach them."""
    site: Site = Field(default_factory=lambda: Site.model_validate({}))
    """Where the racks stand."""
    sites: dict[Name, SiteShare] = Field(default_factory=dict)
    """Several sites, each with its share of the fleet or its pools; in place of `site`."""
    cost: CostSpec = Field(default_factory=lambda: CostSpec.model_validate({}))
    """Money that differs from the catalogue's."""
    goal: Goal | None = None
    """What `planner optimize` aims at."""
    periods: tuple[Period, ...] = ()
    """The spans of a plan over time, in order and without a gap."""
    run: RunSpec = Field(default_factory=lambda: RunSpec.model_validate({}))
    """How long is simulated and how often."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        if data.get("traffic") == {}:
            yield Trouble(("traffic",), "no class of traffic is described", "write at least one")
        if "site" in data and "sites" in data:
            yield Trouble(("sites",), "both site and sites are given", "take one of the two away")

    def laws(self) -> Iterator[Trouble]:
        shares = [site.share_frac for site in self.sites.values() if site.share_frac is not None]
        if shares and abs(sum(shares) - 1.0) > 1e-6:
            yield Trouble(("sites",), f"the shares sum to {sum(shares) * 100:g} %", "they have to sum to 100 %")


class Sweep(Section):
    """Values to run the scenario at."""

    axes: dict[Text, tuple[Any, ...]]
    """Path of a value, as in --set PATH=VALUE, and the values it takes."""


class ScenarioFile(Question):
    """A scenario file as it is written."""

    extends: Text | None = None
    """Another scenario file, as ./base.yaml, that this one is laid over."""
    overrides: dict[Name, dict[str, Any]] = Field(default_factory=dict)
    """Named sets of changes: dotted path -> value; null removes."""
    scenarios: dict[Name, tuple[Name, ...]] = Field(default_factory=dict)
    """Named variants, each a list of overrides."""
    sweep: Sweep | None = None
    """Values to run the scenario at, for `planner sweep`."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario ready to run: merged, checked, every quantity in the unit that its name says.

    Two scenarios are equal when they ask the same, wherever their values were written.
    """

    name: str
    """The variant: `base`, or its name in `scenarios`."""
    title: str
    question: str | None
    traffic: Mapping[str, TrafficClass]
    slo: Mapping[str, Slo]
    fleet: FleetSpec
    site: Site
    sites: Mapping[str, SiteShare]
    cost: CostSpec
    goal: Goal | None
    periods: tuple[Period, ...]
    run: RunSpec
    variants: Mapping[str, tuple[str, ...]] = field(compare=False)
    """The variants of the file, each with its overrides; those of the base scenario are not listed."""
    sweep: Sweep | None = field(compare=False)
    tree: Tree = field(compare=False, repr=False)
    """The merged file, each value with its origin."""
    base_dir: Path = field(compare=False)
    """The folder that `./file` starts from."""
    unsupported: tuple[Found, ...] = field(default=(), compare=False)
    """Keys that are right and that not every verb acts on; the others refuse them, or say that they go without."""
    notices: tuple[Notice, ...] = field(default=(), compare=False)
    """What is worth saying about the scenario and is no fault."""

    @property
    def origins(self) -> dict[str, Origin]:
        """Where each value was written, by its dotted path."""
        from planner.scenario.tree import show

        return {show(path): leaf.origin for path, leaf in self.tree.walk() if not isinstance(leaf.value, (dict, list))}

    def resolved(self) -> dict[str, Any]:
        """The merged file as a plain tree, without `extends`, `overrides`, `scenarios` and `sweep`.

        Loading it again gives an equal scenario.
        """
        from planner.scenario.dump import plain

        return plain(self.tree)

    def digest(self) -> str:
        """A hash of what is asked: the resolved file, with the contents of files left to those who read them."""
        from planner.scenario.dump import without_paths

        text = json.dumps(without_paths(self.tree), ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

"""What a run would begin with: the fleet as it is laid out, and the requests that no replica can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.fleet.layout import lay_out
from planner.study.fits import check_fits, check_span, kv_tokens_needed, longest_sequence
from planner.study.run import mean_lengths

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet
    from planner.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Preview:
    """A scenario that can be run."""

    fleet: Fleet
    offered: Mapping[str, int]
    """Requests of each class under the first seed."""
    too_large: Mapping[str, int]
    """Those among them that exceed the longest sequence of every replica that the class may use: they are rejected."""


def preview(scenario: Scenario) -> Preview:
    """The fleet and traffic of a scenario, without simulating it. Raises as `planner.run` does before it simulates."""
    from planner.traffic.requests import for_scenario

    fleet = lay_out(scenario, mean_lengths(scenario))
    traffic = for_scenario(scenario, scenario.run.seed)
    check_span(scenario, traffic.length_ns)
    all_needs = [kv_tokens_needed(traffic, ix) for ix in range(len(scenario.traffic))]
    check_fits(scenario, fleet, [int(needs.min()) if needs.len() else 0 for needs in all_needs])  # type: ignore[arg-type]
    offered, too_large = {}, {}
    for needs, name in zip(all_needs, scenario.traffic, strict=True):
        offered[name] = needs.len()
        too_large[name] = int((needs > longest_sequence(scenario, fleet, name)).sum())
    return Preview(fleet, offered, too_large)

"""What a run would begin with: the fleet as it is laid out, and the requests that no replica can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.fleet.layout import lay_out
from planner.study.fits import check_fits, check_span, kv_tokens_needed, longest_sequence
from planner.study.run import mean_lengths
from planner.traffic import streamed
from planner.traffic.streamed import Seen

if TYPE_CHECKING:
    import polars as pl

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
    fleet = lay_out(scenario, mean_lengths(scenario))
    length_ns, frames = _drawn(scenario)
    check_span(scenario, length_ns)
    names = list(scenario.traffic)
    longest = [longest_sequence(scenario, fleet, name) for name in names]
    seen, too_large = [Seen(0, 0, 0)] * len(names), [0] * len(names)
    for frame in frames:
        for ix, limit in enumerate(longest):
            needs = kv_tokens_needed(frame, ix)
            seen[ix] = seen[ix].with_more(Seen(needs.len(), 0, int(needs.min() or 0)))  # type: ignore[arg-type]
            too_large[ix] += int((needs > limit).sum())
    check_fits(scenario, fleet, [each.shortest_kv_tokens for each in seen])
    offered = [each.n for each in seen]
    return Preview(fleet, dict(zip(names, offered, strict=True)), dict(zip(names, too_large, strict=True)))


def _drawn(scenario: Scenario) -> tuple[int, Iterable[pl.DataFrame]]:
    """Where arrivals stop under the first seed, and the requests: many of them some at a time."""
    from planner.traffic.requests import for_scenario

    found = streamed.many(scenario, scenario.run.seed, prefixes=False)
    if found is None:
        traffic = for_scenario(scenario, scenario.run.seed)
        return traffic.length_ns, [traffic.frame]
    return found.length_ns, (frame for (frame,) in streamed.Walk(found, streamed.Shared.of(found)))

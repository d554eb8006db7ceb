"""Prompts that are handed over as rows of the program: keys and values moved a second within what the link takes.

The simulator has one link for the fleet. Where `fleet.kv_link` says how wide it is, that is the row; otherwise it is as
wide as the scale-out links of the narrower side, so there is a row for each side, wider with every replica there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.optimize.instance import Instance, Link

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet
    from planner.optimize.build import Use
    from planner.scenario import Scenario
    from planner.study.group import Part

GB = 1e9
GIVEN, PREFILL, DECODE = "kv link", "links of prefill", "links of decode"


@dataclass(slots=True)
class Row:
    """A link in one span, in GB/s."""

    terms: dict[int, float]
    """By column of a share: what all requests of its class hand over there at the peak."""
    by_replica: tuple[tuple[int, int, float], ...]
    """(kind, option, what a replica adds)."""
    gb_per_s: float
    """What the link takes whatever stands."""


def rows_of(instance: Instance, t: int, shares: Sequence[int]) -> list[tuple[Link, Row]]:
    """The links of a span; `shares` are the columns of the ways' shares in it."""
    span, held = instance.spans[t], 1.0 - instance.spare_frac
    found = []
    for link in instance.links:
        terms: dict[int, float] = {}
        for w, n_bytes in link.bytes_by_way:
            peak = span.peak_req_per_s[instance.ways[w].cls]
            terms[shares[w]] = terms.get(shares[w], 0.0) + peak * n_bytes / held / GB
        by_replica = tuple((k, o, bytes_per_s / GB) for k, o, bytes_per_s in link.by_replica)
        found.append((link, Row(terms, by_replica, link.bytes_per_s / GB)))
    return found


def links_of(
    scenario: Scenario,
    uses: Sequence[Use],
    parts: Sequence[Sequence[Part]],
    probes: Sequence[Fleet],
    input_tokens: Mapping[str, float],
) -> tuple[Link, ...]:
    """The links that hand-overs of the ways load; none where nothing is handed over."""
    at = {part: (k, o) for k, row in enumerate(parts) for o, part in enumerate(row)}

    def kv_bytes(part: Part, cls: str) -> float:
        k, _ = at[part]
        entry = scenario.fleet.pools[part.pool].deploy[part.entry]
        placed = next(p for p in probes[k].placed if p.model == entry.model and p.n_chips == entry.chips)
        return input_tokens[cls] * float(placed.plan["kv_bytes_per_token"])

    moved = tuple((w, kv_bytes(use.part, use.cls)) for w, use in enumerate(uses) if use.partner is not None)
    if not moved:
        return ()
    given = scenario.fleet.kv_link_bytes_per_s
    if given is not None:
        return (Link(GIVEN, moved, given.number),)
    found = []
    for name, role in ((PREFILL, "prefill"), (DECODE, "decode")):
        side = tuple(
            (*at[part], entry.chips * probes[at[part][0]].pools[0].chip.scale_out.bytes_per_s.number)
            for part in at
            if (entry := scenario.fleet.pools[part.pool].deploy[part.entry]).role == role
        )
        if side:  # a mixed replica that takes over has no side of its own
            found.append(Link(name, moved, by_replica=side))
    return tuple(found)

"""Speculative decoding of a deployment: what the core is told, which facts that rests on, and what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.errors import Notice

if TYPE_CHECKING:
    from planner.facts.fact import Fact
    from planner.scenario.schema import Deploy


def spec(entry: Deploy) -> dict[str, float] | None:
    """Draft, acceptance and cost as the core has them; None without drafts."""
    asked = entry.speculation
    if asked is None:
        return None
    cost = asked.draft_cost_frac
    return {
        "draft_tokens": asked.draft,
        "acceptance_frac": asked.acceptance_frac.number,
        "draft_cost_frac": cost.number if cost else 0.0,
    }


def facts(entry: Deploy) -> tuple[Fact, ...]:
    """What a scenario says of the drafts, for the evidence."""
    asked = entry.speculation
    if asked is None:
        return ()
    return tuple(fact for fact in (asked.acceptance_frac, asked.draft_cost_frac) if fact is not None)


def notices(entry: Deploy, plan: Mapping[str, Any]) -> list[Notice]:
    """What is left out, for the reader of a result."""
    asked = entry.speculation
    if asked is None:
        return []
    text = (
        f"{entry.model} drafts {asked.draft} tokens and keeps {plan['tokens_per_step']:.4g} a step at an acceptance of "
        f"{asked.acceptance_frac.number * 100:.4g} %, always the mean: how it varies is left out, so latency tails are "
        "shorter than they would be"
    )
    found = [Notice("speculation", text)]
    if asked.draft and asked.draft_cost_frac is None:
        found.append(Notice("free_drafts", f"drafting for {entry.model} costs nothing here: give draft_cost"))
    return found

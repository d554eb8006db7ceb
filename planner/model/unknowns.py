"""What is not disclosed of Jalapeño, each with the range that the catalogue gives it, and a member of the posterior.

A member is one value for each unknown. Those of the chip and its engine have a fact with the same path, so that the
facts' defaults can be the best member's; the others (`run.*`: what scheduling and client add, and how the published
runs were set up; `rack.*`: what a rack of such chips holds, draws and costs) are of the inference alone or of the rack.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.facts import catalog
from planner.facts.fact import Fact

__all__ = ["CHIP", "Unknown", "chip_spec", "engine_spec", "habits", "share_of", "unknowns", "values_of"]

CHIP = "jalapeno"
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Unknown:
    """One value to be sampled: evenly between `low` and `high`, evenly in its logarithm, or one of `choices`."""

    path: str
    scale: str
    """linear | log | choice"""
    low: float = 0.0
    high: float = 0.0
    choices: tuple[float, ...] = ()

    def at(self, share: float) -> float:
        """The value at a share 0..1 of the range, with as many digits as a member keeps."""
        if self.scale == "choice":
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.scale == "log":
            value = math.exp(math.log(self.low) + share * math.log(self.high / self.low))
        else:
            value = self.low + share * (self.high - self.low)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


def _fact(path: str) -> Fact:
    """The fact of a path such as `chip.scale_up.latency_s`."""
    head, *rest = path.split(".")
    facts = catalog.load()
    thing: Any = facts.chip(CHIP) if head == "chip" else facts.engine(facts.chip(CHIP).engine)
    for name in rest:
        thing = thing[name] if isinstance(thing, Mapping) else getattr(thing, name)
    assert isinstance(thing, Fact)
    return thing


def _ranged(path: str, scale: str) -> Unknown:
    fact = _fact(path)
    assert fact.low is not None
    assert fact.high is not None
    return Unknown(path, scale, float(fact.low), float(fact.high))


@functools.cache
def unknowns() -> tuple[Unknown, ...]:
    """All of them, in the order of a point's coordinates."""
    domain = _fact("chip.scale_up.domain_chips")
    assert domain.low is not None
    assert domain.high is not None
    spans = tuple(float(1 << i) for i in range(3, 10) if domain.low <= 1 << i <= domain.high)
    stacks = tuple(8.0 * size for size in (24e9, 36e9, 48e9))
    return (
        _ranged("chip.memory_bytes_per_s", "log"),
        Unknown("chip.memory_bytes", "choice", choices=stacks),
        _ranged("chip.flop_per_s.fp4", "log"),
        _ranged("chip.scale_up.bytes_per_s", "log"),
        _ranged("chip.scale_up.latency_s", "log"),
        Unknown("chip.scale_up.domain_chips", "choice", choices=spans),
        _ranged("chip.idle_w", "linear"),
        _ranged("chip.parked_w", "linear"),
        _ranged("chip.low_load_w", "linear"),
        _ranged("engine.memory_eff_frac", "linear"),
        _ranged("engine.kv_read_eff_frac", "linear"),
        _ranged("engine.compute_eff_frac", "linear"),
        _ranged("engine.prefill_eff_frac", "linear"),
        _ranged("engine.host_s", "linear"),
        _ranged("engine.host_sequence_s", "linear"),
        _ranged("engine.launch_layer_s", "linear"),
        _ranged("engine.launch_moe_s", "linear"),
        _ranged("engine.launch_mla_s", "linear"),
        _ranged("engine.collective_base_s", "linear"),
        _ranged("engine.collective_log_s", "linear"),
        _ranged("engine.link_eff_frac", "linear"),
        _ranged("engine.expert_skew", "linear"),
        Unknown("run.first_token_s", "log", 5e-3, 0.4),
        Unknown("run.first_token_steps", "linear", 1.0, 15.0),
        Unknown("run.lone_prompt", "linear", 1.0, 2.0),
        Unknown("run.interference", "linear", 0.9, 1.2),
        Unknown("run.burst", "log", 0.03, 0.2),
        Unknown("run.split_prefill_gain", "linear", 1.0, 1.4),
        Unknown("run.kv_bytes_per_element", "choice", choices=(1.0, 2.0)),
        Unknown("rack.chips", "choice", choices=(16.0, 32.0, 64.0, 128.0)),
        Unknown("rack.rated_over_chips", "linear", 1.2, 1.45),
        Unknown("rack.typical_over_chips", "linear", 1.2, 1.5),
        Unknown("rack.usd_per_chip", "log", 5e3, 20e3),
    )


def values_of(normals: Sequence[float]) -> dict[str, float]:
    """A member by path, from a point whose coordinates are standard normals before any data."""
    return {one.path: one.at(share_of(z)) for one, z in zip(unknowns(), normals, strict=True)}


def share_of(normal: float) -> float:
    """The share of its range at which a coordinate stands."""
    return 0.5 * math.erfc(-normal / math.sqrt(2.0))


def chip_spec(member: Mapping[str, float], base: Mapping[str, Any]) -> dict[str, Any]:
    """The chip of a member, on top of a deployment spec's chip: fp8 and bf16 at half and a quarter of the 4-bit rate,
    draws in order.
    """
    fp4 = member["chip.flop_per_s.fp4"]
    parked = max(member["chip.parked_w"], member["chip.idle_w"])
    low = max(member["chip.low_load_w"], parked)
    return {
        **base,
        "memory_bytes_per_s": member["chip.memory_bytes_per_s"],
        "memory_bytes": member["chip.memory_bytes"],
        "flop_per_s": {"fp4": fp4, "fp8": fp4 / 2, "bf16": fp4 / 4},
        "scale_up_bytes_per_s": member["chip.scale_up.bytes_per_s"],
        "scale_up_latency_s": member["chip.scale_up.latency_s"],
        "domain_chips": int(member["chip.scale_up.domain_chips"]),
        "idle_w": member["chip.idle_w"],
        "parked_w": parked,
        "low_load_w": low,
        "high_load_w": max(base["high_load_w"], low),
    }


def engine_spec(member: Mapping[str, float], base: Mapping[str, Any]) -> dict[str, Any]:
    """The engine of a member."""
    given = {path.removeprefix("engine."): value for path, value in member.items() if path.startswith("engine.")}
    return {**base, **given}


def habits(member: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    """What scheduling and client add, of a member; what it does not say is the measured engines' mean."""
    named = {path.removeprefix("run."): value for path, value in member.items() if path.startswith("run.")}
    return {name: named.get(name, value) for name, value in base.items()}

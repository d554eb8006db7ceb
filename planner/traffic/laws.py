"""Arrival laws, shapes, turns and pauses of a class as the core's specs have them (`core_rs/engine/src/sample.rs`)."""

from __future__ import annotations

from typing import Any

from planner.scenario.schema import Pause, TrafficClass, Turns
from planner.traffic import demand

NS_PER_S = 10**9
DAY_NS = 86_400 * NS_PER_S


def arrivals(cls: TrafficClass, *, key: int, seed: int, length_ns: int, per_start: float = 1.0) -> dict[str, Any]:
    """When the requests of a class come, or its sessions: each start brings `per_start` requests on average."""
    assert cls.rate_req_per_s is not None
    burst = cls.burst and {"size": cls.burst.size, "decay_ns": cls.burst.decay_s * NS_PER_S}
    return {
        "seed": seed,
        "key": key,
        "law": cls.arrivals,
        "rate_req_per_s": cls.rate_req_per_s / per_start,
        "burstiness": cls.burstiness,
        "burst": burst,
        "shape": shape(cls),
        "length_ns": length_ns,
    }


def shape(cls: TrafficClass) -> dict[str, Any] | None:
    """How the rate goes up and down; None where it is even.

    Raises:
        FactError: no such demand; names the nearest.
    """
    if cls.shape is None and cls.growth_frac_per_year is None:
        return None
    step_ns, factors, start_ns = DAY_NS, [1.0], 0
    if cls.shape is not None:
        start_ns = ns(cls.shape.start_s)
        if cls.shape.demand is not None:
            service = demand.load(cls.shape.demand)
            step_ns, factors = ns(service.window_s), list(service.rate_req_per_s)
        else:
            step_ns, factors = ns(cls.shape.step_s), list(cls.shape.factors or ())
    period_ns = step_ns * len(factors)
    return {
        "step_ns": step_ns,
        "factors": factors,
        "start_ns": start_ns,
        "regions": [[region.share_frac, ns(region.shift_s) % period_ns] for region in cls.regions.values()],
        "growth_frac": cls.growth_frac_per_year or 0.0,
    }


def turns(found: Turns) -> dict[str, Any]:
    """How many turns a session has."""
    if found.kind == "geometric":
        return {"dist": "geometric", "mean": found.mean}
    return {"dist": "fixed", "value": found.value}


def pause(found: Pause) -> dict[str, Any]:
    """How long a pause is."""
    named = {
        "value": "ns",
        "mean": "mean_ns",
        "median": "median_ns",
        "p95": "p95_ns",
        "low": "low_ns",
        "high": "high_ns",
    }
    lengths = {spec: getattr(found, f"{key}_s") for key, spec in named.items()}
    return {"dist": found.kind} | {spec: s * NS_PER_S for spec, s in lengths.items() if s is not None}


def ns(seconds: float) -> int:
    """Whole nanoseconds."""
    return round(seconds * NS_PER_S)

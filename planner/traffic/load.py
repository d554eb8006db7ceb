"""Traffic at another load: the same classes, a multiple of their requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.scenario.schema import TrafficClass


def at_load(traffic: Mapping[str, TrafficClass], factor: float) -> dict[str, TrafficClass]:
    """The classes at `factor` times their load; shapes, lengths and everything else as they are.

    Drawn requests come at `factor` times the rate, with the lengths and in the order of the original draw; a trace is
    taken `factor` times (`scale`), its recorded requests among them; closed arrivals have `factor` times as many
    clients, at least one, and `factor` times as many requests where they are counted.
    """
    return {name: _at(cls, factor) for name, cls in traffic.items()}


def _at(cls: TrafficClass, factor: float) -> TrafficClass:
    if factor == 1.0:
        return cls
    if cls.trace is not None:
        return cls.model_copy(update={"scale": cls.scale * factor})
    if cls.arrivals == "closed":
        assert cls.concurrency is not None
        clients = max(1, round(cls.concurrency * factor))
        requests = None if cls.requests is None else max(clients, round(cls.requests * factor))
        return cls.model_copy(update={"concurrency": clients, "requests": requests})
    assert cls.rate_req_per_s is not None
    return cls.model_copy(update={"rate_req_per_s": cls.rate_req_per_s * factor})


def said(traffic: Mapping[str, TrafficClass]) -> dict[str, str]:
    """The load of each class in words, in the terms that `at_load` multiplies."""
    return {name: _said(cls) for name, cls in traffic.items()}


def _said(cls: TrafficClass) -> str:
    if cls.trace is not None:
        return f"{cls.scale:.4g} times {cls.trace}"
    if cls.arrivals == "closed":
        return f"{cls.concurrency:,} requests at a time"
    return f"{cls.rate_req_per_s:.4g} req/s"

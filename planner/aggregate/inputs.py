"""What comes in: a scenario, the fleet it was laid out as, and for each seed what the simulator left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from planner.fleet.cells import ns

if TYPE_CHECKING:
    from planner.core import SimTables
    from planner.errors import Notice
    from planner.fleet.fleet import Fleet
    from planner.scenario import Scenario

NS_PER_S = 1_000_000_000


class TrafficFacts(Protocol):
    """What is read of the traffic of a seed (`planner.traffic.requests.ScenarioTraffic`)."""

    @property
    def length_ns(self) -> int:
        """Where arrivals stop."""
        ...

    @property
    def failed_rows(self) -> int:
        """Rows that a reader refused."""
        ...

    @property
    def notices(self) -> Sequence[Notice]:
        """What is worth saying about the traffic."""
        ...

    @property
    def shortest_kv_tokens(self) -> Sequence[int]:
        """By class: what the request that needs least needs in the KV cache."""
        ...


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One simulation."""

    seed: int
    tables: SimTables | Callable[[], SimTables]
    """What it left, or what gives it: of many simulations the tables are kept packed."""
    traffic: TrafficFacts

    @property
    def sim(self) -> SimTables:
        """What it left."""
        return self.tables() if callable(self.tables) else self.tables


@dataclass(frozen=True, slots=True)
class Check:
    """The variant once more with something changed, of which only the limits count."""

    kind: str
    """`spare`, `rack` or `site`."""
    label: str
    """What is changed, in words."""
    load_factor: float
    racks_out: Mapping[str, int]
    seeds: tuple[SeedRun, ...]
    """None where nothing can be simulated: then every limit is missed."""
    reason: str = ""
    """Why nothing can."""


@dataclass(frozen=True, slots=True)
class VariantRun:
    """One variant: classes are numbered as in `scenario.traffic`, pools and deployments as in `fleet`."""

    scenario: Scenario
    fleet: Fleet
    seeds: tuple[SeedRun, ...]
    checks: tuple[Check, ...] = ()
    """What has to hold besides."""


@dataclass(frozen=True, slots=True)
class Span:
    """The measured part of a run, [warmup, length), and the windows inside it."""

    warmup_ns: int
    length_ns: int
    window_ns: int

    @classmethod
    def of(cls, scenario: Scenario, seed: SeedRun) -> Span:
        """The span of one simulation."""
        return cls(ns(scenario.run.warmup_s), seed.traffic.length_ns, ns(scenario.run.window_s))

    @property
    def span_s(self) -> float:
        """Its length."""
        return max(0, self.length_ns - self.warmup_ns) / NS_PER_S

    @property
    def window_s(self) -> float:
        """Width of a window."""
        return self.window_ns / NS_PER_S

    @property
    def full_windows(self) -> range:
        """The windows that lie inside the span from edge to edge."""
        return range(-(-self.warmup_ns // self.window_ns), self.length_ns // self.window_ns)

"""Fleets that cost less than a proved plan, the cheapest first, until one passes the simulation.

A fleet is what stands in each span, full carvings of it, and the shares that load its deployments alike. Racks come
from the program with what the surfaces promise raised to the end of their interval: its bound on all racks not yet
looked at says when none is left. Given the racks, spans are free of each other: each has its carvings in the order of
their cost, and a span that fails takes its next one. So the first fleet that passes is the cheapest of all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from planner.optimize.carvings import Carving, full, near
from planner.optimize.instance import Decision, Instance, rates, total
from planner.optimize.linear import Stop
from planner.optimize.program import Failed, Seen
from planner.optimize.reading import alike, loads_by
from planner.optimize.search import Solved, solve

EXACT = 1e-9
"""Fleets that differ by less than that share of their cost are equally dear."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far it is looked."""

    carvings: int
    """Full carvings of the racks of a span that are looked at; with more only those nearest to the program's."""
    gap_frac: float
    nodes: int


@dataclass(frozen=True, slots=True)
class Laid:
    """A span of a fleet: replicas by kind and option, shares by way, and what both cost."""

    cost: float
    replicas: Carving
    shares: tuple[float, ...]


@dataclass(slots=True)
class Racks:
    """Racks that stand, with the carvings of each span; the fleet of the ones that come next."""

    bought: tuple[tuple[int, ...], ...]
    fixed: float
    """What they cost whatever is on them."""
    spans: list[list[Laid]]
    at: list[int]

    def cost(self) -> float | None:
        """What the next fleet costs; None where a span has no carving left."""
        if any(at >= len(laid) for at, laid in zip(self.at, self.spans, strict=True)):
            return None
        return self.fixed + sum(laid[at].cost for at, laid in zip(self.at, self.spans, strict=True))

    def decision(self) -> Decision:
        """The next fleet."""
        laid = [row[at] for at, row in zip(self.at, self.spans, strict=True)]
        n_ways = len(laid[0].shares)
        replicas = tuple(
            tuple(tuple(one.replicas[k][o] for one in laid) for o, _ in enumerate(row))
            for k, row in enumerate(laid[0].replicas)
        )
        return Decision(self.bought, replicas, tuple(tuple(one.shares[w] for one in laid) for w in range(n_ways)))


@dataclass(slots=True)
class Search:
    """Fleets at most as dear as `below`, the cheapest first."""

    instance: Instance
    """What the shares are balanced by."""
    hopeful: Instance
    """What the surfaces at best allow."""
    stop: Stop
    reach: Reach
    below: float | None
    failed: list[Failed]
    """Fleets too small: neither they nor smaller ones come."""
    solve: Callable[..., Solved] = solve
    is_whole: bool = True
    """Whether all fleets were looked at that came into question."""
    n_seen: int = 0
    """Carvings that were weighed."""
    bound: float | None = None
    """The least that fleets can cost whose racks were not looked at; None once there are none."""
    _seen: list[Seen] = field(default_factory=list)
    _known: dict[tuple[int, tuple[int, ...]], list[Laid]] = field(default_factory=dict)
    _heap: list[tuple[float, int, Racks]] = field(default_factory=list)
    _next: Solved | None = None

    def begin(self, decision: Decision | None) -> None:
        """Look at the racks of a plan first."""
        if decision is not None:
            self._expand(decision)
        self._look()

    def cheapest(self) -> tuple[Decision, float] | None:
        """The next fleet and its cost; None where there is none. It comes again until `advance` leaves it behind."""
        while True:
            while self._heap and self._is_behind(self._heap[0][2]):
                self._again()
            if self._next is not None and (not self._heap or (self.bound or 0.0) <= self._heap[0][0]):
                assert self._next.decision is not None
                self._expand(self._next.decision)
                self._look()
                continue
            if not self._heap:
                return None
            cost, _, racks = self._heap[0]
            if self.below is not None and cost >= self.below:
                return None
            decision = racks.decision()
            if self._is_clean(decision):
                return decision, cost
            self.is_whole = False
            heapq.heappop(self._heap)

    def advance(self, t: int) -> None:
        """The next fleet failed in a span: its racks get their next carving there."""
        self._heap[0][2].at[t] += 1
        self._again()

    def _again(self) -> None:
        _, order, racks = heapq.heappop(self._heap)
        cost = racks.cost()
        if cost is not None:
            heapq.heappush(self._heap, (cost, order, racks))

    def _is_behind(self, racks: Racks) -> bool:
        """Whether a span of the next fleet is no larger than one that failed; that span then takes its next carving."""
        for t, at in enumerate(racks.at):
            replicas = racks.spans[t][at].replicas
            if any(f.span == t and all(replicas[k][o] <= n for k, o, n in f.replicas) for f in self.failed):
                racks.at[t] += 1
                return True
        return False

    def _is_clean(self, decision: Decision) -> bool:
        limit = self.hopeful.carbon_kgco2e
        return limit is None or total(self.instance, decision, "carbon") <= limit * (1 + EXACT)

    def _look(self) -> None:
        """The program's next racks."""
        stop = replace(self.stop, gap_frac=self.reach.gap_frac, nodes=self.reach.nodes)
        found = self.solve(self.hopeful, stop, failed=self.failed, seen=self._seen, below=self.below)
        self._next = found if found.decision is not None else None
        self.bound = found.bound * (1 - 1e-6) if self._next is not None else None
        if found.status == "none":
            self.is_whole = False

    def _expand(self, decision: Decision) -> None:
        instance = self.instance
        spans = range(len(instance.spans))
        kinds = range(len(instance.kinds))
        nothing = Decision(
            decision.bought,
            tuple(tuple(tuple(0 for _ in spans) for _ in kind.options) for kind in instance.kinds),
            tuple(tuple(0.0 for _ in spans) for _ in instance.ways),
        )
        fixed = total(instance, nothing)
        made = []
        for t in spans:
            standing = tuple(decision.racks(instance, k, t) for k in kinds)
            own = tuple(tuple(row[t] for row in decision.replicas[k]) for k in kinds)
            if (t, standing) not in self._known:
                self._known[t, standing] = self._laid(t, standing, own, fixed)
            made.append(self._known[t, standing])
        racks = Racks(decision.bought, fixed, made, [0] * len(made))
        self._seen.append(Seen(tuple((k, t, decision.racks(instance, k, t)) for k in kinds for t in spans)))
        cost = racks.cost()
        if cost is not None:
            heapq.heappush(self._heap, (cost, len(self._seen), racks))

    def _laid(self, t: int, standing: Sequence[int], own: Carving, fixed: float) -> list[Laid]:
        """The carvings of racks in a span that the surfaces do not exclude, the cheapest first."""
        instance = self.instance
        carvings = full(instance, standing, most=self.reach.carvings)
        if carvings is None:
            carvings = near(instance, standing, own, most=self.reach.carvings)
            self.is_whole = False
        weights = [(weight, rates(instance, name)) for name, weight in instance.goal.items()]
        found = []
        for replicas in carvings:
            self.n_seen += 1
            parked = sum(
                weight * rate.replica[k][o][t] * n
                for weight, rate in weights
                for k, row in enumerate(replicas)
                for o, n in enumerate(row)
            )
            if self.below is not None and len(instance.spans) == 1 and fixed + parked >= self.below:
                continue
            shares = alike(instance, replicas, t)
            if shares is None:
                continue
            cost = parked + sum(
                weight * rate.share[w][t] * share for weight, rate in weights for w, share in enumerate(shares)
            )
            found.append(Laid(cost, replicas, shares))
        return sorted((one for one in found if self._is_hopeful(one, t)), key=lambda one: (one.cost, one.replicas))

    def _is_hopeful(self, laid: Laid, t: int) -> bool:
        """Whether the surfaces exclude a carving only within their interval."""
        most = (1 - self.hopeful.spare_frac) * (1 + 1e-6)
        return all(load <= most for load in loads_by(self.hopeful, laid.replicas, laid.shares, t).values())

"""Walking the load of each hour over response surfaces: latencies of each class and power of each pool, hour by hour.

Every class brings its requests of the hour to the deployments of its model: by the shares of its route, or as the
router was seen to send them (`routed.py`) where it has a choice. Requests of classes that share a deployment weigh as
much as they take of it: a class's weight is the limit of the traffic's own mix over the limit of the class alone.
Nothing is read beyond the last sample.

Replicas that decode what others hand over may serve whole requests too. Both take of the same replicas, so each is read
at the load at which it alone would fill them as full: the shares of its limit that the two take, added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.study.curves import Surface, curve, loads
from planner.study.group import Part
from planner.study.routed import Routed, Share
from planner.study.surface import MOST_REPLICAS, Wanted, surfaces, wanted

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from planner.fleet.fleet import Fleet
    from planner.scenario import Scenario

    Array = NDArray[np.float64]

OF_PHASE: Mapping[str, tuple[str, ...]] = {
    "mixed": ("ttft", "tpot", "itl", "e2e", "queue"),
    "prefill": ("ttft", "queue"),
    "decode": ("tpot", "itl", "e2e"),
}
"""What each phase of a request answers for."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One deployment in one phase, and what comes to it."""

    surface: Surface
    n_replicas: int
    shares: Mapping[str, Share]
    """Class -> share of its requests, by the load of the fleet."""
    weights: Mapping[str, float]
    """Class -> requests of the mix that one of its requests counts as."""


@dataclass(frozen=True, slots=True)
class StageHours:
    """A stage hour by hour; nan beyond the last sample, and where some requests never got the value."""

    stage: Stage
    shares: Mapping[str, Array]
    """Class -> share of its requests."""
    load: Array
    """Requests of the mix per second and replica, and what others on the same replicas are worth of it."""
    beyond: NDArray[np.bool_]
    latencies: Mapping[str, Mapping[str, Array]]
    """Class -> `ttft_s.p95` and its like, and `attainment_frac`."""
    steps_w: Array
    parked_chips: Array
    """Of all replicas of the stage."""
    tokens_per_s_out: Array
    tokens_per_s_in: Array


def stages(
    scenario: Scenario, fleet: Fleet, routed: Routed, *, folder: Path | None = None, workers: int | None = None
) -> list[Stage]:
    """The deployments that serve something, with their surfaces; `routed` is what the router was seen to do, needed
    where `has_choice`. Raises as `surfaces` does.
    """
    n_replicas = _replicas(fleet)
    asked = [
        replace(want, n_replicas=max(1, min(MOST_REPLICAS, n_replicas[want.part])))  # as bursts even out in this fleet
        for want in wanted(scenario)
    ]
    alone = [
        Wanted(want.part, ((name, 1.0),), want.n_replicas, want.phase, want.partner)
        for want in asked
        if len(want.mix) > 1
        for name, _ in want.mix
    ]
    found = surfaces(scenario, [*asked, *alone], folder=folder, workers=workers)
    mixed, single = found[: len(asked)], found[len(asked) :]
    limits = {(s.part, s.phase, s.partner, next(iter(s.mix))): s.limit_req_per_s for s in single}
    able: list[Surface] = []
    for surface in mixed:
        if n_replicas[surface.part] and not any(
            surface.phase == other.phase == "prefill" and surface.part == other.part for other in able
        ):
            able.append(surface)
    made = []
    for surface in able:
        n = n_replicas[surface.part]
        weights = {}
        for name in surface.mix:
            own = limits.get((surface.part, surface.phase, surface.partner, name), surface.limit_req_per_s)
            weights[name] = surface.limit_req_per_s / own if own > 0 and surface.limit_req_per_s > 0 else 1.0
        shares = {name: _share(scenario, name, surface, able, n_replicas, routed) for name in surface.mix}
        made.append(Stage(surface, n, shares, weights))
    return made


def has_choice(scenario: Scenario, fleet: Fleet) -> bool:
    """Whether the router chooses between deployments for any class."""
    n_replicas = _replicas(fleet)
    heads = {(w.part, name) for w in wanted(scenario) if w.phase != "decode" for name, _ in w.mix if n_replicas[w.part]}
    for name in scenario.traffic:
        route = scenario.fleet.routes.get(name) or {}
        pools = [part.pool for part, of in heads if of == name and (not route or part.pool in route)]
        is_shared = any(share is not None for share in route.values())
        if len(pools) > (len(set(pools)) if is_shared else 1):
            return True
    return False


def _replicas(fleet: Fleet) -> dict[Part, int]:
    return {Part(pool.name, ix): placed.n_replicas for pool in fleet.pools for ix, placed in enumerate(pool.placed)}


def _share(
    scenario: Scenario,
    name: str,
    surface: Surface,
    able: Sequence[Surface],
    n_replicas: Mapping[Part, int],
    routed: Routed,
) -> Share:
    """The share of a class's requests that goes through a deployment in its phase."""

    def room(one: Surface) -> float:
        return n_replicas[one.part] * (one.limit_req_per_s or loads(one)[-1])

    if surface.phase == "decode":
        giver = surface.partner
        assert giver is not None
        first = next(s for s in able if s.part == giver and s.phase == "prefill")
        others = [s for s in able if s.phase == "decode" and s.partner == giver and name in s.mix]
        given = _share(scenario, name, first, able, n_replicas, routed)
        return given.times(room(surface) / sum(room(s) for s in others))
    route = scenario.fleet.routes.get(name) or {}
    heads = {(s.part, s.phase): s for s in able if s.phase != "decode" and name in s.mix}
    mine = [s for s in heads.values() if not route or s.pool in route]
    if not any(s.part == surface.part for s in mine):
        return Share.fixed(0.0)
    whole = 1.0
    if any(share is not None for share in route.values()):
        whole = route.get(surface.pool) or 0.0
        mine = [s for s in mine if s.pool == surface.pool]
    if len(mine) == 1:
        return Share.fixed(whole)
    seen = [routed.get((name, s.part)) for s in mine]
    own = routed.get((name, surface.part))
    if own is None or None in seen:  # the class hardly comes at any hour
        return Share.fixed(whole * room(surface) / sum(room(s) for s in mine))
    sums = [sum(fracs) for fracs in zip(*(s.fracs for s in seen if s is not None), strict=True)]
    fracs = [whole * frac / total if total else whole / len(mine) for frac, total in zip(own.fracs, sums, strict=True)]
    return Share(own.levels, tuple(fracs))


def walk_all(made: Sequence[Stage], rates: Mapping[str, Array], level: Array) -> tuple[StageHours, ...]:
    """All stages under the rates of each hour, by class, and the load of the fleet by which it routes them; those of
    the same replicas fill them together.
    """
    filled = [_load(stage, rates, level) / _most(stage) for stage in made]
    found = []
    for ix, stage in enumerate(made):
        beside = [
            filled[other] for other, one in enumerate(made) if other != ix and one.surface.part == stage.surface.part
        ]
        found.append(walk(stage, rates, level, beside=beside))
    return tuple(found)


def _load(stage: Stage, rates: Mapping[str, Array], level: Array) -> Array:
    """Requests of the mix per second and replica that a stage brings."""
    import numpy as np

    load = np.zeros_like(level)
    for name, share in stage.shares.items():
        load = load + rates[name] * (share.at(level) * stage.weights[name])
    return load / stage.n_replicas


def _most(stage: Stage) -> float:
    """The load that fills a replica: at which every class holds its limits, or the last sample if none is known."""
    return stage.surface.limit_req_per_s or loads(stage.surface)[-1]


def walk(stage: Stage, rates: Mapping[str, Array], level: Array, *, beside: Sequence[Array] = ()) -> StageHours:
    """A stage under the rates of each hour, by class, and the load of the fleet.

    `beside` is how full other stages make the same replicas: each is then read where they are as full of its own kind
    alone, and has its part of what they draw.
    """
    import numpy as np

    surface, n = stage.surface, stage.n_replicas
    own = _load(stage, rates, level)
    load = own + sum(beside, start=np.zeros(own.size)) * _most(stage)
    part = np.divide(own, load, out=np.full(own.size, 1 / (1 + len(beside))), where=load > 0)
    places = np.array(loads(surface))
    beyond = load > places[-1]

    def at(values: Sequence[float | None], *, zero: float | None = None) -> Array:
        found = np.array([np.nan if value is None else value for value in values])
        where = places
        if zero is not None:
            found, where = np.concatenate([[zero], found]), np.concatenate([[0.0], places])
        made: Array = np.where(beyond, np.nan, np.interp(load, where, found))
        return made

    latencies = {
        name: {
            key: at(curve(surface, lambda m, name=name, key=key: m.classes[name][key], rising=key != "attainment_frac"))  # type: ignore[misc]
            for key in surface.samples[0].classes[name]
        }
        for name in surface.mix
    }
    return StageHours(
        stage=stage,
        shares={name: share.at(level) for name, share in stage.shares.items()},
        load=load,
        beyond=beyond,
        latencies=latencies,
        steps_w=at(curve(surface, lambda m: m.steps_w), zero=0.0) * part * n,
        parked_chips=at(curve(surface, lambda m: m.parked_chips, rising=False), zero=float(surface.n_chips)) * part * n,
        tokens_per_s_in=at(curve(surface, lambda m: m.tokens_per_s_in), zero=0.0) * part * n,
        tokens_per_s_out=at(curve(surface, lambda m: m.tokens_per_s_out), zero=0.0) * part * n,
    )

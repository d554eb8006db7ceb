"""What a fleet has to stand beyond its own load: capacity kept free, and racks out of service.

Each is the scenario once more with one thing changed, simulated under the same seeds and thus the same requests. Its
limits have to hold as well; what the fleet costs and draws is that of the scenario itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.aggregate.inputs import Check, SeedRun, VariantRun
from planner.errors import Infeasible
from planner.fleet import operation
from planner.fleet.cells import targets
from planner.fleet.layout import Lengths, lay_out
from planner.study.work import Asked, Simulate, Unfit
from planner.traffic.load import at_load

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet
    from planner.scenario import Scenario
    from planner.scenario.schema import FleetSpec, Pool

Route = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Stress:
    """The scenario with one thing changed."""

    kind: str
    """`spare`: more load; `rack`: racks out; `site`: all racks of a site out."""
    label: str
    """In words, to follow `with`: `8 % kept free`, `a rack of gb300 out`."""
    load_factor: float
    racks_out: Mapping[str, int]
    """Pool -> racks out of service."""
    scenario: Scenario
    fleet: Fleet | None
    """None where what is left cannot serve every class."""
    reason: str = ""
    """Why it cannot."""


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario on its fleet with all that it has to stand."""

    scenario: Scenario
    fleet: Fleet
    stresses: tuple[Stress, ...] = ()
    unfit: Unfit = "refuse"
    keeps_requests: bool = False
    keeps_timeline: bool = False
    has_batches: bool = False


def simulated(cases: Sequence[Case], simulate: Simulate) -> list[VariantRun]:
    """Every case simulated, and beside it what its fleet has to stand besides, all in one list of work."""
    able = [(stress, stress.fleet) for case in cases for stress in case.stresses if stress.fleet is not None]
    own = [
        Asked(
            case.scenario,
            case.fleet,
            case.unfit,
            keeps_requests=case.keeps_requests,
            keeps_timeline=case.keeps_timeline,
            has_batches=case.has_batches,
        )
        for case in cases
    ]
    runs = simulate([*own, *(Asked(stress.scenario, fleet, "try") for stress, fleet in able)])
    seeds = {id(stress): run.seeds for (stress, _), run in zip(able, runs[len(cases) :], strict=True)}
    return [
        replace(run, checks=tuple(_check(stress, seeds.get(id(stress), ())) for stress in case.stresses))
        for run, case in zip(runs, cases, strict=False)
    ]


def _check(stress: Stress, seeds: tuple[SeedRun, ...]) -> Check:
    return Check(
        kind=stress.kind,
        label=stress.label,
        load_factor=stress.load_factor,
        racks_out=stress.racks_out,
        seeds=seeds,
        reason=stress.reason,
    )


def stresses(scenario: Scenario, fleet: Fleet, lengths: Mapping[str, Lengths]) -> list[Stress]:
    """What `fleet.spare` and `fleet.survive` ask for; nothing where the scenario has neither."""
    found: list[Stress] = []
    spare = scenario.fleet.spare_frac
    if spare:
        factor = 1 / (1 - spare)
        label = f"{spare * 100:.4g} % kept free"
        found.append(
            Stress("spare", label, factor, {}, replace(scenario, traffic=at_load(scenario.traffic, factor)), fleet)
        )
    if scenario.fleet.survive is not None:
        found += racks_out(scenario, fleet, lengths, scenario.fleet.survive.racks)
    return found


def racks_out(scenario: Scenario, fleet: Fleet, lengths: Mapping[str, Lengths], n: int) -> list[Stress]:
    """The scenario without `n` of its racks, for each way to choose them by pool; racks of a pool are alike."""
    there = {name: pool.count for name, pool in scenario.fleet.pools.items() if pool.count}
    found = []
    for names in itertools.combinations_with_replacement(there, min(n, sum(there.values()))):
        out = {name: names.count(name) for name in names}
        if all(out[name] <= there[name] for name in out):
            label = " and ".join(f"{'a rack' if k == 1 else f'{k} racks'} of {name}" for name, k in out.items())
            found.append(_without(scenario, fleet, lengths, out, "rack", f"{label} out"))
    return found


def sites_out(scenario: Scenario, fleet: Fleet, lengths: Mapping[str, Lengths]) -> list[Stress]:
    """The scenario without all racks of a site, for each of several sites that has some."""
    found = []
    for site in fleet.sites:
        out = {pool.name: pool.n_racks for pool in fleet.pools if pool.name in site.pools and pool.n_racks}
        if out:
            found.append(_without(scenario, fleet, lengths, out, "site", f"site {site.name} out"))
    return found


def _without(
    scenario: Scenario, fleet: Fleet, lengths: Mapping[str, Lengths], out: Mapping[str, int], kind: str, label: str
) -> Stress:
    left = replace(scenario, fleet=_left(scenario.fleet, fleet, out))
    try:
        made = lay_out(left, lengths)
        operation.of_deployments(left, made, block_tokens=None)
        faults = list(_unserved(left, made))
    except Infeasible as error:
        made, faults = None, [str(fault) for fault in error.faults]
    return Stress(kind, label, 1.0, dict(out), left, None if faults else made, "; ".join(faults))


def _unserved(scenario: Scenario, fleet: Fleet) -> Iterator[str]:
    for name in scenario.traffic:
        if not any(target["deployments"] for target in targets(scenario, fleet, name)):
            yield f"traffic.{name}: no replica is left that takes its requests"


def _left(spec: FleetSpec, fleet: Fleet, out: Mapping[str, int]) -> FleetSpec:
    pools = dict(spec.pools)
    for layout in fleet.pools:
        if layout.name in out:
            n_replicas = sum(placed.n_replicas for placed in layout.placed)
            pools[layout.name] = _smaller(pools[layout.name], out[layout.name], n_replicas)
    gone = {name for name, pool in pools.items() if not pool.count}
    routes = {name: _rerouted(route, gone) for name, route in spec.routes.items()}
    return spec.model_copy(update={"pools": pools, "routes": routes})


def _smaller(pool: Pool, n_out: int, n_replicas: int) -> Pool:
    """The pool without some racks; of planned outages those are left that fit the racks that are left."""
    count = pool.count - n_out
    left = n_replicas // pool.count * count
    down = {
        key: tuple(
            outage.model_copy(update={"replicas": min(outage.replicas, left)}) for outage in getattr(pool, key) if left
        )
        for key in ("outages", "maintenance")
    }
    return pool.model_copy(update={"count": count, "existing": min(pool.existing, count), **down})


def _rerouted(route: Route, gone: set[str]) -> Route:
    """The route past pools that are gone, whose shares go to the others in proportion."""
    left = {pool: share for pool, share in route.items() if pool not in gone}
    total = sum(share for share in left.values() if share is not None)
    if not left or total in {0, 1}:
        return left or route
    return {pool: None if share is None else share / total for pool, share in left.items()}

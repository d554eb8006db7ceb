"""What the core is asked for: the spec of a whole fleet as one cell; `cut.py` makes several of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.fleet import operation
from planner.fleet.operation import NS_PER_S, ns

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet
    from planner.scenario import Scenario

__all__ = ["NS_PER_S", "ns", "sim_spec", "targets"]

SPEC_VERSION = 1
"""Version of the simulation spec, as `core_rs/engine/src/spec.rs` reads it."""


def sim_spec(
    scenario: Scenario,
    fleet: Fleet,
    *,
    seed: int,
    length_ns: int,
    keep_requests: bool,
    block_tokens: int | None = None,
) -> dict[str, Any]:
    """The core's spec of the whole fleet as one cell; `block_tokens` where hashes of the prompts' blocks are fed.

    Raises:
        Infeasible: what is asked of caches or operation cannot be told of these chips or replicas.
    """
    pool_ix = {pool.name: ix for ix, pool in enumerate(fleet.pools)}
    extra = operation.of_deployments(scenario, fleet, block_tokens=block_tokens)
    link = operation.link(scenario, fleet)
    return {
        "spec_version": SPEC_VERSION,
        "seed": seed,
        "warmup_ns": ns(scenario.run.warmup_s),
        "length_ns": length_ns,
        "drain_ns": ns(scenario.run.drain_s),
        "window_ns": ns(scenario.run.window_s),
        "router": scenario.fleet.router.policy,
        **operation.router_options(scenario.fleet.router),
        "n_pools": len(fleet.pools),
        "classes": [_class(scenario, fleet, name) for name in scenario.traffic],
        "deployments": [
            {
                "pool_ix": pool_ix[placed.pool],
                "n_replicas": placed.n_replicas,
                "deployment": operation.capped(scenario, placed),
                **more,
            }
            for placed, more in zip(fleet.placed, extra, strict=True)
        ],
        "keep_requests": keep_requests,
        **({"link": link} if link else {}),
        **({"hash_block_tokens": block_tokens} if block_tokens else {}),
    }


def _class(scenario: Scenario, fleet: Fleet, name: str) -> dict[str, Any]:
    traffic = scenario.traffic[name]
    asked = {"limits": _limits(scenario, traffic.slo), "targets": targets(scenario, fleet, name)}
    away = operation.round_trip_ns(fleet, name)
    return asked | operation.of_class(traffic) | ({"round_trip_ns": away} if away else {})


def _limits(scenario: Scenario, slo: str | None) -> list[dict[str, Any]]:
    """What each request must hold to attain: the limit of each metric's highest named quantile."""
    if slo is None:
        return []
    highest: dict[str, tuple[float, float]] = {}
    for limit in scenario.slo[slo].limits:
        if limit.metric == "task":
            continue  # of several requests: none of them can hold it
        if limit.metric not in highest or limit.quantile > highest[limit.metric][0]:
            highest[limit.metric] = (limit.quantile, limit.limit_s)
    return [{"metric": metric, "limit_ns": ns(limit_s)} for metric, (_, limit_s) in highest.items()]


def targets(scenario: Scenario, fleet: Fleet, name: str) -> list[dict[str, Any]]:
    """Where a class may run: deployments of its model on the pools of its route, with the shares of the route.

    Replicas that only decode are not among them: they get what prefill replicas hand over.
    """
    model = scenario.traffic[name].model
    takes = operation.takes_prompts(scenario, fleet)
    able = {
        pool.name: [
            ix
            for ix, p in enumerate(fleet.placed)
            if p.pool == pool.name and p.model == model and p.n_replicas and takes[ix]
        ]
        for pool in fleet.pools
    }
    route = scenario.fleet.routes.get(name)
    shares = dict(route) if route else {}
    if any(share is not None for share in shares.values()):
        return [{"deployments": able[pool], "share": share} for pool, share in shares.items() if share]
    pools = list(shares) if shares else list(able)
    return [{"deployments": [ix for pool in pools for ix in able.get(pool, [])], "share": None}]

"""What a scenario says of clients, caches and operation, as the core's spec has it; keys only where they are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, Infeasible
from planner.facts import catalog

if TYPE_CHECKING:
    from planner.facts.schema import Chip
    from planner.fleet.fleet import Fleet, Placed, PoolLayout
    from planner.scenario import Scenario
    from planner.scenario.schema import Deploy, Failures, Outage, Pool, TrafficClass
    from planner.scenario.sections_fleet import Router

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
"""What happens again and again does so at most every millisecond."""
YEAR_NS = 365 * 86_400 * NS_PER_S
MAX_AGAIN = 100_000_000
"""And so often in a run at most, as the core has it."""


def ns(seconds: float) -> int:
    """Whole nanoseconds."""
    return round(seconds * NS_PER_S)


def of_class(cls: TrafficClass) -> dict[str, Any]:
    """How a class is served and what its clients do."""
    found: dict[str, Any] = {}
    if cls.priority:
        found["priority"] = cls.priority
    if cls.batch_cap is not None:
        found["batch_cap"] = cls.batch_cap
    if cls.timeout_s is not None:
        found["timeout_ns"] = ns(cls.timeout_s)
    if cls.cancel_after_s is not None:
        found["cancel_after_ns"] = ns(cls.cancel_after_s)
    if cls.retries is not None:
        found["retries"] = {
            "n": cls.retries.n,
            "backoff_ns": ns(cls.retries.backoff_s),
            "factor": cls.retries.factor,
        }
    if cls.arrivals == "closed":
        found["chains_go_on"] = True  # a client whose request failed sends its next one
    return found


def capped(scenario: Scenario, placed: Placed) -> Mapping[str, Any]:
    """The core's spec of a deployment, its chips held to the pool's power cap."""
    cap_w = scenario.fleet.pools[placed.pool].power_cap_w_per_chip
    if cap_w is None:
        return placed.spec
    return {**placed.spec, "serving": {**placed.spec["serving"], "power_cap_w": cap_w}}


def of_deployments(scenario: Scenario, fleet: Fleet, *, block_tokens: int | None) -> list[dict[str, Any]]:
    """What each deployment does beyond its steps, in the order of `fleet.placed`.

    Raises:
        Infeasible: what is asked cannot be told of these chips or replicas; each fault says what would do.
    """
    faults: list[Fault] = []
    found: list[dict[str, Any]] = []
    for pool_ix, layout in enumerate(fleet.pools):
        pool = scenario.fleet.pools[layout.name]
        faults += _too_often(scenario, pool, layout.name)
        keys = _of_pool(pool, layout, pool_ix, faults)
        parked_w = max((placed.spec["chip"]["parked_w"] for placed in layout.placed), default=0.0)
        if pool.power_cap_w_per_chip is not None and pool.power_cap_w_per_chip <= parked_w:
            what = f"a chip of {layout.chip.name} draws {parked_w:g} W with nothing to do"
            path = f"fleet.pools.{layout.name}.power_cap"
            faults.append(Fault(what, "set the cap above that", path=path))
        for ix, (entry, placed) in enumerate(zip(pool.deploy, layout.placed, strict=True)):
            path = f"fleet.pools.{layout.name}.deploy[{ix}]"
            mine = keys[ix] | _cache(entry, placed, layout.chip, path, faults, block_tokens=block_tokens)
            found.append(mine | _role(entry, fleet, scenario, path, faults))
    if faults:
        raise Infeasible(*faults)
    return found


def router_options(router: Router) -> dict[str, Any]:
    """What a scenario says of the router beyond its policy; what it leaves out is the core's default."""
    most = router.most_frac
    said = {
        "n_candidates": router.candidates,
        "rejects": router.rejects,
        "most_percent": None if most is None else round(most * 100),
        "spill_frac": router.spill_frac,
    }
    options = {name: value for name, value in said.items() if value is not None}
    return {"router_options": options} if options else {}


def link(scenario: Scenario, fleet: Fleet) -> dict[str, Any] | None:
    """The link over which prompts are handed over; the narrower side's scale-out links where none is given."""
    sides = [
        [(layout, placed) for layout, entry, placed in _entries(scenario, fleet) if entry.role == role]
        for role in ("prefill", "decode")
    ]
    if not sides[0]:
        return None
    given = fleet.kv_link_bytes_per_s
    if given is not None:
        return {"bytes_per_s": given.number}
    widths = [
        sum(placed.n_replicas * placed.n_chips * layout.chip.scale_out.bytes_per_s.number for layout, placed in side)
        for side in sides
        if side
    ]
    latency_s = max(layout.chip.scale_out.latency_s.number for side in sides for layout, _ in side)
    return {"bytes_per_s": min(widths), "latency_ns": ns(latency_s)}


def round_trip_ns(fleet: Fleet, cls: str) -> list[int]:
    """How far the clients of a class are from each pool; nothing where none of them is away."""
    found = [fleet.round_trips_s.get(pool.name, {}).get(cls) for pool in fleet.pools]
    trips = [0 if fact is None else ns(fact.number) for fact in found]
    return trips if any(trips) else []


def takes_prompts(scenario: Scenario, fleet: Fleet) -> list[bool]:
    """Whether the router sends requests to each deployment: not to those that only decode."""
    return [entry.role != "decode" for _, entry, _ in _entries(scenario, fleet)]


def _entries(scenario: Scenario, fleet: Fleet) -> list[tuple[PoolLayout, Deploy, Placed]]:
    return [
        (layout, entry, placed)
        for layout in fleet.pools
        for entry, placed in zip(scenario.fleet.pools[layout.name].deploy, layout.placed, strict=True)
    ]


def _cache(
    entry: Deploy, placed: Placed, chip: Chip, path: str, faults: list[Fault], *, block_tokens: int | None
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if block_tokens is not None and entry.prefix_cache:
        own_tokens = int(placed.spec["serving"]["block_tokens"])
        if block_tokens % own_tokens:
            what = f"prefixes in blocks of {block_tokens} tokens do not fall on the cache's blocks of {own_tokens}"
            faults.append(Fault(what, "set prefix_cache: false", path=f"{path}.prefix_cache"))
        found["prefix_cache"] = True
    if entry.preemption != "recompute":
        found["preemption"] = entry.preemption
    if entry.watermark_frac:
        found["watermark_frac"] = entry.watermark_frac
    if entry.kv_host_bytes is not None:
        width = chip.host_link_bytes_per_s or chip.pcie_bytes_per_s
        if width is None or width.used is None:
            what = f"the link from {chip.name} to its host is not known"
            faults.append(Fault(what, "take kv_host away", path=f"{path}.kv_host"))
        else:
            found["host_kv_bytes"] = float(entry.kv_host_bytes)
            found["host_link_bytes_per_s"] = width.number * placed.n_chips
    return found


def _role(entry: Deploy, fleet: Fleet, scenario: Scenario, path: str, faults: list[Fault]) -> dict[str, Any]:
    if entry.role == "mixed":
        return {}
    if entry.role == "decode":
        return {"role": "decode"}
    able = [
        ix
        for ix, (layout, other, placed) in enumerate(_entries(scenario, fleet))
        if layout.name == entry.decode_pool
        and other.model == entry.model
        and other.role != "prefill"
        and placed.n_replicas
    ]
    if not able:
        what = f"no replica of pool '{entry.decode_pool}' decodes {entry.model}"
        faults.append(Fault(what, "deploy it there with role: decode", path=f"{path}.decode_pool"))
    return {"role": "prefill", "decode_targets": able}


def _of_pool(pool: Pool, layout: PoolLayout, pool_ix: int, faults: list[Fault]) -> list[dict[str, Any]]:
    """What happens to the replicas of a pool, by deployment."""
    found: list[dict[str, Any]] = [{} for _ in layout.placed]
    for what in ("outages", "maintenance"):
        for ix, outage in enumerate(getattr(pool, what)):
            path = f"fleet.pools.{layout.name}.{what}[{ix}]"
            for keys, spec in zip(found, _outage(outage, layout, path, faults), strict=True):
                if spec is not None:
                    keys.setdefault(what, []).append(spec)
    key = pool_ix if sum(placed.n_replicas > 0 for placed in layout.placed) > 1 else None
    for keys, placed in zip(found, layout.placed, strict=True):
        if pool.cold_start_s:
            keys["cold_start_ns"] = ns(pool.cold_start_s)
        if pool.failures is not None and placed.n_replicas:
            keys["failures"] = failures(pool.failures, placed, layout.n_racks, key=key)
        if pool.autoscale is not None and placed.n_replicas:
            scale, n = pool.autoscale, placed.n_replicas
            keys["autoscale"] = {
                "min": min(scale.min, n),
                "max": min(scale.max or n, n),
                "target_ppm": round(scale.target_frac * 1e6),
                "delay_ns": max(NS_PER_MS, ns(scale.delay_s)),
            }
    return found


def _too_often(scenario: Scenario, pool: Pool, name: str) -> list[Fault]:
    """Decisions that would be more than the core takes in the run."""
    length_s, scale = scenario.run.length_s, pool.autoscale
    if scale is None or length_s is None:
        return []
    least_s = (length_s + scenario.run.drain_s) / MAX_AGAIN
    if max(NS_PER_MS / NS_PER_S, scale.delay_s) >= least_s:
        return []
    what = f"the number of replicas would be decided more than {MAX_AGAIN:,} times in the run"
    return [Fault(what, f"write a delay of at least {least_s:.3g} s", path=f"fleet.pools.{name}.autoscale.delay")]


def _outage(outage: Outage, layout: PoolLayout, path: str, faults: list[Fault]) -> Sequence[dict[str, Any] | None]:
    """The outage's part of each deployment: the first replicas of the pool, deployment by deployment."""
    left = outage.replicas
    parts: list[dict[str, Any] | None] = []
    for placed in layout.placed:
        n = min(left, placed.n_replicas)
        left -= n
        times = {"at_ns": ns(outage.at_s), "length_ns": ns(outage.length_s)}
        parts.append({**times, "first": 0, "n_replicas": n} if n else None)
    if left:
        n_replicas = outage.replicas - left
        what = f"{outage.replicas} replicas are to be down and the pool has {n_replicas}"
        faults.append(Fault(what, f"write replicas: {n_replicas}", path=f"{path}.replicas"))
    return parts


def failures(asked: Failures, placed: Placed, n_racks: int, *, key: int | None = None) -> list[dict[str, Any]]:
    """Failures of single replicas by their chips, and of all replicas of a rack together.

    Deployments that stand in the same racks have the same `key`: a rack that is out takes the replicas of all of them.
    """
    facts = catalog.load().reliability()["defaults"]

    def used(own: Any, name: str) -> float:
        fact = own if own is not None else facts[name]
        return float(fact.number)

    kinds = [
        (
            used(asked.rate_per_chip_year, "chip_failures_per_year") * placed.n_chips,
            used(asked.repair_s, "tray_repair_s"),
            1,
            None,
        ),
        (
            used(asked.rack_rate_per_year, "rack_outages_per_year"),
            used(asked.rack_repair_s, "rack_repair_s"),
            max(1, placed.n_replicas // max(1, n_racks)),
            key,
        ),
    ]
    return [
        {
            "mean_ns": max(NS_PER_MS, round(YEAR_NS / (per_year * asked.acceleration))),
            "repair_ns": max(1, ns(repair_s)),
            "n_together": n_together,
            **({} if group is None else {"key": group}),
        }
        for per_year, repair_s, n_together, group in kinds
        if per_year > 0
    ]

"""A few replicas of one deployment under part of the traffic: one simulation, summed up for a surface."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planner.aggregate import slo
from planner.aggregate.latency import QUANTILES, latencies
from planner.aggregate.work import chip_work, pool_sums
from planner.core import simulate
from planner.fleet.cells import ns, sim_spec
from planner.fleet.layout import Lengths, lay_out
from planner.scenario.sites import round_trips
from planner.study.scaled import flat, scaled
from planner.study.short import short_traffic

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet, Placed, PoolLayout
    from planner.scenario import Scenario
    from planner.scenario.schema import Deploy
    from planner.scenario.sections_fleet import Pool

AMPLE = 6
"""How many times its own replicas a group that does one phase finds on the other side."""
_WIDE = 1e3
"""How many times as wide as the fleet's a link is on which prompts do not wait."""
KEPT_PACE_FRAC = 0.97
"""Of the tokens offered in the span, the share that a group has to make in it, or its queue grows for ever."""
_OF_PHASE = {"mixed": None, "prefill": ("ttft", "queue"), "decode": ("tpot", "itl", "e2e")}
"""The limits that each phase answers for; None = all."""
STATISTICS = tuple(QUANTILES)
METRICS = ("ttft", "tpot", "itl", "e2e", "queue")


@dataclass(frozen=True, slots=True)
class Part:
    """One entry of a pool's deploy list."""

    pool: str
    entry: int


@dataclass(frozen=True, slots=True)
class Group:
    """What is simulated: replicas of one deployment, with ample ones of another where each does one phase."""

    scenario: Scenario
    """One that holds nothing but the group, its classes at their mean rates."""
    fleet: Fleet
    phase: str
    """mixed, prefill or decode: the side whose limits count."""
    part: Part
    partner: Part | None
    n_replicas: int
    n_chips: int
    """Chips of one replica of `part`."""
    rates: Mapping[str, float]
    """Mean rate of each class as the scenario has it."""
    mix: Mapping[str, float]
    """Share of each class in the group's requests; they sum to 1."""
    link: Mapping[str, Any] = field(default_factory=dict)
    """In place of a link that the whole fleet shares: as slow for each prompt, without the others' in the way."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One simulation of a group; figures of a replica are means over the group's."""

    load_req_per_s: float
    """Requests per second and replica, all classes of the mix."""
    seed: int
    classes: Mapping[str, Mapping[str, float | None]]
    """By class: `ttft_s.p95` and its like, `attainment_frac`, and `strain`: the worst of value / limit, None beyond."""
    steps_w: float
    """What the steps of a replica draw on the mean, the parked power of the stepping chips included."""
    parked_chips: float
    """Chips of a replica without a step, on the mean."""
    tokens_per_s_in: float
    tokens_per_s_out: float
    n_requests: int


def group_of(
    scenario: Scenario,
    part: Part,
    mix: Mapping[str, float],
    n_replicas: int,
    *,
    lengths: Mapping[str, Lengths],
    rates: Mapping[str, float],
    phase: str = "mixed",
    partner: Part | None = None,
) -> Group:
    """The group of `n_replicas` copies of a deployment that serves the classes of `mix`.

    Raises:
        Infeasible: the deployment does not fit its chips.
    """
    entry = scenario.fleet.pools[part.pool].deploy[part.entry]
    sides = {part: ("mixed" if phase == "mixed" else phase, n_replicas)}
    if partner is not None:
        sides[partner] = ("decode" if phase == "prefill" else "prefill", n_replicas * AMPLE)
    pools: dict[str, Any] = {}
    names: dict[Part, str] = {}
    for side, (role, _) in sides.items():
        pool = scenario.fleet.pools[side.pool]
        names[side] = side.pool if side.pool not in pools else f"{side.pool}.{role}"
        update = {
            "per_rack": None,
            "role": role,
            "decode_pool": partner_name(part, partner, phase) if role == "prefill" else None,
        }
        pools[names[side]] = pool.model_copy(
            update={
                "deploy": (pool.deploy[side.entry].model_copy(update=update),),
                "count": 1,
                "count_range": None,
                "existing": 0,
                "failures": None,
                "outages": (),
                "maintenance": (),
                "autoscale": None,
            }
        )
    first = names[part] if phase != "decode" or partner is None else names[partner]
    fleet_spec = scenario.fleet.model_copy(
        update={
            "pools": pools,
            "routes": {name: {first: None} for name in mix},
            "spare_frac": None,
            "survive": None,
            "cell_replicas": None,
        }
    )
    same_model = {name: cls for name, cls in scenario.traffic.items() if cls.model == entry.model}
    site = scenario.site.model_copy(update={"power_limit_w": None})
    # Layout and engine are those of the whole fleet, which chooses them by the role that an entry has there: one that
    # decodes for others beside what it serves whole keeps what it has.
    own = {names[side]: _as_placed(pools[names[side]], scenario, side) for side in sides}
    alone = replace(
        scenario,
        fleet=fleet_spec.model_copy(update={"pools": own, "routes": {}}),
        traffic=same_model,
        site=site,
        sites={},
    )
    whole = lay_out(alone, lengths)
    counts = {names[side]: max(1, n) for side, (_, n) in sides.items()}
    layouts = tuple(_with_replicas(layout, counts[layout.name]) for layout in whole.pools)
    trips = {names[side]: round_trips(side.pool, mix, scenario.site, scenario.sites) for side in sides}
    placed = tuple(p for layout in layouts for p in layout.placed)
    fleet = replace(whole, pools=layouts, placed=placed, round_trips_s=trips)
    traffic = {name: flat(scenario.traffic[name]) for name in scenario.traffic if name in mix}
    mini = replace(scenario, fleet=fleet_spec, traffic=traffic, site=site, sites={})
    n_chips = next(p.n_chips for p in fleet.placed if p.pool == names[part])
    own_rates = {name: rates[name] for name in mix}
    giver = names[part] if partner is None or phase == "prefill" else names[partner]
    gives = next(p for p in fleet.placed if p.pool == giver)
    link = _lonely(fleet, gives, mix, lengths) if phase != "mixed" else {}
    return Group(mini, fleet, phase, part, partner, n_replicas, n_chips, own_rates, dict(mix), link)


def _as_placed(pool: Pool, scenario: Scenario, side: Part) -> Pool:
    """The pool of a group with the role that its entry has in the scenario."""
    if scenario.fleet.pools[side.pool].deploy[side.entry].role != "mixed":
        return pool
    return pool.model_copy(update={"deploy": (pool.deploy[0].model_copy(update={"role": "mixed"}),)})


def _lonely(fleet: Fleet, placed: Placed, mix: Mapping[str, float], lengths: Mapping[str, Lengths]) -> dict[str, Any]:
    """A link so wide that prompts do not wait for each other, and as long under way as a mean one takes on its own.

    What the fleet hands over altogether is bounded elsewhere: a few replicas would find the whole link theirs, or, at
    the loads that are tried, break on it where they themselves hold.
    """
    if fleet.kv_link_bytes_per_s is None:
        return {}
    width = fleet.kv_link_bytes_per_s.number
    n_bytes = sum(share * lengths[name].input_tokens for name, share in mix.items()) * placed.plan["kv_bytes_per_token"]
    return {"bytes_per_s": width * _WIDE, "latency_ns": ns(n_bytes / width)}


def partner_name(part: Part, partner: Part | None, phase: str) -> str:
    """The name of the decoding pool inside a group."""
    assert partner is not None
    decode = partner if phase == "prefill" else part
    both = part.pool == partner.pool
    return f"{decode.pool}.decode" if both and phase == "prefill" else decode.pool


def _with_replicas(layout: PoolLayout, n_replicas: int) -> PoolLayout:
    placed: tuple[Placed, ...] = tuple(replace(p, n_replicas=n_replicas) for p in layout.placed)
    return replace(layout, placed=placed, n_chips=sum(p.n_replicas * p.n_chips for p in placed), idle_chips=0)


def resized(group: Group, n_replicas: int) -> Group:
    """The same group with so many replicas, and as ample ones on the other side."""
    own = {True: n_replicas, False: n_replicas * AMPLE}
    layouts = tuple(_with_replicas(layout, own[_is_part(group, layout)]) for layout in group.fleet.pools)
    fleet = replace(group.fleet, pools=layouts, placed=tuple(p for layout in layouts for p in layout.placed))
    return replace(group, fleet=fleet, n_replicas=n_replicas)


def describe(group: Group) -> str:
    """All that a simulation of the group depends on but its load, length and seed, as text for a digest."""
    spec = sim_spec(group.scenario, group.fleet, seed=0, length_ns=1, keep_requests=False) | _link(group)
    shown = {
        "spec": spec,
        "traffic": repr(dict(group.scenario.traffic)),
        "slo": repr({name: group.scenario.slo[c.slo] for name, c in group.scenario.traffic.items() if c.slo}),
        "dir": str(group.scenario.base_dir) if any(c.trace for c in group.scenario.traffic.values()) else "",
        "phase": group.phase,
        "mix": dict(group.mix),
        "rates": dict(group.rates),
    }
    return json.dumps(shown, sort_keys=True)


def measure(group: Group, load_req_per_s: float, *, seed: int, length_s: float, warmup_s: float) -> Measured:
    """Simulate the group at a load of so many requests per second and replica."""
    total = load_req_per_s * group.n_replicas
    traffic = {
        name: scaled(cls, total * group.mix[name] / group.rates[name]) for name, cls in group.scenario.traffic.items()
    }
    run = group.scenario.run.model_copy(
        update={"length_s": length_s, "warmup_s": warmup_s, "window_s": max(60.0, length_s)}
    )
    scenario = replace(group.scenario, traffic=traffic, run=run)
    cached = any(entry.prefix_cache for pool in scenario.fleet.pools.values() for entry in pool.deploy)
    offered = short_traffic(scenario, seed, prefixes=cached)
    spec = sim_spec(
        scenario,
        group.fleet,
        seed=seed,
        length_ns=offered.length_ns,
        keep_requests=False,
        block_tokens=offered.block_tokens,
    ) | _link(group)
    sim = simulate(spec, offered.frame, offered.blocks)
    span_s = offered.length_ns / 1e9 - warmup_s
    ix = next(k for k, layout in enumerate(group.fleet.pools) if _is_part(group, layout))
    work = pool_sums(chip_work(sim.deployments, group.fleet), ix)
    everyone = chip_work(sim.deployments, group.fleet)
    made = {"input_tokens": 0.0, "output_tokens": 0.0}
    for pool_ix in range(len(group.fleet.pools)):
        sums = pool_sums(everyone, pool_ix)
        made = {name: total + sums[name] for name, total in made.items()}
    keeps = _keeps_pace(sim.classes.to_dicts(), made["output_tokens"])
    figures = {}
    found = latencies(sim.sketches, len(traffic))
    for class_ix, (name, row) in enumerate(zip(traffic, sim.classes.sort("class_ix").to_dicts(), strict=True)):
        counts = slo.Counts.of(row)
        limits = scenario.slo[slo_name] if (slo_name := traffic[name].slo) is not None else None
        rows = slo.judged_limits(sim.sketches, class_ix, counts, limits) if limits is not None else []
        figures[name] = {
            **{f"{metric}_s.{stat}": found[class_ix][f"{metric}_s"][stat] for metric in METRICS for stat in STATISTICS},
            "attainment_frac": slo.attainment(counts, limits),
            "strain": _strain(group, rows, counts, limits, keeps_pace=keeps),
        }
    n = group.n_replicas
    return Measured(
        load_req_per_s=load_req_per_s,
        seed=seed,
        classes=figures,
        steps_w=(work["prefill_j"] + work["decode_j"]) / span_s / n,
        parked_chips=max(0.0, group.n_chips - (work["prefill_chip_s"] + work["decode_chip_s"]) / span_s / n),
        tokens_per_s_in=work["input_tokens"] / span_s / n,
        tokens_per_s_out=work["output_tokens"] / span_s / n,
        n_requests=offered.frame.height,
    )


def _link(group: Group) -> dict[str, Any]:
    return {"link": dict(group.link)} if group.link else {}


def _is_part(group: Group, layout: PoolLayout) -> bool:
    role = group.scenario.fleet.pools[layout.name].deploy[0].role
    return role == group.phase


def _keeps_pace(rows: list[dict[str, Any]], made_tokens: float) -> bool:
    """Whether the tokens made in the span are those offered in it, but for the ends."""
    offered = math.fsum(row["output_tokens"] / row["offered"] * row["span_offered"] for row in rows if row["offered"])
    return made_tokens >= KEPT_PACE_FRAC * offered


def _strain(
    group: Group, rows: list[dict[str, Any]], counts: slo.Counts, limits: Any, *, keeps_pace: bool
) -> float | None:
    """The worst of value / limit over the limits that the phase answers for; None where one has no value or the queue
    grows for ever. An attainment counts as (1 - reached) / (1 - asked).
    """
    if not keeps_pace:
        return None
    asked = _OF_PHASE[group.phase]
    worst = 0.0
    for row in rows:
        if asked is not None and row["metric"] not in asked:
            continue
        if row["value"] is None:
            if row["met"]:
                continue
            return None
        worst = max(worst, row["value"] / row["limit"])
    wanted = limits.attainment_frac if limits is not None else None
    if wanted is not None and counts.offered:
        missed, allowed = 1 - counts.attained / counts.offered, 1 - wanted
        if missed > allowed and not allowed:
            return None
        worst = max(worst, missed / allowed if allowed else 0.0)
    return worst


def entry_of(scenario: Scenario, part: Part) -> Deploy:
    """The entry of the deploy list that a part names."""
    return scenario.fleet.pools[part.pool].deploy[part.entry]

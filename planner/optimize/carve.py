"""From a decision to a fleet that stands: racks carved, pools written out, each class routed, period by period.

Replicas go on racks as `packing.py` has it; racks that come out alike are a pool, the first under the pool's own name,
others as `NAME-2`, `NAME-3`. Chips that are left over take further replicas of the
deployment that is loaded most (they cost nothing and make queues shorter); what no replica fits stays idle and is seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.errors import CoreError
from planner.optimize.build import Question
from planner.optimize.instance import Decision, Instance
from planner.optimize.packing import Packed, packed
from planner.optimize.reading import loads
from planner.scenario.load import rebuilt
from planner.scenario.sites import place_of
from planner.traffic.demand import DAY_S

if TYPE_CHECKING:
    from planner.scenario import Scenario
    from planner.scenario.tree import Steps

PEAK, TYPICAL = "peak", "typical"
MOST_TYPICAL_REQUESTS = 6_000_000
"""A typical day with more requests than that is simulated as an hour of the day's mean rate."""


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack as it is carved, and how many stand so."""

    counts: tuple[int, ...]
    """Replicas of each option."""
    n: int


def carved(instance: Instance, decision: Decision, k: int, t: int) -> list[Rack]:
    """The racks of a kind in a span, alike ones together, those with most of the first options first."""
    kind = instance.kinds[k]
    n_racks = decision.racks(instance, k, t)
    fixed = tuple(option.per_rack or 0 for option in kind.options)
    if not n_racks or all(option.per_rack is not None for option in kind.options):
        return [Rack(fixed, n_racks)] if n_racks else []
    alike: dict[tuple[int, ...], int] = {}
    for row in _placed(instance, decision, k, t).counts:
        whole = tuple(row.get(o, 0) + n for o, n in enumerate(fixed))
        alike[whole] = alike.get(whole, 0) + 1
    return [Rack(row, alike[row]) for row in sorted(alike, reverse=True)]


def _placed(instance: Instance, decision: Decision, k: int, t: int) -> Packed:
    """Chosen replicas of each rack by option, and the chips then free in its domains."""
    kind = instance.kinds[k]
    chips = {o: option.chips for o, option in enumerate(kind.options) if option.per_rack is None}
    wanted = {o: decision.replicas[k][o][t] for o in chips}
    found = packed(kind.domains, decision.racks(instance, k, t), wanted, chips)
    if found is None:
        raise CoreError(f"a plan has more replicas than its racks of {kind.name} take: {wanted}")
    return found


def filled(instance: Instance, decision: Decision) -> Decision:
    """The decision with further replicas on the chips that are left over."""
    spans = range(len(instance.spans))
    replicas = [[list(row) for row in rows] for rows in decision.replicas]
    for k, kind in enumerate(instance.kinds):
        for t in spans:
            racks = _placed(instance, decision, k, t)
            _fill(instance, decision, k, t, racks)
            for o, option in enumerate(kind.options):
                if option.per_rack is None:
                    replicas[k][o][t] = sum(row.get(o, 0) for row in racks.counts)
    return Decision(decision.bought, tuple(tuple(tuple(row) for row in rows) for rows in replicas), decision.shares)


def _fill(instance: Instance, decision: Decision, k: int, t: int, racks: Packed) -> None:
    """Further replicas on the chips that are left, of what is loaded most; where nothing is, of the first in use."""
    kind = instance.kinds[k]
    used = loads(instance, decision, t)
    have = {o: decision.replicas[k][o][t] for o, option in enumerate(kind.options) if option.per_rack is None}
    work = {o: used.get((k, o), 0.0) * n for o, n in have.items() if n and used.get((k, o), 0.0) > 0}
    if not work and not any(option.per_rack for option in kind.options):  # racks that have to stand stand to be used
        able = [o for o in have if any((k, o) in {(a, b) for a, b, _ in way.takes} for way in instance.ways)]
        work = dict.fromkeys(able[:1], 1.0)
    while work:
        fitting = [o for o in work if any(room >= kind.options[o].chips for domains in racks.free for room in domains)]
        if not fitting:
            return
        most = max(fitting, key=lambda o: (work[o] / have[o] if have[o] else math.inf, -o))
        racks.place(most, kind.options[most].chips)
        have[most] += 1


def sub_pools(question: Question, decision: Decision, k: int, t: int) -> dict[str, Rack]:
    """The pools that a kind's racks are in a span, by name."""
    racks = carved(question.instance, decision, k, t)
    name = question.pools[k]
    return {name if ix == 0 else f"{name}-{ix + 1}": rack for ix, rack in enumerate(racks)}


def scenario_of(question: Question, decision: Decision, t: int, which: str, *, is_checked: bool = True) -> Scenario:
    """The scenario of a period's peak or typical day with the fleet of a decision, ready to be run.

    The peak of a class with a daily shape is its busiest hour, at an even rate; a trace is as it is. `is_checked` keeps
    `fleet.spare` and `fleet.survive`, which a run then checks beside.
    """
    span = question.instance.spans[t]
    scenario = question.scenario
    changes: dict[Steps, Any] = {("goal",): None, ("periods",): None}
    has_day = any(cls.shape is not None for cls in scenario.traffic.values())
    day_requests = sum(span.mean_req_per_s.values()) * DAY_S
    for name, cls in scenario.traffic.items():
        growth = span.mean_req_per_s[name] / question.mean_rates[name]
        if cls.trace is not None:
            changes["traffic", name, "scale"] = cls.scale * growth
            continue
        rate = question.mean_rates[name] * growth
        is_flat = which == PEAK or (has_day and day_requests > MOST_TYPICAL_REQUESTS)
        if cls.shape is not None and is_flat:
            if which == PEAK:
                rate *= question.peak_fracs[name]
            changes["traffic", name, "shape"] = None
            if cls.regions:
                changes["traffic", name, "regions"] = None
        if cls.growth_frac_per_year is not None:
            changes["traffic", name, "growth"] = None
        changes["traffic", name, "rate"] = f"{rate!r} req/s"
    if which == TYPICAL and has_day and day_requests <= MOST_TYPICAL_REQUESTS:
        changes["run", "length"] = "24 h"
    if not is_checked or which == TYPICAL:
        for key, value in (("spare", scenario.fleet.spare_frac), ("survive", scenario.fleet.survive)):
            if value is not None:
                changes["fleet", key] = None
    _put_fleet(question, decision, t, changes)
    label = f"{span.name}.{which}"
    return rebuilt(scenario, changes, name=label)


def _put_fleet(question: Question, decision: Decision, t: int, changes: dict[Steps, Any]) -> None:
    instance, scenario = question.instance, question.scenario
    plain = scenario.resolved()["fleet"]["pools"]
    parts_of: dict[str, dict[str, Rack]] = {}
    pools: dict[str, Any] = {}
    for k, name in enumerate(question.pools):
        owned = instance.existing(k, t)
        parts_of[name] = sub_pools(question, decision, k, t)
        for own, rack in parts_of[name].items():
            n_owned = min(owned, rack.n)
            owned -= n_owned
            pools[own] = _pool(scenario, name, plain[name], rack, n_owned)
    for pool in pools.values():
        for entry in pool["deploy"]:
            if "decode_pool" in entry:
                to = [own for own in parts_of[entry["decode_pool"]] if _decodes(pools[own], entry["model"])]
                entry["decode_pool"] = to[0] if to else entry["decode_pool"]
    changes["fleet", "pools"] = pools
    for name in question.pools:
        if name not in pools:
            changes["fleet", "pools"][name] = None
    changes["fleet", "routes"] = None
    changes["fleet", "routes"] = routes(question, decision, t, parts_of)
    for site_name, site in scenario.sites.items():
        standing = [
            own for name in question.pools for own in parts_of[name] if place_of(name, scenario.sites) == site_name
        ]
        if site.pools is not None:
            changes["sites", site_name, "pools"] = standing


def _decodes(pool: Mapping[str, Any], model: str) -> bool:
    return any(entry["model"] == model and entry.get("role") != "prefill" for entry in pool["deploy"])


_ONLY_HERE = ("retire", "available_from", "lead_time", "deliveries", "existing", "count", "deploy")


def _pool(scenario: Scenario, name: str, plain: Mapping[str, Any], rack: Rack, n_owned: int) -> dict[str, Any]:
    """A pool of alike racks as the scenario file has it."""
    entries = scenario.resolved()["fleet"]["pools"][name]["deploy"]
    deploy = [{**entry, "per_rack": n} for entry, n in zip(entries, rack.counts, strict=True) if n]
    deploy = deploy or [{**entries[0], "per_rack": 1}]  # on racks that nobody is sent to
    kept = {key: value for key, value in plain.items() if key not in _ONLY_HERE}
    made = {**kept, "count": rack.n, "deploy": deploy}
    return made | ({"existing": n_owned} if n_owned else {})


def routes(
    question: Question, decision: Decision, t: int, parts_of: Mapping[str, Mapping[str, Rack]]
) -> dict[str, Any]:
    """Where each class goes: shares by pool, or where racks may be down the pools alone, for the router to choose."""
    instance = question.instance
    at = {part: (k, o) for k, row in enumerate(question.parts) for o, part in enumerate(row)}
    found: dict[str, Any] = {}
    for name in instance.classes:
        shares: dict[str, float] = {}
        for w, use in enumerate(question.uses):
            share = decision.shares[w][t]
            if use.cls != name or share <= 0:
                continue
            _, o = at[use.part]
            holders = {own: rack.counts[o] * rack.n for own, rack in parts_of[use.part.pool].items() if rack.counts[o]}
            whole = sum(holders.values())
            for own, n in holders.items():
                shares[own] = shares.get(own, 0.0) + share * n / whole
        if instance.racks_down:
            found[name] = list(shares)
        else:
            found[name] = dict(zip(shares, _percent(list(shares.values())), strict=True))
    return found


def _percent(shares: Sequence[float]) -> list[str]:
    """Shares as text that sums to exactly 100 %."""
    ppm = [round(share * 1e6) for share in shares]
    if ppm:
        largest = max(range(len(ppm)), key=lambda ix: ppm[ix])
        ppm[largest] += 10**6 - sum(ppm)
    return [f"{value / 1e4:.4f} %" for value in ppm]

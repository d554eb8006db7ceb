"""Uncertain facts as samples: which fact takes which value, and which member of Jalapeño's posterior holds.

A centred Latin hypercube (McKay, Beckman, Conover, Technometrics 21, 1979; Stein, Technometrics 29, 1987): the range
of each uncertain fact is cut into n strata of equal probability, each sample sits in the middle of one, and each fact
has its strata in an order of its own. That order comes from the core's counter-based streams, keyed by the fact's path:
one fact's draws depend on no other fact, so every variant of a scenario sees the same ones (common random numbers).

- A fact between low and high: triangular with its mode at the value in use (the placeholder of an undisclosed one).
- What is not disclosed of Jalapeño: a member of the posterior by its weight, whole, since its values belong together.
- Draws of a chip and of a rack keep their order (idle <= parked <= low load <= high load; idle <= typical <= rated),
  and a rack draws at least what its chips do. A rack of Jalapeño chips draws what the member says for each chip: the
  ranges of the catalogue's rack span racks of 16 to 128 chips, and the number of chips is held.

Facts that only money, power and carbon read are applied with the simulation held (`book`). Those that the simulator
reads change it (`applied`), the layout held: they are drawn `n_simulated` times, so that n samples cost no more.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planner import core
from planner.aggregate.evidence import fleet_facts
from planner.aggregate.power import Book, resting
from planner.errors import FactError
from planner.facts import catalog
from planner.facts.fact import Fact

if TYPE_CHECKING:
    from pathlib import Path

    from planner.fleet.fleet import Fleet, Placed, PoolLayout
    from planner.scenario import Scenario

__all__ = [
    "N_SIMULATED",
    "POSTERIOR",
    "Sample",
    "Uncertain",
    "alone",
    "applied",
    "book",
    "facts_of_simulation",
    "sample",
    "uncertain",
]

N_SIMULATED = 16
"""Draws of what the simulator reads, where a scenario does not say how many."""
POSTERIOR = "posterior.jalapeno"
"""Stands for the posterior's member as a whole, where facts are listed."""
_MEMBER_CHIP = "jalapeno"
_CHIP_SPOTS: Mapping[str, tuple[str, ...]] = {
    "memory_bytes": ("memory_bytes",),
    "memory_bytes_per_s": ("memory_bytes_per_s",),
    "flop_per_s.bf16": ("flop_per_s", "bf16"),
    "flop_per_s.fp8": ("flop_per_s", "fp8"),
    "flop_per_s.fp4": ("flop_per_s", "fp4"),
    "idle_w": ("idle_w",),
    "parked_w": ("parked_w",),
    "active_w": ("active_w",),
    "low_load_w": ("low_load_w",),
    "high_load_w": ("high_load_w",),
    "sustained_max_w": ("max_w",),
    "scale_up.bytes_per_s": ("scale_up_bytes_per_s",),
    "scale_up.latency_s": ("scale_up_latency_s",),
    "scale_up.domain_chips": ("domain_chips",),
    "scale_out.bytes_per_s": ("scale_out_bytes_per_s",),
    "scale_out.latency_s": ("scale_out_latency_s",),
}
"""Attribute of a chip -> where it stands in a deployment's chip."""
_GENERAL = ("low_load_memory_frac", "high_load_compute_frac")
_BETWEEN_CHIPS = ("collective_base_s", "collective_log_s", "link_eff_frac", "prefill_link_eff_frac")
_CHIP_ORDER = ("idle_w", "parked_w", "active_w", "low_load_w", "high_load_w")


@dataclass(frozen=True, slots=True)
class Sample:
    """One world: every sample has the same weight."""

    ix: int
    values: Mapping[str, float]
    """Path of a fact -> the value it takes, in the fact's unit."""
    member: int | None
    """Which member of the shipped posterior; None where no chip of the fleet is Jalapeño."""
    simulated_ix: int
    """Samples of the same number agree in everything that the simulator reads."""


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The facts of a fleet that have a range."""

    held: tuple[Fact, ...]
    """Read by money, power and carbon alone."""
    simulated: tuple[Fact, ...]
    """Read by the simulator, drawn one by one."""
    members: tuple[Fact, ...] = ()
    """Read by the simulator, of the posterior."""


@dataclass(frozen=True, slots=True)
class _Spot:
    fact: Fact
    place: tuple[str, ...]


@dataclass(slots=True)
class _Draw:
    """Values that are being drawn, with the facts' own where nothing is."""

    values: dict[str, float] = field(default_factory=dict)

    def of(self, fact: Fact) -> float:
        return self.values.get(fact.path, fact.number)

    def at_least(self, fact: Fact | None, floor: float) -> float:
        """Lift a fact to the floor, if it is below; the value that it has then."""
        if fact is None or fact.used is None:
            return floor
        value = self.of(fact)
        if value < floor:
            self.values[fact.path] = value = floor
        return value


def uncertain(scenario: Scenario, fleet: Fleet) -> Uncertain:
    """The facts in use that have a range, each once, in the order in which a run reads them."""
    simulated, members = {}, {}
    for placed in fleet.placed:
        for spot in _spots(placed, _pool(fleet, placed), scenario.base_dir):
            if _is_of_member(spot.fact):
                members[spot.fact.path] = spot.fact
            elif _has_range(spot.fact):
                simulated[spot.fact.path] = spot.fact
    simulated |= {fact.path: fact for fact in fleet_facts(fleet) if _has_range(fact)}
    held = {fact.path: fact for fact in _held(scenario, fleet) if _has_range(fact) or _is_of_member(fact)}
    if members:
        racks = [pool.rack for pool in fleet.pools if pool.chip.name == _MEMBER_CHIP]
        members |= {f.path: f for rack in racks for f in (rack.idle_w, rack.typical_w, rack.rated_w) if _has_range(f)}
    return Uncertain(
        held=tuple(f for path, f in held.items() if path not in simulated and path not in members),
        simulated=tuple(simulated.values()),
        members=tuple(members.values()),
    )


def facts_of_simulation(fleet: Fleet, base_dir: Path) -> list[Fact]:
    """Every fact that the simulator reads of a fleet, each once: chips and engines, links, ways to the clients."""
    found = {fact.path: fact for fact in fleet_facts(fleet)}
    for placed in fleet.placed:
        for spot in _spots(placed, _pool(fleet, placed), base_dir):
            if spot.fact.used is not None:
                found[spot.fact.path] = spot.fact
    return list(found.values())


def sample(
    scenario: Scenario, n: int, *, seed: int = 1, n_simulated: int = N_SIMULATED, fleet: Fleet | None = None
) -> list[Sample]:
    """`n` equally weighted samples of the uncertain facts of `scenario`; the same `seed` and `n` give the same draws
    for every variant. `fleet` is the scenario laid out, where that was done already.

    Raises:
        The errors of `lay_out`, where `fleet` is not given.
    """
    if fleet is None:
        from planner.fleet.layout import lay_out
        from planner.study.run import mean_lengths

        fleet = lay_out(scenario, mean_lengths(scenario))
    facts = uncertain(scenario, fleet)
    n_simulated = max(1, min(n, n_simulated))
    money = {fact: _shares(fact.path, n, seed) for fact in facts.held}
    physics = {fact: _shares(fact.path, n_simulated, seed) for fact in facts.simulated}
    ixs = _members(n_simulated, seed) if facts.members else [None] * n_simulated
    made = []
    for ix in range(n):
        of = ix % n_simulated
        draw = _Draw({fact.path: _at(fact, shares[of]) for fact, shares in physics.items()})
        draw.values |= {fact.path: _at(fact, shares[ix]) for fact, shares in money.items()}
        draw.values |= _member_values(ixs[of], facts.members)
        _keep_order(fleet, draw, ixs[of])
        made.append(Sample(ix, draw.values, ixs[of], of))
    return made


def alone(fleet: Fleet, path: str, value: float) -> Mapping[str, float]:
    """The values of facts with one at `value`, and what has to move with it so that draws keep their order."""
    draw = _Draw({path: value})
    _keep_order(fleet, draw, None)
    return draw.values


def book(of: Sample) -> Book:
    """Reads facts as they are in a sample, for what is made with the simulation held."""
    return Book(of.values)


def applied(fleet: Fleet, of: Sample, base_dir: Path) -> Fleet:
    """The fleet with the sample's chips, engines, links and ways to the clients, laid out as it was.

    Raises:
        Infeasible: a replica does not fit such chips.
    """
    placed = {id(one): _changed(one, _pool(fleet, one), of.values, base_dir) for one in fleet.placed}
    pools = tuple(replace(pool, placed=tuple(placed[id(one)] for one in pool.placed)) for pool in fleet.pools)
    trips = {
        pool: {name: _drawn_as(fact, of.values) for name, fact in by_class.items()}
        for pool, by_class in fleet.round_trips_s.items()
    }
    link = fleet.kv_link_bytes_per_s
    return replace(
        fleet,
        pools=pools,
        placed=tuple(placed[id(one)] for one in fleet.placed),
        round_trips_s=trips,
        kv_link_bytes_per_s=None if link is None else _drawn_as(link, of.values),
    )


def _drawn_as(fact: Fact, values: Mapping[str, float]) -> Fact:
    """The fact with the value that it takes in a sample."""
    return replace(fact, value=values[fact.path], default=None) if fact.path in values else fact


# -- what the simulator reads ------------------------------------------------------------------------------------------


def _changed(placed: Placed, pool: PoolLayout, values: Mapping[str, float], base_dir: Path) -> Placed:
    spec: dict[str, Any] = deepcopy(dict(placed.spec))
    for name in _CHIP_ORDER:  # a draw that no source gives has no fact, and may have been lifted all the same
        fact = _drawn(pool, name)
        if fact is not None and getattr(pool.chip, name) is not fact and fact.path in values:
            spec["chip"][name] = values[fact.path]
    for spot in _spots(placed, pool, base_dir):
        value = values.get(spot.fact.path)
        if value is None:
            continue
        *way, last = spot.place
        here: dict[str, Any] = spec
        for step in way:
            here = here[step]
        was = here.get(last)
        if was is None:
            continue  # the chip has no such hardware, or the core takes its own rule
        if was != spot.fact.number and spot.fact.number > 0:  # a correction lies on the fact: it stays
            value = was * (value / spot.fact.number)
        here[last] = int(value) if isinstance(was, int) else value
    if spec == placed.spec:
        return placed
    return replace(placed, spec=spec, plan=core.plan(spec))


def _pool(fleet: Fleet, placed: Placed) -> PoolLayout:
    return next(pool for pool in fleet.pools if pool.name == placed.pool)


def _spots(placed: Placed, pool: PoolLayout, base_dir: Path) -> Iterator[_Spot]:
    """Facts that a deployment's spec was made of, where each stands in it; what has no effect there is left out."""
    facts = catalog.load()
    spec = placed.spec
    is_alone = placed.n_chips == 1
    rates = {spec["precision"].get(name) for name in ("experts_rate", "experts_operand", "rest_rate", "attention_rate")}
    for attr, fact in catalog.facts_of(pool.chip).items():
        place = _CHIP_SPOTS.get(attr)
        if place is None or (is_alone and attr.startswith("scale_up")):
            continue
        if attr.startswith("flop_per_s") and place[-1] not in rates:
            continue
        if attr.startswith("scale_out") and placed.n_chips <= spec["chip"].get("domain_chips", placed.n_chips):
            continue
        yield _Spot(fact, ("chip", *place))
    for fact in placed.facts:  # of the scenario: acceptance and cost of drafts
        name = f"{fact.path.rpartition('.')[2]}_frac"
        if name in (spec["serving"].get("speculation") or {}):
            yield _Spot(fact, ("serving", "speculation", name))
    try:
        engine = facts.engine(placed.engine, base=base_dir)
    except FactError:
        return  # a person's own engine file, known by its figures alone
    model = spec["model"]
    without = {
        "launch_moe_s": not model.get("moe"),
        "expert_skew": not model.get("moe"),
        "launch_mla_s": model.get("attention", {}).get("kind") != "mla",
        "launch_sparse_s": not model.get("indexed_layers"),
        "launch_linear_s": not model.get("recurrent_layers"),
        "collective_scale_out_s": placed.n_chips <= spec["chip"].get("domain_chips", placed.n_chips),
        **dict.fromkeys(_BETWEEN_CHIPS, is_alone),
    }
    for attr, fact in catalog.facts_of(engine).items():
        if attr in spec.get("engine", {}) and not without.get(attr, False):
            yield _Spot(fact, ("engine", attr))
    general = facts.general()
    for name in _GENERAL:
        if name in spec["chip"]:
            yield _Spot(general[name], ("chip", name))


def _held(scenario: Scenario, fleet: Fleet) -> list[Fact]:
    """What money, power and carbon read of a fleet at rest."""
    from planner.aggregate.held import read_at_rest

    return read_at_rest(scenario.cost, fleet, [resting(pool) for pool in fleet.pools], catalog.load().finance())


# -- draws -------------------------------------------------------------------------------------------------------------


def _has_range(fact: Fact) -> bool:
    used = fact.used
    if isinstance(used, bool) or not isinstance(used, int | float):
        return False
    return any(end is not None and end != used for end in (fact.low, fact.high))


def _is_of_member(fact: Fact) -> bool:
    head, _, attr = fact.path.partition(".")
    name, _, attr = attr.partition(".")
    if (head, name) not in {("chips", _MEMBER_CHIP), ("engines", catalog.load().chip(_MEMBER_CHIP).engine)}:
        return False
    return f"{head.removesuffix('s')}.{attr}" in _unknown_paths() or attr in {"flop_per_s.fp8", "flop_per_s.bf16"}


def _unknown_paths() -> frozenset[str]:
    from planner.model.posterior import shipped

    return frozenset(shipped().tree["unknowns"])


def _order(key: str, n: int, seed: int) -> list[int]:
    """A random order of 0..n-1 that depends on key, n and seed only: the ranks of as many normals."""
    stream = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1
    values = core.sample({"kind": "normals", "seed": seed, "key": stream, "n_rows": n, "n_columns": 1})["value"]
    ranked = sorted(range(n), key=values.to_list().__getitem__)
    ranks = [0] * n
    for rank, ix in enumerate(ranked):
        ranks[ix] = rank
    return ranks


def _shares(key: str, n: int, seed: int) -> list[float]:
    """The middle of a stratum for each of n samples."""
    return [(rank + 0.5) / n for rank in _order(key, n, seed)]


def _at(fact: Fact, share: float) -> float:
    """The value below which a triangular fact lies with probability `share`; whole where the fact counts."""
    mode = fact.number
    low, high = (mode if end is None else end for end in (fact.low, fact.high))
    low, high = min(low, mode), max(high, mode)
    width = high - low
    if share * width <= mode - low:
        value = low + math.sqrt(share * width * (mode - low))
    else:
        value = high - math.sqrt((1 - share) * width * (high - mode))
    value = min(max(value, low), high)
    return float(round(value)) if fact.kind == "count" else value


def _members(n: int, seed: int) -> list[int | None]:
    """A member of the posterior for each of n draws, in proportion to the weights."""
    from planner.model.posterior import shipped

    weights = [member.weight for member in shipped().members]
    whole = math.fsum(weights)
    found: list[int | None] = []
    for share in _shares(POSTERIOR, n, seed):
        total = 0.0
        for ix, weight in enumerate(weights):
            total += weight / whole
            if share < total or ix == len(weights) - 1:
                found.append(ix)
                break
    return found


def _member_values(ix: int | None, facts: Sequence[Fact]) -> dict[str, float]:
    """What a member says of chip and engine; 8- and 16-bit rates are a half and a quarter of the 4-bit one."""
    if ix is None:
        return {}
    from planner.model.posterior import shipped

    values = shipped().members[ix].values
    fp4 = values["chip.flop_per_s.fp4"]
    known = {**values, "chip.flop_per_s.fp8": fp4 / 2, "chip.flop_per_s.bf16": fp4 / 4}
    found = {}
    for fact in facts:
        head, _, rest = fact.path.partition(".")
        value = known.get(f"{head.removesuffix('s')}.{rest.partition('.')[2]}")
        if value is not None and head in {"chips", "engines"}:
            found[fact.path] = value
    return found


def _drawn(pool: PoolLayout, name: str) -> Fact | None:
    """A draw of the pool's chip; what the step model takes in its place where no source gives it."""
    fact: Fact | None = getattr(pool.chip, name)
    if fact is not None and fact.used is not None:
        return fact
    value = next((placed.spec["chip"][name] for placed in pool.placed if name in placed.spec["chip"]), None)
    return None if value is None else Fact(float(value), path=f"chips.{pool.chip.name}.{name}", kind="power")


def _keep_order(fleet: Fleet, draw: _Draw, member: int | None) -> None:
    """Draws of chips and racks in their order; what a rack of Jalapeño chips draws, by its member."""
    from planner.model.posterior import shipped

    for pool in fleet.pools:
        floor = 0.0
        for name in _CHIP_ORDER:
            floor = draw.at_least(_drawn(pool, name), floor)
        rack, n_chips = pool.rack, pool.rack.n_chips.number
        idle_w = n_chips * draw.of(pool.chip.idle_w)
        high_w = n_chips * (draw.of(pool.chip.high_load_w) if pool.chip.high_load_w else pool.chip.tdp_w.number)
        if member is not None and pool.chip.name == _MEMBER_CHIP and _has_range(rack.n_chips):
            over = shipped().members[member].values
            draw.values[rack.idle_w.path] = idle_w * rack.idle_w.number / (n_chips * pool.chip.idle_w.number)
            draw.values[rack.typical_w.path] = high_w * over["rack.typical_over_chips"]
            draw.values[rack.rated_w.path] = n_chips * pool.chip.tdp_w.number * over["rack.rated_over_chips"]
        floor = draw.at_least(rack.idle_w, idle_w)
        floor = draw.at_least(rack.typical_w, max(floor, high_w))
        draw.at_least(rack.rated_w, floor)

"""Response surfaces: what one deployment does at each load, sampled by the simulator, and where its limits break.

A surface belongs to one entry of a pool's deploy list and one mix of classes. Its load is **requests per second and
replica**, all classes of the mix together. It is sampled on a small group of replicas behind the scenario's own router,
at even load (no hours of the day), under the same seeds at every load. Between two samples each figure is a straight
line through values made monotone (pool adjacent violators); beyond the last sample there is nothing (`None`).

    found = surfaces(scenario, wanted(scenario), folder=Path("runs/surfaces"))
    for surface in found:
        surface.limit_req_per_s        # the most load of a replica at which every class of the mix holds its limits
        surface.low_req_per_s, surface.high_req_per_s    # the same of the most and least lucky seed
        surface.at(load)               # Figures of a replica: latencies by class, draw, tokens; or None

`at(load).steps_w` and `.parked_chips` are what `aggregate.power.Activity` takes for one replica: the power of a pool
is `rack_it_w` of their sums over its replicas. In a larger group with the same load of a replica bursts even out, and a
router that keeps no sessions finds fewer cached prefixes. Classes that share a deployment are sampled together, at the
traffic's own proportions; `planner/optimize` bounds every other mix by a stated rule. Curves: `planner.study.curves`.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.core import Cancelled
from planner.fleet.threads import gather
from planner.study.curves import Surface, with_limits
from planner.study.group import Group, Measured, Part, describe, entry_of, group_of, measure, resized
from planner.study.scaled import mean_rates

if TYPE_CHECKING:
    from planner.scenario import Scenario

RULE = 2
"""Version of the rules of sampling: part of every digest."""
SEED_OFFSET = 1 << 40
"""Surfaces draw under seeds so far above `run.seed`: no run that verifies a plan uses one of them."""
N_SEEDS = 3
LEAST_SPAN_S = 60.0
MOST_SPAN_S = 86_400.0
N_REQUESTS = 8_000
"""Requests of one sample, about, at rates that bring so many between the shortest and the longest span."""
RESOLUTION = 1.02
"""The last bracket of the search: its upper end is at most this much above its lower one."""
COARSE = 1.15
"""The bracket up to which one seed searches alone."""
AS_NEEDED = 0
"""In place of a number of replicas: as many as the whole traffic of the mix takes, at most `MOST_REPLICAS`."""
MOST_REPLICAS = 32
LIGHT_FRACS = (0.1, 0.3, 0.5, 0.7, 0.85)
"""Further samples below the limit, as shares of it, for the curves."""
LIGHTEST_FRACS = (0.01, 0.03)
"""And below these, where the group is that of a fleet which stands, be it as idle as it may, one of hardly any load."""
ALONE_REQ_PER_S = 0.01
"""So few requests come to the whole group that they hardly meet."""
ALONE_S = 20_000.0
LONG_ALONE_S = 100_000.0
"""How long that is looked at: for a mean, and for quantiles."""
_STEP = 3.0
_NOTHING_FRAC = 0.005
"""A load at which a replica has so few requests (0.04 of one) that less would change nothing."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A surface to sample."""

    part: Part
    mix: tuple[tuple[str, float], ...]
    """Class and its share of the requests."""
    n_replicas: int = AS_NEEDED
    phase: str = "mixed"
    partner: Part | None = None


def wanted(scenario: Scenario, *, n_replicas: int = AS_NEEDED) -> list[Wanted]:
    """One surface for each deployment and phase, under all classes of its model at the traffic's proportions.

    `n_replicas` of each group: by default as many as its classes' whole traffic takes there, at most 32.
    """
    rates = mean_rates(scenario)
    found: list[Wanted] = []
    for part, entry in _parts(scenario):
        names = [name for name, cls in scenario.traffic.items() if cls.model == entry.model]
        total = sum(rates[name] for name in names)
        if not names or not total:
            continue
        mix = tuple((name, rates[name] / total) for name in names)
        found += [Wanted(part, mix, n_replicas, phase, partner) for phase, partner in _phases(scenario, part)]
    return found


def _parts(scenario: Scenario) -> list[tuple[Part, Any]]:
    return [
        (Part(name, ix), entry) for name, pool in scenario.fleet.pools.items() for ix, entry in enumerate(pool.deploy)
    ]


def _phases(scenario: Scenario, part: Part) -> list[tuple[str, Part | None]]:
    """How a deployment is used: by whole requests, or for one phase with the deployment that does the other."""
    entry = entry_of(scenario, part)
    if entry.role == "prefill":
        return [("prefill", other) for other in decoders(scenario, part)]
    handed = [giver for giver, one in _parts(scenario) if one.role == "prefill" and part in decoders(scenario, giver)]
    own: list[tuple[str, Part | None]] = [("mixed", None)] if entry.role == "mixed" else []
    return own + [("decode", giver) for giver in handed]


def decoders(scenario: Scenario, part: Part) -> list[Part]:
    """The deployments that decode what a prefill entry hands over."""
    entry = entry_of(scenario, part)
    return [
        other
        for other, one in _parts(scenario)
        if other.pool == entry.decode_pool and one.model == entry.model and one.role != "prefill"
    ]


def surfaces(
    scenario: Scenario,
    asked: Sequence[Wanted],
    *,
    folder: Path | None = None,
    workers: int | None = None,
    n_seeds: int = N_SEEDS,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[Surface]:
    """The surfaces that are asked for, in their order; those whose digest is found in `folder` are read from it.

    `progress` is told how many of them are done.

    Raises:
        Infeasible: a deployment does not fit its chips.
        ScenarioError: a class has no rate (closed arrivals).
    """
    from planner.study.run import mean_lengths

    lengths, rates = mean_lengths(scenario), mean_rates(scenario)
    made: list[Surface | None] = [None] * len(asked)
    work: list[tuple[int, Callable[[threading.Event], Surface]]] = []
    same: dict[str, list[int]] = {}
    for ix, want in enumerate(asked):
        group = group_of(
            scenario,
            want.part,
            dict(want.mix),
            max(1, want.n_replicas),
            lengths=lengths,
            rates=rates,
            phase=want.phase,
            partner=want.partner,
        )
        is_sized = want.n_replicas != AS_NEEDED
        digest = _digest(group, scenario, n_seeds, is_sized=is_sized)
        made[ix] = _read(folder, digest)
        if digest in same:
            same[digest].append(ix)
        elif made[ix] is None:
            same[digest] = [ix]
            work.append((ix, partial(_sampled, group, digest, n_seeds, is_sized=is_sized)))
    n_done = sum(surface is not None for surface in made)
    progress(n_done, len(asked))
    for _, surface in gather([task for _, task in work], workers or os.cpu_count() or 1):
        for ix in same[surface.digest]:
            made[ix] = surface
            n_done += 1
        _write(folder, surface)
        progress(n_done, len(asked))
    return [
        replace(surface, pool=want.part.pool, entry=want.part.entry, partner=want.partner)  # alike ones are kept once
        for surface, want in zip(made, asked, strict=True)
        if surface is not None
    ]


# -- sampling ----------------------------------------------------------------------------------------------------------


def _sampled(group: Group, digest: str, n_seeds: int, stop: threading.Event, *, is_sized: bool) -> Surface:
    """Search the load at which the mean over the seeds breaks a limit, then fill in the curves below it."""
    seeds = [(group.scenario.run.seed + SEED_OFFSET + k) % (1 << 63) for k in range(n_seeds)]
    alone_load = float(f"{ALONE_REQ_PER_S / group.n_replicas:.6g}")
    alone_s = LONG_ALONE_S if is_sized else ALONE_S
    alone = measure(group, alone_load, seed=seeds[0], length_s=alone_s, warmup_s=0.0)
    took_s = sum(group.mix[name] * (figures["e2e_s.mean"] or 0.0) for name, figures in alone.classes.items())
    if not is_sized:
        group = resized(group, _needed(group, seeds[0], took_s, stop))
    known: dict[tuple[float, int], Measured] = {}

    def strain(load: float, under: Sequence[int]) -> float | None:
        load = float(f"{load:.6g}")
        length_s, warmup_s = _span(group, load, took_s)
        for seed in under:
            if stop.is_set():
                raise Cancelled
            if (load, seed) not in known:
                known[load, seed] = measure(group, load, seed=seed, length_s=length_s, warmup_s=warmup_s)
        by_class = [[known[load, seed].classes[name]["strain"] for seed in under] for name in group.mix]
        if any(None in found for found in by_class):
            return None
        return max(sum(s for s in found if s is not None) / len(found) for found in by_class)

    def holds(load: float, under: Sequence[int] = seeds) -> bool:
        found = strain(load, under)
        return found is not None and found <= 1.0

    low, high = _bracket(lambda load: holds(load, seeds[:1]), _first_load(took_s))
    while low > 0 and high / low > COARSE:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle, seeds[:1]) else (low, middle)
    if low > 0:  # what one seed found is now looked at under all of them
        while low > high / 8 and not holds(low):
            low, high = low / COARSE, low
        while low < high * 8 and holds(high):
            low, high = high, high * COARSE
        while high / low > RESOLUTION:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if holds(middle) else (low, middle)
        for frac in (*LIGHTEST_FRACS, *LIGHT_FRACS) if is_sized else LIGHT_FRACS:
            strain(low * frac, seeds[:1])
        if is_sized:
            known[alone_load, seeds[0]] = alone
    part = group.part
    return with_limits(
        Surface(
            pool=part.pool,
            entry=part.entry,
            model=next(iter(group.scenario.traffic.values())).model,
            phase=group.phase,
            partner=group.partner,
            mix=dict(group.mix),
            n_replicas=group.n_replicas,
            n_chips=group.n_chips,
            samples=tuple(known[key] for key in sorted(known)),
            limits_req_per_s={},
            limit_req_per_s=0.0,
            low_req_per_s=0.0,
            high_req_per_s=0.0,
            digest=digest,
        )
    )


def _needed(group: Group, seed: int, took_s: float, stop: threading.Event) -> int:
    """Replicas that the whole traffic of the mix takes, about, from one replica's limit to a factor of three."""
    one = resized(group, 1)

    def holds(load: float) -> bool:
        if stop.is_set():
            raise Cancelled
        length_s, warmup_s = _span(one, load, took_s)
        found = measure(one, load, seed=seed, length_s=length_s, warmup_s=warmup_s)
        strains = [figures["strain"] for figures in found.classes.values()]
        return all(value is not None and value <= 1.0 for value in strains)

    low, _ = _bracket(holds, _first_load(took_s))
    total = sum(group.rates.values())
    return max(1, min(MOST_REPLICAS, round(total / (low * 2)))) if low > 0 else 1


def _first_load(took_s: float) -> float:
    """A load at which about eight requests are under way on a replica."""
    return float(f"{8.0 / took_s:.3g}") if took_s > 0 else 1.0


def _bracket(holds: Callable[[float], bool], first: float) -> tuple[float, float]:
    """A load that holds and one that does not; (0, lowest tried) where none holds."""
    load = first
    if holds(load):
        while holds(load * _STEP):
            load *= _STEP
        return load, load * _STEP
    while load > first * _NOTHING_FRAC:
        if holds(load / _STEP):
            return load / _STEP, load
        load /= _STEP
    return 0.0, load


def _span(group: Group, load: float, took_s: float) -> tuple[float, float]:
    """Length and warm-up of a sample: as long as its quantiles need; the queue's memory is left behind first."""
    rate = load * group.n_replicas
    span_s = max(LEAST_SPAN_S, min(MOST_SPAN_S, N_REQUESTS / rate))
    warmup_s = min(group.scenario.run.warmup_s or 60.0, max(span_s / 4, 5 * took_s))
    return round(warmup_s + span_s, 3), round(warmup_s, 3)


# -- store -------------------------------------------------------------------------------------------------------------


def _digest(group: Group, scenario: Scenario, n_seeds: int, *, is_sized: bool) -> str:
    from planner.core import build_info
    from planner.scenario.files import is_file, locate

    run = scenario.run
    light = LIGHTEST_FRACS if is_sized else False
    total = hashlib.sha256(f"{RULE} {n_seeds} {light} {run.seed} {run.length_s} {run.warmup_s} {run.drain_s}".encode())
    total.update(describe(group).encode())
    for cls in group.scenario.traffic.values():
        if cls.trace is not None and is_file(cls.trace):
            total.update(Path(str(locate(cls.trace, scenario.base_dir))).read_bytes())
    info = build_info()
    total.update(f"{info['version']} {info['sources']}".encode())
    return total.hexdigest()


def _path(folder: Path, digest: str) -> Path:
    return folder / f"surface-{digest[:24]}.json"


def _write(folder: Path | None, surface: Surface) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(folder, surface.digest)
    part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    part.write_text(json.dumps(asdict(surface), sort_keys=True), encoding="utf-8")
    part.replace(path)


def _read(folder: Path | None, digest: str) -> Surface | None:
    """The surface of that digest; None where there is none, or it is damaged."""
    if folder is None:
        return None
    try:
        tree = json.loads(_path(folder, digest).read_text(encoding="utf-8"))
        if tree["digest"] != digest:
            return None
        samples = tuple(Measured(**sample) for sample in tree.pop("samples"))
        partner = tree.pop("partner")
        return Surface(samples=samples, partner=Part(**partner) if partner else None, **tree)
    except (OSError, ValueError, KeyError, TypeError):
        return None

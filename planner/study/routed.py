"""Where the router of a fleet sends the requests of each class, at each load: seen in some simulated hours.

A router that looks at queues evens out what is under way, not how full replicas are: a pool that hands prompts over is
done with them at once and gets almost all, and a slow pool gets less the longer it holds what it has. No closed form
says how much, for any router, so the whole fleet is simulated in a few hours between the lightest and the heaviest, and
the shares of all other hours lie on straight lines between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.core import METRICS
from planner.study.group import Part
from planner.study.horizon_hour import hour_of, is_thin
from planner.study.surface import SEED_OFFSET
from planner.study.work import Asked, Simulate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from planner.aggregate.inputs import VariantRun
    from planner.fleet.fleet import Fleet
    from planner.fleet.layout import Lengths
    from planner.scenario import Scenario

    Array = NDArray[np.float64]

N_HOURS = 8
"""Hours that are simulated, at most."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a class's requests by the load of the fleet: straight lines between `levels`, level beyond them."""

    levels: tuple[float, ...]
    fracs: tuple[float, ...]

    @classmethod
    def fixed(cls, frac: float) -> Share:
        """The same at any load."""
        return cls((0.0,), (frac,))

    def at(self, level: Array) -> Array:
        """The share in each hour."""
        import numpy as np

        made: Array = np.interp(level, self.levels, self.fracs)
        return made

    def times(self, factor: float) -> Share:
        """A part of it."""
        return Share(self.levels, tuple(frac * factor for frac in self.fracs))


Routed = Mapping[tuple[str, Part], Share]
"""Of each class, the share that a deployment gets of its requests as they come."""


def level(rates: Mapping[str, Array], lengths: Mapping[str, Lengths]) -> Array:
    """How much comes to the fleet in each hour, in tokens a second."""
    found = [rates[name] * (lengths[name].input_tokens + lengths[name].output_tokens) for name in rates]
    return sum(found[1:], start=found[0])


def routed(
    scenario: Scenario, fleet: Fleet, rates: Mapping[str, Array], levels: Array, simulate: Simulate
) -> dict[tuple[str, Part], Share]:
    """The shares by simulation, under seeds that nothing else uses; none of a class that hardly comes."""
    hours = _hours(rates, levels)
    seed = (scenario.run.seed + SEED_OFFSET) % (1 << 63)
    runs = simulate([Asked(hour_of(scenario, rates, hour, seed=seed), fleet, "try") for hour in hours])
    seen: dict[tuple[str, Part], list[tuple[float, float]]] = {}
    for hour, run in zip(hours, runs, strict=True):
        for key, frac in _seen(run).items():
            seen.setdefault(key, []).append((float(levels[hour]), frac))
    return {key: Share(*zip(*sorted(found), strict=True)) for key, found in seen.items()}


def _hours(rates: Mapping[str, Array], levels: Array) -> list[int]:
    """Hours spread evenly over the range of the load, each once."""
    import numpy as np

    busy = [hour for hour in range(levels.size) if not all(is_thin(float(own[hour])) for own in rates.values())]
    if not busy:
        return []
    own = levels[busy]
    aims = np.linspace(float(own.min()), float(own.max()), N_HOURS)
    return list(dict.fromkeys(busy[int(np.abs(own - aim).argmin())] for aim in aims))


def _seen(run: VariantRun) -> dict[tuple[str, Part], float]:
    """The shares in one run: pools by where first tokens came, entries of a pool by the prompts that they computed."""
    import polars as pl

    sim = run.seeds[0].sim
    first = sim.sketches.filter(pl.col("metric_ix") == METRICS.index("ttft"))
    counts = {(c, p): n for c, p, n in first.group_by("class_ix", "pool_ix").agg(pl.col("count").sum()).iter_rows()}
    prompts = dict(sim.deployments.select("deployment_ix", "input_tokens").iter_rows())
    parts = [
        (pool_ix, Part(pool.name, entry), placed.model)
        for pool_ix, pool in enumerate(run.fleet.pools)
        for entry, placed in enumerate(pool.placed)
    ]
    found = {}
    for class_ix, (name, cls) in enumerate(run.scenario.traffic.items()):
        total = sum(n for (c, _), n in counts.items() if c == class_ix)
        for ix, (pool_ix, part, model) in enumerate(parts):
            if total and model == cls.model:
                beside = [k for k, (p, _, m) in enumerate(parts) if (p, m) == (pool_ix, model)]
                of_pool = _frac(prompts[ix], [prompts[k] for k in beside])
                found[name, part] = counts.get((class_ix, pool_ix), 0) / total * of_pool
    return found


def _frac(own: float, all_: Sequence[float]) -> float:
    whole = sum(all_)
    return own / whole if whole else 1 / len(all_)

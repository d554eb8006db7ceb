"""Electrical draw on three bases that are never mixed: rated chips, racks, and the facility at the meter.

A chip draws what its steps took, its parked power while a model waits on it, and its idle power under no replica or
under one that is down (failed, in maintenance, switched off or starting) and has no step left to finish. The
rest of a rack (hosts, switches, fans, conversion) is linear in chip draw, through the rack's idle figure at the chips'
idle power and its typical figure at their high load; the rack draws at most what it is rated for. PUE comes once, at
the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.facts.fact import Fact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from planner.aggregate.inputs import Span
    from planner.aggregate.work import Sums, Windows
    from planner.fleet.fleet import Fleet, PoolLayout

    Array = NDArray[np.float64]


@dataclass(slots=True)
class Book:
    """Reads facts: the number in use, or the one that it is changed to. It remembers what was read, in order."""

    changed: Mapping[str, float] = field(default_factory=dict)
    """Path of a fact -> its value here."""
    _seen: dict[int, tuple[Fact, float]] = field(default_factory=dict)
    """By the identity of each: facts are large, and read again and again."""
    _drawn: dict[tuple[int, int], tuple[PoolPower, Activity | None, Array]] = field(default_factory=dict)
    """What racks draw that do something, as far as it was asked for (`rack_it_w`)."""

    def __call__(self, fact: Fact) -> float:
        seen = self._seen.get(id(fact))
        if seen is None:
            changed = self.changed.get(fact.path)
            seen = self._seen[id(fact)] = (fact, fact.number if changed is None else changed)
        return seen[1]

    @property
    def read(self) -> list[Fact]:
        """The facts that were read, once each, in order."""
        return list(dict.fromkeys(fact for fact, _ in self._seen.values()))


@dataclass(frozen=True, slots=True)
class Activity:
    """What the chips of a pool do in each of some intervals: over the span it is one, by window it is many."""

    steps_w: Array
    """Mean draw of steps, the parked power of the stepping chips included."""
    parked_chips: Array
    """Chips under a replica without a step, mean; those of replicas that are down are apart."""
    off_chips: Array | float = 0.0
    """Chips under a replica that is down, without a step, mean."""


@dataclass(frozen=True, slots=True)
class PoolPower:
    """A pool's activity, and the facts that make watts of it."""

    pool: PoolLayout
    chip_parked_w: Fact
    chip_high_load_w: Fact
    span: Activity
    windows: Activity
    window_ix: NDArray[np.int64]
    """Windows in which the pool had work, before and after the span too; in all others it is parked."""


def pool_power(pool: PoolLayout, work: Sums, windows: Windows, span: Span) -> PoolPower:
    """The power of one pool in one simulation."""
    import numpy as np

    by_window = {name: windows.sums[name] for name in (*_STEP_TIMES, *_STEP_ENERGY, _OFF_TIME)}
    return PoolPower(
        pool=pool,
        chip_parked_w=_drawn(pool, "parked_w"),
        chip_high_load_w=_drawn(pool, "high_load_w"),
        span=_activity(pool, {name: np.array([work[name]]) for name in by_window}, span.span_s),
        windows=_activity(pool, by_window, span.window_s),
        window_ix=windows.window_ix,
    )


_STEP_TIMES = ("prefill_chip_s", "decode_chip_s")
_OFF_TIME = "off_chip_s"
_STEP_ENERGY = ("prefill_j", "decode_j")


def _activity(pool: PoolLayout, work: Mapping[str, Array], over_s: float) -> Activity:
    """A step counts, time and energy alike, where it ends: then what a chip draws at least is exact in every window."""
    import numpy as np

    placed_chips = pool.n_chips - pool.idle_chips
    if over_s <= 0:
        return Activity(np.zeros_like(work["decode_j"]), np.full_like(work["decode_j"], placed_chips))
    steps_w = (work["prefill_j"] + work["decode_j"]) / over_s
    off_chips = work[_OFF_TIME] / over_s
    parked_chips = placed_chips - (work["prefill_chip_s"] + work["decode_chip_s"]) / over_s - off_chips
    return Activity(steps_w, parked_chips, off_chips)


def _drawn(pool: PoolLayout, name: str) -> Fact:
    """A draw of the pool's chip: the catalogue's fact, or what the step model took in its place."""
    fact: Fact | None = getattr(pool.chip, name)
    if fact is not None and fact.used is not None:
        return fact
    simulated = next((p.spec["chip"][name] for p in pool.placed), None)
    value = pool.chip.tdp_w.number if simulated is None else float(simulated)
    path = f"chips.{pool.chip.name}.{name}"
    return Fact(value, unit="w", kind="power", path=path, note="no source gives it: what the step model takes instead")


def chip_w(power: PoolPower, doing: Activity, book: Book) -> Array:
    """Draw of all chips of the pool."""
    pool = power.pool
    idle_w = (pool.idle_chips + doing.off_chips) * book(pool.chip.idle_w)
    return doing.steps_w + doing.parked_chips * book(power.chip_parked_w) + idle_w


def rack_it_w(power: PoolPower, doing: Activity | None, book: Book) -> Array:
    """Draw of all racks of the pool, not to be written to; without anything to do they have no step anywhere."""
    key = (id(power), id(doing))
    if key not in book._drawn:
        book._drawn[key] = (power, doing, _rack_it_w(power, doing or at_rest(power.pool), book))
    return book._drawn[key][2]


def _rack_it_w(power: PoolPower, doing: Activity, book: Book) -> Array:
    import numpy as np

    pool, rack = power.pool, power.pool.rack
    chips = chip_w(power, doing, book)
    if not pool.n_racks:
        return np.zeros_like(chips)
    idle_w = pool.n_chips * book(pool.chip.idle_w)
    high_w = pool.n_chips * book(power.chip_high_load_w)
    rest_idle_w = pool.n_racks * book(rack.idle_w) - idle_w
    rest_high_w = pool.n_racks * book(rack.typical_w) - high_w
    slope = (rest_high_w - rest_idle_w) / (high_w - idle_w) if high_w > idle_w else 0.0
    rest_w = rest_idle_w + slope * (chips - idle_w)
    return np.minimum(chips + rest_w, pool.n_racks * book(rack.rated_w))


def mean_w(power: PoolPower, book: Book) -> float:
    """Mean draw of the pool's racks over the span."""
    return float(rack_it_w(power, power.span, book)[0])


def peak_w(powers: Sequence[PoolPower], span: Span, book: Book, *, times: Sequence[float] | None = None) -> float:
    """Highest draw of some pools' racks together: of any window inside the span, or the mean of the span itself.

    A pool without work in a window draws what its parked and idle chips draw. `times` multiplies the draw of each pool.
    """
    import numpy as np

    scale = [1.0] * len(powers) if times is None else list(times)
    mean = sum(mean_w(power, book) * factor for power, factor in zip(powers, scale, strict=True))
    full = span.full_windows
    inside = [(power.window_ix >= full.start) & (power.window_ix < full.stop) for power in powers]
    worked = [power.window_ix[here] for power, here in zip(powers, inside, strict=True)]
    window_ix = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *worked]))
    total = np.zeros(window_ix.size)
    without_work = 0.0
    for power, here, mine, factor in zip(powers, inside, worked, scale, strict=True):
        parked_w = float(rack_it_w(power, None, book)[0]) * factor
        drawn = np.full(window_ix.size, parked_w)
        drawn[np.searchsorted(window_ix, mine)] = rack_it_w(power, power.windows, book)[here] * factor
        total = total + drawn
        without_work += parked_w
    rest = [without_work] if window_ix.size < len(full) else []
    return max([mean, *rest, *([float(total.max())] if total.size else [])])


def resting(pool: PoolLayout) -> PoolPower:
    """The power of a pool that has no work at all."""
    import numpy as np

    rest, none = at_rest(pool), np.empty(0)
    return PoolPower(
        pool=pool,
        chip_parked_w=_drawn(pool, "parked_w"),
        chip_high_load_w=_drawn(pool, "high_load_w"),
        span=rest,
        windows=Activity(none, none),
        window_ix=np.empty(0, dtype=np.int64),
    )


def at_rest(pool: PoolLayout) -> Activity:
    """No step anywhere."""
    import numpy as np

    return Activity(np.zeros(1), np.array([float(pool.n_chips - pool.idle_chips)]))


def rated_chips_w(pool: PoolLayout) -> float:
    """Rated power of the packages of the pool."""
    return pool.n_chips * pool.chip.tdp_w.number


def draws(powers: Sequence[PoolPower], fleet: Fleet, span: Span, book: Book) -> dict[str, dict[str, float]]:
    """Mean and peak of some pools' racks together, and at the meter."""
    from planner.aggregate.clock import pue as pue_of

    means, peak = [mean_w(power, book) for power in powers], peak_w(powers, span, book)
    pues = [pue_of(fleet.at(power.pool), span, book) for power in powers]
    at_meter = peak * pues[0] if len(set(pues)) == 1 else peak_w(powers, span, book, times=pues)
    return {
        "rack_it_w": {"mean": sum(means), "peak": peak},
        "facility_w": {"mean": facility_w(means, pues), "peak": at_meter},
    }


def facility_w(it_w: Sequence[float], pues: Sequence[float]) -> float:
    """Power at the meter of some pools' racks, each with the PUE of its site."""
    if len(set(pues)) <= 1:  # one site: its PUE comes once, at the end
        return sum(it_w) * pues[0] if pues else 0.0
    return sum(watts * pue for watts, pue in zip(it_w, pues, strict=True))

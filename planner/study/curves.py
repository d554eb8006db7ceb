"""The curves of a response surface: straight lines between monotone samples, nothing beyond the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.study.group import Measured, Part

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Figures:
    """What a replica does at a load; None for a latency that some requests never got."""

    load_req_per_s: float
    classes: Mapping[str, Mapping[str, float | None]]
    steps_w: float
    parked_chips: float
    tokens_per_s_in: float
    tokens_per_s_out: float


@dataclass(frozen=True, slots=True)
class Surface:
    """Samples of one deployment under one mix, by rising load, and the limits read off them."""

    pool: str
    entry: int
    model: str
    phase: str
    partner: Part | None
    mix: Mapping[str, float]
    n_replicas: int
    n_chips: int
    samples: tuple[Measured, ...]
    limits_req_per_s: Mapping[str, float]
    """Load of a replica (whole mix) up to which each class holds, in the mean over the seeds."""
    limit_req_per_s: float
    """The least of them: every class holds. 0: some class holds at no load."""
    low_req_per_s: float
    """The least of the seeds' own limits."""
    high_req_per_s: float
    """The greatest of the seeds' own limits."""
    digest: str = ""

    def at(self, load_req_per_s: float) -> Figures | None:
        """The figures at a load; None beyond the last sample."""
        return _at(self, load_req_per_s)

    @property
    def part(self) -> Part:
        """Pool and entry."""
        return Part(self.pool, self.entry)


def with_limits(surface: Surface) -> Surface:
    """The surface with the limits that its samples show; the interval is from seed to seed."""
    limits = {name: crossing(surface, name) for name in surface.mix}
    by_seed = [
        min(crossing(_of_seed(surface, seed), name) for name in surface.mix)
        for seed in sorted({sample.seed for sample in surface.samples})
    ]
    limit = min(limits.values(), default=0.0)
    return replace(
        surface,
        limits_req_per_s=limits,
        limit_req_per_s=limit,
        low_req_per_s=min([limit, *by_seed]),
        high_req_per_s=max([limit, *by_seed]),
    )


def _of_seed(surface: Surface, seed: int) -> Surface:
    """The samples of one seed, and below them those that only another seed has."""
    own = [sample for sample in surface.samples if sample.seed == seed]
    below = [sample for sample in surface.samples if sample.load_req_per_s < own[0].load_req_per_s]
    return replace(surface, samples=tuple(below + own))


def monotone(values: Sequence[float], *, rising: bool = True) -> list[float]:
    """The nearest monotone sequence in least squares: neighbours that fall are replaced by their mean.

    >>> monotone([1.0, 3.0, 2.0, 4.0])
    [1.0, 2.5, 2.5, 4.0]
    """
    sign = 1.0 if rising else -1.0
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((sign * value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (last, n_last), (before, n_before) = blocks.pop(), blocks.pop()
            n = n_last + n_before
            blocks.append(((last * n_last + before * n_before) / n, n))
    return [sign * value for value, n in blocks for _ in range(n)]


def curve(surface: Surface, read: Callable[[Measured], float | None], *, rising: bool = True) -> list[float | None]:
    """A figure at each sampled load (`loads`), meaned over the seeds there and made monotone; None from the first load
    on at which a seed has none.
    """
    values: list[float] = []
    loads_left = 0
    for load in loads(surface):
        found = [read(sample) for sample in surface.samples if sample.load_req_per_s == load]
        if None in found:
            break
        values.append(sum(v for v in found if v is not None) / len(found))
        loads_left += 1
    return [*monotone(values, rising=rising), *[None] * (len(loads(surface)) - loads_left)]


def loads(surface: Surface) -> list[float]:
    """The sampled loads, rising."""
    return sorted({sample.load_req_per_s for sample in surface.samples})


def _at(surface: Surface, load: float) -> Figures | None:
    places = loads(surface)
    if not places or load < 0 or load > places[-1]:
        return None

    def read(
        of: Callable[[Measured], float | None], *, rising: bool = True, at_zero: float | None = None
    ) -> float | None:
        return between(places, curve(surface, of, rising=rising), load, at_zero=at_zero)

    classes: dict[str, dict[str, float | None]] = {}
    for name in surface.mix:
        keys = surface.samples[0].classes[name]
        classes[name] = {
            key: read(lambda m, name=name, key=key: m.classes[name][key], rising=key != "attainment_frac")  # type: ignore[misc]
            for key in keys
        }
    rates = {
        key: read(lambda m, key=key: getattr(m, key), rising=key != "parked_chips", at_zero=zero)  # type: ignore[misc]
        for key, zero in (
            ("steps_w", 0.0),
            ("parked_chips", float(surface.n_chips)),
            ("tokens_per_s_in", 0.0),
            ("tokens_per_s_out", 0.0),
        )
    }
    return Figures(load, classes, **{key: value or 0.0 for key, value in rates.items()})


def between(
    places: Sequence[float], values: Sequence[float | None], load: float, *, at_zero: float | None = None
) -> float | None:
    """The value at a load on straight lines between samples; below the first, from `at_zero`, or as the first is."""
    if not places or load > places[-1]:
        return None
    if load <= places[0]:
        first = values[0]
        if at_zero is None or first is None:
            return first
        return at_zero + (first - at_zero) * (load / places[0])
    for left, right, a, b in zip(places, places[1:], values, values[1:], strict=False):
        if load <= right:
            if a is None or b is None:
                return a if load == left else None
            return a + (b - a) * ((load - left) / (right - left))
    return None


def crossing(surface: Surface, name: str, most: float = 1.0) -> float:
    """The load at which the worst of value / limit of a class passes `most`; the last sample that holds where nothing
    was found beyond.
    """
    places = loads(surface)
    strains = curve(surface, lambda m: m.classes[name]["strain"])
    if not places or strains[0] is None or strains[0] > most:
        return 0.0
    for left, right, a, b in zip(places, places[1:], strains, strains[1:], strict=False):
        assert a is not None
        if b is None:
            return left
        if b > most:
            return left + (right - left) * ((most - a) / (b - a))
    return places[-1]


def frame(found: Iterable[Surface]) -> pl.DataFrame:
    """All samples as a table, a row for each surface, load, seed and class."""
    import polars as pl

    rows = [
        {
            "pool": s.pool,
            "entry": s.entry,
            "model": s.model,
            "phase": s.phase,
            "class": name,
            "share_frac": s.mix[name],
            "n_replicas": s.n_replicas,
            "load_req_per_s": m.load_req_per_s,
            "seed": m.seed,
            **{key.replace(".", "_"): value for key, value in m.classes[name].items()},
            "steps_w": m.steps_w,
            "parked_chips": m.parked_chips,
            "tokens_per_s_in": m.tokens_per_s_in,
            "tokens_per_s_out": m.tokens_per_s_out,
            "limit_req_per_s": s.limit_req_per_s,
        }
        for s in found
        for m in s.samples
        for name in s.mix
    ]
    return pl.DataFrame(rows, infer_schema_length=None)

"""The requests of a scenario as they are needed: what is held of them does not grow with their number.

Where a class's requests come from is written down once (`of`), small whatever their number: laws, a profile, or the
rows of a trace with the copies that are made of them. Whoever needs some cells' requests walks over all (`Walk`); the
core draws them, deals them out and gives those of the cells in batches. What `requests.for_scenario` draws in one go is
the same to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import Notice, TrafficError
from planner.scenario.files import is_file
from planner.traffic import chains, laws, profiles, recorded, synthetic, transform
from planner.traffic.requests import class_key, context_tokens, profile_of
from planner.traffic.schema import kv_tokens

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from planner.scenario.schema import Scenario, TrafficClass

LEAST = 2_000_000
"""Fewer requests are drawn in one go and held: that is shared by all simulations of the same requests."""
ROWS = 100_000
MOST_ROWS = 1_000_000
"""Requests gone through at a time."""
MOST = 2**31
"""The most requests that one class can have in one run."""
_SAMPLE = 10_000
_ROUGHLY = 4.0
"""A shape may make a part of a day so many times as busy as the mean."""
_LARGE = 2**63


@dataclass(frozen=True, slots=True)
class Source:
    """Where the requests of a class come from."""

    name: str
    key: int
    context_tokens: int | None
    spec: Mapping[str, Any]
    """As the core has it (`core_rs/engine/src/offered.rs`)."""
    rows: pl.DataFrame | None = None
    """Recorded requests on the class's clock, of a trace."""
    profile: Mapping[str, Any] | None = None
    """Of a profile, as the core has it."""
    notices: tuple[Notice, ...] = ()
    failed_rows: int = 0
    digest: str = ""
    path: str = ""
    """Of the trace's file."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a class's requests."""

    n: int
    n_redrawn: int
    shortest_kv_tokens: int
    """Of the request that needs least in the KV cache; 0 without requests."""

    def with_more(self, more: Seen) -> Seen:
        """Of both."""
        least = [each.shortest_kv_tokens for each in (self, more) if each.n]
        return Seen(self.n + more.n, self.n_redrawn + more.n_redrawn, min(least, default=0))


@dataclass(frozen=True, slots=True)
class Streamed:
    """The requests of a scenario under a seed."""

    seed: int
    length_ns: int
    """Where arrivals stop."""
    sources: tuple[Source, ...]

    @property
    def failed_rows(self) -> int:
        """Rows that readers refused, each file once."""
        by_file = {source.digest or source.name: source.failed_rows for source in self.sources}
        return sum(by_file.values())

    def notices(self, seen: Sequence[Seen]) -> tuple[Notice, ...]:
        """What is worth saying about the traffic once all was seen, each line under its class's name."""
        found = []
        for source, each in zip(self.sources, seen, strict=True):
            redrawn = synthetic.redrawn_notice(each.n_redrawn, each.n, source.context_tokens)
            found += [Notice(n.code, f"{source.name}: {n.message}") for n in (*source.notices, *redrawn)]
        return tuple(found)

    def expected(self) -> list[float]:
        """About how many requests of each class there are."""
        return Walk(self, Shared.of(self)).expected()

    def sampled(self) -> tuple[Seen, ...]:
        """Of some requests of each class: of a trace all as recorded, else as many as make a fair picture."""
        return tuple(map(self._sampled, self.sources))

    def _sampled(self, source: Source) -> Seen:
        if source.rows is not None:
            frame = source.rows
        elif source.profile is not None:
            frame = core.sample({"kind": "profile", **source.profile, "n_copies": 1, "part_frac": 0.0})
        else:
            law = {key: source.spec[key] for key in ("input", "output", "context_tokens")}
            frame = core.sample({"kind": "lengths", "seed": self.seed, "key": source.key, "n": _SAMPLE, **law})
        return Seen(frame.height, 0, frame.select(kv_tokens().min()).item() or 0)

    def whole(self) -> tuple[Seen, ...]:
        """Of all requests, drawn and forgotten."""
        walk = Walk(self, Shared.of(self))
        for _ in walk:
            pass
        return walk.seen()[0]


class Shared:
    """What all walks over the same requests in this process have in common: the realisations of profiles."""

    def __init__(self, beside: Sequence[object]) -> None:
        self.beside = beside

    @classmethod
    def of(cls, streamed: Streamed) -> Shared:
        """That of some requests."""
        return cls([core.realised(s.profile) if s.profile is not None else s.rows for s in streamed.sources])


class Walk:
    """The requests of some cells in batches: a frame for each of `cells`, in order of arrival.

    `weights`, by class and cell, is what requests are dealt out in proportion to; None is one cell, 0. Frames are as
    `core.simulate_cell` has them, with the column `row`, the place among all requests, if rows are kept.
    """

    def __init__(
        self,
        streamed: Streamed,
        shared: Shared,
        cells: Sequence[int] = (0,),
        weights: Sequence[Sequence[float]] | None = None,
        *,
        keeps_rows: bool = False,
        rows: int = ROWS,
    ) -> None:
        """`rows` are gone through at a time for each of `cells`, at most `MOST_ROWS`."""
        split = None
        if weights is not None and len(weights[0]) > 1:
            keys = [source.key for source in streamed.sources]
            split = {"seed": streamed.seed, "keys": keys, "weights": [list(each) for each in weights]}
        classes = [source.spec for source in streamed.sources]
        spec = {"classes": classes, "length_ns": streamed.length_ns, "split": split}
        self._offered = core.Offered(spec, shared.beside, cells, keeps_rows=keeps_rows)
        self._rows = min(MOST_ROWS, rows * max(1, len(cells)))

    def __iter__(self) -> Iterator[list[pl.DataFrame]]:
        return self._offered.batches(self._rows)

    def expected(self) -> list[float]:
        """About how many requests of each class there are, in all cells."""
        return self._offered.expected()

    def seen(self) -> list[tuple[Seen, ...]]:
        """By cell asked for and class, of the requests so far."""
        return [tuple(Seen(*each) for each in classes) for classes in self._offered.seen()]


def many(scenario: Scenario, seed: int, *, prefixes: bool) -> Streamed | None:
    """As `of`, where there are so many requests that it is better not to hold them; else None.

    Raises:
        TrafficError: there are more than can be simulated, or none of a trace.
    """
    length_s = scenario.run.length_s
    if any(chains.is_chained(cls) for cls in scenario.traffic.values()):
        return None
    if sum(_roughly(cls, length_s, scenario.base_dir) for cls in scenario.traffic.values()) < LEAST / _ROUGHLY:
        return None  # the usual case, and the cheap one
    found = of(scenario, seed, prefixes=prefixes)
    if found is None or sum(n_of := found.expected()) < LEAST:
        return None
    more = {source.name: n for source, n in zip(found.sources, n_of, strict=True) if n > MOST}
    if more:
        raise TrafficError(*(transform.too_many_fault(n, MOST, f"traffic.{name}") for name, n in more.items()))
    for source in found.sources:
        if source.rows is not None and _is_empty(replace(found, sources=(source,))):
            raise recorded.nothing_left(source.name, length_s, source.path)
    return found


def _roughly(cls: TrafficClass, length_s: float | None, base_dir: Path) -> float:
    """Requests of a class, at once and give or take; infinite where that takes a closer look."""
    if cls.trace is None:
        return math.inf if length_s is None else (cls.rate_req_per_s or 0.0) * length_s
    if cls.repeat:
        return math.inf
    return recorded.n_requests(cls, base_dir) * cls.scale if is_file(cls.trace) else math.inf


def _is_empty(one: Streamed) -> bool:
    return not next(iter(Walk(one, Shared.of(one), rows=1)))[0].height


def of(scenario: Scenario, seed: int, *, prefixes: bool) -> Streamed | None:
    """Where the requests come from; None where they have to be drawn in one go.

    That is where requests wait for others (sessions, agents, closed loops), where prompts repeat prefixes that a cache
    would find (`prefixes`), and where the length of the run is not known. Raises as `requests.for_scenario` does.
    """
    if any(chains.is_chained(cls) for cls in scenario.traffic.values()):
        return None
    asked_ns = None if scenario.run.length_s is None else round(scenario.run.length_s * 1e9)
    made = [_recorded(cls, name, seed, asked_ns, scenario, prefixes) for name, cls in scenario.traffic.items()]
    spans = [found[1] for found in made if found is not None]
    length_ns = asked_ns if asked_ns is not None else max(spans, default=None)
    sources = []
    for (name, cls), found in zip(scenario.traffic.items(), made, strict=True):
        if cls.trace is None and length_ns is not None and not (prefixes and cls.prefix_reuse_frac is not None):
            sources.append(_by_law(cls, name, seed, length_ns, scenario))
        elif found is not None:
            sources.append(found[0])
        else:
            return None
    assert length_ns is not None
    return Streamed(seed, length_ns, tuple(sources))


def _by_law(cls: TrafficClass, name: str, seed: int, length_ns: int, scenario: Scenario) -> Source:
    assert cls.input is not None
    assert cls.output is not None
    key, context = class_key(name), context_tokens(cls, scenario.base_dir)
    spec = {
        "source": "law",
        "arrivals": laws.arrivals(cls, key=key, seed=seed, length_ns=length_ns),
        "input": synthetic.dist_spec(cls.input, scenario.base_dir),
        "output": synthetic.dist_spec(cls.output, scenario.base_dir),
        "context_tokens": context,
    }
    return Source(name, key, context, spec)


def _recorded(
    cls: TrafficClass, name: str, seed: int, length_ns: int | None, scenario: Scenario, prefixes: bool
) -> tuple[Source, int] | None:
    """The source of a class with a trace or profile, and how long it lasts; None where it cannot be."""
    if cls.trace is None or (prefixes and cls.prefix_reuse_frac is not None):
        return None
    made = _of_file if is_file(cls.trace) else _of_profile
    return made(cls, name, seed, length_ns, scenario, prefixes)


def _of_file(
    cls: TrafficClass, name: str, seed: int, length_ns: int | None, scenario: Scenario, prefixes: bool
) -> tuple[Source, int] | None:
    import polars as pl

    found, rows, span_ns = recorded.rows_of(cls, name, scenario.base_dir, prefixes=prefixes)
    if "hash_ids" in rows.columns:
        return None
    repeats = cls.repeat and length_ns is not None and length_ns >= span_ns
    whole = int(cls.scale)
    spec = {
        "source": "copies",
        "seed": seed,
        "key": class_key(name),
        "span_ns": span_ns,
        "start_ns": round(cls.start_s * 1e9) % span_ns,
        "n_whole": whole,
        "part_frac": cls.scale - whole,
        "n_passes": length_ns // span_ns + 1 if repeats and length_ns is not None else 1,
    }
    source = Source(
        name,
        class_key(name),
        None,
        spec,
        rows=rows.select(pl.col("arrival_ns").cast(pl.UInt64), "input_tokens", "output_tokens"),
        notices=recorded.notices(found, rows),
        failed_rows=sum(found.rejected.values()),
        digest=found.digest,
        path=found.path,
    )
    return source, span_ns


def _of_profile(
    cls: TrafficClass, name: str, seed: int, length_ns: int | None, scenario: Scenario, prefixes: bool
) -> tuple[Source, int] | None:
    del prefixes  # nothing is known of those of a profile
    profile, context = profile_of(cls, name), context_tokens(cls, scenario.base_dir)
    ratio = transform.ratio_of(cls.speedup)
    if max(ratio.numerator, ratio.denominator) >= _LARGE:
        return None
    pass_ns = transform.faster_ns(profile["span_ns"], cls.speedup) + 1
    spec = {
        "source": "profile",
        "speedup": [ratio.numerator, ratio.denominator],
        "pass_ns": pass_ns,
        "start_ns": round(cls.start_s * 1e9) % pass_ns,
        "n_passes": length_ns // pass_ns + 1 if cls.repeat and length_ns is not None else 1,
    }
    key = class_key(name)
    realised = profiles.sampled_spec(profile, key=key, seed=seed, scale=cls.scale, context_tokens=context)
    return Source(name, key, context, spec, profile=realised), pass_ns

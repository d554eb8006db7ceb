"""Requests drawn by law some at a time, so that what is held of them does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner import core
from planner.errors import Notice
from planner.scenario.schema import Scenario
from planner.traffic import chains, laws, synthetic
from planner.traffic.requests import class_key, context_tokens

if TYPE_CHECKING:
    import polars as pl

ROWS = 100_000
"""Of each class drawn at a time."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What is known of all requests once each was seen."""

    n: int
    shortest_kv_tokens: tuple[int, ...]
    """By class: what the request that needs least needs in the KV cache; 0 without requests."""
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class Streamed:
    """The requests of `requests.for_scenario`, in frames that follow one another; drawn anew each time."""

    scenario: Scenario
    seed: int

    @property
    def length_ns(self) -> int:
        """Where arrivals stop."""
        assert self.scenario.run.length_s is not None
        return round(self.scenario.run.length_s * 1e9)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for frame in in_order([self._of_class(ix, name) for ix, name in enumerate(self.scenario.traffic)]):
            yield frame.drop("redraws")

    def totals(self) -> Totals:
        """Draw all and forget them."""
        n_all, shortest, notices = 0, [], []
        for ix, (name, cls) in enumerate(self.scenario.traffic.items()):
            n = n_redrawn = least = 0
            for frame in self._of_class(ix, name):
                need = int((frame["input_tokens"].cast(int) + frame["output_tokens"] - 1).min())  # type: ignore[arg-type]
                least = min(least, need) if n else need
                n += frame.height
                n_redrawn += int((frame["redraws"] > 0).sum())
            found = synthetic.redrawn_notice(n_redrawn, n, context_tokens(cls, self.scenario.base_dir))
            notices += [Notice(notice.code, f"{name}: {notice.message}") for notice in found]
            n_all += n
            shortest.append(least)
        return Totals(n_all, tuple(shortest), tuple(notices))

    def _of_class(self, ix: int, name: str) -> Iterator[pl.DataFrame]:
        import polars as pl

        cls, base_dir, key = self.scenario.traffic[name], self.scenario.base_dir, class_key(name)
        context = context_tokens(cls, base_dir)
        first = 0
        for arrivals in core.arrivals(laws.arrivals(cls, key=key, seed=self.seed, length_ns=self.length_ns), ROWS):
            lengths = synthetic.draw_lengths(
                cls,
                key=key,
                seed=self.seed,
                first=first,
                n=arrivals.height,
                base_dir=base_dir,
                context_tokens=context,
            )
            first += arrivals.height
            class_ix = pl.lit(ix, dtype=pl.UInt16).alias("class_ix")
            yield pl.concat([arrivals.with_columns(class_ix), lengths], how="horizontal")


def can_be(scenario: Scenario, *, prefixes: bool) -> bool:
    """Whether the requests can be drawn some at a time: all by law, and none waits for others or repeats a prefix."""
    return scenario.run.length_s is not None and all(
        cls.trace is None and not chains.is_chained(cls) and not (prefixes and cls.prefix_reuse_frac is not None)
        for cls in scenario.traffic.values()
    )


def expected(scenario: Scenario) -> float:
    """About how many requests there will be."""
    return sum(cls.rate_req_per_s or 0.0 for cls in scenario.traffic.values()) * (scenario.run.length_s or 0.0)


def in_order(streams: list[Iterator[pl.DataFrame]]) -> Iterator[pl.DataFrame]:
    """The rows of some streams in order of arrival; of equals those of the stream that comes first."""
    import polars as pl

    if len(streams) == 1:
        yield from streams[0]
        return
    held: dict[int, pl.DataFrame] = {}
    is_open = [True] * len(streams)
    until = -1
    while any(is_open):
        for ix, stream in enumerate(streams):
            if is_open[ix] and (ix not in held or held[ix]["arrival_ns"][-1] <= until):
                more = next(stream, None)
                if more is None:
                    is_open[ix] = False
                else:
                    held[ix] = pl.concat([held[ix], more]) if ix in held else more
        ends = [int(held[ix]["arrival_ns"][-1]) for ix, is_more in enumerate(is_open) if is_more]
        until = min(ends, default=2**64 - 1)  # what comes at this instant may go on
        ready = []
        for ix in sorted(held):
            n = int(held[ix]["arrival_ns"].search_sorted(until, side="left"))
            ready.append(held[ix].head(n))
            held[ix] = held[ix].slice(n)
            if not held[ix].height:
                del held[ix]
        frame = pl.concat(ready).sort("arrival_ns", maintain_order=True) if ready else None
        if frame is not None and frame.height:
            yield frame

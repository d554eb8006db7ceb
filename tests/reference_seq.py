"""The oracle's requests, and what a step of them costs."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import reject

from planner import core
from tests.reference_cache import Own, Stretch

if TYPE_CHECKING:
    from tests.reference_replica import Replica

FS_PER_NS = 10**6


def rounded(fs: int) -> int:
    """Femtoseconds to nanoseconds, halves up."""
    return (fs + FS_PER_NS // 2) // FS_PER_NS


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@functools.lru_cache(maxsize=200_000)
def cost_of(deployment: str, load: tuple[int, int, int, int], chunks: tuple[tuple[int, int], ...]) -> dict[str, int]:
    """The lines of a step, in femtoseconds, femtojoules, bytes and operations, exactly as the core rounds them."""
    rows = chunks or ((0, 0),)
    names = ("n_seqs", "context_tokens", "window_tokens", "n_growing_in_window")
    columns = {name: [value] * len(rows) for name, value in zip(names, load, strict=True)}
    columns |= {"chunk_tokens": [c[0] for c in rows], "chunk_past_tokens": [c[1] for c in rows]}
    columns |= {"load_ix": [0] * len(rows)}
    row = core.step_times(json.loads(deployment), pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.UInt64)))
    answer = row.row(0, named=True)
    line = {}
    for name, value in answer.items():
        is_femto = name.endswith(("_s", "_j"))
        if is_femto and abs(value) >= 8.0:
            reject()  # a double does not hold each unit of it: such a drawn step is not compared
        line[name] = round(Fraction(value) * 10**15) if is_femto else int(value)
    return line


@dataclass(eq=False)
class Seq:
    """A request, or one sending of it: a retry is another."""

    row: int
    klass: int
    arrival: int
    input: int
    output: int
    in_span: bool
    session: int | None = None
    attempt: int = 0
    sent: int = 0  # to its replica
    away: int = 0  # from its client to where it was sent and back
    fate: int = 2
    replica: Replica | None = None  # where it was sent
    source: Replica | None = None  # the prefill replica that still holds its prompt
    leaving: str | None = None  # its client has gone: "again", or its fate
    seen: int | None = None  # when its replica first looked at it
    start: int | None = None
    first: int | None = None  # its first token, in whatever attempt
    times: list[int] = field(default_factory=list)  # when each of its tokens came
    gaps: list[int] = field(default_factory=list)
    kv: int = 0  # tokens held, while decoding
    target: int = 0  # tokens to prefill
    prefilled: int = 0
    computed: int = 0  # prompt tokens that were ever computed
    window_blocks: int = 0
    admission: int = 0
    hashes: list[int] = field(default_factory=list)
    held: list[Stretch] = field(default_factory=list)  # of the first of its hashes
    own: Own | None = None
    own_after: int = 0
    cached: int = 0  # prompt tokens found instead of computed
    is_swapped: bool = False
    is_resumed: bool = False  # swapped in or handed over for the step under way

    def shared(self) -> int:
        return sum(stretch.blocks for stretch in self.held)

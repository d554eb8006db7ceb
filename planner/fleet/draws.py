"""The requests of one simulation, drawn where they are needed and dealt out to its cells.

Few requests, and those that wait for others, are drawn in one go (`make`), held, and shared by all simulations that ask
for the same. Many are drawn as they are simulated (`flow`, `together.py`): nothing is held but where they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner import core, units
from planner.errors import Notice
from planner.fleet import stretches
from planner.fleet.operation import NS_PER_S
from planner.fleet.stretches import Stretch
from planner.traffic import streamed
from planner.traffic.schema import NO_SESSION, kv_tokens
from planner.traffic.streamed import Seen, Streamed

if TYPE_CHECKING:
    import polars as pl

    from planner.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Draw:
    """What some requests are a pure function of; draws of equal `key` are equal."""

    key: str
    scenario: Scenario
    seed: int
    has_prefixes: bool
    """Whether any replica would find prefixes again."""
    weights: tuple[tuple[float, ...], ...]
    """By class and part of the fleet: in proportion to what requests are dealt out."""
    is_anywhere: bool = False
    """Whether any machine with the catalogue can draw them (`can_be_anywhere`)."""
    stretches: tuple[Stretch, ...] = ()
    """Pieces of time that are cells of their own, all parts of the fleet in each; none is the whole time."""

    @property
    def n_cells(self) -> int:
        return len(self.weights[0]) * max(1, len(self.stretches))


def can_be_anywhere(scenario: Scenario) -> bool:
    """Whether any machine with the catalogue can draw a scenario's requests: no file of this one is read."""
    from planner.scenario.files import reference_paths

    return not any(path[0] == "traffic" for path, _ in reference_paths(scenario.tree))


@dataclass(frozen=True, slots=True)
class DrawnFacts:
    """What is known of some drawn requests besides themselves."""

    length_ns: int
    """Where arrivals stop."""
    failed_rows: int
    """Rows that a reader refused."""
    notices: tuple[Notice, ...]
    block_tokens: int | None
    """Prompt tokens that a hash of a block stands for; None where nothing is known of prefixes."""
    n_requests: tuple[int, ...]
    """By cell; about as many before they are drawn as they are simulated."""
    shortest_kv_tokens: tuple[int, ...]
    """By class: what the request that needs least needs in the KV cache; 0 without requests."""
    is_sampled: bool = False
    """Whether `shortest_kv_tokens` is that of a sample: there may be a shorter one."""
    seen: tuple[Seen, ...] = ()
    """By class: what was seen of the requests of some cells, as they were simulated. `told` knows what it means."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The requests of a simulation, to be drawn wherever cells of it are simulated."""

    streamed: Streamed
    weights: tuple[tuple[float, ...], ...]
    stretches: tuple[Stretch, ...]
    """As of the draw."""


@dataclass(frozen=True, slots=True)
class CellRequests:
    """The requests of one cell."""

    frame: pl.DataFrame
    runs: pl.DataFrame | None
    """Blocks of their prompts (`traffic.blocks.run_schema`)."""
    rows: pl.Series | None
    """Their rows among all requests; None where they are all."""

    @property
    def blocks(self) -> pl.DataFrame | None:
        """The blocks of all prompts as the core takes them: `n` consecutive hashes a row, so that the prompts of a
        session, each of which repeats the one before it, take memory by their number and not by its square.
        """
        return None if self.runs is None else self.runs.rename({"first_hash": "hash"})


def flow(draw: Draw) -> Flow | None:
    """Where the requests come from, if they are many and can be drawn as they are simulated."""
    found = streamed.many(draw.scenario, draw.seed, prefixes=draw.has_prefixes)
    return None if found is None else Flow(found, draw.weights, draw.stretches)


def flow_facts(flow: Flow) -> DrawnFacts:
    """What is known of requests before they are drawn."""
    source = flow.streamed
    return DrawnFacts(
        length_ns=source.length_ns,
        failed_rows=source.failed_rows,
        notices=(),
        block_tokens=None,
        n_requests=_by_cell(flow),
        shortest_kv_tokens=tuple(each.shortest_kv_tokens for each in source.sampled()),
        is_sampled=True,
    )


def _by_cell(flow: Flow) -> tuple[int, ...]:
    """About how many requests each part of the fleet is offered."""
    found = [0.0] * len(flow.weights[0])
    for n, weights in zip(flow.streamed.expected(), flow.weights, strict=True):
        for part, weight in enumerate(weights):
            found[part] += n * weight / sum(weights)
    return tuple(map(round, found))


def told(draw: Draw, facts: DrawnFacts) -> DrawnFacts:
    """The facts of a whole simulation, once all its requests were seen."""
    if not facts.seen:
        return facts
    return replace(
        facts,
        notices=_streamed(draw).notices(facts.seen),
        shortest_kv_tokens=tuple(each.shortest_kv_tokens for each in facts.seen),
        is_sampled=False,
        seen=(),
    )


def exact(draw: Draw, facts: DrawnFacts) -> DrawnFacts:
    """The facts with the shortest requests of all, not of a sample."""
    return told(draw, replace(facts, seen=_streamed(draw).whole())) if facts.is_sampled else facts


def _streamed(draw: Draw) -> Streamed:
    """Where the requests come from of a draw that is known to be a flow: they need not be counted again."""
    found = streamed.of(draw.scenario, draw.seed, prefixes=draw.has_prefixes)
    assert found is not None
    return found


def joined(facts: Sequence[DrawnFacts]) -> DrawnFacts:
    """The facts of some cells of one simulation as one."""
    first = facts[0]
    for more in facts[1:]:
        seen = tuple(a.with_more(b) for a, b in zip(first.seen, more.seen, strict=True))
        first = replace(first, seen=seen)
    return first


def make(draw: Draw) -> tuple[DrawnFacts, list[CellRequests]]:
    """Draw the requests and deal them out. Raises `TrafficError` as `traffic.requests.for_scenario` does."""
    from planner.traffic.requests import class_key, for_scenario

    traffic = for_scenario(draw.scenario, draw.seed, prefixes=draw.has_prefixes)
    n_parts = len(draw.weights[0])
    if n_parts == 1:
        cells = [CellRequests(traffic.frame, traffic.runs, None)]
    else:
        keys = [class_key(name) for name in draw.scenario.traffic]
        cell_ix = core.split(traffic.frame, keys, draw.weights, seed=draw.seed)
        cells = deal(traffic.frame, traffic.runs, cell_ix, n_parts)
    if draw.stretches:
        n_classes = len(draw.scenario.traffic)
        cells = [_piece(cell, piece, n_classes) for piece in draw.stretches for cell in cells]
    facts = DrawnFacts(
        length_ns=traffic.length_ns,
        failed_rows=traffic.failed_rows,
        notices=(*traffic.notices, *_of_pauses(traffic.frame, draw)),
        block_tokens=traffic.block_tokens,
        n_requests=tuple(cell.frame.height for cell in cells),
        shortest_kv_tokens=_shortest(traffic.frame, len(draw.scenario.traffic)),
    )
    return facts, cells


def _of_pauses(frame: pl.DataFrame, draw: Draw) -> list[Notice]:
    """Classes of which sessions outlast the warm-up of a cut: the parts then begin and end emptier than the whole."""
    import polars as pl

    if not draw.stretches or "after_row" not in frame.columns:
        return []
    first = draw.stretches[0]
    warmup_s = (first.to_ns - first.end_ns) / NS_PER_S
    sums = frame.filter(pl.col("session") != NO_SESSION).group_by("class_ix", "session").agg(pl.col("delay_ns").sum())
    found = []
    for ix, name in enumerate(draw.scenario.traffic):
        pauses = sums.filter(pl.col("class_ix") == ix)["delay_ns"].sort()
        p95_s = int(pauses[int(0.95 * (len(pauses) - 1))]) / NS_PER_S if len(pauses) else 0.0
        if p95_s > warmup_s:
            message = (
                f"{name}: cut in time with {units.format(warmup_s, 'time')} of warm-up, but of its sessions one in "
                f"twenty pauses for {units.format(p95_s, 'time')} or more: the parts are less busy than the whole"
            )
            found.append(Notice("split_sessions", message))
    return found


def _piece(cell: CellRequests, piece: Stretch, n_classes: int) -> CellRequests:
    """The requests of a cell in a stretch of time; rows are counted within it."""
    import polars as pl

    frame, first = stretches.requests(cell.frame, piece, n_classes)
    runs = cell.runs
    if runs is not None:
        row = pl.col("row")
        inside = runs.filter((row >= first) & (row < first + frame.height))
        runs = inside.with_columns((row - pl.lit(first, dtype=inside.schema["row"])).alias("row"))
    rows = pl.int_range(first, first + frame.height, dtype=pl.UInt64, eager=True)
    return CellRequests(frame, runs, rows if cell.rows is None else cell.rows.slice(first, frame.height))


def _shortest(frame: pl.DataFrame, n_classes: int) -> tuple[int, ...]:
    found = dict(frame.group_by("class_ix").agg(kv_tokens().min().alias("need")).iter_rows())
    return tuple(found.get(ix, 0) for ix in range(n_classes))


def deal(frame: pl.DataFrame, runs: pl.DataFrame | None, cell_ix: pl.Series, n_cells: int) -> list[CellRequests]:
    """The requests of each cell in their order; rows that follow others and blocks are counted within the cell."""
    import polars as pl

    row = pl.int_range(pl.len(), dtype=pl.UInt64).alias("row")
    numbered = frame.with_columns(row, cell_ix.alias("cell_ix")).with_columns(
        pl.int_range(pl.len(), dtype=pl.UInt64).over("cell_ix").alias("own_row")
    )
    own_row = numbered["own_row"]
    if "after_row" in frame.columns:
        is_free = pl.col("after_row") >= frame.height  # NO_ROW
        at = pl.when(is_free).then(0).otherwise("after_row")
        numbered = numbered.with_columns(
            pl.when(is_free).then("after_row").otherwise(pl.lit(own_row).gather(at)).alias("after_row")
        )
    places = numbered.select("row", "cell_ix").sort("cell_ix", maintain_order=True)
    counts = numbered["cell_ix"].value_counts()
    n_of = dict(counts.iter_rows())
    of_runs = None
    if runs is not None:
        of_runs = runs.with_columns(
            cell_ix.gather(runs["row"]).alias("cell_ix"), own_row.gather(runs["row"]).alias("row")
        ).sort("cell_ix", maintain_order=True)
    found = []
    first = first_run = 0
    for cell in range(n_cells):
        rows = places["row"].slice(first, n_of.get(cell, 0))
        first += len(rows)
        mine = numbered[rows].select(frame.columns)
        own_runs = None
        if of_runs is not None:
            last_run = int(of_runs["cell_ix"].search_sorted(cell, side="right"))
            own_runs = of_runs[first_run:last_run].select(runs.columns)  # type: ignore[union-attr]
            first_run = last_run
        found.append(CellRequests(mine.rechunk(), own_runs, rows))
    return found


def renumbered(tables: core.CellTables, rows: pl.Series | None, replicas: Sequence[int]) -> core.CellTables:
    """Tables of a cell with replicas numbered as in the whole fleet, and rows where their numbers there are given."""
    if tables.requests is None and tables.timeline is None:
        return tables
    import polars as pl

    of = pl.Series(replicas, dtype=pl.UInt32)

    def known(frame: pl.DataFrame) -> pl.Series:
        ix = frame["replica_ix"]
        somewhere = ix != core.NOWHERE
        return of.gather(ix.set(~somewhere, 0)).set(~somewhere, core.NOWHERE)

    requests, timeline = tables.requests, tables.timeline
    if requests is not None:
        row = requests["row"] if rows is None else rows.gather(requests["row"]).alias("row")
        requests = requests.with_columns(row, known(requests).alias("replica_ix"))
    if timeline is not None:
        timeline = timeline.with_columns(known(timeline).alias("replica_ix"))
    return replace(tables, requests=requests, timeline=timeline)

"""Cells of a simulation side by side, their requests drawn as they go: a batch is drawn, dealt out, and taken by each
cell before the next.

So requests are drawn once for all cells that go together, and no more than a batch of them is ever held. Those of other
cells are passed over: their arrivals are drawn here too, a twentieth of what simulating them costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner import core
from planner.fleet import draws, stretches
from planner.fleet.draws import DrawnFacts, Flow
from planner.fleet.stretches import Running, Stretch
from planner.traffic.streamed import Seen, Shared, Walk

if TYPE_CHECKING:
    import polars as pl

Item = tuple[int, int]


def simulate(
    flow: Flow,
    shared: Shared,
    cells: Mapping[int, Mapping[str, Any]],
    replicas: Mapping[int, Sequence[int]],
    *,
    progress: Callable[[int, int], None] = lambda _cell, _ns: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> tuple[DrawnFacts, dict[int, core.CellTables]]:
    """The tables of each cell, and what was seen of the requests; `cells` has the spec of each, by its number.

    Raises as `core.simulate_cell` and `traffic.streamed.Walk` do.
    """
    return _Together(flow, shared, cells, replicas, progress, is_cancelled).run()


class _Together:
    def __init__(
        self,
        flow: Flow,
        shared: Shared,
        cells: Mapping[int, Mapping[str, Any]],
        replicas: Mapping[int, Sequence[int]],
        progress: Callable[[int, int], None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        n_parts = len(flow.weights[0])
        self.flow, self.cells, self.replicas = flow, cells, replicas
        self.progress, self.is_cancelled = progress, is_cancelled
        self.n_classes = len(flow.weights)
        self.cells_of = {
            part: [c for c in cells if c % n_parts == part] for part in sorted({c % n_parts for c in cells})
        }
        self.piece_of = {cell: flow.stretches[cell // n_parts] if flow.stretches else None for cell in cells}
        keeps_rows = any(spec["keep_requests"] for spec in cells.values())
        self.walk = Walk(flow.streamed, shared, list(self.cells_of), flow.weights, keeps_rows=keeps_rows)
        self.running: dict[int, Running] = {}
        self.rows: dict[int, list[pl.Series]] = {cell: [] for cell in cells}
        self.tables: dict[int, core.CellTables] = {}

    def run(self) -> tuple[DrawnFacts, dict[int, core.CellTables]]:
        for frames in self.walk:
            for (_, cells), frame in zip(self.cells_of.items(), frames, strict=True):
                for cell in cells:
                    self._take(cell, frame)
            if self.is_cancelled():
                raise core.Cancelled
            if len(self.tables) == len(self.cells):
                break
        for cell in self.cells:
            self._finish(cell)
        return self._facts(), {cell: self.tables[cell] for cell in self.cells}

    def _take(self, cell: int, frame: pl.DataFrame) -> None:
        if not frame.height or cell in self.tables:
            return
        piece = self.piece_of[cell]
        if piece is None:
            mine = frame
        else:
            mine, _ = stretches.requests(frame, piece, self.n_classes)
        if mine.height:
            self._goes(cell).take(mine.drop("row") if "row" in mine.columns else mine)
            if "row" in mine.columns:
                self.rows[cell].append(mine["row"])
        if piece is not None and not piece.is_last and int(frame["arrival_ns"][-1]) > piece.to_ns:
            self._finish(cell)

    def _goes(self, cell: int) -> Running:
        if cell not in self.running:
            at = lambda now_ns, _: self.progress(cell, now_ns)  # noqa: E731
            self.running[cell] = Running(self.cells[cell], progress=at, is_cancelled=self.is_cancelled)
        return self.running[cell]

    def _finish(self, cell: int) -> None:
        if cell in self.tables:
            return
        tables = self._goes(cell).finish()
        del self.running[cell]
        rows = None
        if kept := self.rows.pop(cell):
            import polars as pl

            rows = pl.concat(kept)
        self.tables[cell] = draws.renumbered(tables, rows, self.replicas[cell])

    def _facts(self) -> DrawnFacts:
        """Each part of the fleet is told of by the cell that goes to the end: it alone sees all of its requests."""
        seen = [Seen(0, 0, 0)] * self.n_classes
        for cells, found in zip(self.cells_of.values(), self.walk.seen(), strict=True):
            if any(_goes_to_the_end(self.piece_of[cell]) for cell in cells):
                seen = [a.with_more(b) for a, b in zip(seen, found, strict=True)]
        source = self.flow.streamed
        return DrawnFacts(
            length_ns=source.length_ns,
            failed_rows=source.failed_rows,
            notices=(),
            block_tokens=None,
            n_requests=(),
            shortest_kv_tokens=(),
            is_sampled=True,
            seen=tuple(seen),
        )


def _goes_to_the_end(piece: Stretch | None) -> bool:
    return piece is None or piece.is_last


def groups(
    items: Sequence[Item], n_workers: int, n_cells: Callable[[int], int], is_flow: Callable[[int], bool]
) -> list[list[Item]]:
    """Items that are done together: those of one simulation whose requests are drawn as they go, the others alone.

    `n_cells` and `is_flow` are asked of a simulation by its place in the list. The fewer pieces a simulation is in, the
    less is drawn twice; there are as many as keep all workers busy.
    """
    of_simulation: dict[int, list[Item]] = {}
    for item in items:
        of_simulation.setdefault(item[0], []).append(item)
    n_each = max(1, -(-n_workers // max(1, len(of_simulation))))
    made: list[list[Item]] = []
    for item in items:
        if n_cells(item[0]) == 1 or not is_flow(item[0]):
            made.append([item])
        elif mine := of_simulation.pop(item[0], None):
            size = -(-len(mine) // min(n_each, len(mine)))
            made += [mine[at : at + size] for at in range(0, len(mine), size)]
    return made

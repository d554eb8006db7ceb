"""The bundles of a run on a cluster: which wait, which are under way, what came of them, and what is sent again."""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.fleet import draws, parts, ray_door, ray_work
from planner.fleet.checkpoint import Kept
from planner.fleet.draws import Draw
from planner.fleet.executor import Item, Simulation, Tally
from planner.fleet.ray_address import given_up
from planner.fleet.ray_door import Lost
from planner.fleet.ray_work import Order
from planner.fleet.storage import Folder

AHEAD = 2
"""Bundles in hand for each worker: one at work, one that waits for it."""
TRIES = 4
"""How often a bundle is sent when workers die under it."""
SLOW_S = 10.0
SLOW_TIMES = 5.0
"""When nothing else is left, a bundle so much slower than its like is sent a second time; the first answer counts."""
ASKED_AT_ONCE = 64
"""Bundles of which the driver asks at a time how far they are."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Bundle:
    """Cells that are sent together."""

    items: list[Item]
    n_tries: int = 0
    is_done: bool = False
    since_s: float = 0.0
    sent: dict[Any, Sent] = field(default_factory=dict)
    """By reference to its note: each time that it was sent and may still be answered."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A bundle that is under way."""

    number: int
    """Under which its worker says how far it is."""
    result: Any
    """A reference to the parts that come of it."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What came of a bundle."""

    items: Sequence[Item]
    result: Any
    """A reference to its parts."""
    packed: tuple[bytes, ...] | None
    """The parts, where the driver had to see them."""


class Requests:
    """References to the requests of cells: drawn by a worker, or here where a file of this machine is read."""

    def __init__(self, shared: Folder | None) -> None:
        self.shared = shared
        self.refs: dict[str, list[Any]] = {}
        self.flows: dict[str, Any] = {}

    def of_driver(self, draw: Draw) -> list[Any]:
        """Those of each cell of a draw that only this machine can make."""
        if draw.key not in self.refs:
            self.refs[draw.key] = [ray_door.put(each) for each in ray_work.where(draw, self.shared)]
        return self.refs[draw.key]

    def of_workers(self, draw: Draw, *, memory_bytes: int) -> list[Any]:
        """Those of each cell of a draw that any machine can make."""
        if draw.key not in self.refs:
            self.refs[draw.key] = ray_door.send_draw(draw, self.shared, memory_bytes=memory_bytes)
        return self.refs[draw.key]

    def of_flow(self, draw: Draw) -> Any:
        """What those of a draw come from, where they are drawn as they are simulated; None where they are not."""
        if draw.key not in self.flows:
            found = draws.flow(draw)
            self.flows[draw.key] = None if found is None else ray_door.put(found)
        return self.flows[draw.key]

    def drop(self, key: str) -> None:
        """They are no longer needed, or were lost."""
        self.refs.pop(key, None)
        self.flows.pop(key, None)

    def clear(self) -> None:
        """None are needed."""
        self.refs.clear()
        self.flows.clear()


class Bundles:
    """The bundles of one list of work."""

    def __init__(
        self,
        simulations: Sequence[Simulation],
        to_do: Sequence[Item],
        *,
        requests: Requests,
        room: Callable[[], tuple[int, float]],
        kept: Kept | None,
    ) -> None:
        self.simulations = simulations
        self.requests = requests
        self.room = room
        self.kept = kept
        self.place = kept.folder if kept is not None and requests.shared is not None else None
        self.run_id = secrets.token_hex(8)
        self.flying: dict[Any, Bundle] = {}
        self.tally = Tally(simulations, to_do)
        self._pending: deque[Bundle] = deque()
        self._users = ray_work.users(simulations, to_do)
        self._times: list[float] = []
        self._said: set[str] = set()
        self._n_sent = 0
        self._asked_s = time.monotonic()
        self._made_by = parts.made_by()
        self._line_up(to_do)

    @property
    def is_left(self) -> bool:
        """Whether anything is to be done or under way."""
        return bool(self._pending or self.flying)

    def _line_up(self, items: Sequence[Item]) -> None:
        n_workers, _ = self.room()
        some = ray_work.bundles(items, self.simulations, n_workers, self._is_flow)
        self._pending.extend(map(Bundle, some))

    def _is_flow(self, ix: int) -> bool:
        return self.requests.of_flow(self.simulations[ix].draw) is not None

    def again(self, items: Sequence[Item]) -> None:
        """Line up some cells once more."""
        for ix, _ in items:
            key = self.simulations[ix].draw.key
            self._users[key] = self._users.get(key, 0) + 1
        self._line_up(items)

    def send(self) -> None:
        """Send as many as the workers can have in hand; when none are left to send, slow ones a second time."""
        n_workers, _ = self.room()
        while self._pending and len(self.flying) < AHEAD * n_workers:
            self._send(self._pending.popleft())
        if not self._pending and len(self.flying) < n_workers:
            usual_s = sorted(self._times)[len(self._times) // 2] if self._times else SLOW_S
            late_s = time.monotonic() - max(SLOW_S, SLOW_TIMES * usual_s)
            for bundle in list(self.flying.values()):
                if len(bundle.sent) == 1 and bundle.since_s < late_s:
                    self._send(bundle)

    def _send(self, bundle: Bundle) -> None:
        bundle.n_tries += 1
        bundle.since_s = time.monotonic()
        self._n_sent += 1
        cells = tuple(ray_work.cell_of(item, self.simulations[item[0]]) for item in bundle.items)
        order = Order(self.run_id, self._n_sent, self._made_by, cells, self.place)
        requests = [self._requests_of(item, self.simulations[item[0]]) for item in bundle.items]
        is_flow = self._is_flow(bundle.items[0][0])
        memory_bytes = self._at_most(ray_work.memory_bytes(bundle.items, self.simulations, is_flow=is_flow))
        note, result = ray_door.send_work(order, requests, memory_bytes=memory_bytes)
        bundle.sent[note] = Sent(self._n_sent, result)
        self.flying[note] = bundle

    def _at_most(self, wanted_bytes: float) -> int:
        return int(min(wanted_bytes, self.room()[1]))

    def _requests_of(self, item: Item, simulation: Simulation) -> Any:
        """The requests of a cell: a reference to them, or what the worker draws them from."""
        draw = simulation.draw
        if (flow := self.requests.of_flow(draw)) is not None:
            return flow
        if not draw.is_anywhere:
            return self.requests.of_driver(draw)[item[1]]
        if self._users[draw.key] <= 1 and simulation.n_cells == 1:
            return draw
        memory_bytes = self._at_most(ray_work.draw_bytes(simulation))
        return self.requests.of_workers(draw, memory_bytes=memory_bytes)[item[1]]

    def landed(self, ref: Any) -> Landed | None:
        """What came of a bundle; None if its worker died and it is sent again, or its like was here before."""
        bundle = self.flying.pop(ref)
        if bundle.is_done:
            return None
        result = bundle.sent[ref].result
        is_seen = self.simulations[bundle.items[0][0]].n_cells == 1 or (self.kept is not None and self.place is None)
        try:
            note = ray_door.answer(ref)
            packed = ray_door.answer(result).packed if is_seen else None
        except Lost as lost:
            self._lost(bundle, ref, lost)
            return None
        self._done(bundle, note.said)
        if self.kept is not None and self.place is None:
            for each in packed or ():
                self.kept.keep(each)
        return Landed(bundle.items, result, packed)

    def _done(self, bundle: Bundle, said: Sequence[str]) -> None:
        bundle.is_done = True
        self._times.append(time.monotonic() - bundle.since_s)
        for item in bundle.items:
            self.tally.done(item)
            key = self.simulations[item[0]].draw.key
            self._users[key] -= 1
            if self._users[key] <= 0:
                self.requests.drop(key)
        for other in bundle.sent:
            self.flying.pop(other, None)
        bundle.sent.clear()
        for text in said:
            if text not in self._said:
                self._said.add(text)
                _log.warning("a worker said: %s", text)

    def _lost(self, bundle: Bundle, ref: Any, lost: Lost) -> None:
        """Send it again, in halves, unless a second one is under way."""
        del bundle.sent[ref]
        if bundle.sent:
            return
        if bundle.n_tries >= TRIES and len(bundle.items) == 1:
            raise given_up(bundle.n_tries, "cell", lost) from None
        for ix, _ in bundle.items:  # they may be what was lost
            self.requests.drop(self.simulations[ix].draw.key)
        _log.info("sent again after %s", lost)
        half = -(-len(bundle.items) // 2)
        self._pending.extendleft(
            Bundle(items, bundle.n_tries if len(bundle.items) == 1 else 1)
            for items in (bundle.items[:half], bundle.items[half:])
            if items
        )

    def look(self) -> None:
        """Ask how far long bundles are: some of them at a time, those that were not asked for longest first."""
        now_s = time.monotonic()
        if now_s - self._asked_s < ray_door.LOOK_S:
            return
        self._asked_s = now_s
        old = [(ref, bundle) for ref, bundle in self.flying.items() if now_s - bundle.since_s > ray_door.LOOK_S]
        for ref, bundle in old[:ASKED_AT_ONCE]:
            found = ray_door.where_is(self.run_id, bundle.sent[ref].number)
            if found is not None:
                n_done, now_ns = found
                for item in bundle.items[:n_done]:
                    self.tally.at(item, self.simulations[item[0]].end_ns)
                at_work = [bundle.items[min(n_done, len(bundle.items) - 1)]]
                for item in bundle.items if self._is_flow(bundle.items[0][0]) else at_work:
                    self.tally.at(item, now_ns)
            self.flying[ref] = self.flying.pop(ref)

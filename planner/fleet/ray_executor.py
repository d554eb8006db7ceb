"""Simulations on a Ray cluster: the one file that imports ray.

The driver sends bundles of cells (`ray_work.py`), a bounded number at a time, and never holds more than a few results:
parts of a simulation meet in tasks, as a tree. Workers and nodes may die: what they had in hand is sent again, in
smaller bundles if need be (Ray itself would try a task that is out of memory for ever). Requests go by reference,
through the object store or as files at an address that every worker reaches; a simulation of one cell draws its own.
"""

from __future__ import annotations

import logging
import os
import secrets
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import ray.experimental.internal_kv
import ray.util.scheduling_strategies

from planner.errors import CoreError, Fault, PlannerError, RunError
from planner.fleet import parts, ray_work
from planner.fleet.checkpoint import Stored
from planner.fleet.draws import Draw, DrawnFacts
from planner.fleet.executor import Item, Progress, Simulation, Tally, items_to_do
from planner.fleet.parts import Part
from planner.fleet.ray_address import check_answers, first_line, given_up, package, refusal
from planner.fleet.ray_work import Bundle, Done
from planner.fleet.storage import Folder

FAN = 8
"""Parts that meet in one task."""
AHEAD = 2
"""Bundles in hand for each worker: one at work, one that waits for it."""
TRIES = 4
"""How often a bundle is sent when workers die under it."""
POLL_S = 0.2
STOP_S = 2.0
SLOW_S = 10.0
SLOW_TIMES = 5.0
"""When nothing else is left, a bundle so much slower than its like is sent a second time; the first answer counts."""
_LOST = (
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.OutOfMemoryError,
    ray.exceptions.LocalRayletDiedError,
    ray.exceptions.OutOfDiskError,
    ray.exceptions.ObjectStoreFullError,
    ray.exceptions.RaySystemError,
    ray.exceptions.TaskCancelledError,
)
_log = logging.getLogger(__name__)


class RayExecutor:
    """Work on the cluster that this process is connected to."""

    def __init__(self, *, n_workers: int | None = None, shared: Folder | None = None) -> None:
        self.n_workers = n_workers
        self.shared = shared
        self._made_by = parts.made_by()
        self._requests: dict[str, list[Any]] = {}
        self._said: set[str] = set()
        self._run_id = ""

    def facts(self, draws: Sequence[Draw]) -> list[DrawnFacts]:
        """What is known of the requests of each draw."""
        found: list[DrawnFacts] = []
        for at in range(0, len(draws), 64):
            some = draws[at : at + 64]
            refs = [_facts.remote(draw) if draw.is_anywhere else None for draw in some]
            found += [self._facts(draw, ref) for draw, ref in zip(some, refs, strict=True)]
        return found

    def _facts(self, draw: Draw, ref: Any) -> DrawnFacts:
        if ref is None:
            made = ray.get(self._of_driver(draw)[0])
            facts: DrawnFacts = made.facts if isinstance(made, ray_work.Slice) else made[0]
            return facts
        for n_tries in range(1, TRIES + 1):
            try:
                return _answer(ref)  # type: ignore[no-any-return]
            except _Lost as lost:
                if n_tries == TRIES:
                    raise given_up(n_tries, "draw of requests", lost) from None
                ref = _facts.remote(draw)
        raise AssertionError

    def _of_driver(self, draw: Draw) -> list[Any]:
        """References to the requests of each cell, drawn here because a file of this machine is read."""
        if draw.key not in self._requests:
            made = ray_work.where(draw, self.shared)
            self._requests[draw.key] = [ray.put(each) for each in made]
        return self._requests[draw.key]

    def run(
        self,
        simulations: Sequence[Simulation],
        *,
        have: Sequence[Stored] = (),
        keep: Callable[[bytes], None] | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Generator[Part, None, None]:
        """Whole simulations in the order in which they are done; the first error stops the rest."""
        from planner.fleet.local_executor import Waiting

        to_do = items_to_do(simulations, have)
        tally = Tally(simulations, to_do)
        yield from Waiting(simulations, have).whole_at_once()
        tree = _Tree(simulations, have)
        n_workers = self._slots()
        pending = deque(Bundle(items) for items in ray_work.bundles(to_do, simulations, n_workers))
        users = ray_work.users(simulations, to_do)
        flying: dict[Any, Bundle] = {}
        run_id = self._run_id = f"planner stops {secrets.token_hex(8)}"
        times: list[float] = []
        try:
            while pending or flying or tree.is_busy:
                while pending and len(flying) < AHEAD * n_workers:
                    bundle = pending.popleft()
                    flying[self._send(bundle, simulations, users)] = bundle
                refs = [*flying, *tree.flying]
                ready, _ = ray.wait(refs, num_returns=1, timeout=POLL_S, fetch_local=False)
                if len(ready) == 1 and len(refs) > 1:
                    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
                for ref in ready:
                    if (bundle_ := flying.pop(ref, None)) is None:
                        tree.landed(ref)
                        continue
                    if bundle_.is_done:
                        continue
                    done = self._result(ref, bundle_, pending, simulations, keep)
                    if done is None:
                        continue
                    bundle_.is_done = True
                    times.append(time.monotonic() - bundle_.since_s)
                    for item in bundle_.items:
                        tally.done(item)
                        key = simulations[item[0]].draw.key
                        users[key] -= 1
                        if users[key] <= 0:
                            self._requests.pop(key, None)
                    for other in bundle_.refs:
                        flying.pop(other, None)
                    bundle_.refs = []
                    yield from self._whole(done, ref, bundle_, simulations, tree)
                yield from tree.whole()
                for ix in tree.lost():
                    again = [(ix, cell) for cell in range(simulations[ix].n_cells)]
                    pending.extend(Bundle(items) for items in ray_work.bundles(again, simulations, n_workers))
                progress(tally.progress())
                n_workers = self._slots()
                if not pending and flying and len(flying) < n_workers:
                    for ref, late in self._send_slow(flying, times, simulations, users):
                        flying[ref] = late
        finally:
            if flying or tree.flying:
                _stop(run_id)
            self._requests.clear()

    def _whole(
        self, done: Done | None, ref: Any, bundle: Bundle, simulations: Sequence[Simulation], tree: _Tree
    ) -> Iterator[Part]:
        """Simulations of one cell at once; cells of others go into the tree by reference."""
        ix = bundle.items[0][0]
        if simulations[ix].n_cells > 1:
            tree.add(ix, ref, len(bundle.items))
            return
        assert done is not None
        for packed in done.packed:
            yield ray_work.unpacked(packed)

    def _result(
        self,
        ref: Any,
        bundle: Bundle,
        pending: deque[Bundle],
        simulations: Sequence[Simulation],
        keep: Callable[[bytes], None] | None,
    ) -> Done | None:
        """What came of a bundle; None if its worker died and it is sent again."""
        try:
            done = _answer(ref)
        except _Lost as lost:
            bundle.refs = [other for other in bundle.refs if other != ref]
            if bundle.refs:
                return None  # a second one is under way
            if bundle.n_tries >= TRIES and len(bundle.items) == 1:
                raise given_up(bundle.n_tries, "cell", lost) from None
            for ix, _ in bundle.items:  # they may be what was lost
                self._requests.pop(simulations[ix].draw.key, None)
            _log.info("sent again after %s", lost)
            half = -(-len(bundle.items) // 2)
            pending.extendleft(
                Bundle(items, bundle.n_tries if len(bundle.items) == 1 else 1)
                for items in (bundle.items[:half], bundle.items[half:])
                if items
            )
            return None
        assert isinstance(done, Done)
        for text in done.said:
            if text not in self._said:
                self._said.add(text)
                _log.warning("a worker said: %s", text)
        if keep is not None:
            for packed in done.packed:
                keep(packed)
        return done

    def _send(self, bundle: Bundle, simulations: Sequence[Simulation], users: dict[str, int]) -> Any:
        bundle.n_tries += 1
        bundle.since_s = time.monotonic()
        cells = [ray_work.cell_of(item, simulations[item[0]]) for item in bundle.items]
        requests = [self._requests_of(item, simulations[item[0]], users) for item in bundle.items]
        wanted = ray_work.memory_bytes(bundle.items, simulations)
        options = {"memory": int(min(wanted, 0.8 * _largest_memory()))}
        refs = [each for each in requests if isinstance(each, ray.ObjectRef)]
        own = [None if isinstance(each, ray.ObjectRef) else each for each in requests]
        ref = _work.options(**options).remote(cells, own, self._made_by, self._run_id, *refs)
        bundle.refs.append(ref)
        return ref

    def _requests_of(self, item: Item, simulation: Simulation, users: dict[str, int]) -> Any:
        """The requests of a cell: a reference to them, or what the worker draws them from."""
        draw = simulation.draw
        if not draw.is_anywhere:
            return self._of_driver(draw)[item[1]]
        if users[draw.key] <= 1 and simulation.n_cells == 1:
            return draw
        if draw.key not in self._requests:
            n = draw.n_cells
            options = {"num_returns": n}
            options["memory"] = int(min(ray_work.draw_bytes(simulation), 0.8 * _largest_memory()))
            made: Any = _drawn.options(**options).remote(draw, self.shared)
            self._requests[draw.key] = [made] if n == 1 else list(made)
        return self._requests[draw.key][item[1]]

    def _send_slow(
        self,
        flying: dict[Any, Bundle],
        times: Sequence[float],
        simulations: Sequence[Simulation],
        users: dict[str, int],
    ) -> list[tuple[Any, Bundle]]:
        """Bundles that are late without a reason, sent once more."""
        usual_s = sorted(times)[len(times) // 2] if times else SLOW_S
        late_s = max(SLOW_S, SLOW_TIMES * usual_s)
        now_s = time.monotonic()
        late = [b for b in flying.values() if len(b.refs) == 1 and now_s - b.since_s > late_s]
        return [(self._send(bundle, simulations, users), bundle) for bundle in late]

    def _slots(self) -> int:
        there = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
        return max(1, there if self.n_workers is None else min(self.n_workers, there))


class _Lost(Exception):
    """A worker, its node or its result is gone; no fault of what was asked."""


def _answer(ref: Any) -> Any:
    """The result behind a reference, errors translated."""
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, PlannerError):
            raise cause from None
        if isinstance(cause, MemoryError):
            raise _Lost(f"out of memory: {cause}") from None
        if isinstance(cause, _LOST):
            raise _Lost(first_line(cause)) from None
        what = f"a worker failed: {type(cause).__name__}: {first_line(cause)}"
        if isinstance(cause, ImportError):
            raise RunError(Fault(what, "install the same planner on all nodes")) from None
        raise CoreError(Fault(what, "please report it")) from None
    except _LOST as error:
        raise _Lost(first_line(error)) from None
    except ray.exceptions.RayError as error:
        raise RunError(Fault(f"the Ray cluster failed: {first_line(error)}", "see whether it still runs")) from None


def _nodes() -> list[dict[str, Any]]:
    """The nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _largest_memory() -> float:
    """Memory of the largest node, as Ray counts it."""
    sizes = [node["Resources"].get("memory", 0.0) for node in _nodes()]
    return max(sizes, default=0.0)


class _Tree:
    """Cells of simulations, merged in tasks until each simulation is one."""

    def __init__(self, simulations: Sequence[Simulation], have: Sequence[Stored]) -> None:
        self.simulations = simulations
        self.left = {ix: sim.n_cells for ix, sim in enumerate(simulations) if sim.n_cells > 1}
        self._lost: list[int] = []
        self.n_lost: dict[int, int] = {}
        self.refs: dict[int, list[Any]] = {}
        self.flying: dict[Any, int] = {}
        done: dict[int, int] = {}
        for each in have:
            done[each.simulation] = done.get(each.simulation, 0) + len(each.cells)
        for each in have:
            if done[each.simulation] < simulations[each.simulation].n_cells:
                self.add(each.simulation, ray.put(Done((each.read(),), ())), len(each.cells))

    @property
    def is_busy(self) -> bool:
        return bool(self.flying)

    def add(self, ix: int, ref: Any, n_cells: int) -> None:
        """Some more cells of a simulation."""
        self.left[ix] -= n_cells
        self.refs.setdefault(ix, []).append(ref)
        self._meet(ix)

    def _meet(self, ix: int) -> None:
        mine = self.refs.get(ix, [])
        is_last = self.left[ix] == 0
        while len(mine) >= FAN or (is_last and len(mine) > 1):
            some, self.refs[ix] = mine[:FAN], mine[FAN:]
            mine = self.refs[ix]
            self.flying[_merged.remote(*some)] = ix

    def landed(self, ref: Any) -> None:
        """A task of the tree is done: its result is one more part."""
        ix = self.flying.pop(ref)
        self.refs.setdefault(ix, []).append(ref)
        if ix not in self.flying.values():
            self._meet(ix)

    def whole(self) -> Iterator[Part]:
        """Simulations that have become one."""
        for ix in [ix for ix, n in self.left.items() if n == 0 and ix not in self.flying.values()]:
            if len(self.refs.get(ix, [])) == 1:
                (ref,) = self.refs.pop(ix)
                try:
                    done = _answer(ref)
                except _Lost as lost:
                    _log.info("done again: %s", lost)
                    self.n_lost[ix] = self.n_lost.get(ix, 0) + 1
                    if self.n_lost[ix] >= TRIES:
                        raise given_up(TRIES, "simulation's results", lost) from None
                    self.left[ix] = self.simulations[ix].n_cells
                    self._lost.append(ix)
                    continue
                del self.left[ix]
                yield ray_work.unpacked(done.packed[0])

    def lost(self) -> list[int]:
        """Simulations whose results died with their node beyond what the cluster makes again; they begin anew."""
        found, self._lost = self._lost, []
        return found


@ray.remote(num_cpus=1, max_retries=0)
def _facts(draw: Draw) -> DrawnFacts:
    from planner.fleet import draws

    return draws.make(draw)[0]


@ray.remote(num_cpus=1, max_retries=0)
def _drawn(draw: Draw, shared: Folder | None) -> Any:
    made = ray_work.where(draw, shared)
    return made[0] if len(made) == 1 else made


@ray.remote(num_cpus=1, max_retries=0)
def _work(cells: Sequence[ray_work.Cell], own: Sequence[Any], made_by: str, run_id: str, *refs: Any) -> Done:
    given = iter(refs)
    requests = [next(given) if each is None else each for each in own]
    return ray_work.work(cells, requests, made_by, is_cancelled=_Stopped(run_id))


class _Stopped:
    """Whether the driver has given a run up, looked up now and then: the cluster's own cancelling is not safe."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.next_s = time.monotonic() + STOP_S

    def __call__(self) -> bool:
        if time.monotonic() < self.next_s:
            return False
        self.next_s = time.monotonic() + STOP_S
        return bool(ray.experimental.internal_kv._internal_kv_exists(self.run_id.encode()))


def _stop(run_id: str) -> None:
    """Tell the workers that a run is given up."""
    try:
        ray.experimental.internal_kv._internal_kv_put(run_id.encode(), b"1")
    except Exception:  # the cluster may be gone: then so are its workers
        _log.debug("cannot tell the workers", exc_info=True)


@ray.remote(num_cpus=1, max_retries=0)
def _merged(*done: Done) -> Done:
    return ray_work.merged(done)


@contextmanager
def connected(address: str, *, n_workers: int | None = None, shared: Folder | None = None) -> Iterator[RayExecutor]:
    """An executor on a cluster: `new` (of this machine, ended with the executor), `auto`, or an address.

    Workers without this very planner are given it: the package goes to them with the job.

    Raises:
        RunError: no cluster answers, its Ray or Python is another, or its nodes lack what planner needs.
    """
    if ray.is_initialized():
        yield RayExecutor(n_workers=n_workers, shared=shared)
        return
    _connect(address, n_workers, None)
    try:
        if address != "new" and not _has_planner():
            with tempfile.TemporaryDirectory(prefix="planner.") as folder:
                ray.shutdown()
                _connect(address, n_workers, package(Path(folder)))
            if not _has_planner():
                what = "the workers cannot import what planner needs"
                raise RunError(Fault(what, "install planner's wheel on all nodes, or use its container"))
        yield RayExecutor(n_workers=n_workers, shared=shared)
    finally:
        ray.shutdown()


def _connect(address: str, n_workers: int | None, shipped: str | None) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if address == "new":
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing of this cluster is told to anyone
        options |= {"address": "local", "num_cpus": n_workers or os.cpu_count() or 1, "include_dashboard": False}
        options["_system_config"] = {"worker_niceness": 0}  # as threads are
    else:
        if address != "auto":
            check_answers(address)
        options["address"] = address
    if shipped is not None:
        options["runtime_env"] = {"py_modules": [shipped]}
    _hush()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**options)
    except (Exception, SystemExit) as error:
        ray.shutdown()
        raise RunError(refusal(address, error)) from None


def _hush() -> None:
    """What Ray says of itself goes to the log: its words on stdout would stand in the answer."""
    import ray._private.worker as own

    def note(data: dict[str, Any], ignore_prefix: bool) -> None:
        _log.info("ray: %s", " ".join(data["lines"]))

    logging.getLogger("ray").setLevel(logging.ERROR)
    if hasattr(own, "print_to_stdstream"):
        own.print_to_stdstream = note


def _has_planner() -> bool:
    """Whether all nodes have this very planner. Raises `RunError` where one has another Python or lacks a package."""
    mine = parts.made_by()

    def look() -> tuple[str, str]:
        try:
            from planner.fleet import parts as there
        except ImportError as error:
            return "lacks", str(error)
        return "has", there.made_by()

    nodes = [node for node in _nodes() if node["Resources"].get("CPU")]
    probe = ray.remote(num_cpus=0, max_retries=0)(look)
    spread = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    refs = [probe.options(scheduling_strategy=spread(node["NodeID"], soft=True)).remote() for node in nodes]
    try:
        found = ray.get(refs, timeout=120)
    except ray.exceptions.RayError as error:
        what = f"the workers do not answer: {first_line(error)}"
        raise RunError(Fault(what, "see whether the cluster runs and has memory")) from None
    return all(answer == ("has", mine) for answer in found)

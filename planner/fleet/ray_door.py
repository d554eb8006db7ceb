"""The one door to Ray: connecting to a cluster, the tasks that its workers do, what comes of them.

Nothing else imports ray. Ray itself would try a task that is out of memory for ever, so tasks have no retries of its:
what is lost is told (`Lost`), and `ray_executor.py` sends it again.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import ray.experimental.internal_kv
import ray.util.scheduling_strategies

from planner.errors import CoreError, Fault, PlannerError, RunError
from planner.fleet import parts, ray_work
from planner.fleet.draws import Draw, DrawnFacts
from planner.fleet.processes import below, end_below
from planner.fleet.ray_address import check_answers, first_line, is_passing, last_line, package, refusal
from planner.fleet.ray_work import Done, Note
from planner.fleet.storage import Folder

LOOK_S = 2.0
"""How often a worker looks whether it is still wanted, and says how far it is."""
TRIES = 4
"""How often a connection is tried whose failure may pass."""
JUMP_S = 2.0
"""A clock that is so much further ahead than before was set meanwhile."""
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


class Lost(Exception):
    """A worker, its node or its result is gone; no fault of what was asked."""


# -- results -----------------------------------------------------------------------------------------------------------


def answer(ref: Any) -> Any:
    """The result behind a reference.

    Raises:
        Lost: it is gone, or its worker is.
        PlannerError: what the worker raised, or `RunError` where the cluster failed.
    """
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, PlannerError):
            raise cause from None
        if isinstance(cause, MemoryError):
            raise Lost(f"out of memory: {cause}") from None
        if isinstance(cause, _LOST):
            raise Lost(first_line(cause)) from None
        what = f"a worker failed: {type(cause).__name__}: {first_line(cause)}"
        if isinstance(cause, ImportError):
            raise RunError(Fault(what, "install the same planner on all nodes")) from None
        raise CoreError(Fault(what, "please report it")) from None
    except _LOST as error:
        raise Lost(first_line(error)) from None
    except ray.exceptions.RayError as error:
        raise RunError(Fault(f"the Ray cluster failed: {first_line(error)}", "see whether it still runs")) from None


def ready(refs: Sequence[Any], timeout_s: float) -> list[Any]:
    """Those of `refs` that are done, once one is or the time is up."""
    found, _ = ray.wait(list(refs), num_returns=1, timeout=timeout_s, fetch_local=False)
    if found and len(refs) > 1:
        found, _ = ray.wait(list(refs), num_returns=len(refs), timeout=0, fetch_local=False)
    return list(found)


def put(value: Any) -> Any:
    """A reference to a value of this process."""
    return ray.put(value)


# -- the cluster -------------------------------------------------------------------------------------------------------


def room() -> tuple[int, float]:
    """Processors of the cluster, and memory of its largest node in bytes, as Ray counts it."""
    sizes = [node["Resources"].get("memory", 0.0) for node in _nodes()]
    return int(ray.cluster_resources().get("CPU", 0)), max(sizes, default=0.0)  # type: ignore[no-untyped-call]


def _nodes() -> list[dict[str, Any]]:
    """The nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


# -- tasks -------------------------------------------------------------------------------------------------------------


def send_facts(draw: Draw) -> Any:
    """Have a worker find out what is known of some requests."""
    return _facts.remote(draw)


def send_draw(draw: Draw, shared: Folder | None, *, memory_bytes: int) -> list[Any]:
    """Have a worker draw requests: a reference for each cell's."""
    made: Any = _drawn.options(num_returns=draw.n_cells, memory=memory_bytes).remote(draw, shared)
    return [made] if draw.n_cells == 1 else list(made)


def send_work(order: ray_work.Order, requests: Sequence[Any], *, memory_bytes: int) -> tuple[Any, Any]:
    """Have a worker simulate some cells: a reference to its `Note`, and one to its `Done`.

    Each of `requests` is a reference to them or what they are drawn from.
    """
    refs = [each for each in requests if isinstance(each, ray.ObjectRef)]
    own = [None if isinstance(each, ray.ObjectRef) else each for each in requests]
    note, done = _work.options(memory=memory_bytes).remote(order, own, *refs)
    return note, done


def send_merge(done: Sequence[Any]) -> Any:
    """Have a worker make parts of one simulation one: a reference to its `Done`."""
    return _merged.remote(*done)


def send_read(folder: Folder, name: str) -> Any:
    """Have a worker read a part that is kept where it reaches it: a reference to its `Done`."""
    return _read.remote(folder, name)


@ray.remote(num_cpus=1, max_retries=0)
def _facts(draw: Draw) -> DrawnFacts:
    from planner.fleet import draws

    return draws.make(draw)[0]


@ray.remote(num_cpus=1, max_retries=0)
def _drawn(draw: Draw, shared: Folder | None) -> Any:
    made = ray_work.where(draw, shared)
    return made[0] if len(made) == 1 else made


@ray.remote(num_cpus=1, max_retries=0, num_returns=2)
def _work(order: ray_work.Order, own: Sequence[Any], *refs: Any) -> tuple[Note, Done]:
    given = iter(refs)
    requests = [next(given) if each is None else each for each in own]
    watch = _Watch(order)
    try:
        return ray_work.work(order, requests, is_cancelled=watch.is_over, progress=watch.at)
    finally:
        watch.end()


@ray.remote(num_cpus=1, max_retries=0)
def _merged(*done: Done) -> Done:
    return ray_work.merged(done)


@ray.remote(num_cpus=1, max_retries=0)
def _read(folder: Folder, name: str) -> Done:
    return Done((folder.read(name),))


# -- words between driver and workers ----------------------------------------------------------------------------------


def _stops(run_id: str) -> bytes:
    return f"planner {run_id} stops".encode()


def _is_at(run_id: str, number: int) -> bytes:
    return f"planner {run_id} at {number}".encode()


def stop(run_id: str) -> None:
    """Tell the workers that a run is given up: the cluster's own cancelling is not safe."""
    try:
        ray.experimental.internal_kv._internal_kv_put(_stops(run_id), b"1")
    except Exception:  # the cluster may be gone: then so are its workers
        _log.debug("cannot tell the workers", exc_info=True)


def where_is(run_id: str, number: int) -> tuple[int, int] | None:
    """How far a worker is with the bundle of that number: cells done, and the clock of the one at work."""
    said = ray.experimental.internal_kv._internal_kv_get(_is_at(run_id, number))
    if not said:
        return None
    n_done, now_ns = said.split()
    return int(n_done), int(now_ns)


class _Watch:
    """Now and then looks whether a bundle is still wanted, and says how far it is."""

    def __init__(self, order: ray_work.Order) -> None:
        self.order = order
        self.next_s = time.monotonic() + LOOK_S
        self.has_said = False
        self.place = (0, 0)

    def at(self, n_done: int, now_ns: int) -> None:
        self.place = (n_done, now_ns)

    def is_over(self) -> bool:
        now_s = time.monotonic()
        if now_s < self.next_s:
            return False
        self.next_s = now_s + LOOK_S
        store = ray.experimental.internal_kv
        store._internal_kv_put(_is_at(self.order.run_id, self.order.number), b"%d %d" % self.place)
        self.has_said = True
        return bool(store._internal_kv_exists(_stops(self.order.run_id)))

    def end(self) -> None:
        if self.has_said:
            ray.experimental.internal_kv._internal_kv_del(_is_at(self.order.run_id, self.order.number))


# -- connecting --------------------------------------------------------------------------------------------------------


@contextmanager
def connected(address: str, *, n_workers: int | None = None) -> Iterator[None]:
    """Connected to a cluster: `new` (of this machine, ended at the end), `auto`, or an address.

    Workers without this very planner are given it: the package goes to them with the job.

    Raises:
        RunError: no cluster answers, its Ray or Python is another, or its nodes lack what planner needs.
    """
    if ray.is_initialized():
        yield
        return
    _connect(address, n_workers, None)
    try:
        if address != "new" and _without_planner():
            with tempfile.TemporaryDirectory(prefix="planner.") as folder:
                ray.shutdown()
                _connect(address, n_workers, package(Path(folder)))
            if why := _without_planner():
                what = f"the workers cannot import what planner needs: {why}"
                raise RunError(Fault(what, "install planner's wheel on all nodes, or use its container"))
        yield
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
            check_answers(address, version=ray.__version__, token=_token())
        options["address"] = address
    if shipped is not None:
        options["runtime_env"] = {"py_modules": [shipped]}
    _hush()
    others = below(os.getpid()) if address == "new" else []
    for n_left in reversed(range(TRIES)):
        ahead_s = _ahead_s()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(**options)
            return
        except KeyboardInterrupt:
            if address == "new":
                end_below(os.getpid(), but=others)  # what Ray has not finished to start it does not end either
            raise
        except (Exception, SystemExit) as error:
            ray.shutdown()
            has_jumped = abs(_ahead_s() - ahead_s) > JUMP_S  # Ray measures by that clock how long it has been waiting
            if n_left == 0 or not (has_jumped or is_passing(error)):
                raise RunError(refusal(address, error)) from None
            _log.info("ray: %s; trying again", last_line(error))


def _ahead_s() -> float:
    """How far the clock of the wall is ahead of one that never jumps."""
    return time.time() - time.monotonic()


def _token() -> dict[str, str]:
    """The header for a cluster that wants a token; empty where this process has none, or is not to send it."""
    own: Any = ray._raylet
    if not hasattr(own, "AuthenticationTokenLoader") or own.get_authentication_mode() != own.AuthenticationMode.TOKEN:
        return {}
    return dict(own.AuthenticationTokenLoader.instance().get_token_for_http_header())


def _hush() -> None:
    """What Ray says of itself goes to the log: its words on stdout would stand in the answer."""
    import ray._private.worker as own

    def note(data: dict[str, Any], ignore_prefix: bool) -> None:
        _log.info("ray: %s", " ".join(data["lines"]))

    logging.getLogger("ray").setLevel(logging.ERROR)
    if hasattr(own, "print_to_stdstream"):
        own.print_to_stdstream = note


def _without_planner() -> str:
    """What a node says that has not this very planner; empty where all have it. Raises `RunError` if none answers."""
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
    others = (said if what == "lacks" else "another build" for what, said in found if (what, said) != ("has", mine))
    return next(others, "")

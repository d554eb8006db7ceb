"""Which executor does the work of a run: threads of this process, or a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from planner.fleet.executor import Executor
from planner.fleet.storage import Folder


@contextmanager
def opened(*, workers: int | None = None, ray: str | None = None, shared: str | None = None) -> Iterator[Executor]:
    """The executor, closed at the end.

    `ray` is `new` (a cluster of this machine that ends with it), `auto` (the one that runs here) or an address; None is
    threads. `workers` is how many simulations run side by side: by default the processors there are. `shared` is an
    address that every worker reaches: requests then go there as files, else through the cluster's object store.

    Raises:
        RunError: the cluster cannot be reached, or its workers are not of this version.
    """
    if ray is None:
        from planner.fleet.local_executor import LocalExecutor

        yield LocalExecutor(workers or os.cpu_count() or 1)
        return
    from planner.fleet.ray_executor import connected

    with connected(ray, n_workers=workers, shared=None if shared is None else Folder.of(shared)) as made:
        yield made

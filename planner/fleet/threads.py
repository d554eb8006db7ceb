"""Work on threads, while the thread that asked stays awake: an interrupt acts at once, whatever the workers are at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.05
"""How often the waiting thread looks up."""


def gather(
    work: Sequence[Callable[[threading.Event], T]], n_workers: int, *, poll: Callable[[int], None] = lambda _: None
) -> Generator[tuple[int, T], None, None]:
    """(place in the list, result) of each piece of work as it finishes; the first error stops the rest.

    Each piece is given an event that is set when its result is no longer wanted. `poll` is told every `POLL_S` how many
    are done. Threads that do not look at the event are left to end by themselves.
    """
    stop = threading.Event()
    pool = ThreadPoolExecutor(max_workers=max(1, min(n_workers, len(work))))
    futures: dict[Future[T], int] = {pool.submit(piece, stop): ix for ix, piece in enumerate(work)}
    pending = set(futures)
    try:
        while pending:
            done, pending = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
            poll(len(work) - len(pending))
            for future in sorted(done, key=lambda f: futures[f]):
                yield futures[future], future.result()
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)

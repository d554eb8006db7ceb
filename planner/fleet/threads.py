"""Work on threads, while the thread that asked stays awake: an interrupt acts at once, whatever the workers are at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.05
"""How often the waiting thread looks up."""
AHEAD = 4
"""Pieces that are in hand for each thread, at work or done and not taken: results do not pile up."""


def gather(
    work: Sequence[Callable[[threading.Event], T]], n_workers: int, *, poll: Callable[[int], None] = lambda _: None
) -> Generator[tuple[int, T], None, None]:
    """(place in the list, result) of each piece of work as it finishes; the first error stops the rest.

    Each piece is given an event that is set when its result is no longer wanted. `poll` is told every `POLL_S`, and at
    the end, how many are done. Threads that do not look at the event are left to end by themselves.
    """
    stop = threading.Event()
    n_workers = max(1, min(n_workers, len(work)))
    pool = ThreadPoolExecutor(max_workers=n_workers)
    finished: SimpleQueue[tuple[int, Future[T]]] = SimpleQueue()
    left = iter(enumerate(work))

    def send(n: int) -> None:
        for ix, piece in islice(left, n):
            future = pool.submit(piece, stop)
            future.add_done_callback(lambda done, ix=ix: finished.put((ix, done)))  # type: ignore[misc]

    n_done = 0
    told_s = time.monotonic()
    try:
        send(AHEAD * n_workers)
        while n_done < len(work):
            some = _taken(finished)
            n_done += len(some)
            if n_done == len(work) or time.monotonic() - told_s >= POLL_S:
                poll(n_done)
                told_s = time.monotonic()
            for ix, future in some:
                send(1)
                yield ix, future.result()
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _taken(finished: SimpleQueue[tuple[int, Future[T]]]) -> list[tuple[int, Future[T]]]:
    """What is done, in the order of the list; nothing once the time is up."""
    try:
        some = [finished.get(timeout=POLL_S)]
    except Empty:
        return []
    while not finished.empty():
        some.append(finished.get())
    return sorted(some, key=lambda each: each[0])

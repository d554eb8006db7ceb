"""Work on threads: every result once, none held after it was taken, and no more at work than is taken."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import closing
from functools import partial

import pytest

from planner.fleet.threads import AHEAD, gather


class Result:
    pass


def test_every_piece_once_and_none_is_held_after_it_was_taken() -> None:
    found = []
    for ix, result in gather([lambda _: Result() for _ in range(50)], 3):
        found.append((ix, weakref.ref(result)))
    del result
    gc.collect()
    assert sorted(ix for ix, _ in found) == list(range(50))
    assert all(ref() is None for _, ref in found)


@pytest.mark.parametrize("n_workers", [1, 3])
def test_nobody_works_further_ahead_than_results_are_taken(n_workers: int) -> None:
    begun = []

    def piece(ix: int, _: threading.Event) -> None:
        begun.append(ix)

    for n_taken, _ in enumerate(gather([partial(piece, ix) for ix in range(100)], n_workers), 1):
        assert len(begun) <= n_taken + AHEAD * n_workers
    assert sorted(begun) == list(range(100))


def test_the_first_error_stops_the_rest_and_so_does_who_takes_no_more() -> None:
    begun, stopped = threading.Event(), threading.Event()

    def waits(stop: threading.Event) -> None:
        begun.set()
        if stop.wait(20):
            stopped.set()

    def fails(_: threading.Event) -> None:
        begun.wait(20)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(gather([waits, fails], 2))
    assert stopped.wait(20)
    begun.clear()
    stopped.clear()
    with closing(gather([lambda _: begun.wait(20), waits], 2)) as results:
        next(results)
    assert stopped.wait(20)


def test_it_says_how_many_are_done_while_it_waits_and_at_the_end() -> None:
    told: list[int] = []
    go_on = threading.Event()

    def poll(n_done: int) -> None:
        told.append(n_done)
        go_on.set()

    list(gather([lambda _: go_on.wait(20)], 1, poll=poll))
    assert told[0] == 0
    assert told[-1] == 1


def test_nothing_to_do_is_nothing() -> None:
    assert list(gather([], 2)) == []

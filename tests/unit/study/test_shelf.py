"""Tables of many simulations, kept together and packed: each is taken as it was put."""

from __future__ import annotations

import random
from dataclasses import fields

import polars as pl
import pytest

from planner.core import SimTables
from planner.study import shelf as shelves
from planner.study.shelf import TOGETHER, Shelf


def simulation(ix: int) -> SimTables:
    def frame(n: int) -> pl.DataFrame:
        columns = {"a": [ix * 100 + k for k in range(n)], "b": [ix / 7 + k for k in range(n)]}
        return pl.DataFrame(columns, schema={"a": pl.Int64, "b": pl.Float64})

    return SimTables(
        classes=frame(1),
        class_windows=frame(ix % 3),
        deployments=frame(2),
        windows=frame(3),
        sketches=frame(ix % 7),
        requests=frame(5) if ix % 2 else None,
        n_events=ix,
    )


def same(one: SimTables, other: SimTables) -> bool:
    for field in fields(SimTables):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, pl.DataFrame):
            if not isinstance(b, pl.DataFrame) or a.schema != b.schema or not a.equals(b):
                return False
        elif a != b:
            return False
    return True


@pytest.mark.parametrize("n", [1, TOGETHER, 3 * TOGETHER + 5])
def test_each_is_taken_as_it_was_put_in_whatever_order(n: int) -> None:
    shelf = Shelf()
    given = [shelf.put(simulation(ix)) for ix in range(n)]
    places = list(range(n))
    for order in (places, random.Random(1).sample(places, n)):
        assert all(same(given[ix](), simulation(ix)) for ix in order)


def test_large_ones_are_packed_before_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "MOST_BYTES", 1)
    shelf = Shelf()
    given = [shelf.put(simulation(ix)) for ix in range(5)]
    assert len(shelf._packed) == 5
    assert all(same(take(), simulation(ix)) for ix, take in enumerate(given))

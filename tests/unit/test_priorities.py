"""Who goes first on a replica: cases small enough to follow by hand."""

from __future__ import annotations

from typing import Any

from planner import core
from tests.deployments import cell, requests, toy

MS = 10**6


def classes(*fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"limits": [], "targets": [{"deployments": [0], "share": None}]} | each for each in fields]


def starts(spec: dict[str, Any], rows: list[tuple[int, int, int, int]]) -> list[int]:
    found = core.simulate(spec, requests(rows)).requests
    assert found is not None
    return list(found["start_ns"])


def test_a_higher_class_is_admitted_before_one_that_came_earlier_and_drives_nothing_out() -> None:
    spec = cell(toy(max_batch=1), classes=classes({"priority": 1}, {"priority": 0}))
    rows = [(0, 0, 20, 50), (MS, 0, 20, 5), (2 * MS, 1, 20, 5)]
    first, second, third = starts(spec, rows)
    assert first == 0 < third < second


def test_the_lower_class_is_driven_out_whoever_came_last() -> None:
    """Two sequences that do not fit to their ends; the first is of the lower class."""
    for priorities, loser in (((0, 0), 1), ((1, 0), 0)):
        spec = cell(toy(blocks=20, block_tokens=4, chunk_tokens=64))
        spec["classes"] = classes(*({"priority": each} for each in priorities))
        found = core.simulate(spec, requests([(0, 0, 8, 60), (0, 1, 8, 60)])).requests
        assert found is not None
        assert found["end_ns"].arg_max() == loser


def test_a_cap_counts_while_its_class_runs() -> None:
    """One at most beside itself: the second waits for the fast class to end, and so does the third behind it."""
    spec = cell(toy(), classes=classes({"batch_cap": 1}, {}))
    rows = [(0, 0, 20, 30), (MS, 1, 20, 5), (MS, 1, 20, 5)]
    found = core.simulate(spec, requests(rows)).requests
    assert found is not None
    assert found["start_ns"][1] == found["start_ns"][2] == found["end_ns"][0]
    # The fast class in turn waits until no more than itself would run.
    assert starts(spec, [(0, 1, 20, 30), (MS, 0, 20, 5)])[1] > 30 * MS

"""Inputs at the ends of what there is: handled or refused with a reason, never a hang, a panic or a wrap-around."""

from __future__ import annotations

from typing import Any

import pytest

from planner import core
from planner.errors import CoreError
from tests.deployments import cell, requests, toy

Row = tuple[int, int, int, int]
Links = list[tuple[int | None, int]]
MAX = 2**64 - 1
YEAR = 365 * 86_400 * 10**9
ONE: list[Row] = [(0, 0, 5, 5)]
FATES = ("completed", "rejected", "unfinished", "timed_out", "cancelled")


def outcome(spec: dict[str, Any], rows: list[Row], links: Links | None = None) -> dict[str, int]:
    """How many requests ended how, of those that did."""
    tables = core.simulate(spec, requests(rows, links))
    counts = tables.classes.row(0, named=True)
    assert counts["offered"] == sum(counts[fate] for fate in FATES)
    assert tables.n_events < 300 * len(rows) + 400_000
    return {fate: counts[fate] for fate in FATES if counts[fate]}


def with_class(**fields: Any) -> dict[str, Any]:
    spec = cell(toy())
    return spec | {"classes": [spec["classes"][0] | fields]}


def with_three(length_ns: int = 3600 * 10**9, **fields: Any) -> dict[str, Any]:
    spec = cell([(toy(), 3)], length_ns=length_ns, window_ns=length_ns)
    spec["deployments"][0] |= fields
    return spec


def routed(router: str, **options: Any) -> dict[str, Any]:
    return cell([(toy(), 3)], router=router, router_options=options)


SMALL = toy(blocks=20, chunk_tokens=64)
"""A cache of 320 tokens."""
SCALE = {"min": 1, "max": 3, "target_ppm": MAX, "delay_ns": MAX}
OUTAGE = {"at_ns": 0, "length_ns": MAX, "first": 0, "n_replicas": 3}
FAILURE = {"mean_ns": MAX, "repair_ns": MAX, "n_together": 2**32 - 1, "key": 2**32 - 1}

HANDLED: list[tuple[str, dict[str, Any], list[Row], dict[str, int]]] = [
    # The last token is never attended to: 100,000 tokens of context hold 100,000 + 1 - 1 and no more.
    ("context", cell(toy(context_tokens=100_000)), [(0, 0, 100_001, 1), (0, 0, 99_998, 4)], {"rejected": 2}),
    ("longest", cell(toy(chunk_tokens=4096)), [(0, 0, 2**32 - 1, 2**32 - 1)], {"rejected": 1}),
    ("cache", cell(SMALL), [(0, 0, 319, 2), (0, 0, 320, 2), (0, 0, 320, 1)], {"completed": 2, "rejected": 1}),
    ("one token", cell(toy()), [(0, 0, 7, 1)] * 50, {"completed": 50}),
    ("lone replica", cell(toy(max_batch=1)), ONE * 50, {"completed": 50}),
    ("a century", cell(toy(), length_ns=100 * YEAR, window_ns=YEAR), [*ONE, (99 * YEAR, 0, 5, 5)], {"completed": 2}),
    ("no end of patience", with_class(timeout_ns=MAX, cancel_after_ns=MAX), ONE, {"completed": 1}),
    ("no patience", with_class(timeout_ns=0, cancel_after_ns=0), ONE, {"timed_out": 1}),
    (
        "late again",
        with_class(timeout_ns=0, retries={"n": 1000, "backoff_ns": MAX, "factor": 1e6}),
        ONE,
        {"unfinished": 1},
    ),
    (
        "at once again",
        with_class(timeout_ns=0, retries={"n": 1000, "backoff_ns": 0, "factor": 1.0}),
        ONE * 50,
        {"timed_out": 50},
    ),
    ("down for ever", with_three(outages=[OUTAGE], cold_start_ns=MAX), ONE, {"rejected": 1}),
    ("down never", with_three(outages=[OUTAGE | {"at_ns": MAX}]), ONE, {"completed": 1}),
    ("fails never", with_three(failures=[FAILURE]), ONE, {"completed": 1}),
    ("scales never", with_three(autoscale=SCALE), ONE, {"completed": 1}),
    ("many candidates", routed("slo-aware", n_candidates=1_000_000), ONE * 9, {"completed": 9}),
    ("no room", routed("cheapest-first", spill_frac=0.0), ONE * 9, {"completed": 9}),
    ("a limit at the end of time", with_class(limits=[{"metric": "tpot", "limit_ns": MAX}]), ONE, {"completed": 1}),
]


@pytest.mark.parametrize(("spec", "rows", "ends"), [case[1:] for case in HANDLED], ids=[case[0] for case in HANDLED])
def test_handled(spec: dict[str, Any], rows: list[Row], ends: dict[str, int]) -> None:
    assert outcome(spec, rows) == ends


def test_what_would_follow_beyond_time_is_not_sent() -> None:
    assert outcome(cell(toy()), ONE * 3, [(None, 0), (0, MAX), (1, 0)]) == {"completed": 1}


def test_a_million_requests_of_one_instant() -> None:
    tables = core.simulate(cell(toy(), keep_requests=False), requests([(5, 0, 3, 1)] * 1_000_000))
    assert tables.classes["completed"].item() == 1_000_000
    # Each arrives once, and 256 tokens of 3-token prompts make a step of 64 at most.
    assert 1_000_000 < tables.n_events < 1_020_000


REFUSED: list[tuple[dict[str, Any], list[Row], str]] = [
    (cell(toy()), [(0, 0, 0, 5)], "row 0: must be at least 1"),
    (cell(toy()), [(0, 0, 5, 5), (0, 0, 5, 0)], "row 1: must be at least 1"),
    (cell(toy()), [(MAX, 0, 5, 5)], "must not fall, nor pass the run's length"),
    (cell(toy(), length_ns=101 * 366 * 86_400 * 10**9, window_ns=YEAR), [], "at most 100 years"),
    (cell(toy(), length_ns=20 * YEAR, window_ns=10**9), [], "at most 10000000 windows"),
    (with_class(targets=[{"deployments": [], "share": None}]), ONE, "none with a replica"),
    (cell([(toy(), 0)]), [], "must have 1 to 1000000 replicas"),
    (routed("slo-aware", n_candidates=0), ONE, "router_options.n_candidates"),
    (routed("slo-aware", n_candidates=2**63), ONE, "router_options.n_candidates"),
    (routed("session-affine", most_percent=MAX), ONE, "router_options.most_percent"),
    (routed("cheapest-first", spill_frac=1e300), ONE, "router_options.spill_frac"),
    (routed("cheapest-first", spill_frac=-0.1), ONE, "router_options.spill_frac"),
    (with_three(100 * YEAR, autoscale=SCALE | {"delay_ns": 10**6}), [], "more than 100000000 decisions"),
    (
        with_three(100 * YEAR, failures=[FAILURE | {"mean_ns": 10**6, "n_together": 1}]),
        [],
        "failures: would be more than 100000000",
    ),
]


@pytest.mark.parametrize(
    ("spec", "rows", "said"), REFUSED, ids=[case[2][-30:] + str(ix) for ix, case in enumerate(REFUSED)]
)
def test_refused(spec: dict[str, Any], rows: list[Row], said: str) -> None:
    with pytest.raises(CoreError) as error:
        core.simulate(spec, requests(rows))
    assert said in str(error.value)
    assert "bug" not in str(error.value)

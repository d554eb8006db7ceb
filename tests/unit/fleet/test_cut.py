"""Cutting a fleet into cells, by hand: what each cell gets, and that the parts are the whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import core
from planner.fleet import cut
from tests.deployments import cell, requests, toy

ANYWHERE: dict[str, Any] = {"limits": [], "targets": [{"deployments": [0], "share": None}]}


def spec(*n_replicas: int, classes: list[dict[str, Any]] | None = None, **of_first: Any) -> dict[str, Any]:
    made = cell([(toy(), n) for n in n_replicas], classes=classes or [ANYWHERE])
    made["deployments"][0] |= of_first
    return made


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 50))
def test_replicas_are_dealt_out_evenly_and_none_is_lost(n_replicas: list[int], size: int) -> None:
    n_replicas[0] += 1
    made = cut.plan(spec(*n_replicas), size)
    assert [sum(column) for column in zip(*made.replicas, strict=True)] == n_replicas
    totals = [sum(mine) for mine in made.replicas]
    assert made.n_cells == -(-sum(n_replicas) // size)
    assert 1 <= min(totals) <= max(totals) <= min(totals) + 1 <= size + 1
    assert sorted(n for mine in cut.numbers(made) for n in mine) == list(range(sum(n_replicas)))
    assert [len(mine) for mine in cut.numbers(made)] == totals


def test_a_small_fleet_is_one_cell_and_its_spec_is_untouched() -> None:
    whole = spec(3, 2)
    for size in (None, 5, 100):
        assert cut.cells(whole, cut.plan(whole, size)) == [whole]


def test_numbers_are_those_of_the_whole_fleet() -> None:
    # 3 and 2 replicas over two cells: 2 + 1 and then, where the first deployment stopped, 1 + 1.
    made = cut.plan(spec(3, 2), 3)
    assert made.replicas == ((2, 1), (1, 1))
    assert cut.numbers(made) == [[0, 1, 3], [2, 4]]


def test_shares_of_a_class_follow_the_replicas_of_each_cell() -> None:
    shares = [{"deployments": [0], "share": 0.7}, {"deployments": [1], "share": 0.3}]
    whole = spec(4, 1, classes=[{"limits": [], "targets": shares}])
    made = cut.plan(whole, 3)
    assert made.replicas == ((2, 1), (2, 0))
    assert made.weights == (pytest.approx((0.35 + 0.3, 0.35)),)
    first, second = cut.cells(whole, made)
    assert [t["share"] for t in first["classes"][0]["targets"]] == pytest.approx([0.35 / 0.65, 0.3 / 0.65])
    assert second["classes"][0]["targets"] == [{"deployments": [0], "share": None}]


def test_a_class_without_replicas_in_a_cell_gets_no_request_there() -> None:
    whole = spec(5, 1, classes=[ANYWHERE, {"limits": [], "targets": [{"deployments": [1], "share": None}]}])
    made = cut.plan(whole, 2)
    assert sorted(made.weights[1]) == [0.0, 0.0, 1.0]
    assert sum(made.weights[0]) == pytest.approx(1.0)
    for mine, each in zip(made.replicas, cut.cells(whole, made), strict=True):
        (target,) = each["classes"][1]["targets"]
        assert all(mine[d] for d in target["deployments"])


def test_known_outages_fall_on_the_cells_of_their_replicas() -> None:
    whole = spec(4, outages=[{"at_ns": 5, "length_ns": 7, "first": 0, "n_replicas": 3}])
    first, second = cut.cells(whole, cut.plan(whole, 2))
    assert first["deployments"][0]["outages"] == [{"at_ns": 5, "length_ns": 7, "first": 0, "n_replicas": 2}]
    assert second["deployments"][0]["outages"] == [{"at_ns": 5, "length_ns": 7, "first": 0, "n_replicas": 1}]


def test_bounds_of_autoscaling_are_split_and_said_where_they_cannot_be() -> None:
    scale = {"min": 4, "max": 10, "target_ppm": 700_000, "delay_ns": 10**9}
    made = cut.plan(spec(10, autoscale=scale), 5)
    assert made.notices == ()
    parts = [each["deployments"][0]["autoscale"] for each in cut.cells(spec(10, autoscale=scale), made)]
    assert [(part["min"], part["max"]) for part in parts] == [(2, 5), (2, 5)]
    one = cut.plan(spec(10, autoscale=scale | {"min": 1}), 5)
    assert "each of 2 cells keeps at least one replica on" in one.notices[0].message


def test_the_link_is_split_and_every_cell_can_hand_over() -> None:
    whole = spec(5, 3, role="prefill", decode_targets=[1])
    whole["deployments"][1]["role"] = "decode"
    whole["link"] = {"bytes_per_s": 1e9, "latency_ns": 7}
    made = cut.plan(whole, 2)
    assert made.n_cells == 3
    assert "3 cells rather than 4" in made.notices[0].message
    assert all(all(mine) for mine in made.replicas)
    links = [each["link"] for each in cut.cells(whole, made)]
    assert sum(link["bytes_per_s"] for link in links) == pytest.approx(1e9)
    assert {link["latency_ns"] for link in links} == {7}


def test_cells_draw_from_streams_of_their_own() -> None:
    seeds = [each["seed"] for each in cut.cells(spec(6), cut.plan(spec(6), 2))]
    assert len({*seeds, 1}) == 4
    assert seeds == [cut.cell_seed(1, ix) for ix in range(3)]
    assert all(0 <= seed < 2**63 for seed in seeds)


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, Any]:
    """Fleets with everything that is cut."""
    counts = draw(st.lists(st.integers(1, 9), min_size=2, max_size=4))
    made = spec(*counts)
    first = made["deployments"][0]
    if draw(st.booleans()):
        first |= {"role": "prefill", "decode_targets": [1, *([2] if len(counts) > 2 else [])]}
        made["deployments"][1]["role"] = draw(st.sampled_from(["decode", "mixed"]))
        made["link"] = {"bytes_per_s": 1e9, "latency_ns": 5}
    for placed in made["deployments"]:
        n = placed["n_replicas"]
        if draw(st.booleans()):
            at = draw(st.integers(0, n - 1))
            outage = {"at_ns": 5, "length_ns": 7, "first": at, "n_replicas": draw(st.integers(1, n - at))}
            placed[draw(st.sampled_from(["outages", "maintenance"]))] = [outage]
        if draw(st.booleans()):
            least = draw(st.integers(1, n))
            most = draw(st.integers(least, n))
            placed["autoscale"] = {"min": least, "max": most, "target_ppm": 500_000, "delay_ns": 10**9}
        if draw(st.booleans()):
            placed["failures"] = [{"mean_ns": 10**9, "repair_ns": 10**6, "n_together": draw(st.integers(1, 4))}]
    takers = [d for d, placed in enumerate(made["deployments"]) if placed.get("role") != "decode"]
    ends = draw(st.lists(st.sampled_from(takers), min_size=1, max_size=2, unique=True))
    share = None if len(ends) == 1 else 1 / len(ends)
    routed = {"limits": [], "targets": [{"deployments": [d], "share": share} for d in ends]}
    made["classes"] = [{"limits": [], "targets": [{"deployments": takers, "share": None}]}, routed]
    return made


@given(fleets(), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_the_core_takes_every_cell_and_the_cells_are_the_whole(whole: dict[str, Any], size: int) -> None:
    made = cut.plan(whole, size)
    parts = cut.cells(whole, made)
    none = requests([])
    merged = core.merge([core.simulate_cell(part, none) for part in parts])
    assert merged.placed["n_replicas"].to_list() == [placed["n_replicas"] for placed in whole["deployments"]]
    for key in ("outages", "maintenance"):
        for d, placed in enumerate(whole["deployments"]):
            down = [outage["n_replicas"] for part in parts for outage in part["deployments"][d].get(key, [])]
            assert sum(down) == sum(outage["n_replicas"] for outage in placed.get(key, []))
    for weights in made.weights:
        assert sum(weights) == pytest.approx(1.0)
    for cls, weights in enumerate(made.weights):
        for cell_ix, weight in enumerate(weights):
            here = [d for target in parts[cell_ix]["classes"][cls]["targets"] for d in target["deployments"]]
            asked = {d for target in whole["classes"][cls]["targets"] for d in target["deployments"]}
            assert weight == 0 or set(here) <= asked

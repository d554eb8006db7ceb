"""Clients that turn out to be farther: what a replica holds then is what a surface sampled with that way says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.optimize.build import question
from planner.optimize.trips import left_frac, more_s, trips_of
from planner.optimize.uncertain import _reach, _worlds
from planner.scenario import Scenario, load
from planner.scenario.schema import Limit
from planner.study.curves import Surface
from planner.study.group import Measured

TEXT = """
schema: 1
title: far
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 40 req/s
    input: {dist: lognormal, median: 600 tok, p95: 3 ktok}
    output: {dist: lognormal, median: 80 tok, p95: 300 tok}
    slo: s
slo: {s: {ttft: {p95: 300 ms}, tpot: {p95: 1 s}}}
fleet: {pools: {a: {rack: hgx-h200, count: {min: 0, max: 4}, deploy: [{model: gpt-oss-120b, chips: 4}]}}}
site: {round_trip: {value: 60 ms, low: 20 ms, high: 180 ms, grade: estimate, source: planner}}
goal: {minimise: tco, horizon: 1 yr, samples: 4}
run: {length: 60 s}
"""


def surface(*strains: tuple[float, float, float | None]) -> Surface:
    """Of (load, ttft, strain) samples."""
    samples = tuple(
        Measured(load, 1, {"x": {"ttft_s.p95": ttft, "tpot_s.p95": 0.01, "strain": strain}}, 0.0, 0.0, 0.0, 0.0, 100)
        for load, ttft, strain in strains
    )
    return Surface("a", 0, "m", "mixed", None, {"x": 1.0}, 1, 8, samples, {}, 0.0, 0.0, 0.0)


LIMITS = (Limit("ttft", 0.95, "p95", 1.0), Limit("tpot", 0.95, "p95", 0.1))


def test_a_limit_moves_with_the_way_by_hand() -> None:
    # TTFT is 0.1 s at 1 req/s, 0.5 at 2 and 1.5 at 3: it passes 1 s at 2.5, and with 0.3 s more at 2.2.
    one = surface((1.0, 0.1, 0.1), (2.0, 0.5, 0.5), (3.0, 1.5, 1.5))
    assert left_frac(one, "x", LIMITS, 0.0) == 1.0
    assert left_frac(one, "x", LIMITS, 0.3) == pytest.approx(2.2 / 2.5)
    assert left_frac(one, "x", LIMITS, -0.25) == pytest.approx(2.75 / 2.5)
    assert left_frac(one, "x", LIMITS, 0.95) == 0.0  # even the lightest load is beyond
    # Where the attainment is what is strained, the way to the clients changes nothing before its own limit does.
    other = surface((1.0, 0.1, 0.9), (2.0, 0.5, 1.4), (3.0, 1.5, None))
    assert left_frac(other, "x", LIMITS, 0.1) == 1.0
    assert left_frac(other, "x", LIMITS[1:], 5.0) == 1.0  # no limit of the class holds the way


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surfaces")


def limit_at(folder: Path, *sets: str) -> tuple[Any, float]:
    asked = question(load("-", stdin_text=TEXT, sets=sets), folder=folder)
    (found,) = asked.limits.values()
    return asked, found.req_per_s


def test_it_is_what_a_surface_sampled_there_says(folder: Path) -> None:
    asked, base = limit_at(folder)
    (limit,) = asked.limits.values()
    limits = asked.scenario.slo["s"].limits
    for way, longer_s in (("180 ms", 0.12), ("20 ms", -0.04)):
        _, there = limit_at(folder, f"site.round_trip={way}")
        found = left_frac(limit.surface, "chat", limits, longer_s)
        assert found == pytest.approx(there / base, rel=0.08)  # straight lines between samples that are far apart
        assert abs(found - 1) > 0.01


def test_worlds_whose_clients_are_farther_need_more(folder: Path) -> None:
    asked, _ = limit_at(folder)
    worlds = _worlds(asked, 8, seed=1)
    trips = trips_of(asked.scenario)
    assert {name: sorted(found) for name, found in trips.items()} == {"a": ["chat"]}
    longer = [more_s(trips, "a", "chat", world.sample.values) for world in worlds]
    assert len(set(longer)) > 1
    assert min(longer) < 0 < max(longer)
    reach = [_reach(asked, asked.uses[0], asked.parts[0][0], trips, world.sample) for world in worlds]
    order = sorted(range(len(worlds)), key=longer.__getitem__)
    assert [reach[ix] for ix in order] == sorted(reach, reverse=True)
    assert max(reach) > 1 > min(reach)
    held: Scenario = load("-", stdin_text=TEXT, sets=["site.round_trip=60 ms"])
    known = _worlds(question(held, folder=folder), 8, seed=1)
    for world, other, share in zip(worlds, known, reach, strict=True):
        assert world.instance.ways[0].takes[0][2] == pytest.approx(other.instance.ways[0].takes[0][2] / share)

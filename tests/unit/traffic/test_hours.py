"""The load by the hour is the load that is drawn: shapes, regions, growth."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner import load
from planner.scenario.schema import TrafficClass
from planner.traffic.hours import HOURS_PER_YEAR, factors, growth, in_hour
from planner.traffic.requests import for_class

BASE: dict[str, Any] = {
    "model": "gpt-oss-120b",
    "arrivals": "poisson",
    "rate": "1 req/s",
    "input": "9 tok",
    "output": "9 tok",
}


def cls(**more: Any) -> TrafficClass:
    return TrafficClass.model_validate(BASE | more)


def test_a_shape_has_mean_one_and_repeats() -> None:
    found = factors(cls(shape="m-large"), 3 * 24 * 14)
    period = 24 * 14
    assert math.fsum(found[:period]) / period == pytest.approx(1.0, rel=1e-12)
    assert found[period : 2 * period] == found[:period]
    assert max(found) > 1.3
    assert factors(cls(), 5) == [1.0] * 5


def test_steps_that_do_not_fall_on_hours_are_cut() -> None:
    # 40 minutes at 3, 40 minutes at 0, and so on: mean 1.5; the first hour has 40 minutes of 3.
    shape = {"factors": ["3", "0"], "step": "40 min"}
    found = factors(cls(shape=shape), 4)
    # At 2 in minutes 0-40, 80-120 and 160-200, else 0: 40, 40, 20 and 20 minutes of the four hours.
    assert found == pytest.approx([4 / 3, 4 / 3, 2 / 3, 2 / 3])
    assert math.fsum(found) == pytest.approx(4.0)


def test_regions_live_the_shape_at_their_own_times() -> None:
    hours = [str(hour) for hour in range(24)]
    one = factors(cls(shape=hours), 24)
    moved = factors(cls(shape=hours, regions={"far": {"share": "100 %", "shift": "6 h"}}), 24)
    assert moved == pytest.approx([one[(hour - 6) % 24] for hour in range(24)])
    later = factors(cls(shape={"factors": hours, "start": "3 h"}), 24)
    assert later == pytest.approx([one[(hour + 3) % 24] for hour in range(24)])


def test_growth_compounds_over_the_year() -> None:
    found = growth(cls(growth="50 %/yr"), HOURS_PER_YEAR + 1)
    assert found[0] == pytest.approx(1.5 ** (0.5 / HOURS_PER_YEAR), rel=1e-14)
    assert found[HOURS_PER_YEAR] / found[0] == pytest.approx(1.5, rel=1e-14)
    assert growth(cls(), 3) == [1.0] * 3


def test_the_hours_are_those_that_are_drawn() -> None:
    text = """
schema: 1
title: x
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 0.5 req/s, shape: m-mid, growth: 900 %/yr,
    regions: {here: {share: 60 %}, there: {share: 40 %, shift: -7 h}}, input: 9 tok, output: 9 tok}
fleet: {pools: {a: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}}}
run: {length: 1 h}
"""
    chat = load("-", stdin_text=text).traffic["chat"]
    n_hours = 24 * 10
    drawn = for_class(chat, name="chat", seed=3, length_ns=n_hours * 3600 * 10**9).frame["arrival_ns"].to_numpy()
    counts = [0] * n_hours
    for hour in (drawn // (3600 * 10**9)).tolist():
        counts[min(hour, n_hours - 1)] += 1
    for count, factor in zip(counts, factors(chat, n_hours), strict=True):
        expected = 0.5 * 3600 * factor
        assert abs(count - expected) < 5 * math.sqrt(expected) + 1


def test_an_hour_by_itself_has_the_load_of_that_hour() -> None:
    whole = cls(shape="m-large", growth="100 %/yr")
    hour = 5000
    alone = in_hour(whole, hour, lead_s=0.0)
    assert alone.growth_frac_per_year is None
    assert alone.rate_req_per_s is not None
    assert alone.rate_req_per_s * factors(alone, 1)[0] == pytest.approx(factors(whole, hour + 1)[hour], rel=1e-12)

"""Arrival laws and shapes of a class, from the keys of the scenario to the requests."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from planner.scenario.schema import TrafficClass
from planner.traffic import demand
from planner.traffic.requests import for_class

S = 10**9
DAY = 86_400 * S
LENGTHS = {"model": "gpt-oss-120b", "input": "100 tok", "output": "10 tok"}


def drawn(length_ns: int, seed: int = 1, **keys: Any) -> pl.DataFrame:
    cls = TrafficClass.model_validate({**LENGTHS, "rate": "5 req/s", "arrivals": "poisson", **keys})
    return for_class(cls, name="chat", seed=seed, length_ns=length_ns).frame


def by_window(frame: pl.DataFrame, window_ns: int, n: int) -> list[int]:
    found = (frame["arrival_ns"] // window_ns).value_counts()
    counts = dict(found.iter_rows())
    return [counts.get(k, 0) for k in range(n)]


def test_a_day_of_factors_has_its_hours() -> None:
    factors = [1] * 8 + [4] * 8 + [1] * 8  # the mean is 2
    counts = by_window(drawn(2 * DAY, shape=factors), 3600 * S, 48)
    for hour, count in enumerate(counts):
        expected = 5 * 3600 * factors[hour % 24] / 2
        assert abs(count - expected) < 5 * expected**0.5, hour
    assert abs(sum(counts) - 5 * 2 * 86_400) < 5 * (5 * 2 * 86_400) ** 0.5


def test_a_demand_of_the_catalogue_is_followed_window_by_window() -> None:
    service = demand.load("m-large")
    counts = by_window(drawn(DAY, shape={"demand": "m-large", "start": "24 h"}), 600 * S, 144)
    expected = [600 * 5 * rate / service.mean_req_per_s for rate in service.rate_req_per_s[144:288]]
    z = [(count - mean) / mean**0.5 for count, mean in zip(counts, expected, strict=True)]
    assert max(map(abs, z)) < 5
    assert 0.7 < sum(v * v for v in z) / len(z) < 1.4  # poisson in each window


def test_regions_shift_the_peak() -> None:
    factors = [0.0] * 12 + [1.0] + [0.0] * 11  # all of it at 12 h
    regions = {"us": {"share": "60 %"}, "eu": {"share": "40 %", "shift": "6 h"}}
    counts = by_window(drawn(DAY, shape=factors, regions=regions), 3600 * S, 24)
    assert sum(counts) == counts[12] + counts[18]
    assert abs(counts[12] / sum(counts) - 0.6) < 0.01
    sooner = {"us": {"share": "60 %"}, "eu": {"share": "40 %", "shift": "-18 h"}}
    assert by_window(drawn(DAY, shape=factors, regions=sooner), 3600 * S, 24) == counts


def test_growth_compounds_from_the_begin() -> None:
    length = 365 * DAY
    frame = drawn(length, rate="0.01 req/s", growth="100 %")
    # Double in a year: 1 / ln 2 times the first instant's rate on average.
    expected = 0.01 * 365 * 86_400 / 0.693147
    assert abs(frame.height - expected) < 5 * expected**0.5
    first, last = by_window(frame, length // 12, 12)[0::11]
    assert 1.8 < last / first < 2.0  # 2^(11/12) = 1.89


@pytest.mark.parametrize(
    ("keys", "dispersion"),
    [
        ({"arrivals": "weibull", "burstiness": "3"}, 9.0),
        ({"arrivals": "gamma", "burstiness": "3"}, 9.0),
        ({"arrivals": "hawkes", "burst": {"size": "3", "decay": "200 ms"}}, 9.0),
        ({"arrivals": "poisson"}, 1.0),
    ],
)
def test_counts_of_long_windows_scatter_as_the_law_says(keys: dict[str, Any], dispersion: float) -> None:
    """A renewal process has the square of its CV, a self-exciting one the square of its bursts' size."""
    counts = by_window(drawn(4 * DAY, **keys), 120 * S, 4 * 720)
    mean = sum(counts) / len(counts)
    variance = sum((c - mean) ** 2 for c in counts) / (len(counts) - 1)
    assert abs(mean / 600 - 1) < 0.02
    assert abs(variance / mean / dispersion - 1) < 0.2


def test_seed_and_name_alone_decide() -> None:
    keys = {"arrivals": "hawkes", "burst": {"size": "4", "decay": "1 s"}, "shape": "m-small", "growth": "40 %"}
    assert drawn(600 * S, **keys).equals(drawn(600 * S, **keys))
    assert not drawn(600 * S, **keys).equals(drawn(600 * S, seed=2, **keys))
    short, long = drawn(300 * S, **keys), drawn(600 * S, **keys)
    assert long.head(short.height).equals(short)

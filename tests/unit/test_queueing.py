"""Closed forms of queueing theory: one replica, one request at a time, one answer token, so that service is one step.

Pollaczek and Khinchine: Poisson arrivals at rate r, service of mean s and second moment m2, load rho = r s: the mean
wait is r m2 / (2 (1 - rho)); with fixed service m2 = s^2, so rho s / (2 (1 - rho)).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from planner import core
from tests.deployments import cell, requests, toy

N_BATCHES = 40
T_99 = 2.708
"""Student's t with 39 degrees of freedom, 99.5 %: a two-sided interval of 99 %."""


def one_at_a_time() -> dict[str, Any]:
    return toy(max_batch=1, chunk_tokens=64)


def service_ns(tokens: int) -> int:
    """What one request of that prompt lasts on an idle replica."""
    got = core.simulate(cell(one_at_a_time()), requests([(0, 0, tokens, 1)]))
    assert got.requests is not None
    return int(got.requests["end_ns"][0])


def poisson(rate_req_per_s: float, n: int, tokens: list[int]) -> pl.DataFrame:
    length_ns = round(n / rate_req_per_s * 1e9)
    law = {"kind": "arrivals", "seed": 7, "key": 0, "law": "poisson", "rate_req_per_s": rate_req_per_s}
    times = core.sample(law | {"burstiness": None, "length_ns": length_ns})
    lengths = {"dist": "empirical", "tokens": tokens, "weights": None}
    drawn = core.sample(
        {"kind": "lengths", "seed": 7, "key": 0, "n": times.height, "input": lengths, "context_tokens": None}
        | {"output": {"dist": "fixed", "tokens": 1}}
    )
    return pl.concat([times, drawn.drop("redraws")], how="horizontal").with_columns(class_ix=pl.lit(0, dtype=pl.UInt16))


def waits_s(frame: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    got = core.simulate(cell(one_at_a_time(), length_ns=10**15, drain_ns=10**15, window_ns=10**12), frame)
    assert got.requests is not None
    return (got.requests["start_ns"] - got.requests["arrival_ns"]).to_numpy() / 1e9


def mean_and_half_width(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """The mean and half of its 99 % interval by batch means, after the first tenth as run-in."""
    batches = np.array_split(values[len(values) // 10 :], N_BATCHES)
    means = np.array([batch.mean() for batch in batches])
    return float(means.mean()), float(T_99 * means.std(ddof=1) / np.sqrt(N_BATCHES))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.85])
def test_fixed_service(load: float) -> None:
    service_s = service_ns(50) / 1e9
    mean_s, half_s = mean_and_half_width(waits_s(poisson(load / service_s, 200_000, [50])))
    expected_s = load * service_s / (2 * (1 - load))
    assert half_s < 0.1 * expected_s
    assert abs(mean_s - expected_s) < half_s


def test_two_kinds_of_service() -> None:
    long_s, short_s = service_ns(60) / 1e9, service_ns(2) / 1e9
    service_s, second_moment = (long_s + short_s) / 2, (long_s**2 + short_s**2) / 2
    rate = 0.7 / service_s
    mean_s, half_s = mean_and_half_width(waits_s(poisson(rate, 200_000, [2, 60])))
    expected_s = rate * second_moment / (2 * (1 - 0.7))
    assert half_s < 0.1 * expected_s
    assert abs(mean_s - expected_s) < half_s


def test_a_metronome_inside_capacity_never_waits() -> None:
    service = service_ns(50)
    frame = requests([(k * service, 0, 50, 1) for k in range(500)])
    assert (waits_s(frame) == 0).all()


def test_a_metronome_beyond_capacity_waits_its_turn() -> None:
    """The k-th arrival, at k T, finds k services of s before it: it waits k (s - T)."""
    service, gap = service_ns(50), service_ns(50) - 1234
    got = core.simulate(cell(one_at_a_time()), requests([(k * gap, 0, 50, 1) for k in range(500)]))
    assert got.requests is not None
    assert got.requests["start_ns"].to_list() == [k * service for k in range(500)]
    assert got.requests["end_ns"].to_list() == [(k + 1) * service for k in range(500)]

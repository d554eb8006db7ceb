"""Chip time, the four utilisations and the bottleneck, on frames with round figures."""

from __future__ import annotations

from typing import Any

import pytest

from planner.aggregate.utilisation import bottleneck, fractions, pool_figures, wait_frac
from planner.aggregate.work import chip_work, pool_sums, pool_windows, weights_rate
from tests.fleets import fleet, placed, pool, sketches, work

HOUR_S = 3600.0


def test_utilisations_are_weighted_by_chips() -> None:
    # One replica of 6 chips busy all the hour, one of 2 chips busy a quarter: (6 x 3600 + 2 x 900) / (8 x 3600).
    one = fleet(pool(deployments=[placed(n_chips=6), placed(n_chips=2)]))
    rows = work({"deployment_ix": 0, "busy_s": 3600}, {"deployment_ix": 1, "busy_s": 900})
    used = fractions(pool_sums(chip_work(rows, one), 0), placed_chips=8, span_s=HOUR_S)
    assert used["busy_frac"] == pytest.approx(0.8125)
    assert used["busy_frac"] != pytest.approx((1.0 + 0.25) / 2)


def test_each_utilisation_has_its_own_denominator() -> None:
    one = fleet(pool(deployments=[placed(kv_tokens=1000)]))
    rows = work(
        {
            "busy_s": 1800,  # half of the hour
            "down_s": 720,  # a fifth of it, whatever ran meanwhile
            "flop": 0.1 * 8 * 400e12 * 3600,  # a tenth of the fp4 rate of 8 chips
            "bytes": 0.3 * 8 * 1e12 * 3600,  # three tenths of 8 TB/s
            "kv_token_s": 0.7 * 1000 * 3600,  # 700 of 1,000 tokens
        }
    )
    used = fractions(pool_sums(chip_work(rows, one), 0), placed_chips=8, span_s=HOUR_S)
    assert used == pytest.approx({"busy_frac": 0.5, "mfu_frac": 0.1, "mbu_frac": 0.3, "kv_frac": 0.7, "down_frac": 0.2})


def test_kv_occupancy_counts_every_replica() -> None:
    one = fleet(pool(deployments=[placed(n_replicas=2, n_chips=4, kv_tokens=500)]))
    rows = work({"kv_token_s": 2 * 500 * 3600})  # both caches full
    used = fractions(pool_sums(chip_work(rows, one), 0), placed_chips=8, span_s=HOUR_S)
    assert used["kv_frac"] == pytest.approx(1.0)


def test_no_chips_under_a_replica_have_no_utilisation() -> None:
    none = pool_sums(chip_work(work().clear(), fleet(pool(n_racks=0))), 0)
    assert set(fractions(none, placed_chips=0, span_s=HOUR_S).values()) == {None}
    assert set(fractions(none, placed_chips=8, span_s=0.0).values()) == {None}


@pytest.mark.parametrize(
    ("spec", "rate"),
    [
        ({}, 400e12),  # a mixture: its experts compute in fp4
        ({"moe": None}, 100e12),  # dense: everything is the rest, in bf16
        ({"moe": None, "precision": {"rest_rate": "fp8"}}, 200e12),
    ],
)
def test_the_rate_is_that_of_the_bulk_of_the_weights(spec: dict[str, Any], rate: float) -> None:
    assert weights_rate(placed(**spec).spec) == rate


def test_windows_are_those_of_all_deployments() -> None:
    one = fleet(pool("a", [placed("a", n_chips=4), placed("a", n_chips=2)]), pool("b", [placed("b")]))
    rows = work(
        {"deployment_ix": 0, "window_ix": 3, "busy_s": 10, "input_tokens": 5},
        {"deployment_ix": 0, "window_ix": 9, "busy_s": 20},
        {"deployment_ix": 1, "window_ix": 3, "busy_s": 30, "input_tokens": 7},
        {"deployment_ix": 2, "window_ix": 4, "busy_s": 1},
    )
    windows = pool_windows(chip_work(rows, one), 0)
    assert windows.window_ix.tolist() == [3, 9]
    assert windows.sums["busy_chip_s"].tolist() == [10 * 4 + 30 * 2, 20 * 4]
    assert windows.sums["input_tokens"].tolist() == [12, 0]


def sums(**of: float) -> dict[str, float]:
    zero = dict.fromkeys(
        [
            "busy_chip_s",
            "memory_chip_s",
            "compute_chip_s",
            "network_chip_s",
            "launch_chip_s",
            "power_chip_s",
            "input_tokens",
            "recomputed_tokens",
        ],
        0.0,
    )
    return zero | of


USED: dict[str, float | None] = {"busy_frac": 0.9, "kv_frac": 0.3, "mfu_frac": 0.1, "mbu_frac": 0.5}


@pytest.mark.parametrize(
    ("work_sums", "used", "waited", "word"),
    [
        (sums(), USED, None, "none"),
        (sums(busy_chip_s=9, memory_chip_s=5, compute_chip_s=4), USED, 0.1, "memory"),
        (sums(busy_chip_s=9, memory_chip_s=3, compute_chip_s=4), USED, 0.1, "compute"),
        (sums(busy_chip_s=9, network_chip_s=3, launch_chip_s=2), USED, 0.1, "network"),
        (sums(busy_chip_s=9, launch_chip_s=3, memory_chip_s=2), USED, None, "launch"),
        (sums(busy_chip_s=9, power_chip_s=3, memory_chip_s=2), USED, 0.1, "power"),
        (sums(busy_chip_s=9, memory_chip_s=5), USED, 0.6, "queue"),
        (sums(busy_chip_s=9, memory_chip_s=5), USED | {"busy_frac": 0.4}, 0.6, "memory"),
        (sums(busy_chip_s=9, memory_chip_s=5), USED | {"kv_frac": 0.95}, 0.6, "kv"),
        (sums(busy_chip_s=9, memory_chip_s=5), USED | {"kv_frac": 0.95}, 0.1, "memory"),
        (sums(busy_chip_s=9, memory_chip_s=5, input_tokens=990, recomputed_tokens=10), USED, 0.1, "kv"),
        (sums(busy_chip_s=9, memory_chip_s=5, input_tokens=999, recomputed_tokens=1), USED, 0.1, "memory"),
    ],
)
def test_bottleneck(
    work_sums: dict[str, float], used: dict[str, float | None], waited: float | None, word: str
) -> None:
    assert bottleneck(work_sums, used, waited) == word


def test_waiting_is_of_the_pools_own_requests() -> None:
    kept = sketches({(0, 0, "queue"): [0.3], (0, 0, "ttft"): [0.4], (0, 1, "queue"): [0.0], (0, 1, "ttft"): [0.1]})
    assert wait_frac(kept, 0) == pytest.approx(0.75)
    assert wait_frac(kept, 1) == 0.0
    assert wait_frac(kept, 2) is None


def test_tokens_recomputed_are_not_counted_again() -> None:
    one = fleet(pool(deployments=[placed()]))
    rows = work({"busy_s": 10, "input_tokens": 2048, "recomputed_tokens": 1008, "output_tokens": 100})
    figures = pool_figures(pool_sums(chip_work(rows, one), 0), placed_chips=8, span_s=100.0, waited_frac=None)
    assert figures["tokens_per_s_in"] == 20.48
    assert figures["tokens_per_s_out"] == 1.0

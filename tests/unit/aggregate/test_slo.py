"""Limits, attainment and verdicts: everything offered is in the denominator."""

from __future__ import annotations

from typing import Any

import pytest

from planner import core
from planner.aggregate import latency, slo
from planner.aggregate.latency import latencies
from planner.aggregate.slo import Counts
from planner.scenario.schema import Slo
from tests.fleets import sketches


def limits(**metrics: dict[str, str]) -> Slo:
    return Slo.model_validate(metrics)


def judged(values: dict[tuple[int, int, str], list[float]], counts: Counts, of: Slo) -> list[dict[str, Any]]:
    return slo.judged_limits(sketches(values), 0, counts, of)


def test_c39_the_denominator_is_what_was_offered() -> None:
    # 100 arrivals: 80 inside, 10 late, 6 dropped, 4 unfinished: 80 %, not 80/90.
    counts = Counts(offered=100, completed=90, attained=80, single_token=0)
    assert slo.attainment(counts, limits(ttft={"p95": "1 s"})) == 0.8
    # Class B has no limits: nothing to attain, and no verdict that could be blended in.
    assert slo.attainment(counts, None) is None
    assert slo.verdict({"limits": [], "offered": 50, "attainment_frac": None, "attainment_limit_frac": None}) is None
    assert slo.attainment(Counts(0, 0, 0, 0), limits(ttft={"p95": "1 s"})) is None


def test_one_without_a_value_is_beyond_every_limit() -> None:
    # 90 of 100 got a first token, 1..90 ms: rank of p50 is 49.5 (50.5 ms), of p89 88.11, of p95 94.05: nobody is there.
    counts = Counts(offered=100, completed=90, attained=90, single_token=0)
    values = {(0, 0, "ttft"): [n / 1000 for n in range(1, 91)]}
    p50, p95 = judged(values, counts, limits(ttft={"p50": "60 ms", "p95": "10 s"}))
    assert p50 == {
        "metric": "ttft",
        "quantile": "p50",
        "limit": 0.06,
        "value": pytest.approx(0.0505),
        "margin_frac": pytest.approx((0.06 - 0.0505) / 0.06),
        "met": True,
    }
    assert (p95["value"], p95["margin_frac"], p95["met"]) == (None, None, False)


def test_metrics_are_numbered_as_in_the_core() -> None:
    assert latency.METRICS == core.METRICS


def test_the_class_quantile_is_of_those_that_have_a_value() -> None:
    kept = sketches({(0, 0, "ttft"): [n / 1000 for n in range(1, 91)]})
    assert latencies(kept, 2)[0]["ttft_s"]["p95"] == pytest.approx(0.001 + 0.95 * 0.089)
    assert set(latencies(kept, 2)[1]["ttft_s"].values()) == {None}


def test_c41_quantiles_are_of_the_merged_values() -> None:
    # Two pools: 99 x 100 ms and 200; 9 x 100 ms and 5000. Rank 107.91 of 110: 100 + 0.91 x 100 = 191 ms.
    kept = sketches({(0, 0, "e2e"): [0.1] * 99 + [0.2], (0, 1, "e2e"): [0.1] * 9 + [5.0]})
    assert latencies(kept, 1)[0]["e2e_s"]["p99"] == pytest.approx(0.191)
    counts = Counts(offered=110, completed=110, attained=110, single_token=0)
    (row,) = slo.judged_limits(kept, 0, counts, limits(e2e={"p99": "191 ms"}))
    assert row["value"] == pytest.approx(0.191)


@pytest.mark.parametrize("n", [1, 2, 10, 99, 100])
def test_p99_by_linear_interpolation(n: int) -> None:
    kept = sketches({(0, 0, "ttft"): [float(k) for k in range(1, n + 1)]})
    assert latencies(kept, 1)[0]["ttft_s"]["p99"] == pytest.approx(1 + 0.99 * (n - 1))


def test_tpot_of_one_token_is_inside() -> None:
    # 97 requests of one token, three slow ones: p95 (rank 94.05) has no TPOT and is inside, p99 (98.01) is 3.01 s.
    counts = Counts(offered=100, completed=100, attained=97, single_token=97)
    values = {(0, 0, "tpot"): [2.0, 3.0, 4.0]}
    p95, p99 = judged(values, counts, limits(tpot={"p95": "1 s", "p99": "1 s"}))
    assert (p95["value"], p95["margin_frac"], p95["met"]) == (None, None, True)
    assert (p99["value"], p99["met"]) == (pytest.approx(3.01), False)


def test_between_one_token_and_the_least_tpot() -> None:
    # Rank 0.95 x 99 = 94.05 lies between the last of 95 requests without a TPOT (94) and the first with one (95).
    counts = Counts(offered=100, completed=100, attained=100, single_token=95)
    values = {(0, 0, "tpot"): [2.0, 3.0, 4.0, 5.0, 6.0]}
    for limit, met in (("2 s", True), ("1.9 s", False)):
        (row,) = judged(values, counts, limits(tpot={"p95": limit}))
        assert (row["value"], row["met"]) == (2.0, met)


def test_just_above_one_token_the_quantile_lies_between_two_values() -> None:
    # Rank 0.5 x 3 = 1.5 of one without a TPOT and 2, 3, 4 s: halfway from 2 to 3.
    counts = Counts(offered=4, completed=4, attained=4, single_token=1)
    (row,) = judged({(0, 0, "tpot"): [2.0, 3.0, 4.0]}, counts, limits(tpot={"p50": "1 s"}))
    assert row["value"] == pytest.approx(2.5)


def test_nobody_finished_behind_those_of_one_token() -> None:
    counts = Counts(offered=100, completed=95, attained=95, single_token=95)
    (row,) = judged({}, counts, limits(tpot={"p95": "1 s"}))
    assert (row["value"], row["met"]) == (None, False)


def test_gaps_are_pooled_over_tokens() -> None:
    # Two requests, 1,000 gaps: the quantile is over the gaps, not over the two requests.
    counts = Counts(offered=2, completed=2, attained=2, single_token=0)
    gaps = {(0, 0, "itl"): [0.01] * 980 + [0.5] * 20}
    p90, p99 = judged(gaps, counts, limits(itl={"p90": "20 ms", "p99": "20 ms"}))
    assert (p90["value"], p90["met"]) == (0.01, True)
    assert p99["met"] is False
    (none,) = judged({}, Counts(2, 2, 2, single_token=2), limits(itl={"p95": "20 ms"}))
    assert (none["value"], none["met"]) == (None, True)
    (lost,) = judged({}, Counts(2, 0, 0, single_token=0), limits(itl={"p95": "20 ms"}))
    assert (lost["value"], lost["met"]) == (None, False)


def test_a_value_on_the_limit_is_inside() -> None:
    counts = Counts(offered=3, completed=3, attained=3, single_token=0)
    (row,) = judged({(0, 0, "ttft"): [0.5, 0.5, 0.5]}, counts, limits(ttft={"p95": "500 ms"}))
    assert (row["met"], row["margin_frac"]) == (True, 0.0)


def test_nothing_offered_is_unknown() -> None:
    rows = judged({}, Counts(0, 0, 0, 0), limits(ttft={"p95": "1 s"}))
    assert [row["met"] for row in rows] == [None]
    figures = {"limits": rows, "offered": 0, "attainment_frac": None, "attainment_limit_frac": 0.99}
    assert slo.verdict(figures) == "unknown"
    assert slo.n_missed(figures) == 0


@pytest.mark.parametrize(
    ("reached", "asked", "met", "word", "missed"),
    [
        (0.99, 0.99, True, "met", 0),
        (0.9899, 0.99, True, "missed", 1),
        (0.5, None, True, "met", 0),
        (1.0, 0.99, False, "missed", 1),
        (0.5, 0.99, False, "missed", 2),
    ],
)
def test_verdict(reached: float, asked: float | None, met: bool, word: str, missed: int) -> None:
    limit = {"met": met, "margin_frac": 0.1}
    figures = {"limits": [limit], "offered": 9, "attainment_frac": reached, "attainment_limit_frac": asked}
    assert slo.verdict(figures) == word
    assert slo.n_missed(figures) == missed


def test_the_mean_over_seeds_decides() -> None:
    rows = [{"value": value, "limit": 1.0, "met": value <= 1.0} for value in (0.5, 0.9, 1.3)]
    assert slo.means_judged(rows, {"value": 0.9, "limit": 1.0})["met"] is True
    beyond = [{"value": 0.5, "limit": 1.0, "met": True}, {"value": None, "limit": 1.0, "met": False}]
    assert slo.means_judged(beyond, {"value": None, "limit": 1.0})["met"] is False
    below = [{"value": None, "limit": 1.0, "met": True}] * 2
    assert slo.means_judged(below, {"value": None, "limit": 1.0})["met"] is True


def test_several_classes_in_one_word() -> None:
    assert slo.verdict_of_all(["met", None, "missed", "unknown"]) == "missed"
    assert slo.verdict_of_all(["met", "unknown"]) == "unknown"
    assert slo.verdict_of_all(["met", None]) == "met"
    assert slo.verdict_of_all([None]) is None

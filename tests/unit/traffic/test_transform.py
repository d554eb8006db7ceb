"""A trace made faster, denser, longer, shorter: what changes and what must not."""

from __future__ import annotations

import polars as pl
import pytest

from planner.errors import TrafficError
from planner.traffic import transform
from planner.traffic.transform import begun_at, copies, cut, faster, idle_cap, repeat

S = 10**9


def requests(*seconds: float) -> pl.DataFrame:
    n = len(seconds)
    return pl.DataFrame(
        {"arrival_ns": [round(s * S) for s in seconds], "input_tokens": range(1, n + 1), "output_tokens": [1] * n},
        schema={"arrival_ns": pl.Int64, "input_tokens": pl.UInt32, "output_tokens": pl.UInt32},
    )


def arrivals(frame: pl.DataFrame) -> list[float]:
    return [ns / S for ns in frame["arrival_ns"].to_list()]


def test_speed_divides_gaps_and_keeps_requests() -> None:
    # 0, 10, 30 s at double speed: 0, 5, 15; the mean rate doubles, the spread of the gaps stays.
    assert arrivals(faster(requests(0, 10, 30), 2.0)) == [0, 5, 15]
    assert arrivals(faster(requests(0, 10, 30), 0.5)) == [0, 20, 60]
    assert faster(requests(0, 10, 30), 1.0).equals(requests(0, 10, 30))


def test_speed_is_exact_for_long_traces_and_odd_factors() -> None:
    nine_days = 777_601_500_000_001
    frame = pl.DataFrame({"arrival_ns": [0, nine_days]})
    assert faster(frame, 0.1)["arrival_ns"][1] == 10 * nine_days
    assert faster(frame, 3.0)["arrival_ns"][1] == (nine_days + 1) // 3  # to the nearest nanosecond


def test_idle_times_are_cut_on_the_new_clock() -> None:
    trace = requests(0, 1, 2, 3, 777_600, 777_601, 777_601.5)
    assert arrivals(idle_cap(trace, None)) == arrivals(trace)
    assert arrivals(idle_cap(trace, 60 * S)) == [0, 1, 2, 3, 63, 64, 64.5]
    # (3 + 1.5) / 10 + min(777,597 / 10, 60) = 60.45
    assert arrivals(idle_cap(faster(trace, 10.0), 60 * S))[-1] == 60.45


def test_copies_are_turned_round_the_span() -> None:
    trace = requests(0, 10, 30)
    span_ns = 30 * S + 1
    three = copies(trace, 3.0, span_ns=span_ns, key=1, seed=1)
    assert three.height == 9
    assert three["arrival_ns"].is_sorted()
    assert three["arrival_ns"].max() < span_ns
    assert {0, 10 * S, 30 * S} <= set(three["arrival_ns"].to_list())  # the first as recorded
    assert three["input_tokens"].value_counts()["count"].to_list() == [3, 3, 3]
    # Each copy keeps its gaps on the circle: 10, 20 and 1 ns.
    others = copies(trace, 2.0, span_ns=span_ns, key=1, seed=1)
    turned = sorted(set(others["arrival_ns"].to_list()) - {0, 10 * S, 30 * S})
    gaps = sorted((b - a) % span_ns for a, b in zip(turned, [*turned[1:], turned[0]], strict=True))
    assert gaps == [1, 10 * S, 20 * S]


def test_a_copy_depends_on_seed_key_and_its_number_only() -> None:
    trace = requests(*range(50))
    args = {"span_ns": 49 * S + 1, "key": 1, "seed": 1}
    two, five = copies(trace, 2.0, **args), copies(trace, 5.0, **args)
    assert set(two["arrival_ns"].to_list()) <= set(five["arrival_ns"].to_list())
    assert copies(trace, 5.0, **args).equals(five)
    assert not copies(trace, 5.0, **(args | {"seed": 2})).equals(five)
    assert not copies(trace, 5.0, **(args | {"key": 2})).equals(five)


def test_a_fraction_is_a_thinned_copy() -> None:
    trace = requests(*range(1000))
    args = {"span_ns": 999 * S + 1, "key": 1, "seed": 1}
    few = copies(trace, 0.25, **args)
    assert 200 < few.height < 300
    assert set(few["arrival_ns"].to_list()) <= set(trace["arrival_ns"].to_list())  # thinned, not turned
    more = copies(trace, 2.25, **args)
    assert 2200 < more.height < 2300
    assert copies(trace, 1.0, **args).equals(trace)


def test_a_trace_begun_later_goes_on_with_what_was_before() -> None:
    trace = requests(0, 10, 30)
    span_ns = 40 * S
    assert begun_at(trace, 0, span_ns).equals(trace)
    later = begun_at(trace, 10 * S, span_ns)
    assert arrivals(later) == [0, 20, 30]
    assert later["input_tokens"].to_list() == [2, 3, 1]
    assert arrivals(begun_at(trace, 11 * S, span_ns)) == [19, 29, 39]
    for start_ns in (10 * S + 3 * span_ns, 10 * S - span_ns):  # a later turn, and one before the first
        assert begun_at(trace, start_ns, span_ns).equals(later)
    # Repeated, it is the repeated trace from there on.
    again = repeat(trace, span_ns, 200 * S)["arrival_ns"].to_list()
    assert (
        repeat(later, span_ns, 100 * S)["arrival_ns"].to_list()[:7] == [at - 10 * S for at in again if at >= 10 * S][:7]
    )


def test_repeat_starts_again_after_the_span() -> None:
    again = repeat(requests(0, 10, 30), 30 * S + 1, 70 * S)
    assert [ns - S * (ns // S) for ns in again["arrival_ns"].to_list()] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert again["arrival_ns"].is_sorted()
    assert arrivals(cut(again, 45 * S))[:4] == [0, 10, 30, 30.000000001]
    assert cut(again, 45 * S).height == 5


def test_cut_keeps_the_instant_itself() -> None:
    assert arrivals(cut(requests(0, 10, 30), 10 * S)) == [0, 10]


def test_more_than_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform, "MAX_REQUESTS", 5)
    with pytest.raises(TrafficError, match="lower scale or rate"):
        copies(requests(0, 1), 3.0, span_ns=2 * S, key=1, seed=1)
    with pytest.raises(TrafficError, match="at most 5"):
        repeat(requests(0, 1), 2 * S, 100 * S)

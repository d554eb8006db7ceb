"""Watts on three bases, worked out by hand."""

from __future__ import annotations

import pytest

from planner.aggregate.inputs import Span
from planner.aggregate.power import Book, PoolPower, draws, pool_power, rated_chips_w
from planner.aggregate.work import chip_work, pool_sums, pool_windows
from planner.fleet.fleet import Fleet
from tests.fleets import NS, chip, fact, fleet, no_windows, placed, pool, rack, work

HOUR = Span(warmup_ns=0, length_ns=3600 * NS, window_ns=600 * NS)


def powers(of: Fleet, deployments: object, windows: object = None, span: Span = HOUR) -> list[PoolPower]:
    rows = chip_work(deployments, of)
    by_window = chip_work(no_windows() if windows is None else windows, of)
    return [
        pool_power(each, pool_sums(rows, ix), pool_windows(by_window, ix), span) for ix, each in enumerate(of.pools)
    ]


def test_pue_once_and_idle_watts_always() -> None:
    # C47: 10 racks, 80 kW busy and 30 kW idle, busy 40 % of an hour: 10 x (32 + 18) = 500 kWh IT, x 1.2 = 600 kWh.
    racks = pool(
        of_rack=rack(idle_w=30e3, typical_w=80e3, rated_w=90e3), n_racks=10, deployments=[placed(n_replicas=10)]
    )
    busy_s = 0.4 * 3600 * 10  # ten replicas of a rack each
    steps = work({"busy_s": busy_s, "decode_s": busy_s, "decode_j": busy_s * 8 * 500})
    drawn = draws(powers(fleet(racks), steps), fleet(racks), HOUR, Book())
    assert drawn["rack_it_w"]["mean"] == pytest.approx(500e3)
    assert drawn["facility_w"]["mean"] == pytest.approx(600e3)
    assert drawn["facility_w"]["mean"] not in [pytest.approx(720e3), pytest.approx(384e3), pytest.approx(960e3)]


def test_the_rest_of_a_rack_is_linear_through_idle_and_typical() -> None:
    # Rest at idle 2000 - 8 x 100 = 1200 W, at high load 6000 - 8 x 500 = 2000 W; half way the chips draw 2400 W, the
    # rest 1600 W, the rack 4000 W.
    one = fleet(pool(deployments=[placed()]))
    for joules, watts in ((0.0, 2000.0), (3600 * 8 * 300.0, 4000.0), (3600 * 8 * 500.0, 6000.0)):
        busy_s = 3600.0 if joules else 0.0
        drawn = draws(powers(one, work({"busy_s": busy_s, "decode_s": busy_s, "decode_j": joules})), one, HOUR, Book())
        assert drawn["rack_it_w"]["mean"] == pytest.approx(watts)


def test_a_rack_draws_at_most_what_it_is_rated_for() -> None:
    one = fleet(pool(deployments=[placed()]))
    hot = work({"busy_s": 3600, "decode_s": 3600, "decode_j": 3600 * 8 * 800.0})
    assert draws(powers(one, hot), one, HOUR, Book())["rack_it_w"]["mean"] == 8000.0


def test_parked_and_idle_chips_draw_what_they_draw() -> None:
    # Four chips under a parked replica at 200 W, four idle ones at 100 W: 1200 W of chips; the rest is linear.
    one = fleet(pool(deployments=[placed(n_chips=4)], of_chip=chip(parked_w=200.0)))
    drawn = draws(powers(one, work({})), one, HOUR, Book())
    assert drawn["rack_it_w"]["mean"] == pytest.approx(1200 + 1200 + (1200 - 800) * 800 / 3200)


def test_a_replica_that_is_down_draws_idle_power_and_one_that_drains_its_steps() -> None:
    # Parked 200 W, idle 100 W. Down for half the hour, of which it drained for 360 s with steps of 300 W a chip:
    # 8 x (360 x 300 + 1440 x 100 + 1800 x 200) / 3600 = 1360 W of chips; the rest 1200 W and 800/3200 of what is beyond
    # idle.
    one = fleet(pool(deployments=[placed()], of_chip=chip(parked_w=200.0)))
    rows = work({"down_s": 1800, "off_s": 1440, "busy_s": 360, "decode_s": 360, "decode_j": 360 * 8 * 300.0})
    drawn = draws(powers(one, rows), one, HOUR, Book())
    assert drawn["rack_it_w"]["mean"] == pytest.approx(1360 + 1200 + (1360 - 800) * 800 / 3200)
    # Down all the time it draws what chips under no replica draw.
    off = draws(powers(one, work({"down_s": 3600, "off_s": 3600})), one, HOUR, Book())["rack_it_w"]["mean"]
    bare = fleet(pool(of_chip=chip(parked_w=200.0)))
    assert off == draws(powers(bare, work().clear()), bare, HOUR, Book())["rack_it_w"]["mean"]


def test_eight_chips_draw_eight_times_one() -> None:
    one, eight = (
        fleet(
            pool(
                deployments=[placed(n_chips=n)],
                of_rack=rack(n_chips=n, idle_w=250.0 * n, typical_w=750.0 * n, rated_w=1e3 * n),
            )
        )
        for n in (1, 8)
    )
    means = [
        draws(powers(of, work({"busy_s": 900, "decode_s": 900, "decode_j": 900 * n * 400.0})), of, HOUR, Book())
        for of, n in ((one, 1), (eight, 8))
    ]
    assert means[1]["rack_it_w"]["mean"] == pytest.approx(8 * means[0]["rack_it_w"]["mean"])
    assert rated_chips_w(eight.pools[0]) == 8 * rated_chips_w(one.pools[0]) == 4800


def test_peak_is_the_highest_window_inside_the_span() -> None:
    span = Span(warmup_ns=300 * NS, length_ns=3300 * NS, window_ns=600 * NS)  # windows 1..4 lie inside
    one = fleet(pool(deployments=[placed()]))
    rows = [
        {"window_ix": 0, "decode_s": 600, "decode_j": 600 * 8 * 500.0},  # warm-up reaches into it
        {"window_ix": 2, "decode_s": 300, "decode_j": 300 * 8 * 500.0},  # half busy: chips 2400 W, rack 4000 W
        {"window_ix": 5, "decode_s": 600, "decode_j": 600 * 8 * 500.0},  # the run ends in it
    ]
    whole = work({"decode_s": 300, "decode_j": 300 * 8 * 500.0})
    drawn = draws(powers(one, whole, work(*rows), span), one, span, Book())
    assert drawn["rack_it_w"]["peak"] == pytest.approx(4000.0)
    assert drawn["rack_it_w"]["mean"] == pytest.approx(2000 + 0.1 * 4000)


def test_the_fleets_peak_is_of_one_window() -> None:
    # Two pools peak in different windows: together 6000 + 2000, not 6000 + 6000.
    two = fleet(pool("a", [placed("a")]), pool("b", [placed("b")]))
    busy = {"decode_s": 600, "decode_j": 600 * 8 * 500.0}
    rows = work({"deployment_ix": 0, "window_ix": 1, **busy}, {"deployment_ix": 1, "window_ix": 3, **busy})
    whole = work({"deployment_ix": 0, **busy}, {"deployment_ix": 1, **busy})
    found = powers(two, whole, rows)
    assert draws(found, two, HOUR, Book())["rack_it_w"]["peak"] == pytest.approx(8000.0)
    assert [draws([one], two, HOUR, Book())["rack_it_w"]["peak"] for one in found] == pytest.approx([6000.0, 6000.0])


def test_a_run_shorter_than_a_window_peaks_at_its_mean() -> None:
    short = Span(warmup_ns=0, length_ns=10 * NS, window_ns=60 * NS)
    one = fleet(pool(deployments=[placed()]))
    rows = work({"window_ix": 0, "decode_s": 5, "decode_j": 5 * 8 * 500.0})
    drawn = draws(powers(one, rows.drop("window_ix"), rows, short), one, short, Book())
    assert drawn["rack_it_w"]["peak"] == drawn["rack_it_w"]["mean"] == pytest.approx(4000.0)


def test_no_racks_draw_nothing() -> None:
    none = fleet(pool(n_racks=0))
    assert draws(powers(none, work().clear()), none, HOUR, Book()) == {
        "rack_it_w": {"mean": 0.0, "peak": 0.0},
        "facility_w": {"mean": 0.0, "peak": 0.0},
    }


def test_a_book_changes_a_fact_and_remembers_what_was_read() -> None:
    pue = fact(1.2, "site.pue")
    book = Book({pue.path: 1.5})
    assert book(pue) == 1.5
    assert list(book.read) == [pue]

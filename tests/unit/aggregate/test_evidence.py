"""Swings of facts, one at a time, with the simulation held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.aggregate.evidence import assumed_frac, fact_row, facts_of, swing_rows, swings
from planner.aggregate.power import Book
from planner.facts import catalog
from planner.facts.fact import Fact
from tests.fleets import fact

PRICE = fact(10.0, "price", low=8.0, high=14.0, grade="vendor")
COUNT = Fact(None, low=1.0, high=3.0, default=2.0, grade="undisclosed", path="count", kind="ratio")
FIXED = fact(5.0, "fixed", grade="assumed")


def cost(book: Book) -> dict[str, float | None]:
    return {"usd": book(PRICE) * book(COUNT) + book(FIXED)}


def test_swings_by_hand() -> None:
    # Price 8..14 at 2: 21..33, swing 12. Count 1..3 at 10: 15..35, swing 20. Fixed has no range.
    found = {swing.fact.path: swing for swing in swings(cost).of("usd")}
    assert (found["price"].low, found["price"].high) == (21.0, 33.0)
    assert {path: swing.swing for path, swing in found.items()} == {
        "price": 12.0,
        "count": 20.0,
        "fixed": 0.0,
    }
    assert assumed_frac(list(found.values())) == pytest.approx(20 / 32)


def test_nothing_that_swings_has_no_share() -> None:
    assert assumed_frac(swings(lambda book: {"usd": book(FIXED)}).of("usd")) is None


def test_one_fact_used_twice_swings_once() -> None:
    both = swings(lambda book: {"usd": book(PRICE) + 2 * book(replace(PRICE))})
    assert [swing.swing for swing in both.of("usd")] == [18.0]


def test_half_a_range_swings_from_the_value() -> None:
    up = fact(10.0, "up", high=12.0)
    (swing,) = swings(lambda book: {"usd": book(up)}).of("usd")
    assert (swing.low, swing.high, swing.swing) == (10.0, 12.0, 2.0)


def test_a_swing_that_turns_counts_its_whole_way() -> None:
    # The value in use gives 0, both ends give -2.
    bent = fact(10.0, "bent", low=8.0, high=12.0)
    (swing,) = swings(lambda book: {"usd": -abs(book(bent) - 10.0)}).of("usd")
    assert swing.swing == 2.0


def test_a_figure_that_does_not_exist_has_no_swing() -> None:
    assert swings(lambda book: {"usd": None if book(PRICE) else 0.0}).of("usd") == []


def test_rows_keep_the_chain() -> None:
    (row,) = [fact_row(swing.fact, swing) for swing in swings(cost).of("usd") if swing.fact is COUNT]
    assert row["value"] == 2.0
    assert row["is_assumed"] is True
    assert row["swing_usd_per_h"] == 20.0
    text = fact_row(Fact("liquid", path="racks.x.cooling"))
    assert (text["value"], text["value_text"], text["swing_usd_per_h"]) == (None, "liquid", None)


def test_facts_of_a_chip_are_all_of_them() -> None:
    paths = [one.path for one in facts_of(catalog.load().chip("h100-sxm"))]
    assert "chips.h100-sxm.flop_per_s.bf16" in paths
    assert "chips.h100-sxm.scale_up.bytes_per_s" in paths
    assert len(paths) == len(set(paths))


def test_rows_of_what_moves_a_figure_widest_first_and_no_others() -> None:
    small = fact(1.0, "small", low=0.9, high=1.1)

    def two(book: Book) -> dict[str, float | None]:
        return {"usd": cost(book)["usd"], "kwh": book(small) * 1.0}

    rows = list(swing_rows(swings(two)))
    # usd: count 20, price 12, then what has no range and moves it; kwh: 0.2 of its own fact, and nothing else.
    assert [(row["figure"], row["path"]) for row in rows] == [
        ("usd", "count"),
        ("usd", "price"),
        ("usd", "fixed"),
        ("kwh", "small"),
    ]
    assert [row["swing"] for row in rows] == [20.0, 12.0, None, pytest.approx(0.2)]

"""The plan as text and on the page: every period, purchase, limit and fixed fleet is there; names are escaped."""

from __future__ import annotations

from typing import Any

import polars as pl

from planner.aggregate.result import Result
from planner.report.plan_section import plan
from planner.report.plan_text import plan_report


def _period(name: str, start: float, buy: int, stands: int) -> dict[str, Any]:
    return {
        "name": name,
        "start": "2027-01-01" if start else None,
        "start_years": start,
        "years": 1.0,
        "buy": {"a<b": buy, "none": 0},
        "fleet": {"a<b": stands, "none": 0},
        "carved": {"a<b": {"pool": "a<b", "racks": stands, "per_rack": {"m x8": 8}}},
        "routes": {"chat": {"a<b": 1.0}},
        "shares": {"chat": {"chat by a<b": 1.0}},
        "demand_req_per_s": {"peak": {"chat": 100.0}, "mean": {"chat": 50.0}},
        "capacity_req_per_s": {"chat": 125.0},
        "usd_per_year": 3e6,
        "tco_usd": 2.7e6,
        "capex_usd": 1e6 * buy,
        "parts_usd_per_year": {"racks": 2e6, "energy": 1e6, "rent": None},
        "power_w": {"provisioned": 2e5, "peak": 1.5e5, "mean": 1e5},
    }


def _result(**changes: Any) -> Result:
    limit = {"metric": "ttft", "quantile": "p95", "value": 0.1, "limit": 0.5, "met": True}
    tree = {
        "title": "T",
        "pools": {"a<b": {}},
        "classes": {"chat": {"limits": [limit]}},
        "checks": [{"label": "5 % kept free", "verdict": "met"}],
        "requests": {"completed": 9},
        "cost": {"usd_per_mtok_out_whole": 0.5, "usd_per_h": 300.0},
        "fleet": {"facility_w": {"mean": 1e5}},
        "interval": {"over": None},
        "evidence": {"assumed_frac": 0.61},
        "run": {"seed": 1},
    }
    made = {
        "tco_usd": 5.4e6,
        "capex_usd": 3e6,
        "horizon_years": 2.0,
        "verified": True,
        "stopped": False,
        "gap_frac": 0.0005,
        "simulated": 4,
        "cheaper_tried": 2,
        "cheaper_left": True,
        "shown": "one.peak",
        "periods": [_period("one", 0.0, 2, 2), _period("two", 1.0, 1, 3)],
        "fixed_fleets": {"all_x": 6.48e6, "all_y": None},
        "fixed_racks": {"all_x": {"x": 4}, "all_y": {}},
        "fixed_reasons": {"all_y": "not within the budget"},
        "binding": [
            {"limit": "power limit", "unit": "1 MW", "one_more": -1.2e6, "one_less": None, "lp_dual_per_unit": -9e5}
        ],
        "runner_ups": [{"racks": {"a<b": 4}, "more": 5e4, "more_frac": 0.01}],
    } | changes
    facts = pl.DataFrame(
        [("one.peak", 1, "racks.r.capex_usd", 3.5e5, 1.6e6, "usd_per_rack", 9.0)],
        schema=["variant", "seed", "path", "low", "high", "unit", "swing_usd_per_h"],
        orient="row",
    )
    return Result({"one.peak": tree}, {"facts": facts}, {}, plan=made)


def test_the_page_shows_the_schedule_demand_money_and_what_limits_are_worth() -> None:
    html = plan(_result())
    assert html is not None
    assert "a&lt;b" in html
    assert "<b, " not in html
    for words in (
        "3 (+1)",
        "Order 2 a&lt;b for one, 1 a&lt;b for two.",
        "At one.peak it costs",
        ">61.0 %</data> of the swing of this cost is of facts that are assumed or undisclosed",
        "racks.r.capex_usd",
        ">1.60 MUSD/rack<",
        "cheaper ones may be left",
        "2027-01-01",
        "80.0 %",
        "all_x",
        "+20.0 %",
        "not within the budget",
        "no plan",
        "66.7 %",
    ):
        assert words in html, words
    assert "NOT verified" in (plan(_result(verified=False)) or "")
    assert plan(Result({}, {}, {})) is None


def test_regret_is_shown_where_it_was_asked_for() -> None:
    regret = [{"name": "the plan", "expected_usd": 5e6, "cvar_usd": 6e6, "worst_regret_usd": 1e5}]
    under = {
        "samples": 50,
        "impossible_frac": 0.1,
        "cvar_level_frac": 0.1,
        "perfect_information_usd": 3.1e6,
        "chosen": "the plan",
        "optimism_gap_usd": 2e4,
        "regret": regret,
    }
    html = plan(_result(uncertainty=under)) or ""
    assert "3.10 MUSD" in html
    assert "100 kUSD" in html
    assert "+20.0 kUSD against those that chose it" in html


def test_the_text_says_the_same() -> None:
    text = plan_report(_result())
    for words in (
        "5.40 MUSD",
        "verified by simulation",
        "buy 1 a<b",
        "chat: a<b 100 %",
        "all_y: none",
        "with 5 % kept free: met",
    ):
        assert words in text, words
    assert "1 MW more -1.20 MUSD, less no plan (racks in parts: -900 kUSD)" in text
    assert "runner-up: 4 a<b costs 50.0 kUSD more (1.00 %)" in text

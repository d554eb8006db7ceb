"""Quantities in their short and long forms, and what a scenario's own value remembers."""

from __future__ import annotations

import pytest

from planner.scenario.schema import Scenario
from tests.unit.scenario.scenario_text import SMALL, Faults, Loads

LONG = """{value: 0.75 MUSD/rack, low: 0.35 MUSD/rack, high: 1.6 MUSD/rack, grade: estimate, source: [quote-7],
          note: a quote, alternatives: [{value: 0.9 MUSD/rack, source: press, note: rumour}]}"""


def capex(text: str, loads: Loads) -> Scenario:
    return loads(SMALL.replace("count: 1", f"count: 1, capex: {text}"))


def test_the_long_form_is_a_fact(loads: Loads) -> None:
    fact = capex(LONG, loads).fleet.pools["a"].capex_usd_per_rack
    assert fact is not None
    assert (fact.value, fact.low, fact.high, fact.unit) == (750_000, 350_000, 1_600_000, "usd_per_rack")
    assert (fact.grade, fact.source, fact.note, fact.path) == (
        "estimate",
        ("quote-7",),
        "a quote",
        "fleet.pools.a.capex",
    )
    (other,) = fact.alternatives
    assert (other.value, other.source, other.note) == (900_000, ("press",), "rumour")
    assert not fact.is_assumed


def test_the_short_form_is_an_assumed_fact(loads: Loads) -> None:
    fact = capex("0.75 MUSD/rack", loads).fleet.pools["a"].capex_usd_per_rack
    assert fact is not None
    assert (fact.value, fact.low, fact.grade, fact.is_assumed) == (750_000, None, "assumed", True)


def test_an_undisclosed_fact_has_a_default(loads: Loads) -> None:
    fact = capex("{grade: undisclosed, default: 0.8 MUSD/rack, low: 0.3 MUSD/rack}", loads).fleet.pools["a"]
    price = fact.capex_usd_per_rack
    assert price is not None
    assert (price.value, price.used, price.low) == (None, 800_000, 300_000)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("{value: 1 USD/rack, low: 2 USD/rack}", "", "outside its low..high"),
        ("{value: 3 USD/rack, high: 2 USD/rack}", "", "outside its low..high"),
        ("{low: 2 USD/rack}", "", "value is missing"),
        ("{value: 1 USD/rack, grade: guess}", ".grade", "unknown grade 'guess'"),
        ("{value: 1 USD/rack, hihg: 2 USD/rack}", ".hihg", "did you mean high?"),
        ("{value: 1 USD/rack, low: 2 kW}", ".low", "where usd per rack is meant"),
        ("{value: 1 USD/rack, grade: undisclosed}", "", "default is missing"),
        ("{value: 1 USD/rack, default: 1 USD/rack}", ".default", "default has no effect here"),
        ("{value: 1 USD/rack, alternatives: [{valu: 3 USD/rack}]}", ".alternatives[0]", "{value, source, note}"),
        ("{value: 1 USD/rack, alternatives: 3}", ".alternatives", "a list is meant"),
        ("[1 USD/rack]", "", "a quantity is meant, not a list"),
    ],
)
def test_faults_of_the_long_form(faults: Faults, text: str, path: str, message: str) -> None:
    found = faults(SMALL.replace("count: 1", f"count: 1, capex: {text}"))
    assert any(f.path == f"fleet.pools.a.capex{path}" and message in f"{f.what}; {f.way_out}" for f in found), found


def test_a_plain_number_beyond_every_float_is_refused(faults: Faults) -> None:
    found = faults(SMALL.replace("poisson", "gamma\n    burstiness: 1e400"))
    assert any(f.path == "traffic.chat.burstiness" and "'1e400' is too large a number" in f.what for f in found), found


def test_a_wish_may_say_where_it_is_from_and_its_range_is_not_acted_on(loads: Loads) -> None:
    s = loads(SMALL.replace("rate: 4 req/s", "rate: {value: 4 req/s, source: forecast, grade: estimate}"))
    assert s.traffic["chat"].rate_req_per_s == 4.0
    assert s.unsupported == ()
    s = loads(SMALL.replace("rate: 4 req/s", "rate: {value: 4 req/s, low: 3 req/s, high: 6 req/s}"))
    assert s.traffic["chat"].rate_req_per_s == 4.0
    assert [found.path for found in s.unsupported] == ["traffic.chat.rate"]


@pytest.mark.parametrize(("text", "chunk"), [("8192", 8192), ("8 ktok", 8000), ("8_192", 8192)])
def test_chunk_tokens_may_be_a_plain_number(loads: Loads, text: str, chunk: int) -> None:
    s = loads(SMALL.replace("chips: 8", f"chips: 8, chunk_tokens: {text}"))
    assert s.fleet.pools["a"].deploy[0].chunk_tokens == chunk


def test_chips_follow_from_the_degrees(loads: Loads) -> None:
    (deploy,) = loads(SMALL.replace("chips: 8", "tp: 4, dp: 2")).fleet.pools["a"].deploy
    assert (deploy.chips, deploy.tp, deploy.dp) == (8, 4, 2)


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("a", {"a": None}),
        ("[a]", {"a": None}),
        ("{a: 100 %}", {"a": 1.0}),
    ],
)
def test_routes(loads: Loads, text: str, route: dict[str, float | None]) -> None:
    s = loads(SMALL.replace("fleet:\n", f"fleet:\n  routes: {{chat: {text}}}\n"))
    assert s.fleet.routes == {"chat": route}


def test_deploy_any_is_left_to_the_optimizer(loads: Loads) -> None:
    s = loads(SMALL.replace("deploy: [{model: gpt-oss-120b, chips: 8}]", "deploy: any"))
    assert s.fleet.pools["a"].deploy == ()
    assert [found.path for found in s.unsupported] == ["fleet.pools.a.deploy"]

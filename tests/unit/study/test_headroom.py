"""Headroom: the load just below holds and just above does not; more load leaves less; the same again each time."""

from __future__ import annotations

import functools

import pytest

from planner import load, run
from planner.errors import Infeasible, ScenarioError
from planner.study.headroom import RESOLUTION, Headroom, headroom
from tests.smalls import small

TEXT = small(
    rate="200 req/s",
    limits="ttft: {p95: 100 ms}, e2e: {p99: 1 s}, attainment: 90 %",
    pools="    a: {rack: hgx-h200, count: 2, deploy: [{model: gpt-oss-120b, chips: 8}]}\n",
    run="length: 6 s, warmup: 1 s",
)


@functools.cache
def found(*sets: str, n1: bool = False) -> Headroom:
    return headroom(load("-", stdin_text=TEXT, sets=sets), with_n1=n1, workers=2)


def test_it_holds_just_below_and_not_just_above() -> None:
    edge = found().edge
    assert edge.multiplier is not None
    assert edge.breaks_at is not None
    assert edge.breaks is not None
    assert 1 < edge.multiplier < edge.breaks_at <= edge.multiplier * RESOLUTION * 1.001
    verdicts = [
        run(load("-", stdin_text=TEXT, sets=[f"traffic.chat.rate={200 * m!r} req/s", "run.seeds=5"])).to_json()
        for m in (edge.multiplier, edge.breaks_at)
    ]
    assert [tree["verdict"] for tree in verdicts] == ["met", "missed"]
    breaks = edge.breaks
    assert (breaks.limit.name, breaks.pool) == ("chat", "a")
    limits = {(row["metric"], row["quantile"]): row for row in verdicts[1]["classes"]["chat"]["limits"]}
    if breaks.limit.quantile is None:
        assert breaks.value == verdicts[1]["classes"]["chat"]["attainment_frac"]
    else:
        row = limits[breaks.limit.metric, breaks.limit.quantile]
        assert (breaks.value, breaks.limit_value) == (row["value"], row["limit"])
        assert row["met"] is False


def test_the_interval_holds_the_multiplier_and_is_of_the_seeds() -> None:
    head = found()
    assert head.n_seeds == 5
    assert head.low is not None
    assert head.high is not None
    assert head.edge.multiplier is not None
    assert head.low <= head.edge.multiplier <= head.high
    assert head.high - head.low < 0.5 * head.edge.multiplier


def test_the_same_again() -> None:
    assert headroom(load("-", stdin_text=TEXT), with_n1=False, workers=1).to_json() == found().to_json()


@pytest.mark.parametrize("rate", [140, 400])
def test_what_the_fleet_takes_does_not_hang_on_where_one_stands(rate: int) -> None:
    """The multiple times the load is one and the same: more load leaves less headroom in proportion."""
    base, other = found().edge.multiplier, found(f"traffic.chat.rate={rate} req/s").edge.multiplier
    assert base is not None
    assert other is not None
    assert other * rate == pytest.approx(base * 200, rel=2 * (RESOLUTION - 1))


def test_what_is_kept_free_is_not_headroom() -> None:
    base, kept = found().edge.multiplier, found("fleet.spare=20 %").edge.multiplier
    assert base is not None
    assert kept == pytest.approx(base * 0.8, rel=3 * (RESOLUTION - 1))
    assert found("fleet.spare=0 %").to_json() == found().to_json()


def test_with_a_rack_out_less_is_left_and_survive_holds_the_fleet_to_it() -> None:
    head = found(n1=True)
    (one,) = head.n1
    assert head.worst is one
    assert one.racks_out == {"a": 1}
    assert one.edge is not None
    assert one.edge.multiplier is not None
    assert head.edge.multiplier is not None
    assert one.edge.multiplier < 0.8 * head.edge.multiplier
    asked = found("fleet.survive={racks: 1}").edge
    assert asked.multiplier == pytest.approx(one.edge.multiplier, rel=2 * (RESOLUTION - 1))
    assert asked.breaks is not None
    assert asked.breaks.limit.label == "a rack of a out"


def test_a_fleet_of_one_rack_has_none_without_it() -> None:
    head = found("fleet.pools.a.count=1", n1=True)
    (one,) = head.n1
    assert one.edge is None
    assert "no replica" in one.reason
    assert head.to_json()["n1_worst"]["multiplier"] == 0.0
    with pytest.raises(Infeasible, match="not every class can be served"):
        found("fleet.pools.a.count=1", "fleet.survive={racks: 1}")


def test_closed_clients_are_multiplied() -> None:
    text = TEXT.replace("arrivals: poisson\n    rate: 200 req/s", "arrivals: closed\n    concurrency: 8").replace(
        "100 ms", "50 ms"
    )
    edge = headroom(load("-", stdin_text=text, sets=["run.length=3 s"]), with_n1=False).edge
    assert edge.multiplier is not None
    assert edge.multiplier > 1


def test_ends_of_the_scale() -> None:
    never = found("slo.easy={e2e: {p99: 1000 s}}", "traffic.chat.rate=0.2 req/s", "run.length=20 s")
    assert (never.edge.multiplier, never.edge.breaks, never.low) == (None, None, None)
    always = found("slo.easy={ttft: {p50: 1 us}}", "run.length=2 s")
    assert (always.edge.multiplier, always.low) == (0.0, None)
    assert always.edge.breaks is not None
    assert always.edge.breaks.limit.metric == "ttft"


def test_without_limits_none_can_break() -> None:
    with pytest.raises(ScenarioError, match="no class has limits"):
        found("traffic.chat.slo=null")

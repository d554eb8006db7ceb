"""A figure walked back to its inputs and facts, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner import Result
from planner.errors import ScenarioError
from planner.report import explain_text
from planner.report.compare_sides import Side
from planner.report.explain import explain, overview
from tests.fleets import class_counts, fact, fleet, placed, pool, rack, sim, variant, work

CAPEX = fact(400_000, "racks.toy-rack.capex_usd", low=300_000, high=600_000, grade="vendor")
TYPICAL = fact(6000, "racks.toy-rack.typical_w", low=5000, high=6500, grade="assumed")


def side() -> Side:
    """A rack at rest for half of an hour, its price and its power uncertain."""
    steps: dict[str, float] = {"busy_s": 1800, "prefill_s": 450, "decode_s": 1350, "decode_j": 1350 * 8 * 400}
    steps |= {"prefill_j": 450 * 8 * 400, "input_tokens": 7200, "output_tokens": 3600}
    counts = class_counts(offered=100, completed=100, attained=99, input_tokens=7200, output_tokens=3600)
    found = sim(classes=[counts], deployments=work(steps), latencies={(0, 0, "ttft"): [0.25] * 100})
    of = fleet(pool("toy", [placed()], of_rack=replace(rack(capex=CAPEX), typical_w=TYPICAL)))
    return Side("r", "base", Result.of([variant(of, found)], inputs="x"))


SIDE = side()


def test_a_figure_is_what_it_is_made_of() -> None:
    (one,) = explain(SIDE, "usd_per_mtok_out_whole")
    assert one.top.leaf.path == "cost.usd_per_mtok_out_whole"
    usd_per_h, tokens_per_s = (each.value for each in one.top.inputs)
    assert usd_per_h is not None
    assert tokens_per_s is not None
    assert one.top.value == pytest.approx(usd_per_h / (tokens_per_s * 3600 / 1e6))
    parts = one.top.inputs[0].inputs
    assert sum(each.value or 0 for each in parts) == pytest.approx(usd_per_h)
    assert parts[0].formula.startswith("racks to pay off")


def test_facts_have_their_share_of_the_swing() -> None:
    (one,) = explain(SIDE, "cost.usd_per_h")
    shares = {fact.path: fact.share for fact in one.facts}
    assert sum(share or 0 for share in shares.values()) == pytest.approx(1.0)
    first = one.facts[0]
    assert (first.path, first.grade, first.low, first.high) == (CAPEX.path, "vendor", 300_000, 600_000)
    assert one.assumed_frac == pytest.approx(sum(fact.share or 0 for fact in one.facts if fact.is_assumed))
    assert one.sentence.startswith(f"{(one.assumed_frac or 0) * 100:.0f} % of this figure's swing is assumed")


def test_facts_without_a_range_are_those_that_the_figure_hangs_on() -> None:
    (cost,) = explain(SIDE, "cost.usd_per_h")
    (energy,) = explain(SIDE, "energy.facility_kwh")
    fixed = {fact.path for fact in cost.fixed}
    assert {"site.power_price", "site.pue"} <= fixed
    assert "site.carbon" not in fixed
    assert "chips.toy.tdp_w" not in fixed
    assert "site.pue" in {fact.path for fact in energy.fixed}
    assert "site.power_price" not in {fact.path for fact in energy.fixed}
    assert {fact.path for fact in energy.facts} == {TYPICAL.path}
    assert energy.assumed_frac == 1.0


def test_names_of_classes_and_pools_mean_each_of_them() -> None:
    assert [one.top.leaf.path for one in explain(SIDE, "limits.ttft.p95")] == ["classes.chat.limits.ttft.p95"]
    (one,) = explain(SIDE, "ttft_s.p95")
    assert one.facts == ()
    assert "run.samples" in one.sentence


def test_unknown_figures_have_near_names() -> None:
    with pytest.raises(ScenarioError, match="did you mean usd_per_mtok_out"):
        explain(SIDE, "usd_per_mtok_ou")


def test_text_and_overview() -> None:
    text = explain_text.explained(explain(SIDE, "cost.usd_per_h"), is_named=False)
    assert "cost.parts.racks" in text
    assert "racks.toy-rack.capex_usd" in text
    assert "% of this figure's swing is assumed" in text
    lines = explain_text.overview(overview(SIDE), is_named=False).splitlines()
    (cost,) = [line for line in lines if line.startswith("  cost.usd_per_h ")]
    assert "racks.toy-rack.capex_usd" in cost

"""The shipped scenarios, field by field, as they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import ScenarioError
from planner.scenario import load, load_all, refuse_unsupported, shipped
from planner.scenario.schema import Limit
from planner.scenario.unsupported import verbs_for

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
ONE, MIXED, BUY = (SCENARIOS / name for name in ("01-one-rack.yaml", "02-mixed-fleet.yaml", "03-buy-plan.yaml"))


def test_one_rack() -> None:
    s = load(ONE)
    assert (s.name, s.title) == ("base", "One Jalapeño rack for an internal chat service")
    assert s.question == "Does one rack hold 40 req/s inside the chat SLO, and at what power?"
    chat = s.traffic["chat"]
    assert (chat.model, chat.arrivals, chat.rate_req_per_s, chat.slo) == (
        "gpt-oss-120b",
        "poisson",
        40.0,
        "interactive",
    )
    assert chat.trace is None
    assert chat.input is not None
    assert (chat.input.kind, chat.input.median, chat.input.p95) == ("lognormal", 1200, 8000)
    assert chat.output is not None
    assert (chat.output.median, chat.output.p95) == (300, 1000)
    assert s.slo["interactive"].limits == (Limit("ttft", 0.95, "p95", 0.5), Limit("tpot", 0.95, "p95", 0.02))
    assert s.slo["interactive"].attainment_frac is None
    pool = s.fleet.pools["jalapeno"]
    assert (pool.rack, pool.count, pool.count_range, pool.existing) == ("jalapeno-rack", 1, None, 0)
    (deploy,) = pool.deploy
    assert (deploy.model, deploy.chips, deploy.per_rack, deploy.role) == ("gpt-oss-120b", 8, None, "mixed")
    assert (deploy.tp, deploy.dp, deploy.pp, deploy.ep) == (None, None, None, None)
    assert (s.run.length_s, s.run.warmup_s, s.run.seed, s.run.seeds) == (1800.0, 120.0, 1, 1)
    assert (s.run.drain_s, s.run.window_s) == (600.0, 60.0)
    assert s.site.power_price_usd_per_kwh is None
    assert s.unsupported == s.notices == ()


def test_mixed_fleet() -> None:
    s = load(MIXED)
    chat, coding = s.traffic["chat"], s.traffic["coding"]
    assert (chat.trace, chat.scale, chat.speedup, chat.repeat) == ("azure-conv-2023", 60.0, 1.0, False)
    assert (coding.arrivals, coding.rate_req_per_s, coding.burstiness) == ("gamma", 9.0, 2.5)
    assert coding.input is not None
    assert (coding.input.median, coding.input.p95) == (8000, 48000)
    assert [(limit.metric, limit.label, limit.limit_s) for limit in s.slo["fast"].limits] == [
        ("ttft", "p95", 3.0),
        ("tpot", "p95", 0.008),
        ("e2e", "p99", 60.0),
    ]
    assert s.slo["interactive"].attainment_frac == 0.99
    assert s.fleet.router.policy == "least-outstanding-tokens"
    assert [(d.model, d.chips, d.per_rack) for d in s.fleet.pools["jalapeno"].deploy] == [
        ("kimi-k2.5", 16, 2),
        ("gpt-oss-120b", 8, None),
    ]
    assert s.site.grid == "us-virginia"
    price = s.site.power_price_usd_per_kwh
    assert price is not None
    assert (price.value, price.unit, price.path, price.grade) == (0.08, "usd_per_kwh", "site.power_price", "assumed")
    assert s.cost.life_years is not None
    assert (s.cost.life_years.value, s.cost.life_years.path) == (5, "cost.life")
    assert s.cost.discount_frac is not None
    assert s.cost.discount_frac.value == 0.09
    assert s.cost.upkeep_frac is not None
    assert s.cost.upkeep_frac.value == 0.04
    assert s.cost.staff_usd_per_year is None
    assert dict(s.variants) == {"nvidia_only": ("no_jalapeno",), "nvidia_only_clean": ("no_jalapeno", "clean_grid")}
    assert s.unsupported == ()


def test_variants_of_the_mixed_fleet() -> None:
    assert [each.name for each in load_all(MIXED)] == ["base", "nvidia_only", "nvidia_only_clean"]
    s = load(MIXED, variant="nvidia_only")
    assert list(s.fleet.pools) == ["gb300"]
    assert (s.name, s.fleet.pools["gb300"].count, s.site.grid) == ("nvidia_only", 3, "us-virginia")
    clean = load(MIXED, variant="nvidia_only_clean")
    assert clean.site.grid == "no"  # Norway, text, not false
    assert clean.fleet == s.fleet
    with pytest.raises(ScenarioError, match="did you mean nvidia_only"):
        load(MIXED, variant="nvidia_onyl")


def test_buy_plan() -> None:
    s = load(BUY)
    assert s.title == "What to buy for next year's growth"
    assert s.traffic["chat"].scale == 144.0
    coding = s.traffic["coding"]
    assert (coding.rate_req_per_s, coding.burstiness) == (21.6, 2.5)  # one is 03's, the other is inherited
    assert coding.sessions is not None
    turns, think = coding.sessions.turns, coding.sessions.think
    assert (turns.kind, turns.mean, think.kind, think.value_s) == ("geometric", 10.0, "fixed", 4.0)
    pool = s.fleet.pools["jalapeno"]
    assert pool.count_range is not None
    assert (pool.rack, pool.count_range.min, pool.count_range.max) == ("jalapeno-rack", 0, 18)
    prefill = s.fleet.pools["h200_prefill"].deploy[0]
    assert (prefill.role, prefill.decode_pool) == ("prefill", "jalapeno")
    assert s.fleet.spare_frac == 0.08
    assert s.site.power_limit_w == 1.5e6
    assert s.goal is not None
    assert (s.goal.minimise, s.goal.subject_to, s.goal.horizon_years, s.goal.budget_usd) == ("tco", "slo", 4.0, 60e6)
    assert dict(s.variants) == {"supply_slips": ("late_jalapeno",)}  # null removed the inherited ones
    assert s.sweep is not None
    assert list(s.sweep.axes) == ["site.power_price", "slo.fast.tpot.p95", "fleet.pools.jalapeno.capex"]
    late = load(BUY, variant="supply_slips").fleet.pools["jalapeno"].count_range
    assert late is not None
    assert (late.min, late.max) == (0, 4)


def test_the_buy_plan_lists_what_is_not_acted_on_and_run_refuses_it() -> None:
    s = load(BUY)
    assert {found.path for found in s.unsupported} == {
        "fleet.pools.jalapeno.count",
        "fleet.pools.jalapeno.deploy",
        "fleet.pools.gb300.count",
        "fleet.pools.gb300.deploy",
        "fleet.pools.h200_prefill.count",
        "goal",
        "sweep",
    }
    assert all(found.at.line and found.at.file == str(BUY) for found in s.unsupported)
    with pytest.raises(ScenarioError) as caught:
        refuse_unsupported(s, "run")
    assert {fault.path for fault in caught.value.faults} == {found.path for found in s.unsupported} - {"sweep"}
    refuse_unsupported(load(MIXED), "run")


@pytest.mark.parametrize("name", [name for name in shipped.names() if name >= "04"])
def test_every_variant_of_the_later_examples_is_right_and_asks_something(name: str) -> None:
    path = SCENARIOS / f"{name}.yaml"
    base, *others = load_all(path)
    assert base.question is not None
    assert base.question.endswith("?")
    assert others
    asked = (base.traffic, base.fleet, base.site, base.sites, base.goal)
    assert all((s.traffic, s.fleet, s.site, s.sites, s.goal) != asked for s in others)
    assert all(s.notices == () and {"run", "optimize"} & set(verbs_for(s)) for s in [base, *others])


def test_agents() -> None:
    s = load(SCENARIOS / "04-agents.yaml")
    agents = s.traffic["agent"].agents
    assert agents is not None
    assert (agents.steps.mean_turns, agents.system, agents.tool.median_s, agents.tool.p95_s) == (
        10.0,
        12_000,
        2.0,
        20.0,
    )
    deploy = s.fleet.pools["jalapeno"].deploy[0]
    assert (s.fleet.router.policy, deploy.prefix_cache, deploy.kv_host_bytes) == ("session-affine", True, 512 * 10**9)
    assert (
        not load(SCENARIOS / "04-agents.yaml", variant="no_prefix_cache").fleet.pools["jalapeno"].deploy[0].prefix_cache
    )


def test_disaggregation_on_unlike_chips_both_ways() -> None:
    path = SCENARIOS / "05-disaggregated.yaml"
    roles = {
        found.name: {
            name: (pool.deploy[0].role, pool.deploy[0].decode_pool) for name, pool in found.fleet.pools.items()
        }
        for found in load_all(path)
    }
    assert roles["base"] == {"gb300": ("prefill", "jalapeno"), "jalapeno": ("decode", None)}
    assert roles["reverse"] == {"gb300": ("decode", None), "jalapeno": ("prefill", "gb300")}
    assert roles["mixed"] == {"gb300": ("mixed", None), "jalapeno": ("mixed", None)}
    link = load(path).fleet.kv_link_bytes_per_s
    assert link is not None
    assert link.used == 400e9


def test_service_tiers() -> None:
    s = load(SCENARIOS / "06-service-tiers.yaml")
    assert {name: (c.priority, c.batch_cap) for name, c in s.traffic.items()} == {
        "ultra_fast": (0, 8),
        "fast": (1, 64),
        "batched": (2, None),
    }


def test_failures() -> None:
    s = load(SCENARIOS / "07-failures.yaml")
    pool, chat = s.fleet.pools["jalapeno"], s.traffic["chat"]
    assert pool.failures is not None
    assert [(o.at_s, o.length_s, o.replicas) for o in pool.outages] == [(1800.0, 2400.0, 2)]
    assert [(o.at_s, o.length_s, o.replicas) for o in pool.maintenance] == [(5400.0, 900.0, 4)]
    assert pool.cold_start_s == 90.0
    assert chat.retries is not None
    assert (chat.timeout_s, chat.retries.n, chat.retries.backoff_s, chat.retries.factor) == (10.0, 2, 1.0, 2.0)
    assert chat.regions["europe"].shift_s == -21_600.0

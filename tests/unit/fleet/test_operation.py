"""From the keys of clients, caches and operation to the core's spec: all that is asked and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner import scenario
from planner.errors import Infeasible
from planner.fleet.cells import NS_PER_S, sim_spec
from planner.fleet.layout import Lengths, lay_out
from planner.fleet.operation import YEAR_NS

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
S = NS_PER_S


def spec_of(name: str, variant: str | None = None, *, sets: tuple[str, ...] = (), **options: Any) -> dict[str, Any]:
    s = scenario.load(SCENARIOS / f"{name}.yaml", variant=variant, sets=sets)
    fleet = lay_out(s, dict.fromkeys(s.traffic, Lengths(2_000.0, 300.0)))
    return sim_spec(s, fleet, seed=1, length_ns=60 * S, keep_requests=False, **options)


def test_a_plain_scenario_has_none_of_it() -> None:
    spec = spec_of("01-one-rack")
    assert set(spec["classes"][0]) == {"limits", "targets"}
    assert set(spec["deployments"][0]) == {"pool_ix", "n_replicas", "deployment"}
    assert not {"link", "hash_block_tokens"} & set(spec)


def test_tiers() -> None:
    ultra, fast, batched = spec_of("06-service-tiers")["classes"]
    assert {key: ultra[key] for key in ultra if key not in {"limits", "targets"}} == {"batch_cap": 8}
    assert (fast["priority"], fast["batch_cap"], fast["timeout_ns"]) == (1, 64, 20 * S)
    assert batched["priority"] == 2


def test_failures_outages_maintenance() -> None:
    spec = spec_of("07-failures")
    (placed,) = spec["deployments"]
    assert placed["n_replicas"] == 16
    assert placed["outages"] == [{"at_ns": 1800 * S, "length_ns": 2400 * S, "first": 0, "n_replicas": 2}]
    assert placed["maintenance"] == [{"at_ns": 5400 * S, "length_ns": 900 * S, "first": 0, "n_replicas": 4}]
    assert placed["cold_start_ns"] == 90 * S
    chip, rack = placed["failures"]
    # 8 chips x 0.1 a year, a day to repair; 0.5 outages a rack and year, 8 of the 16 replicas are on a rack.
    assert chip == {"mean_ns": round(YEAR_NS / 0.8), "repair_ns": 86_400 * S, "n_together": 1}
    assert rack == {"mean_ns": 2 * YEAR_NS, "repair_ns": 86_400 * S, "n_together": 8}
    (chat,) = spec["classes"]
    assert chat["retries"] == {"n": 2, "backoff_ns": S, "factor": 2.0}
    assert spec_of("07-failures", "accelerated")["deployments"][0]["failures"][1]["mean_ns"] == 2 * YEAR_NS // 1000
    with pytest.raises(Infeasible, match="the pool has 16"):
        spec_of("07-failures", sets=("fleet.pools.jalapeno.outages=[{at: 1 min, length: 1 min, replicas: 17}]",))


def test_a_rack_that_is_out_takes_all_that_stands_on_it() -> None:
    both = "[{model: gpt-oss-120b, chips: 16, per_rack: 2}, {model: gpt-oss-120b, chips: 8}]"
    two = spec_of("07-failures", sets=(f"fleet.pools.jalapeno.deploy={both}", "fleet.pools.jalapeno.outages=[]"))
    racks = [placed["failures"][1] for placed in two["deployments"]]
    # Of two racks of 64 chips: two large replicas and four small ones each, out at the same times.
    assert [(rack["n_together"], rack["key"]) for rack in racks] == [(2, 0), (4, 0)]
    assert all("key" not in placed["failures"][0] for placed in two["deployments"])


@pytest.mark.parametrize(
    ("router", "options"),
    [
        ("slo-aware", None),
        ("{policy: slo-aware, candidates: 2, rejects: true}", {"n_candidates": 2, "rejects": True}),
        ("{policy: prefix-affine, most: 250 %}", {"most_percent": 250}),
        ("{policy: cheapest-first, spill: 20 %}", {"spill_frac": 0.2}),
    ],
)
def test_what_a_router_is_told(router: str, options: dict[str, Any] | None) -> None:
    spec = spec_of("06-service-tiers", sets=("fleet.router=" + router,))
    assert spec["router"] in router
    assert spec.get("router_options") == options


def test_disaggregation_both_ways() -> None:
    spec = spec_of("05-disaggregated")
    prefill, decode = spec["deployments"]
    assert (prefill["role"], prefill["decode_targets"], decode["role"]) == ("prefill", [1], "decode")
    assert spec["classes"][0]["targets"] == [{"deployments": [0], "share": None}]
    assert spec["link"] == {"bytes_per_s": 400e9}
    back = spec_of("05-disaggregated", "reverse")
    assert [d["role"] for d in back["deployments"]] == ["decode", "prefill"]
    assert back["deployments"][1]["decode_targets"] == [0]
    assert back["classes"][0]["targets"] == [{"deployments": [1], "share": None}]
    assert "link" not in spec_of("05-disaggregated", "mixed")


def test_without_a_link_the_narrower_side_hands_over_as_fast_as_it_can() -> None:
    spec = spec_of("05-disaggregated", sets=("fleet.kv_link=null",))
    gb300, jalapeno = (d["deployment"]["chip"]["scale_out_bytes_per_s"] for d in spec["deployments"])
    assert spec["link"]["bytes_per_s"] == min(18 * 4 * gb300, 8 * 8 * jalapeno)
    assert spec["link"]["latency_ns"] > 0


def test_caches() -> None:
    plain = spec_of("04-agents")["deployments"][0]
    assert "prefix_cache" not in plain  # nothing is known of prefixes
    placed = spec_of("04-agents", block_tokens=256)["deployments"][0]
    assert placed["prefix_cache"] is True
    assert placed["host_kv_bytes"] == 512e9
    assert placed["host_link_bytes_per_s"] == 16 * 64e9
    assert spec_of("04-agents", block_tokens=256)["hash_block_tokens"] == 256
    off = spec_of("04-agents", "no_prefix_cache", block_tokens=32)["deployments"][0]
    assert not {"prefix_cache", "host_kv_bytes"} & set(off)
    deploy = (
        "fleet.pools.jalapeno.deploy=[{model: kimi-k2.5, chips: 16, kv_host: 1 TB, preemption: swap, watermark: 1 %}]"
    )
    swap = spec_of("04-agents", sets=(deploy,))["deployments"][0]
    assert (swap["preemption"], swap["watermark_frac"]) == ("swap", 0.01)


def test_autoscale() -> None:
    scale = "fleet.pools.jalapeno.autoscale={min: 2, target: 60 %, delay: 1 min}"
    placed = spec_of("07-failures", sets=(scale,))["deployments"][0]
    assert placed["autoscale"] == {"min": 2, "max": 16, "target_ppm": 600_000, "delay_ns": 60 * S}


def test_closed_clients_go_on_after_a_failure() -> None:
    sets = ("traffic.chat.arrivals=closed", "traffic.chat.rate=null", "traffic.chat.concurrency=8")
    assert spec_of("01-one-rack", sets=sets)["classes"][0]["chains_go_on"] is True

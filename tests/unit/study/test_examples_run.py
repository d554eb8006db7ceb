"""The shipped examples of clients and operation, shortened: each variant runs and shows what it is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import planner
from planner.scenario import load_all

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"


def answers(name: str, *sets: str) -> dict[str, dict[str, Any]]:
    """The result of each variant, by its name."""
    path = SCENARIOS / f"{name}.yaml"
    return {each.name: planner.run(each).to_json() for each in load_all(path, sets=sets)}


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("04-agents", ("run.length=90 s", "run.warmup=30 s")),
        ("05-disaggregated", ("run.length=20 s", "run.warmup=5 s")),
        ("06-service-tiers", ("run.length=20 s", "run.warmup=5 s")),
        ("07-failures", ("run.length=20 s", "run.warmup=5 s")),
    ],
)
def test_every_request_is_accounted_for(name: str, sets: tuple[str, ...]) -> None:
    for result in answers(name, *sets).values():
        found = result["requests"]
        fates = ("completed", "rejected", "timed_out", "cancelled", "unfinished")
        assert found["offered"] == sum(found[fate] for fate in fates)
        assert found["completed"] > 0


def test_agents_are_faster_with_their_prefixes_than_without() -> None:
    found = answers("04-agents", "run.length=2 min", "run.warmup=30 s")
    warm, cold = (found[name]["classes"]["agent"]["ttft_s"]["mean"] for name in ("base", "no_prefix_cache"))
    assert warm < cold


def test_tokens_come_from_the_pool_that_decodes() -> None:
    found = answers("05-disaggregated", "run.length=20 s", "run.warmup=5 s")
    for variant, decoding, prefilling in (("base", "jalapeno", "gb300"), ("reverse", "gb300", "jalapeno")):
        pools = found[variant]["pools"]
        # Prefill replicas give the first token of each answer, decode replicas the hundreds after it.
        assert pools[decoding]["tokens_per_s_out"] > 50 * pools[prefilling]["tokens_per_s_out"]
    assert found["mixed"]["pools"]["gb300"]["tokens_per_s_out"] > 0


def test_the_fastest_tier_needs_replicas_of_its_own() -> None:
    found = answers("06-service-tiers", "run.length=1 min", "run.warmup=10 s")
    shared, own = (found[name]["classes"]["ultra_fast"]["attainment_frac"] for name in ("base", "own_replicas"))
    assert own > 0.99 > shared


def test_replicas_that_fail_lose_what_they_had_and_clients_send_it_again() -> None:
    sets = (
        "run.length=2 min",
        "run.warmup=0 s",
        "fleet.pools.jalapeno.outages=[{at: 30 s, length: 1 min, replicas: 2}]",
        "fleet.pools.jalapeno.maintenance=null",
    )
    path = SCENARIOS / "07-failures.yaml"
    found = planner.run(planner.load(path, sets=sets)).to_json()["requests"]
    assert found["retried"] > 0
    calm = planner.run(planner.load(path, variant="no_failures", sets=("run.length=2 min", "run.warmup=0 s"))).to_json()
    assert calm["requests"]["retried"] == 0

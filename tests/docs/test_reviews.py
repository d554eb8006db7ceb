"""What the shipped scenarios answer: the verdict of each variant, and what it is for."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.docs import plans, reviews


def tree(name: str, variant: str = "base") -> dict[str, Any]:
    return reviews.result(name).variants[variant]


def verdicts(name: str) -> dict[str, str | None]:
    return {variant: found["verdict"] for variant, found in reviews.result(name).variants.items()}


def test_one_rack_holds_with_most_of_it_to_spare() -> None:
    assert verdicts("01-one-rack") == {"base": "met"}
    limits = tree("01-one-rack")["classes"]["chat"]["limits"]
    assert all(limit["margin_frac"] > 0.9 for limit in limits)


def test_of_the_mixed_fleet_chat_holds_and_coding_does_not() -> None:
    assert verdicts("02-mixed-fleet") == {"base": "missed", "nvidia_only": "missed"}
    for variant in ("base", "nvidia_only"):
        classes = tree("02-mixed-fleet", variant)["classes"]
        assert (classes["chat"]["verdict"], classes["coding"]["verdict"]) == ("met", "missed")
    base, other = (tree("02-mixed-fleet", name)["cost"]["usd_per_mtok_out_whole"] for name in ("base", "nvidia_only"))
    assert base < other


def test_an_agent_holds_on_jalapeno_with_its_prefixes_cached() -> None:
    assert verdicts("04-agents") == {"base": "met", "gb300": "missed", "no_prefix_cache": "missed"}
    base, forgetful = (
        tree("04-agents", name)["classes"]["agent"]["task_s"]["p50"] for name in ("base", "no_prefix_cache")
    )
    assert forgetful > 2 * base
    scenario = reviews.planner.load(reviews.ROOT / "scenarios" / "04-agents.yaml")
    agents = scenario.traffic["agent"].agents
    assert agents is not None
    assert agents.steps.mean == 10


def test_the_fastest_tier_needs_replicas_of_its_own() -> None:
    assert verdicts("06-service-tiers") == {"base": "missed", "own_replicas": "met"}


def test_unlike_chips_may_share_the_work_of_a_request() -> None:
    # One pool for both holds all but the gaps: prompts beside decoding sequences delay them.
    assert verdicts("05-disaggregated") == {"base": "met", "reverse": "met", "mixed": "missed", "slow_link": "met"}


def test_two_sites_hold_and_the_clean_one_emits_less() -> None:
    assert verdicts("10-two-sites") == {"base": "met"}
    sites = tree("10-two-sites")["sites"]
    assert sites["norway"]["operational_kgco2e"] < sites["virginia"]["operational_kgco2e"] / 5


def test_of_the_tiers_gb300_does_not_reach_the_fastest() -> None:
    name = "08-jalapeno-or-gb300"
    found = verdicts(name)
    assert found == {
        "base": "met",
        "gb300": "met",
        "fast": "met",
        "fast_gb300": "missed",  # DeepSeek-R1 by 3 %
        "ultra_fast": "met",
        "ultra_fast_gb300": "missed",
    }
    missed = tree(name, "ultra_fast_gb300")["classes"]
    assert all(figures["attainment_frac"] == 0 for figures in missed.values())
    for ours, theirs in (("base", "gb300"), ("fast", "fast_gb300")):
        for each in ("gpt_oss", "r1", "kimi"):
            a, b = (tree(name, variant)["classes"][each]["usd_per_mtok_out_whole"] for variant in (ours, theirs))
            assert a < b


@pytest.mark.parametrize("name", plans.SHOWN)
def test_pages_of_plans_are_of_the_scenarios_of_today(name: str) -> None:
    why = plans.stale(name)
    assert why is None, why
    text = (plans.PLACE / f"{name}.md").read_text(encoding="utf-8")
    assert "verified by simulation" in text
    assert text.count("[start:answer]") == text.count("[end:answer]") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", plans.SHOWN)
def test_pages_of_plans_say_what_is_found_today(name: str) -> None:
    def told(text: str) -> str:
        return re.sub(r"`sha256:\w+`", "", text)

    stands = (plans.PLACE / f"{name}.md").read_text(encoding="utf-8")
    assert told(plans.page(name, plans.solved(name))) == told(stands), f"python -m tests.docs.plans {name}"


def test_a_page_of_a_changed_scenario_or_fact_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = plans.SHOWN[-1]
    stands = (plans.PLACE / f"{name}.md").read_text(encoding="utf-8")
    monkeypatch.setattr(plans, "PLACE", tmp_path)
    digest = plans.scenario(name).digest()
    (tmp_path / f"{name}.md").write_text(stands.replace(digest, "0" * len(digest)), encoding="utf-8")
    assert plans.stale(name) == f"the scenario was changed since: python -m tests.docs.plans {name}"
    (tmp_path / f"{name}.md").write_text("# Nothing", encoding="utf-8")
    assert plans.stale(name) == f"it does not say for what it was made: python -m tests.docs.plans {name}"
    (tmp_path / f"{name}.md").write_text(stands, encoding="utf-8")
    copy = tmp_path / "data"
    shutil.copytree(plans.FACTS, copy)
    monkeypatch.setattr(plans, "FACTS", copy)
    refit = next((copy / "calibration").glob("*.yaml"))
    refit.write_text(refit.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert plans.stale(name) == f"facts were changed since: python -m tests.docs.plans {name}"


def test_every_shipped_scenario_asks_a_question_and_has_its_number() -> None:
    files = sorted((reviews.ROOT / "scenarios").glob("*.yaml"))
    assert [path.name[:2] for path in files] == [f"{n:02d}" for n in range(1, len(files) + 1)]
    for path in files:
        assert reviews.planner.load(path).question, path.name

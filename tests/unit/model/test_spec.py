"""Facts -> deployment specs, and what the core plans for them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from planner import core
from planner.errors import FactError, Infeasible
from planner.facts import catalog
from planner.facts.fact import Fact
from planner.model.spec import deployment_spec


def spec_of(chip: Any, model: str, **layout: Any) -> tuple[dict[str, Any], list[str]]:
    facts = catalog.load()
    chip = facts.chip(chip) if isinstance(chip, str) else chip
    spec, _, notices = deployment_spec(
        chip, facts.model(model), engine=facts.engine("generic"), serving=facts.serving(), **layout
    )
    return spec, [notice.code for notice in notices]


@pytest.mark.parametrize(
    ("model", "chips", "bf16", "fp8"),
    [
        ("llama-3.1-8b", 1, 131_072, 65_536),  # 2 x 32 layers x 8 heads x 128 x 2
        ("deepseek-r1", 8, 70_272, 35_136),  # 61 layers x 576 x 2
        ("gpt-oss-120b", 1, 36_864, 18_432),  # 2 x 18 full layers x 8 heads x 64 x 2; the window stands still
    ],
)
def test_bytes_of_a_token(model: str, chips: int, bf16: int, fp8: int) -> None:
    wide, _ = spec_of("gb300", model, tp=chips)
    narrow, _ = spec_of("gb300", model, tp=chips, kv_dtype="fp8")
    assert core.plan(wide)["kv_bytes_per_token"] == bf16
    assert core.plan(narrow)["kv_bytes_per_token"] == fp8


def test_every_model_of_the_catalogue_can_be_laid_out() -> None:
    facts = catalog.load()
    for name in facts.names("models"):
        spec, _ = spec_of("gb300", name, tp=4 if facts.model(name).n_heads.number % 8 else 8)
        plan = core.plan(spec)
        kv = facts.model(name).kv.group
        assert plan["kv_bytes_per_token"] == kv["per_token_bytes_bf16"], name
        parts = ("weights_bytes", "runtime_bytes", "collective_bytes", "states_bytes", "activations_bytes", "kv_bytes")
        assert sum(plan["memory"][part] for part in parts) == pytest.approx(298_013_687_808, rel=1e-12), name


def test_every_chip_of_the_catalogue_can_hold_a_model() -> None:
    facts = catalog.load()
    for name in facts.names("chips"):
        spec, codes = spec_of(name, "llama-3.1-8b", tp=1, precision="fp8", chunk_tokens=2048)
        assert core.plan(spec)["kv_capacity_tokens"] > 0, name
        chip = facts.chip(name)
        has_all = None not in (chip.parked_w, chip.low_load_w, chip.high_load_w)
        assert ("power_assumed" in codes) is not has_all, name


def test_unknown_draws_are_a_share_of_rated_power_and_said_so() -> None:
    facts = catalog.load()
    bare = dataclasses.replace(facts.chip("gb200"), parked_w=None, high_load_w=None)
    spec, codes = spec_of(bare, "llama-3.1-8b", tp=1)
    assert codes == ["power_assumed"]
    # H100 parks at 121.7 and works at 639 of 700 W; GB200 is rated at 1,200 W.
    assert spec["chip"]["parked_w"] == pytest.approx(121.7 / 700 * 1200)
    assert spec["chip"]["high_load_w"] == pytest.approx(639 / 700 * 1200)
    assert spec["chip"]["low_load_w"] == 516
    assert "active_w" not in spec["chip"]
    # Where the low load is not known either, what a step draws before any work goes with it: 430 and 462 of 700 W.
    spec, _ = spec_of(dataclasses.replace(bare, low_load_w=None), "llama-3.1-8b", tp=1)
    assert spec["chip"]["active_w"] == pytest.approx(430 / 700 * 1200)
    assert spec["chip"]["low_load_w"] == pytest.approx(462 / 700 * 1200)


def test_draws_out_of_order_are_refused() -> None:
    facts = catalog.load()
    odd = dataclasses.replace(facts.chip("gb200"), parked_w=Fact(100.0, kind="power"))
    with pytest.raises(FactError, match="parked_w 100 W is below idle_w 200 W"):
        spec_of(odd, "llama-3.1-8b", tp=1)


def test_layers_that_are_treated_as_plainer_ones_are_said_so() -> None:
    assert spec_of("gb300", "deepseek-v3.2", tp=8)[1] == ["sparse_attention"]
    assert spec_of("gb300", "llama-4-scout", tp=8)[1] == ["chunked_attention"]
    assert spec_of("gb300", "qwen3.5-397b-a17b", tp=8)[1] == ["recurrent_layers"]
    assert spec_of("gb300", "deepseek-r1", tp=8)[1] == []


def test_sustained_maximum_caps_where_it_is_known() -> None:
    assert spec_of("jalapeno", "gpt-oss-120b", tp=8)[0]["chip"]["max_w"] == 550
    assert spec_of("gb200", "gpt-oss-120b", tp=8)[0]["chip"]["max_w"] == 1200


def test_collective_buffers_grow_with_the_replica() -> None:
    plans = [core.plan(spec_of("gb200", "gpt-oss-120b", tp=tp)[0]) for tp in (1, 2, 4)]
    assert [plan["memory"]["collective_bytes"] for plan in plans] == [0, 342 * 2**20, 392 * 2**20]


def test_a_long_unchunked_prompt_tips_one_small_chip_over() -> None:
    # 70B in fp8 with a bf16 cache on 80e9 bytes: weights 70.55e9, runtime 3.76e9 and a cache of 16,384 tokens 5.37e9
    # still fit; activations of 16,384 tokens, 16,384 x (2 x 8,192 + 3 x 28,672) x 2 = 3.36e9, do not.
    options = {"tp": 1, "precision": "fp8", "chunk_tokens": 16_384}
    small = dataclasses.replace(catalog.load().chip("h100-sxm"), memory_bytes=Fact(80e9, kind="bytes"))
    with pytest.raises(Infeasible, match=r"activations: 3\.36 GB of activations do not fit on a chip") as error:
        core.plan(spec_of(small, "llama-3.1-70b", **options)[0])
    assert error.value.faults[0].way_out == "the smallest layout that fits has 2 chips (tp 2, dp 1, ep 1)"
    assert core.plan(spec_of("h100-sxm", "llama-3.1-70b", **options)[0])["kv_capacity_tokens"] >= 16_384


@pytest.mark.parametrize(
    ("chip", "model", "layout", "message", "way_out"),
    [
        ("h100-sxm", "llama-3.1-8b", {"tp": 16}, "domain: tp 16 x dp 1 = 16 chips", "use at most 8 chips"),
        ("gb200", "llama-3.1-8b", {"tp": 12}, "heads: tp 12 does not divide 32 heads", "tp may be 1, 2, 4, 8, 16, 32"),
        ("gb200", "gpt-oss-120b", {"tp": 1, "dp": 7}, "experts: 128 experts", "use another number of chips"),
        ("gb200", "gpt-oss-120b", {"tp": 8, "ep": 3}, "experts: 128 experts", "use ep 8"),
        ("gb200", "llama-3.1-8b", {"tp": 2, "ep": 2}, "experts: ep 2 of a dense model", "leave ep out"),
        ("gb200", "llama-3.1-8b", {"tp": 2, "pp": 33}, "pipeline: 33 stages of 32 layers", "use pp 32 or less"),
    ],
)
def test_what_cannot_be_laid_out_is_named(
    chip: str, model: str, layout: dict[str, int], message: str, way_out: str
) -> None:
    with pytest.raises(Infeasible, match=message) as error:
        core.plan(spec_of(chip, model, **layout)[0])
    assert way_out in error.value.faults[0].way_out

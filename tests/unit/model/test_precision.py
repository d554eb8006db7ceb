"""Which bytes are stored, and which rate computes them."""

from __future__ import annotations

import pytest

from planner.errors import FactError
from planner.facts import catalog
from planner.model.precision import precision_spec

MXFP4, NVFP4 = 0.53125, 0.5625


def decided(chip: str, model: str, precision: str | None = None, kv_dtype: str | None = None) -> tuple[object, ...]:
    facts = catalog.load()
    thing = facts.model(model)
    spec, words, notices = precision_spec(
        facts.chip(chip), thing, facts.formats(), precision=precision, kv_dtype=kv_dtype
    )
    stored = (spec["expert_bytes_per_param"], spec["rest_bytes_per_param"])
    return (words, stored, (spec["experts_rate"], spec["rest_rate"]), [notice.code for notice in notices])


@pytest.mark.parametrize(
    ("chip", "model", "asked", "words", "stored", "rates", "codes"),
    [
        # The checkpoint's own bytes, at its own rate where the chip has it and in bf16 where it has not.
        ("h100-sxm", "llama-3.1-8b", None, "bf16", (2, 2), ("bf16", "bf16"), []),
        ("h100-sxm", "deepseek-r1", None, "fp8", (1, 1), ("fp8", "fp8"), []),
        ("a100-sxm", "deepseek-r1", None, "fp8", (1, 1), ("bf16", "bf16"), ["rate_fallback"]),
        ("gb200", "gpt-oss-120b", None, "mxfp4 experts, bf16 rest", (MXFP4, 2), ("fp4", "bf16"), []),
        ("h100-sxm", "gpt-oss-120b", None, "mxfp4 experts, bf16 rest", (MXFP4, 2), ("bf16", "bf16"), ["rate_fallback"]),
        # int4 has no arithmetic of its own: its float form with fp4 hardware, widened to bf16 without.
        ("gb300", "kimi-k2.5", None, "nvfp4 experts, bf16 rest", (NVFP4, 2), ("fp4", "bf16"), ["float_form"]),
        ("jalapeno", "kimi-k2.5", None, "mxfp4 experts, bf16 rest", (MXFP4, 2), ("fp4", "bf16"), ["float_form"]),
        ("h200-sxm", "kimi-k2.5", None, "int4 experts, bf16 rest", (NVFP4, 2), ("bf16", "bf16"), []),
        # Asked for.
        ("gb300", "deepseek-r1", "fp4", "nvfp4 experts, bf16 rest", (NVFP4, 2), ("fp4", "bf16"), []),
        ("jalapeno", "deepseek-r1", "fp4", "mxfp4 experts, fp8 rest", (MXFP4, 1), ("fp4", "fp8"), []),
        ("gb200", "gpt-oss-120b", "fp4", "mxfp4 experts, bf16 rest", (MXFP4, 2), ("fp4", "bf16"), []),
        ("gb200", "kimi-k2.5", "int4", "int4 experts, bf16 rest", (NVFP4, 2), ("bf16", "bf16"), []),
        ("h100-sxm", "llama-3.1-70b", "fp8", "fp8", (1, 1), ("fp8", "fp8"), []),
        ("h100-sxm", "llama-3.1-70b", "fp4", "nvfp4", (NVFP4, NVFP4), ("bf16", "bf16"), ["rate_fallback"]),
        ("gb200", "kimi-k2.5", "bf16", "bf16", (2, 2), ("bf16", "bf16"), []),
    ],
)
def test_rule(
    chip: str,
    model: str,
    asked: str | None,
    words: str,
    stored: tuple[float, float],
    rates: tuple[str, str],
    codes: list[str],
) -> None:
    assert decided(chip, model, asked) == (words, stored, rates, codes)


@pytest.mark.parametrize(
    ("chip", "model", "operand"),
    [
        # Eight-bit activations beside the checkpoint's four-bit experts; where those compute in bf16, so do both.
        ("gb200", "gpt-oss-120b", "fp8"),
        ("h200-sxm", "gpt-oss-120b", None),
        ("gb300", "kimi-k2.5", None),
    ],
)
def test_activations_of_a_wider_format(chip: str, model: str, operand: str | None) -> None:
    facts = catalog.load()
    spec, _, _ = precision_spec(facts.chip(chip), facts.model(model), facts.formats())
    assert spec["experts_operand"] == operand


def test_stored_bytes_are_the_published_checkpoint() -> None:
    facts = catalog.load()
    for name in facts.names("models"):
        model = facts.model(name)
        params, weights = model.params.group, model.weights.group
        # A chip without fp4 hardware keeps every checkpoint as it is.
        spec, _, _ = precision_spec(facts.chip("h100-sxm"), model, facts.formats())
        stored = (
            params["routed_expert_total"] * spec["expert_bytes_per_param"]
            + params["non_expert_total"] * spec["rest_bytes_per_param"]
        )
        assert stored == pytest.approx(weights["native_checkpoint_bytes"], rel=1e-12), name


def test_a_cache_is_bf16_unless_asked() -> None:
    facts = catalog.load()
    chip, model = facts.chip("h100-sxm"), facts.model("deepseek-r1")
    elements = [
        precision_spec(chip, model, facts.formats(), kv_dtype=kv_dtype)[0]["kv_bytes_per_element"]
        for kv_dtype in (None, "bf16", "fp8")
    ]
    assert elements == [2, 2, 1]


def test_unknown_formats_are_told_together() -> None:
    with pytest.raises(FactError) as error:
        decided("h100-sxm", "llama-3.1-8b", "fp88", "int3")
    assert [fault.what for fault in error.value.faults] == [
        "unknown precision 'fp88'; did you mean fp8?",
        "unknown kv_dtype 'int3'; known: bf16, fp8",
    ]

"""The engine of a deployment that names none: the best of those measured, with its stack's steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.facts import catalog
from planner.model import stack, trust
from planner.model.choose import choose
from planner.model.wish import Wish

WISH = Wish(4, tpot_limit_s=30e-3, mean_input_tokens=1000.0, mean_output_tokens=300.0)


def candidates(chip: str, model: str) -> tuple[str, ...]:
    facts = catalog.load()
    return stack.candidates(facts.chip(chip), facts.model(model))


def test_candidates_were_measured_with_the_model_on_the_chip_or_its_like() -> None:
    assert candidates("b200-sxm", "gpt-oss-120b") == ("trtllm", "vllm")
    assert candidates("h200-sxm", "glm-5") == ("sglang",)
    # Never measured with it, but other chips of the vendor were.
    assert candidates("b300-sxm", "gpt-oss-120b") == ("trtllm", "vllm")
    # A model or a vendor that nobody measured, and a chip with an engine of its own.
    assert candidates("h100-sxm", "minimax-m2.5") == ("generic",)
    assert candidates("mi355x", "gpt-oss-120b") == ("generic",)
    assert candidates("jalapeno", "gpt-oss-120b") == ("openai",)


def test_the_best_makes_most_and_has_the_steps_that_were_measured() -> None:
    facts = catalog.load()
    chip, model = facts.chip("b200-sxm"), facts.model("gpt-oss-120b")
    found = {name: stack.of(chip, model, facts.engine(name), facts.serving(), WISH) for name in ("trtllm", "vllm")}
    best = stack.best(chip, model, ("trtllm", "vllm"), facts.serving(), WISH)
    assert best == max(found.values(), key=lambda one: one.choice.tokens_per_s)
    for name, one in found.items():
        assert one.factor != 1.0
        assert one.choice.spec["engine"]["stack_factor"] == one.factor
        plain = choose(
            chip, model, facts.engine(name), facts.serving(), replace(WISH, tp=one.choice.tp, dp=one.choice.dp)
        )
        if one.choice.n_seqs == plain.n_seqs:
            # Every part of a step takes the factor, so the time between tokens does.
            assert one.choice.tpot_s == pytest.approx(plain.tpot_s * one.factor, rel=1e-6)
    text = stack.notices(chip, model, best, ("trtllm", "vllm"))[0].message
    assert text.startswith(f"engine {best.engine} for gpt-oss-120b on b200-sxm: of trtllm and vllm it gives most")
    assert "; its steps take " in text


def test_nothing_measured_leaves_the_pooled_engine_alone() -> None:
    facts = catalog.load()
    chip, model = facts.chip("h100-sxm"), facts.model("qwen3-30b-a3b")
    one = stack.best(chip, model, stack.candidates(chip, model), facts.serving(), WISH)
    assert (one.engine, one.factor) == ("generic", 1.0)
    assert "stack_factor" not in one.choice.spec["engine"]
    assert stack.notices(chip, model, one, ("generic",)) == ()
    # A pool of prompts has no time between tokens to be measured.
    vllm = facts.engine("vllm")
    prompts = stack.of(facts.chip("b200-sxm"), facts.model("gpt-oss-120b"), vllm, facts.serving(), WISH, role="prefill")
    assert prompts.factor == 1.0


def test_stages_and_drafts_have_the_band_of_a_model_that_was_not_measured() -> None:
    facts = catalog.load()
    chip, model = facts.chip("gb200"), facts.model("gpt-oss-120b")
    wish = Wish(n_chips=8, mean_input_tokens=1000.0, mean_output_tokens=300.0)
    drafts = {"draft_tokens": 3, "acceptance_frac": 0.7, "draft_cost_frac": 0.0}
    found = {}
    for name, changed in (
        ("plain", wish),
        ("stages", replace(wish, pp=2)),
        ("drafts", replace(wish, speculation=drafts)),
    ):
        one = stack.of(chip, model, facts.engine("trtllm"), facts.serving(), changed)
        found[name] = trust.of(chip, stack.row_of(chip, model, one, "mixed"))
    assert (found["plain"].grade, found["stages"].grade, found["drafts"].grade) == ("estimate", "assumed", "assumed")
    assert found["stages"].tpot[1] > found["plain"].tpot[1]

"""The layout that is chosen where a scenario leaves it open."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import Infeasible
from planner.facts import catalog
from planner.model.choose import choose
from planner.model.wish import Choice, Wish

CHAT: dict[str, Any] = {"mean_input_tokens": 1200, "mean_output_tokens": 300}


def chosen(chip: str, model: str, n_chips: int, **wish: Any) -> Choice:
    facts = catalog.load()
    return choose(facts.chip(chip), facts.model(model), facts.engine("generic"), facts.serving(), Wish(n_chips, **wish))


def test_no_fixed_layout_makes_more_tokens() -> None:
    wish = {**CHAT, "tpot_limit_s": 0.02}
    best = chosen("gb200", "gpt-oss-120b", 8, **wish)
    assert best.is_inside
    assert best.tp * best.dp == 8
    assert best.ep == 8
    for tp in (1, 2, 4, 8):
        other = chosen("gb200", "gpt-oss-120b", 8, tp=tp, **wish)
        assert other.tp == tp
        assert other.tokens_per_s <= best.tokens_per_s
        assert other.tpot_s <= 0.02


def test_a_tight_limit_takes_the_fastest_layout() -> None:
    free = chosen("gb300", "kimi-k2.5", 16, **CHAT)
    tight = chosen("gb300", "kimi-k2.5", 16, **CHAT, tpot_limit_s=1e-4)
    assert not tight.is_inside
    assert tight.n_seqs == 1
    assert all(tight.tpot_s <= chosen("gb300", "kimi-k2.5", 16, tp=tp).tpot_s for tp in (1, 2, 4, 8))
    assert free.is_inside
    assert free.tokens_per_s > tight.tokens_per_s


def test_a_looser_limit_never_makes_fewer_tokens() -> None:
    rates = [
        chosen("gb300", "deepseek-r1", 8, **CHAT, tpot_limit_s=limit).tokens_per_s for limit in (0.02, 0.03, 0.06, 0.2)
    ]
    assert rates == sorted(rates)


def test_long_prompts_are_not_left_to_one_chip() -> None:
    # Decoding alone prefers copies of the dense weights (tp 1), where a prompt of 20,000 tokens runs on a single chip.
    choice = chosen("gb300", "kimi-k2.5", 16, mean_input_tokens=20_000, mean_output_tokens=300, tpot_limit_s=0.03)
    assert choice.tp >= 8


def test_fixed_degrees_are_kept() -> None:
    choice = chosen("gb200", "deepseek-r1", 8, **CHAT, tp=2, ep=4)
    assert (choice.tp, choice.dp, choice.ep) == (2, 4, 4)
    with pytest.raises(Infeasible, match="tp 3 does not make 8 chips"):
        chosen("gb200", "deepseek-r1", 8, tp=3)
    with pytest.raises(Infeasible, match="tp 4 x dp 4 does not make 8 chips"):
        chosen("gb200", "deepseek-r1", 8, tp=4, dp=4)


def test_options_reach_the_spec() -> None:
    choice = chosen("gb200", "deepseek-r1", 8, **CHAT, precision="fp4", kv_dtype="fp8", max_batch=77, chunk_tokens=2048)
    assert choice.precision == "nvfp4 experts, bf16 rest"
    assert choice.spec["precision"]["kv_bytes_per_element"] == 1
    assert choice.spec["serving"]["max_batch"] == 77
    assert choice.spec["serving"]["chunk_tokens"] == 2048
    assert choice.n_seqs <= 77


def test_windows_take_room_from_the_batch() -> None:
    # 8,192 tokens in 36 sliding layers beside 12 full ones are 24,576 tokens of the full layers a sequence.
    choice = chosen("gb200", "llama-4-scout", 2, mean_input_tokens=9000, mean_output_tokens=1000, max_batch=10_000)
    assert choice.n_seqs == choice.plan["kv_capacity_tokens"] // (10_000 + 24_576)


def test_what_fits_nowhere_says_how_much_and_what_would() -> None:
    with pytest.raises(Infeasible) as error:
        chosen("h100-sxm", "llama-3.1-70b", 1, **CHAT)
    (fault,) = error.value.faults
    assert fault.what.startswith("llama-3.1-70b on 1 h100-sxm: weights: 141.10 GB of weights do not fit on a chip")
    assert fault.way_out == "the smallest layout that fits has 2 chips (tp 2, dp 1, ep 1)"
    with pytest.raises(Infeasible, match="deepseek-r1 on 71 gb300: experts"):
        chosen("gb300", "deepseek-r1", 71, pp=1, **CHAT)


def test_stages_are_for_those_who_ask_and_where_nothing_else_fits() -> None:
    # 256 experts do not spread over 72 chips, nor over 36, 24, 18, 12 or 9, but over 8: nine stages.
    assert chosen("gb300", "deepseek-r1", 72, **CHAT).pp == 9
    assert chosen("gb200", "deepseek-r1", 8, **CHAT).pp == 1
    choice = chosen("gb200", "deepseek-r1", 8, pp=4, **CHAT)
    assert (choice.pp, choice.tp * choice.dp) == (4, 2)
    with pytest.raises(Infeasible, match="tp 4 x pp 4 does not make 8 chips"):
        chosen("gb200", "deepseek-r1", 8, tp=4, pp=4, **CHAT)


def test_a_model_that_nobody_asks_for_gets_the_fastest_step() -> None:
    choice = chosen("gb200", "llama-3.1-8b", 4)
    assert (choice.n_seqs, choice.is_inside) == (1, False)
    assert choice.tp == 4


def test_drafts_are_chosen_for_by_the_tokens_that_their_steps_give() -> None:
    wish = {**CHAT, "tpot_limit_s": 0.02, "tp": 8}
    plain = chosen("gb200", "deepseek-r1", 8, **wish)
    kept = [
        chosen(
            "gb200",
            "deepseek-r1",
            8,
            **wish,
            speculation={"draft_tokens": 3, "acceptance_frac": acceptance, "draft_cost_frac": 0.0},
        )
        for acceptance in (0.0, 0.5, 1.0)
    ]
    assert [each.plan["tokens_per_step"] for each in kept] == [1.0, 1.875, 4.0]
    # Nothing accepted, only verified: slower than no draft. All accepted: about four tokens a step.
    assert kept[0].tokens_per_s < plain.tokens_per_s < kept[2].tokens_per_s
    assert kept[1].tokens_per_s > kept[0].tokens_per_s
    alone = [
        chosen(
            "gb200", "deepseek-r1", 8, **{**wish, "tpot_limit_s": 1e-5}, speculation=each.spec["serving"]["speculation"]
        )
        for each in kept
    ]
    # None is inside such a limit: a step of one sequence over the tokens that it gives.
    assert alone[0].tpot_s == pytest.approx(1.875 * alone[1].tpot_s, rel=1e-12)
    assert alone[0].tpot_s == pytest.approx(4.0 * alone[2].tpot_s, rel=1e-12)

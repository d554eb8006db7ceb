"""Figures that everybody knows, and the arithmetic that ties facts together."""

from __future__ import annotations

import pytest

from planner.facts import catalog

SHELF = catalog.load()
CHIPS = SHELF.names("chips")
MODELS = SHELF.names("models")


@pytest.mark.parametrize(
    ("chip", "memory", "bandwidth", "bf16", "rated"),
    [
        ("h100-sxm", 85_899_345_920, 3.35e12, 989e12, 700),
        ("h200-sxm", 141 * 2**30, 4.8e12, 989e12, 700),
        ("gb200", 189_471 * 2**20, 8e12, 2500e12, 1200),
        ("gb300", 284_208 * 2**20, 8e12, 2500e12, 1400),
        ("a100-sxm", 80 * 2**30, 2.039e12, 312e12, 400),
    ],
)
def test_chips(chip: str, memory: int, bandwidth: float, bf16: float, rated: float) -> None:
    facts = SHELF.chip(chip)
    assert facts.memory_bytes.number == memory
    assert facts.memory_bytes_per_s.number == bandwidth
    assert facts.flop_per_s["bf16"].number == bf16
    assert facts.tdp_w.number == rated


def test_jalapeno_says_what_is_undisclosed() -> None:
    chip = SHELF.chip("jalapeno")
    assert chip.memory_bytes.grade == "undisclosed"
    assert (chip.memory_bytes.value, chip.memory_bytes.default) == (None, 288_000_000_000)
    assert (chip.memory_bytes.low, chip.memory_bytes.high) == (192e9, 384e9)
    assert chip.memory_bytes_per_s.value is None
    assert chip.memory_bytes_per_s.low <= chip.memory_bytes_per_s.default <= chip.memory_bytes_per_s.high
    assert chip.tdp_w.number == 700
    assert (chip.tdp_w.grade, chip.sustained_max_w and chip.sustained_max_w.number) == ("vendor", 550)
    assert chip.engine == "openai"


@pytest.mark.parametrize("name", CHIPS)
def test_rates_are_dense(name: str) -> None:
    rates = {key: fact.used for key, fact in SHELF.chip(name).flop_per_s.items()}
    bf16, fp8, fp4 = (rates[key] for key in ("bf16", "fp8", "fp4"))
    assert isinstance(bf16, float)
    if isinstance(fp8, float):
        expected = 1 if name == "tpu-v6e" else 2  # Trillium has no native fp8
        assert fp8 / bf16 == pytest.approx(expected, rel=0.01)
    if isinstance(fp4, float) and isinstance(fp8, float):
        assert min(abs(fp4 / fp8 - 2), abs(fp4 / fp8 - 3)) < 0.01


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("llama-3.1-8b", 32 * 2 * 8 * 128 * 2),  # layers x (key, value) x kv heads x head x bf16 = 131,072
        ("llama-3.1-70b", 80 * 2 * 8 * 128 * 2),  # 327,680
        ("deepseek-r1", 61 * 576 * 2),  # latent 512 + rotary 64 an element: 70,272
        ("kimi-k2.5", 61 * 576 * 2),
        ("gpt-oss-120b", 18 * 2 * 8 * 64 * 2),  # past the window only the 18 full layers grow: 36,864
        ("gpt-oss-20b", 12 * 2 * 8 * 64 * 2),
        ("qwen3-235b-a22b", 94 * 2 * 4 * 128 * 2),
    ],
)
def test_bytes_of_a_token(name: str, per_token: int) -> None:
    kv = SHELF.model(name).kv.group
    assert kv["per_token_bytes_bf16"] == per_token
    assert kv["per_token_bytes_fp8"] == per_token // 2


@pytest.mark.parametrize("name", MODELS)
def test_fp8_halves_the_bytes_of_a_token_exactly(name: str) -> None:
    kv = SHELF.model(name).kv.group
    assert kv["per_token_bytes_bf16"] == 2 * number(kv["per_token_bytes_fp8"])


@pytest.mark.parametrize("name", MODELS)
def test_bytes_of_a_token_follow_from_the_structure(name: str) -> None:
    model = SHELF.model(name)
    n_layers = model.n_layers.number
    if model.mla is not None:
        rank, rope = (number(model.mla.group[key]) for key in ("kv_lora_rank", "qk_rope_head_dim"))
        expected = n_layers * (rank + rope) * 2
    else:
        assert model.n_kv_heads is not None
        assert model.head_dim is not None
        if model.sliding is not None:
            full = number(model.sliding.group["full_layers"])
        elif model.linear_attention is not None:
            full = number(model.linear_attention.group["full_layers"])
        elif model.mamba is not None:
            full = number(model.mamba.group["attention_layers"])
        else:
            full = n_layers
        expected = full * 2 * model.n_kv_heads.number * model.head_dim.number * 2
    assert model.kv.group["per_token_bytes_bf16"] == expected


def test_a_sliding_window_caps_what_a_sequence_keeps() -> None:
    model = SHELF.model("gpt-oss-120b")
    assert model.sliding is not None
    layer = 2 * 8 * 64 * 2
    window, sliding, full = (number(model.sliding.group[k]) for k in ("window_tokens", "sliding_layers", "full_layers"))
    assert (window, sliding, full) == (128, 18, 18)
    assert model.kv.group["at_8192_tokens_bytes_bf16"] == full * layer * 8192 + sliding * layer * 128


@pytest.mark.parametrize("name", MODELS)
def test_weights_follow_from_parameters_and_format(name: str) -> None:
    model = SHELF.model(name)
    params, weights = model.params.group, model.weights.group
    formats = SHELF.formats()
    native = weights["native_format"]
    assert isinstance(native, dict)
    assert (native["experts"] is None) == (model.moe is None)

    def size(part: str | None) -> float:
        return number(formats[part].group["bytes_per_param"]) if part else 0.0

    experts, rest = (None if native[key] is None else str(native[key]) for key in ("experts", "rest"))
    routed, other = number(params["routed_expert_total"]), number(params["non_expert_total"])
    assert number(weights["native_checkpoint_bytes"]) == pytest.approx(
        routed * size(experts) + other * size(rest), abs=1
    )
    assert weights["bf16_all_bytes"] == 2 * number(params["total"])
    assert weights["fp8_all_bytes"] == params["total"] == routed + other


@pytest.mark.parametrize("name", [n for n in MODELS if SHELF.model(n).moe is not None])
def test_expert_parameters_add_up(name: str) -> None:
    model = SHELF.model(name)
    assert model.moe is not None
    moe, params = model.moe.group, model.params.group
    n_experts, top_k, layers = (number(moe[key]) for key in ("n_experts", "top_k", "moe_layers"))
    each = number(params["per_expert"])
    assert params["routed_expert_total"] == layers * n_experts * each
    assert params["routed_expert_active"] == layers * top_k * each
    assert number(moe["dense_layers"]) + layers == model.n_layers.number


def test_an_int4_checkpoint_has_a_published_float_form() -> None:
    int4 = SHELF.formats()["int4"].group
    assert (int4["rate"], int4["float_form"], int4["float_form_nvidia"]) == ("bf16", "mxfp4", "nvfp4")
    kimi = SHELF.model("kimi-k2.5").weights.group
    assert kimi["native_format"] == {"experts": "int4", "rest": "bf16"}
    assert number(kimi["mxfp4_experts_rest_bf16_bytes"]) < number(kimi["native_checkpoint_bytes"])


def number(value: object) -> float:
    assert isinstance(value, int | float)
    assert not isinstance(value, bool)
    return value

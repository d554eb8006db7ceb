"""A checkpoint's config.json gives the same model as the catalogue, and says what it cannot read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.errors import FactError
from planner.facts import catalog
from planner.facts.model_schema import Model

SHELF = catalog.load()
PLAIN = [
    name
    for name in SHELF.names("models")
    if not name.startswith(("llama-4", "gemma"))
    and not any(getattr(SHELF.model(name), kind) for kind in ("linear_attention", "mamba", "sparse_attention"))
]
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}


def used(fact: Any) -> Any:
    return None if fact is None else fact.used


def config_of(model: Model) -> dict[str, Any]:
    """The public config that the facts of a model were read from."""
    moe = model.moe.group if model.moe else {}
    kinds = {"gpt": "gpt_oss", "dee": "deepseek_v3", "kim": "kimi_k2", "lla": "llama", "min": "minimax_m2"}
    config = {
        "model_type": kinds.get(model.name[:3], "qwen3_moe" if moe else "qwen3"),
        "num_hidden_layers": used(model.n_layers),
        "hidden_size": used(model.hidden),
        "num_attention_heads": used(model.n_heads),
        "num_key_value_heads": used(model.n_kv_heads),
        "head_dim": used(model.head_dim),
        "vocab_size": used(model.vocab),
        "max_position_embeddings": used(model.context_tokens),
        "tie_word_embeddings": used(model.tied_embeddings),
        "intermediate_size": used(model.ffn_intermediate)
        or moe.get("dense_intermediate")
        or moe.get("expert_intermediate"),
        "num_local_experts": moe.get("n_experts"),
        "num_experts_per_tok": moe.get("top_k"),
        "n_shared_experts": moe.get("n_shared_experts"),
        "moe_intermediate_size": moe.get("expert_intermediate"),
        "first_k_dense_replace": moe.get("dense_layers"),
    }
    if model.mla is not None:
        config |= model.mla.group
    if model.sliding is not None:
        config |= {
            "sliding_window": 128,
            "layer_types": ["sliding_attention", "full_attention"] * (used(model.n_layers) // 2),
        }
    native = model.weights.group["native_format"]
    assert isinstance(native, dict)
    quantised = {
        "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128]},
        "mxfp4": {"quant_method": "mxfp4"},
        "int4": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}},
    }
    wanted = native["experts"] or native["rest"]
    return config | ({"quantization_config": quantised[str(wanted)]} if wanted != "bf16" else {})


def read(folder: Path, config: dict[str, Any], **options: Any) -> Model:
    (folder / "config.json").write_text(json.dumps(config, **options))
    return SHELF.model("./config.json", base=folder)


@pytest.mark.parametrize("name", PLAIN)
def test_the_catalogue_again_from_the_config(name: str, tmp_path: Path) -> None:
    known = SHELF.model(name)
    folder = tmp_path / name
    folder.mkdir()
    model = read(folder, config_of(known))
    assert model.name == name
    assert model.params.group == known.params.group
    for group in ("weights", "kv"):
        got, right = getattr(model, group).group, getattr(known, group).group
        assert {k: v for k, v in got.items() if k not in {"formula", "native_rule"}} == {
            k: right[k] for k in got if k not in {"formula", "native_rule"}
        }
    assert used(model.moe) == used(known.moe)
    assert used(model.mla) == used(known.mla)
    for attr in ("family", "attention", "n_layers", "hidden", "n_heads", "n_kv_heads", "context_tokens"):
        assert used(getattr(model, attr)) == used(getattr(known, attr)), attr


def test_the_language_part_of_a_larger_model(tmp_path: Path) -> None:
    model = read(tmp_path, {"model_type": "llava", "vision_config": {}, "text_config": LLAMA})
    assert model.params.group["total"] == 8_029_995_008
    assert model.n_layers.source == ("config.json",)
    assert (model.n_layers.grade, model.params.grade) == ("vendor", "estimate")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "lama"}, "model_type 'lama' is not read; did you mean llama?; write a model file"),
        ({"model_type": "jamba"}, "model_type 'jamba' is not read"),
        ({"hidden_size": None}, "hidden_size: missing 'hidden_size'"),
        ({"hidden_size": -1}, "config.json:4:18: hidden_size: '-1' is not a whole number from 1"),
        ({"hidden_size": 1e400}, "hidden_size: 'inf' is not a whole number"),
        ({"hidden_size": "4096"}, "hidden_size: '4096' is not a whole number"),
        ({"hidden_size": True}, "hidden_size: 'True' is not a whole number"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok: 9 of 8 experts"),
        ({"sliding_window": 5, "layer_types": ["linear_attention"] * 32}, "layer types linear_attention are not read"),
        ({"quantization_config": {"quant_method": "aqlm"}}, "a quantisation that is not read; known: fp8"),
    ],
)
def test_what_cannot_be_read_is_said(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(FactError) as caught:
        read(tmp_path, LLAMA | change, indent=2)
    assert message in str(caught.value)


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(FactError) as caught:
        read(tmp_path, {"model_type": "llama"})
    assert [fault.path for fault in caught.value.faults] == [
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "vocab_size",
        "max_position_embeddings",
        "intermediate_size",
    ]


@pytest.mark.parametrize("text", ["{", "[1]", "", "{'a': 1}", "[" * 100_000])
def test_files_that_are_no_config(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(FactError, match="JSON"):
        SHELF.model("./config.json", base=tmp_path)

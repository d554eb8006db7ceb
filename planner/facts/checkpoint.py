"""The public `config.json` of a checkpoint -> a `Model`: parameters, weights and key-value bytes by the usual formulas.

Counted are matrices (for gpt-oss its biases too), norms are not; the output matrix is active, the input embedding is
not. The same formulas give the models of the catalogue, which the tests check.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner import yaml_tree
from planner.errors import FactError, Fault, near
from planner.facts.fact import Fact, Group, Scalar
from planner.facts.keys import Key
from planner.facts.model_schema import MODEL, Model

FAMILIES = (
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "minimax_m2",
    "deepseek_v2",
    "deepseek_v3",
    "kimi_k2",
    "gpt_oss",
)
"""Values of `model_type` whose structure the formulas hold for."""
_BYTES = {"bf16": 2.0, "fp8": 1.0, "mxfp4": 0.53125, "nvfp4": 0.5625, "int4": 0.5625}
_LARGEST = 10**9
_FETCH = "name the config.json of a checkpoint"


def read_config(path: Path | str) -> Model:
    """The model of a checkpoint's config.json, named after the file's folder or the file. Raises `FactError`."""
    text = yaml_tree.file_text(path, error=FactError)
    try:
        whole = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as e:
        fault = Fault("not valid JSON: nested too deeply", _FETCH, file=str(path))
        if isinstance(e, json.JSONDecodeError):
            fault = Fault(f"not valid JSON: {e.msg.lower()}", _FETCH, file=str(path), line=e.lineno, col=e.colno)
        raise FactError(fault) from None
    if not isinstance(whole, dict):
        raise FactError(Fault("the file holds no JSON object at the top", _FETCH, file=str(path)))
    stem = Path(path).stem
    config = _Config(str(path), text, {**whole, **_inner(whole)})
    model = _model(config, Path(path).resolve().parent.name if stem == "config" else stem)
    if config.faults:
        raise FactError(*config.faults)
    return model


def _inner(whole: dict[str, Any]) -> dict[str, Any]:
    """The language part of a model that also sees or hears."""
    inner = whole.get("text_config")
    return inner if isinstance(inner, dict) else {}


@dataclass(slots=True)
class _Config:
    """A config with the faults found in it so far."""

    file: str
    text: str
    values: dict[str, Any]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, key: str, what: str, way_out: str = "") -> None:
        match = re.search(rf'"{re.escape(key)}"\s*:\s*', self.text)
        before = self.text[: match.end()] if match else ""
        line, col = (before.count("\n") + 1, len(before) - before.rfind("\n")) if match else (None, None)
        self.faults.append(Fault(what, way_out, path=key, file=self.file, line=line, col=col))

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number under the first of `names` that is there."""
        key = next((name for name in names if self.values.get(name) is not None), None)
        if key is None:
            if default is None:
                self.fault(names[0], f"missing '{names[0]}'", "the formulas need it")
            return least if default is None else default
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
            self.fault(key, f"{str(value)[:40]!r} is not a whole number from {least}")
            return least
        return value


def _model(config: _Config, name: str) -> Model:
    family = str(config.values.get("model_type"))
    if family not in FAMILIES:
        way_out = "write a model file like those of `planner catalog show models NAME`"
        config.fault("model_type", f"model_type '{family[:40]}' is not read{near(family[:40], FAMILIES)}", way_out)
        raise FactError(*config.faults)
    parts = _Parts(config, name, is_gpt_oss=family == "gpt_oss")
    return parts.model()


class _Parts:
    """The numbers of a config and what follows from them."""

    def __init__(self, config: _Config, name: str, *, is_gpt_oss: bool) -> None:
        count = config.count
        self.config, self.name, self.is_gpt_oss = config, name, is_gpt_oss
        self.layers, self.hidden = count("num_hidden_layers"), count("hidden_size")
        self.heads, self.vocab = count("num_attention_heads"), count("vocab_size")
        self.context = count("max_position_embeddings")
        self.is_tied = config.values.get("tie_word_embeddings") is True
        self.is_mla = config.values.get("kv_lora_rank") is not None
        if self.is_mla:
            names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
            self.mla = {key: count(key) for key in names}
            self.mla["q_lora_rank"] = count("q_lora_rank", default=0, least=0)  # 0: queries have no latent
        else:
            self.kv_heads = count("num_key_value_heads", default=self.heads)
            self.head_dim = count("head_dim", default=max(1, self.hidden // self.heads))
        self.experts = count("n_routed_experts", "num_local_experts", "num_experts", default=0, least=0)
        self.dense_layers = count("first_k_dense_replace", default=0, least=0) if self.experts else self.layers
        self.ffn = count("intermediate_size")
        if self.experts:
            self.top_k = count("num_experts_per_tok", "experts_per_token")
            self.expert_ffn = count("moe_intermediate_size", "intermediate_size")
            self.shared = count("n_shared_experts", default=0, least=0)
            if self.top_k > self.experts:
                config.fault("num_experts_per_tok", f"{self.top_k} of {self.experts} experts")
            if self.dense_layers > self.layers:
                config.fault("first_k_dense_replace", f"{self.dense_layers} of {self.layers} layers")
            if config.values.get("decoder_sparse_step", 1) != 1 or config.values.get("mlp_only_layers"):
                config.fault("decoder_sparse_step", "dense layers among the mixture layers are not read")
        self.window, self.sliding_layers = self._sliding()

    def _sliding(self) -> tuple[int, int]:
        values = self.config.values
        kinds = values.get("layer_types")
        window = values.get("sliding_window")
        if window is None or values.get("use_sliding_window") is False:
            return 0, 0
        if isinstance(kinds, list):
            odd = sorted({str(kind) for kind in kinds} - {"full_attention", "sliding_attention"})
            if odd or len(kinds) != self.layers:
                self.config.fault("layer_types", f"layer types {', '.join(odd)[:60] or len(kinds)} are not read")
            sliding = kinds.count("sliding_attention")
        else:
            sliding = self.layers
        return (self.config.count("sliding_window"), sliding) if sliding else (0, 0)

    # -- what follows --------------------------------------------------------------------------------------------------

    def attention_params(self) -> int:
        """Matrices of one layer's attention."""
        h, heads = self.hidden, self.heads
        if self.is_mla:
            m = self.mla
            width = heads * (m["qk_nope_head_dim"] + m["qk_rope_head_dim"])
            query = m["q_lora_rank"] * (h + width) if m["q_lora_rank"] else h * width
            latent = h * (m["kv_lora_rank"] + m["qk_rope_head_dim"])
            spread = m["kv_lora_rank"] * heads * (m["qk_nope_head_dim"] + m["v_head_dim"])
            return query + latent + spread + heads * m["v_head_dim"] * h
        query, keys = heads * self.head_dim, self.kv_heads * self.head_dim
        biases = query + 2 * keys + h + heads if self.is_gpt_oss else 0  # the last are the sinks
        return 2 * h * query + 2 * h * keys + biases

    def params(self) -> Group:
        """Parameters by part."""
        h, attention = self.hidden, self.attention_params()
        moe_layers = self.layers - self.dense_layers
        each = routers = shared = 0
        if self.experts:
            each = 3 * h * self.expert_ffn + (2 * self.expert_ffn + h if self.is_gpt_oss else 0)
            routers = moe_layers * h * self.experts
            shared = moe_layers * self.shared * each
        embedding = self.vocab * h
        matrices = self.layers * attention + self.dense_layers * 3 * h * self.ffn + routers + shared
        rest = matrices + embedding * (1 if self.is_tied else 2)
        routed, routed_active = moe_layers * self.experts * each, moe_layers * getattr(self, "top_k", 0) * each
        return {
            "total": rest + routed,
            "active_per_token": matrices + embedding + routed_active,
            "routed_expert_total": routed,
            "routed_expert_active": routed_active,
            "non_expert_total": rest,
            "non_expert_active": matrices + embedding,
            "per_expert": each,
            "attention_per_layer": attention,
        }

    def formats(self) -> tuple[str | None, str]:
        """Number formats of experts and of the rest."""
        quantised = self.config.values.get("quantization_config")
        rest = "bf16"
        if isinstance(quantised, dict):
            said = json.dumps(quantised).casefold()
            marks = {"mxfp4": "mxfp4", "nvfp4": "nvfp4", "fp8": "fp8", '"num_bits": 4': "int4", '"bits": 4': "int4"}
            found = next((form for mark, form in marks.items() if mark in said), None)
            if found is None:
                self.config.fault(
                    "quantization_config", "a quantisation that is not read", "known: fp8, mxfp4, nvfp4, int4"
                )
            elif found == "fp8" or not self.experts:
                rest = found
            if found is not None and self.experts:
                return found, rest
        return ("bf16" if self.experts else None), rest

    def weights(self, params: Group) -> Group:
        """Bytes of all weights by format."""
        experts, rest = self.formats()
        routed, other, total = (int(str(params[k])) for k in ("routed_expert_total", "non_expert_total", "total"))

        def size(expert: str | None, other_format: str) -> int:
            return round(routed * _BYTES[expert or "bf16"] + other * _BYTES[other_format])

        native: dict[str, Scalar] = {"experts": experts, "rest": rest}
        if experts == "mxfp4":  # engines multiply such weights with 8-bit activations
            native["activations"] = "fp8"
        found: Group = {
            "native_checkpoint_bytes": size(experts, rest),
            "native_rule": f"experts {experts}, rest {rest}" if experts else f"all {rest}",
            "native_format": native,
            "bf16_all_bytes": 2 * total,
            "fp8_all_bytes": total,
            "fp4_nominal_all_bytes": total // 2,
        }
        if experts:
            pairs = (("nvfp4", "bf16"), ("mxfp4", "bf16"), ("mxfp4", "fp8"))
            found |= {f"{e}_experts_rest_{r}_bytes": size(e, r) for e, r in pairs}
        return found

    def kv(self) -> Group:
        """Bytes of keys and values."""
        if self.is_mla:
            each, formula = (self.mla["kv_lora_rank"] + self.mla["qk_rope_head_dim"]) * 2, "layers x latent x bytes"
        else:
            each, formula = 4 * self.kv_heads * self.head_dim, "layers x 2 x kv_heads x head_dim x bytes"
        full = self.layers - self.sliding_layers
        found: Group = {
            "formula": formula,
            "per_token_bytes_bf16": full * each,
            "per_token_bytes_fp8": full * each // 2,
        }
        if self.sliding_layers:
            found["per_token_bytes_bf16_below_window"] = self.layers * each
            found |= {"window_layers": self.sliding_layers, "window_tokens": self.window}
        if self.is_mla:
            found["replicated_across_tp"] = True
        return found

    def model(self) -> Model:
        """The model, every value a fact."""
        params = self.params()
        values: dict[str, Scalar | Group] = {
            "family": "moe" if self.experts else "dense",
            "attention": "mla" if self.is_mla else "gqa+sliding" if self.sliding_layers else "gqa",
            "n_layers": self.layers,
            "hidden": self.hidden,
            "n_heads": self.heads,
            "n_kv_heads": None if self.is_mla else self.kv_heads,
            "head_dim": None if self.is_mla else self.head_dim,
            "vocab": self.vocab,
            "tied_embeddings": self.is_tied,
            "context_tokens": self.context,
            "mtp_layers": self.config.count("num_nextn_predict_layers", default=0, least=0),
        }
        if self.is_mla:
            values["mla"] = dict(self.mla)
        if self.dense_layers:
            values["ffn_intermediate"] = self.ffn
        if self.experts:
            values["moe"] = {
                "n_experts": self.experts,
                "top_k": self.top_k,
                "n_shared_experts": self.shared,
                "expert_intermediate": self.expert_ffn,
                "dense_layers": self.dense_layers,
                "moe_layers": self.layers - self.dense_layers,
                "dense_intermediate": self.ffn if self.dense_layers else None,
            }
        if self.sliding_layers:
            values["sliding"] = {
                "window_tokens": self.window,
                "sliding_layers": self.sliding_layers,
                "full_layers": self.layers - self.sliding_layers,
                "pattern": "as the config lists them",
            }
        derived: dict[str, Group] = {"params": params, "weights": self.weights(params), "kv": self.kv()}
        facts: dict[str, Any] = {key: self._fact(key, value, "vendor", "") for key, value in values.items()}
        note = "computed from the config: matrices, norms ignored"
        facts |= {key: self._fact(key, value, "estimate", note) for key, value in derived.items()}
        return Model(name=self.name, **facts)

    def _fact(self, attr: str, value: Scalar | Group, grade: str, note: str) -> Fact:
        kind = next(key.kind for key in MODEL if isinstance(key, Key) and key.attr == attr)
        unit = "tokens" if kind == "tokens" else "count" if kind == "count" else ""
        source = (Path(self.config.file).name,)
        return Fact(
            value, unit=unit, grade=grade, source=source, note=note, path=f"models.{self.name}.{attr}", kind=kind
        )

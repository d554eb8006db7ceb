"""Settings of the benchmarks' public recipes that no column of a table has, and that hold prompts back.

The InferenceX recipes (github.com/SemiAnalysisAI/InferenceX, `benchmarks/`) start servers with these options:

- SGLang on B200 and B300 for DeepSeek-R1 and Qwen3.5: `--scheduler-recv-interval 10`, and 30 from 16 clients on; always
  30 for Qwen3.5 in fp4, always 10 for DeepSeek-R1 in fp8 on four chips. It looks for new requests once in so many
  decode steps: a prompt waits for half of them in the mean.
- TensorRT-LLM for Llama-3.1-70B on fewer than eight chips, prompts and outputs of 1,024 tokens:
  `batch_wait_timeout_iters: 20`. Prompts wait so many steps for others to share theirs; those that come meanwhile wait
  for what is left.
- The same for DeepSeek-R1 in fp8 on B200 at 64 to 255 clients: 40.

And SGLang works on all prompts that wait before it goes on decoding. With prompts and outputs of one length clients
stay in step: so do the vendor lab's runs with lengths in powers of two, and those with lengths in thousands do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["held_steps", "is_in_step"]

_POLLED_MODELS = {"deepseek-r1", "qwen3.5-397b-a17b"}
_POLLED_CHIPS = {"b200-sxm", "b300-sxm"}
_MANY_CLIENTS, _POLLED_FEW, _POLLED_MANY = 16, 10, 30
_SHORT_TOKENS = 1024
"""Prompts and outputs of the recipes' shortest shape, and below."""
_ALIKE_TOKENS = 128
"""Prompts of one length are a multiple of this in the lab's runs."""


def held_steps(row: Mapping[str, Any]) -> float:
    """Steps that a prompt of this row is held back for in the mean; 0 where no recipe does."""
    if row["mode"] != "agg":
        return 0.0
    clients = float(row["concurrency"])
    if row["backend"] == "sglang" and row["model"] in _POLLED_MODELS and row["chip"] in _POLLED_CHIPS:
        return _polled(row, clients) / 2.0
    iterations = _batch_wait(row, clients)
    meanwhile = iterations * clients / float(row["osl_mean"])
    return iterations * (1.0 + meanwhile / 2.0) / (1.0 + meanwhile)


def _polled(row: Mapping[str, Any], clients: float) -> int:
    """Decode steps from one look of SGLang at new requests to the next."""
    if (row["model"], row["precision"]) == ("qwen3.5-397b-a17b", "fp4"):
        return _POLLED_MANY
    if (row["model"], row["precision"], row["chips"]) == ("deepseek-r1", "fp8", 4):
        return _POLLED_FEW
    return _POLLED_MANY if clients >= _MANY_CLIENTS else _POLLED_FEW


def _batch_wait(row: Mapping[str, Any], clients: float) -> float:
    """Steps for which TensorRT-LLM waits for more prompts."""
    if row["backend"] != "trtllm" or max(row["isl_mean"], row["osl_mean"]) > _SHORT_TOKENS:
        return 0.0
    if row["model"] == "llama-3.1-70b" and row["chips"] < 8:
        return 20.0
    is_fp8 = (row["model"], row["precision"], row["chip"]) == ("deepseek-r1", "fp8", "b200-sxm")
    return 40.0 if is_fp8 and 64 <= clients < 256 else 0.0


def is_in_step(row: Mapping[str, Any]) -> bool:
    """Whether the clients of this row stay in step with each other."""
    is_alike = row.get("harness") == "lab" and row["isl_mean"] % _ALIKE_TOKENS == 0
    return bool(row["mode"] == "agg" and row["backend"] == "sglang" and is_alike)

"""A calibration's serving engines as fact files, written by the command that fits them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.model.coefficients import COEFFICIENTS, ENGINES, FIXED_ENGINE, POOLED

__all__ = ["TITLES", "engine_files"]

TITLES = {
    "trtllm": "TensorRT-LLM",
    "vllm": "vLLM",
    "sglang": "SGLang",
    POOLED: "Any serving engine: mean of TensorRT-LLM, vLLM and SGLang",
}
_HELD = {
    "host_s": (0.0, 5e-4, "no gain from a constant a step beside the launches by layer"),
    "expert_skew": (1.0, 1.3, "imbalance terms bought nothing"),
    "prefill_link_eff_frac": (0.3, 0.8, "held: fitting it predicted points that were left out no better"),
}
"""Ranges of the fields that are not fitted, and why they are not."""


def engine_files(tree: Mapping[str, Any]) -> dict[str, str]:
    """The text of the fact file of each engine of a calibration, by engine; `generic` is the mean of those measured,
    with the lowest low and the highest high.
    """
    return {name: _file(name, tree) for name in (*ENGINES, POOLED)}


def _file(engine: str, tree: Mapping[str, Any]) -> str:
    by_key = {(one["name"], one["engine"]): one for one in tree["coefficients"]}
    made = f"planner calibrate on {tree['data']['n_used']} clean measured points"
    lines = ["schema: engines/1", f"title: '{TITLES[engine]}'" if ":" in TITLES[engine] else f"title: {TITLES[engine]}"]
    for coefficient in COEFFICIENTS:
        name = coefficient.name
        if coefficient.part != "engine":
            continue
        if not coefficient.is_each:
            rows, what = [by_key[coefficient.name, "all"]], "one value for all engines"
        elif engine == POOLED:
            rows, what = [by_key[coefficient.name, one] for one in ENGINES], "mean of the engines"
        else:
            rows, what = [by_key[coefficient.name, engine]], "of this engine"
        value = sum(row["value"] for row in rows) / len(rows)
        low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
        lines += _fact(name, value, low, high, f"{made}, {what}; range 90 %")
    for name, (low, high, why) in _HELD.items():
        lines += _fact(name, FIXED_ENGINE[name], low, high, why)
    return "\n".join(lines) + "\n"


def _fact(name: str, value: float, low: float, high: float, note: str) -> list[str]:
    key, texts = _texts(name, (value, low, high))
    values = [f"  {field}: {text}" for field, text in zip(("value", "low", "high"), texts, strict=True)]
    return [f"{key}:", *values, "  grade: estimate", "  source: planner", f"  note: '{note}'"]


def _texts(name: str, values: tuple[float, ...]) -> tuple[str, list[str]]:
    """The key of a field in a fact file, and values with its unit: four digits, enough to be a fact."""
    if name.endswith("_s"):
        return name[:-2], [f"{value * 1e6:.4g} us" for value in values]
    if name.startswith("launch_") and name.endswith("_frac"):
        return name[:-5], [f"{value:.4g}" for value in values]
    if name.endswith("_frac"):
        return name[:-5], [f"{value * 100:.4g} %" for value in values]
    return name, [f"{value:.4g}" for value in values]

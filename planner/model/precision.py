"""Stored bytes and compute rates of a model's parts on a chip: two things, decided apart."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import FactError, Fault, Notice, near
from planner.facts.fact import Fact
from planner.facts.schema import Chip, Model

__all__ = ["KV_DTYPES", "PRECISIONS", "precision_spec"]

PRECISIONS = ("bf16", "fp8", "fp4", "mxfp4", "nvfp4", "int4")
"""What a deployment may ask for; `fp4` is the 4-bit float of the checkpoint, or else of the chip's vendor."""
KV_DTYPES = ("bf16", "fp8")


def precision_spec(
    chip: Chip, model: Model, formats: Mapping[str, Fact], *, precision: str | None = None, kv_dtype: str | None = None
) -> tuple[dict[str, object], str, tuple[Notice, ...]]:
    """The `precision` part of a deployment spec, the same in words, and what was decided that a reader should know.

    Weights keep the bytes of the checkpoint, or of the format asked for; they compute at that format's rate, or at the
    bf16 rate where the chip lacks it; products with activations of a wider format (8 bits beside gpt-oss's MXFP4
    experts) run at that one's rate. An int4 checkpoint uses its published 4-bit float form on a chip with fp4 hardware.
    A 4-bit format is that of the routed experts (of everything in a dense model): the rest keeps the checkpoint's own
    beside MXFP4 and int4, and is bf16 beside NVFP4, as the published checkpoints have it. Attention itself computes in
    bf16, and the cache is bf16 unless asked otherwise.

    Raises:
        FactError: an unknown precision or cache format.
    """
    faults = [
        Fault(f"unknown {what} '{asked}'" + near(asked, known))
        for what, asked, known in (("precision", precision, PRECISIONS), ("kv_dtype", kv_dtype, KV_DTYPES))
        if asked is not None and asked not in known
    ]
    if faults:
        raise FactError(*faults)
    notices: list[Notice] = []
    experts, rest = _stored(chip, model, formats, precision)
    native = _native(model)[0]
    if precision is None and experts != native:
        text = f"{model.name} is published in {native}; on {chip.name} its {experts} form is used, at the fp4 rate"
        notices.append(Notice("float_form", text))
    for name in dict.fromkeys((experts, rest)):
        if not _computes(chip, _rate(formats, name)):
            lacks = f"{chip.name} has no {_rate(formats, name)} arithmetic"
            text = f"{lacks}: {name} weights of {model.name} compute in bf16"
            notices.append(Notice("rate_fallback", text))
    operand = _operand(model) if experts == native else None
    if operand is not None and not _computes(chip, _rate(formats, experts)):
        operand = None  # unpacked to bf16, as its operand is
    spec: dict[str, object] = {
        "expert_bytes_per_param": formats[experts].group["bytes_per_param"],
        "rest_bytes_per_param": formats[rest].group["bytes_per_param"],
        "experts_rate": _rate_on(chip, formats, experts),
        "experts_operand": _rate_on(chip, formats, operand) if operand is not None else None,
        "rest_rate": _rate_on(chip, formats, rest),
        "attention_rate": "bf16",
        "kv_bytes_per_element": formats[kv_dtype or "bf16"].group["bytes_per_param"],
    }
    words = rest if model.moe is None or experts == rest else f"{experts} experts, {rest} rest"
    return spec, words, tuple(notices)


def _native(model: Model) -> tuple[str, str]:
    """The checkpoint's own formats: of the routed experts, of everything else (both the same in a dense model)."""
    formats = model.weights.group["native_format"]
    assert isinstance(formats, dict)
    return str(formats["experts"] or formats["rest"]), str(formats["rest"])


def _operand(model: Model) -> str | None:
    """The format of what the checkpoint's expert weights are multiplied with; None = the weights' own."""
    formats = model.weights.group["native_format"]
    assert isinstance(formats, dict)
    return str(formats["activations"]) if formats.get("activations") else None


def _stored(chip: Chip, model: Model, formats: Mapping[str, Fact], precision: str | None) -> tuple[str, str]:
    """Formats of the routed experts and of everything else on `chip`."""
    experts, rest = _native(model)
    if precision in {"bf16", "fp8"}:
        return precision, precision
    if precision == "fp4":
        precision = None if experts in {"mxfp4", "nvfp4"} else _float_form(chip, formats)
    elif precision is None and experts == "int4" and _computes(chip, "fp4"):
        precision = _float_form(chip, formats)
    if precision is None:
        return experts, rest
    if model.moe is None:
        return precision, precision
    return precision, "bf16" if precision == "nvfp4" else rest


def _float_form(chip: Chip, formats: Mapping[str, Fact]) -> str:
    """The published 4-bit float form on chips of this vendor."""
    group = formats["int4"].group
    return str(group.get(f"float_form_{chip.vendor}") or group["float_form"])


def _rate(formats: Mapping[str, Fact], name: str) -> str:
    return str(formats[name].group["rate"])


def _rate_on(chip: Chip, formats: Mapping[str, Fact], name: str) -> str:
    rate = _rate(formats, name)
    return rate if _computes(chip, rate) else "bf16"


def _computes(chip: Chip, rate: str) -> bool:
    fact = chip.flop_per_s.get(rate)
    return fact is not None and fact.used is not None

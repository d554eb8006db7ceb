"""How a measured engine was set up, read from the file beside its requests: vLLM's options as asked for or resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import FactError, Fault, Notice, near
from planner.facts import catalog

__all__ = ["Setup", "read_setup"]

BLOCK_TOKENS = 16
MEMORY_FRAC = 0.9
"""Defaults of vLLM where the file does not say."""
_FORM_FACTORS = ("-sxm", "-server", "-se")
_AHEAD_SINCE, _V1_SINCE = (0, 14), (0, 8)
"""Releases of vLLM from which on steps are formed ahead, and this scheduler runs, unless the options say otherwise."""
_NOT_REPLAYED = {
    "policy": "no priorities are recorded; requests are taken as they came",
    "long_prefill_token_threshold": "prompts are cut by the tokens of a step only",
    "cpu_offload_gb": "weights are taken to be on the chip",
    "kv_offloading_size": "keys and values are taken to be on the chip",
    "decode_context_parallel_size": "keys and values are taken to be split by heads",
}
"""Options that change a run and have no place in a replay; their usual values change nothing."""
_PARTS = ("scheduler", "cache", "parallel", "model")
"""Parts of what the engine resolved, for what `engine_kwargs` do not say."""
_FORMATS = {
    "fp8": "fp8",
    "nvfp4": "nvfp4",
    "fp4": "nvfp4",
    "mxfp4": "mxfp4",
    "awq": "int4",
    "gptq": "int4",
    "int4": "int4",
    "w4a16": "int4",
}
"""Formats of weights by how checkpoints and options spell them."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How the engine was set up."""

    model: str
    precision: str | None
    """Format of the weights, where an option or the checkpoint's name says it."""
    chip: str
    tp: int
    pp: int
    engines: int
    """Data-parallel engines, each with limits of its own."""
    expert_parallel: bool
    max_batch: int
    chunk_tokens: int
    block_tokens: int
    context_tokens: int | None
    kv_dtype: str | None
    n_blocks: int | None
    """Blocks of an engine's cache, where the file has them."""
    memory_frac: float
    memory_bytes: float | None
    prefix_cache: bool
    is_ahead: bool
    """Steps are formed one ahead (asynchronous scheduling)."""
    is_chunked: bool
    """Prompts are cut into chunks."""
    notices: tuple[Notice, ...] = ()
    """What a reader of the replay should know of the run."""


def read_setup(tree: Any, table: Path, meta: Path, *, chip: str | None = None, model: str | None = None) -> Setup:
    """The setup in the tree of `meta`; `chip` names it where neither the file nor the name of `table` does, and `model`
    is taken (a name, or a file) instead of the one there.

    Raises:
        FactError: something that is needed is missing or wrong, or ran that is not replayed.
    """
    if not isinstance(tree, dict) or not isinstance(tree.get("engine_kwargs"), dict):
        raise FactError(Fault("has no engine_kwargs", "they say which model ran, and how", file=str(meta)))
    options = _Options(tree, meta)
    found = tree.get("hardware")
    hardware: Mapping[str, Any] = found if isinstance(found, dict) else {}
    told = options.said("model", tree.get("model"))
    faults = [
        Fault(f"engine_kwargs has no {name}", "write what the engine was started with", file=str(meta))
        for name in ("model", "max_num_seqs", "max_num_batched_tokens")
        if (model or told if name == "model" else options.said(name)) is None
    ]
    resolved = tree.get("resolved_config")
    drafts = (each.get("speculative_config") for each in (tree["engine_kwargs"], resolved) if isinstance(each, dict))
    if any(drafts):
        faults.append(Fault("the run drafted tokens", "replay a run without speculative decoding", file=str(meta)))
    if faults:
        raise FactError(*faults)
    name, precision = _checkpoint(str(told), str(options.said("quantization", "")))
    device = str(hardware.get("device_name") or "")
    cache_format = str(options.said("kv_cache_dtype", "auto"))
    return Setup(
        model=model or name,
        precision=precision,
        chip=chip or _chip(device, table),
        tp=options.count("tensor_parallel_size", 1),
        pp=options.count("pipeline_parallel_size", 1),
        engines=options.count("data_parallel_size", 1),
        expert_parallel=bool(options.said("enable_expert_parallel", False)),
        max_batch=options.count("max_num_seqs"),
        chunk_tokens=options.count("max_num_batched_tokens"),
        block_tokens=options.count("block_size", BLOCK_TOKENS),
        context_tokens=None if options.said("max_model_len") is None else options.count("max_model_len"),
        kv_dtype="fp8" if "fp8" in cache_format else None,
        n_blocks=None if options.said("num_gpu_blocks") is None else options.count("num_gpu_blocks"),
        memory_frac=options.number("gpu_memory_utilization", MEMORY_FRAC, most=1.0),
        memory_bytes=_bytes(hardware.get("device_total_memory_bytes")),
        prefix_cache=bool(options.said("enable_prefix_caching", True)),
        is_ahead=bool(options.said("async_scheduling", options.is_since(_AHEAD_SINCE))),
        is_chunked=bool(options.said("enable_chunked_prefill", True)),
        notices=_notices(options, "" if chip else device),
    )


def _notices(options: _Options, device: str) -> tuple[Notice, ...]:
    """What ran of which a replay knows nothing."""
    found = []
    if form := re.search(r"\b(PCIe|NVL|Max-Q|Laptop)\b", device, re.IGNORECASE):
        what = f"the device is '{device}': the chip of the catalogue may be another form of it than {form[1]}"
        found.append(Notice("other_form", f"{what}; --chip FILE has its own facts"))
    if not options.is_since(_V1_SINCE):
        what = f"vLLM {options.version} has an older scheduler: prompts go before decoding there, here beside it"
        found.append(Notice("older_scheduler", what))
    for name, what in _NOT_REPLAYED.items():
        value = options.said(name)
        if value not in (None, False, 0, 1, "", "auto", "fcfs", "native", "none"):
            found.append(Notice("not_replayed", f"{name} is {value!r}: {what}"))
    return tuple(found)


class _Options:
    """What is said of the engine: as asked for, as measured, as resolved, whichever comes first."""

    def __init__(self, tree: Mapping[str, Any], meta: Path) -> None:
        self.version = str(tree.get("vllm_version") or "")
        resolved = tree.get("resolved_config")
        parts = [resolved.get(f"{part}_config") for part in _PARTS] if isinstance(resolved, dict) else []
        self.places = [each for each in (tree["engine_kwargs"], tree.get("kv_cache"), *parts) if isinstance(each, dict)]
        self.meta = meta

    def said(self, name: str, default: Any = None) -> Any:
        found = (place.get(name) for place in self.places)
        return next((value for value in found if value is not None), default)

    def is_since(self, release: tuple[int, int]) -> bool:
        """Whether the engine is of this release or a later one; one that is not named is taken to be."""
        found = re.match(r"v?(\d+)\.(\d+)", self.version)
        return found is None or (int(found[1]), int(found[2])) >= release

    def number(self, name: str, default: float | None = None, *, most: float = 1e15) -> float:
        """A number above 0, up to `most`; of a list, one for each engine, the smallest."""
        value = self.said(name, default)
        value = min(value) if isinstance(value, list) and value and _are_numbers(value) else value
        if not _are_numbers([value]) or not 0 < value <= most:
            way_out = "write a number above 0" + (f", at most {most:g}" if most < 1e15 else "")
            raise FactError(Fault(f"{name} is {value!r}", way_out, file=str(self.meta)))
        return float(value)

    def count(self, name: str, default: int | None = None) -> int:
        return int(self.number(name, default))


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)


def _bytes(value: Any) -> float | None:
    value = min(value) if isinstance(value, list) and value and _are_numbers(value) else value
    return float(value) if _are_numbers([value]) and value > 0 else None


def _checkpoint(model: str, quantization: str) -> tuple[str, str | None]:
    """The name that the catalogue may know, and the format of its weights if the name or an option says it.

    >>> _checkpoint("Qwen/Qwen3-32B-FP8", "")
    ('Qwen/Qwen3-32B', 'fp8')
    >>> _checkpoint("/models/Qwen3-30B-A3B-Instruct-2507", "")
    ('Qwen3-30B-A3B-Instruct-2507', None)
    """
    name = model.rstrip("/")
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        name = name.rsplit("/", 1)[-1]  # a folder on disk
    told = f"{name.rsplit('/', 1)[-1]}-{quantization}".casefold()
    formats = [each for each in _FORMATS if re.search(rf"[-_]{each}([-_]|$)", told)]
    endings = "|".join((*_FORMATS, "dynamic", "block", r"w\d+a\d+", r"int\d+"))
    name = re.sub(rf"([-_]({endings}))+$", "", name, flags=re.IGNORECASE)
    return name, _FORMATS[formats[0]] if formats else None


def _chip(device: str, table: Path) -> str:
    """The chip that the device names or, where it names none, with which the name of the file begins; the longest.

    >>> _chip("NVIDIA A100-SXM4-80GB", Path("run.csv")), _chip("", Path("rtxpro6000-x.csv"))
    ('a100-sxm', 'rtx-pro-6000')
    """
    known = catalog.load().names("chips")
    spellings = {_plain(name.removesuffix(suffix)): name for suffix in (*_FORM_FACTORS, "") for name in known}
    words = re.findall("[a-z0-9]+", device.lower())
    runs = {"".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}
    of_device = [spelling for spelling in spellings if spelling in runs]
    of_file = [spelling for spelling in spellings if _plain(table.name).startswith(spelling)]
    for found in (of_device, of_file):
        if found:
            return spellings[max(found, key=len)]
    what = "neither the device nor the name of the file says which chip ran"
    if device:
        what = f"the chip of '{device[:60]}' is not known"
    kind = next((word for word in words if re.search("[0-9]", word)), "")
    way_out = f"--chip NAME or --chip FILE{near(kind, known)}"
    raise FactError(Fault(what, way_out, file=str(table)))


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())

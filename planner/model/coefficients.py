"""The coefficients that a calibration fits: what each is, its physical range, and how far data may move it.

A coefficient belongs to all engines or to each; the core's names are used throughout
(`core_rs/engine/src/deployment.rs` for the engine, `steady.rs` for its habits). Fitting works
on logarithms, so nothing changes sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["COEFFICIENTS", "ENGINES", "POOLED", "Coefficient", "engines_and_habits", "flat_names", "prior"]

ENGINES = ("trtllm", "vllm", "sglang")
"""Serving engines with measured points."""
POOLED = "generic"
"""Any other: the mean of those."""
FIXED_ENGINE = {"host_s": 0.0, "expert_skew": 1.0, "prefill_link_eff_frac": 0.5}
"""Engine fields that points left out were predicted no better with; held."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One field of the engine or of its habits, to be fitted between `low` and `high`."""

    name: str
    part: str
    """engine | habits"""
    is_each: bool
    """One value for each engine, or one for all."""
    start: float
    low: float
    high: float
    spread: float
    """Standard deviation of its logarithm around `start`, before any data."""
    meaning: str


def _engine(
    name: str, start: float, low: float, high: float, spread: float, meaning: str, each: bool = False
) -> Coefficient:
    return Coefficient(name, "engine", each, start, low, high, spread, meaning)


def _habit(
    name: str, start: float, low: float, high: float, spread: float, meaning: str, each: bool = False
) -> Coefficient:
    return Coefficient(name, "habits", each, start, low, high, spread, meaning)


COEFFICIENTS: tuple[Coefficient, ...] = (
    _engine("memory_eff_frac", 0.77, 0.5, 0.95, 0.25, "share of the bandwidth that reading weights reaches"),
    _engine("unpack_eff_frac", 0.9, 0.4, 1.0, 0.3, "share of that where weights are unpacked first"),
    _engine("kv_read_eff_frac", 0.75, 0.4, 1.0, 0.25, "share of the bandwidth that keys and values reach"),
    _engine("compute_eff_frac", 0.55, 0.25, 0.95, 0.15, "share of the dense rate that decoding reaches"),
    _engine("prefill_eff_frac", 0.5, 0.15, 0.95, 0.12, "share of the dense rate that prefill reaches", each=True),
    _engine("grouped_eff_frac", 0.8, 0.2, 1.0, 0.3, "share of that which grouped products of experts reach"),
    _engine("routed_passes", 5.0, 0.1, 100.0, 1.0, "passes of a prompt's routed copies through memory"),
    _engine("launch_layer_s", 30e-6, 3e-6, 80e-6, 0.4, "added once a layer and step", each=True),
    _engine("launch_moe_s", 30e-6, 1e-6, 90e-6, 0.2, "more in a mixture layer", each=True),
    _engine("launch_fp4_frac", 0.8, 0.2, 2.0, 0.4, "share of that where experts compute in 4 bits"),
    _engine("launch_exchange_frac", 1.0, 0.5, 4.0, 0.3, "share of that where attention groups exchange tokens"),
    _engine("launch_unpack_frac", 1.0, 0.3, 4.0, 0.4, "share of that where experts' weights are unpacked first"),
    _engine("launch_shared_s", 8e-6, 1e-7, 60e-6, 0.7, "more in a mixture layer with shared experts"),
    _engine("launch_mla_s", 14e-6, 1e-7, 60e-6, 0.7, "more in a latent-attention layer"),
    _engine("launch_sparse_s", 79e-6, 1e-6, 200e-6, 0.7, "more in a layer with an attention indexer"),
    _engine("launch_linear_s", 26e-6, 1e-7, 80e-6, 0.7, "more in a linear-attention layer"),
    _engine("host_sequence_s", 20e-6, 1e-7, 1e-3, 1.0, "added for each sequence of an attention group"),
    _engine("collective_base_s", 1e-6, 1e-8, 20e-6, 0.7, "added to every collective"),
    _engine("collective_log_s", 4e-6, 1e-7, 20e-6, 0.7, "wait of a collective per doubling of its chips"),
    _engine("collective_scale_out_s", 55e-6, 1e-6, 300e-6, 0.7, "more when a collective leaves the domain"),
    _engine("link_eff_frac", 0.24, 0.05, 1.0, 0.4, "share of the link bandwidth of decoding collectives"),
    _habit("interference", 0.8, 0.1, 2.0, 0.25, "delay of neighbours over a prompt's own time", each=True),
    _habit("first_token_s", 20e-3, 1e-4, 0.5, 0.4, "before a first token, whatever the load", each=True),
    _habit("first_token_launches", 8.0, 0.1, 50.0, 0.5, "launches of a step, so many times more"),
    _habit("first_token_unlike_s", 0.3e-3, 1e-6, 5e-3, 1.0, "more for each layer with latent or linear attention"),
    _habit("first_token_steps", 3.0, 0.3, 30.0, 0.4, "steps that a first token waits", each=True),
    _habit("first_token_dp_steps", 5.0, 0.1, 50.0, 0.4, "more of them with attention data parallelism"),
    _habit("lone_prompt", 1.2, 0.5, 5.0, 0.25, "time of a lone prompt over its arithmetic"),
    _habit("burst", 0.1, 0.005, 2.0, 0.4, "share of requests behind a full first wave", each=True),
    _habit("cache_wait", 1.0, 0.05, 5.0, 0.25, "wait over a generation where the cache is the limit"),
    _habit("handover_s", 40e-3, 1e-3, 2.0, 0.4, "hand-over of a split deployment"),
    _habit("handover_steps", 4.0, 0.1, 30.0, 0.4, "decode steps that a handed-over prompt waits"),
    _habit("split_burst", 0.1, 0.01, 3.0, 0.4, "share of requests in the first wave at a pool of prompts"),
    _habit("split_prefill_gain", 1.3, 0.5, 3.0, 0.25, "how much faster a pool of prompts alone runs"),
)


FIRST_HABITS: dict[str, float] = {c.name: c.start for c in COEFFICIENTS if c.part == "habits"}
"""Habits before any data."""


def flat_names() -> list[tuple[Coefficient, str]]:
    """Each fitted number: its coefficient and its engine, or an empty text for all engines."""
    return [(c, engine) for c in COEFFICIENTS for engine in (ENGINES if c.is_each else ("",))]


def prior() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of start, low and high, and the spread, of each fitted number."""
    import numpy as np

    table = np.array([[c.start, c.low, c.high, c.spread] for c, _ in flat_names()])
    return np.log(table[:, 0]), np.log(table[:, 1]), np.log(table[:, 2]), table[:, 3]


def engines_and_habits(values: Sequence[float]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """The core's engines and habits by engine name, from the fitted numbers in the order of `flat_names`."""
    engines: dict[str, dict[str, Any]] = {name: dict(FIXED_ENGINE) for name in ENGINES}
    habits: dict[str, dict[str, Any]] = {name: {} for name in ENGINES}
    for (coefficient, engine), value in zip(flat_names(), values, strict=True):
        table = engines if coefficient.part == "engine" else habits
        for name in (engine,) if engine else ENGINES:
            table[name][coefficient.name] = float(value)
    for table in (engines, habits):
        table[POOLED] = {key: sum(table[name][key] for name in ENGINES) / len(ENGINES) for key in table[ENGINES[0]]}
    return engines, habits

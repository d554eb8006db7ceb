"""The serving stacks that a sweep shows: what was measured, all engines pooled, and Jalapeño's inferred one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.facts import catalog
from planner.model.best import scaled
from planner.model.calibration import METRICS, Calibration, shipped
from planner.model.coefficients import POOLED
from planner.model.sweep import Pool, System

__all__ = ["NO_ENGINE", "POOLED", "measured", "of", "pooled", "written"]

NO_ENGINE = ("openai",)
"""Engines that no calibration knows: their fields are facts."""


def pooled(pool: Pool, calibration: Calibration) -> System:
    """The mean of all measured engines, without any stack's correction."""
    offsets = {metric: calibration.vendor(pool.chip.vendor, metric).middle for metric in METRICS}
    return System(pool, "pooled", POOLED, calibration.engines[POOLED], calibration.habits[POOLED], offsets=offsets)


def measured(pool: Pool, calibration: Calibration, precision: str) -> list[System]:
    """One system for each serving engine and mode that was measured with this model and precision, each with its best
    launches; layouts with attention data parallelism only where the stack was measured with it, or the model has latent
    attention, which is served so. A vendor none of whose chips was measured has none.
    """
    facts = catalog.load()
    if pool.chip.vendor not in {facts.chip(name).vendor for name in calibration.tree["known"]["chips"]}:
        return []
    found = []
    for one in calibration.tree.get("best", ()):
        if (one["model"], one["precision"]) == (pool.model.name, precision):
            name = one["backend"]
            found.append(
                System(
                    pool,
                    "measured",
                    name,
                    scaled(calibration.engines[name], one["launch_frac"]),
                    calibration.habits[name],
                    calibration.tree["corrections"],
                    precision=precision,
                    modes=(one["mode"],),
                    has_attention_dp=one["has_attention_dp"] or pool.model.mla is not None,
                )
            )
    return found


def written(pool: Pool, habits: Mapping[str, float]) -> System:
    """A chip whose own engine is a fact, such as Jalapeño."""
    return System(pool, "inferred", pool.chip.engine, pool.spec["engine"], habits)


def of(pool: Pool, precision: str, habits: Mapping[str, float], calibration: Calibration | None = None) -> list[System]:
    """All stacks of a chip, the measured ones first."""
    calibration = calibration or shipped()
    if pool.chip.engine in NO_ENGINE:
        return [written(pool, habits)]
    return [*measured(pool, calibration, precision), pooled(pool, calibration)]


def with_prompts_on(system: System, other: System) -> System:
    """The system with its pool of prompts on the chip and engine of another; only split deployments are left."""
    modes = tuple(mode for mode in system.modes if mode == "disagg")
    offsets = {**system.offsets, "ttft": other.offsets.get("ttft", 0.0)}
    return replace(system, prefill=other.pool, prefill_engine_spec=other.engine_spec, modes=modes, offsets=offsets)

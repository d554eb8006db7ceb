"""The serving engine of a deployment that names none, and what its measured stack is off the pooled model by.

The engines that were measured with a model on a chip (else on another chip of the same vendor) are the candidates, and
the one that makes most of the deployment is taken; without a measurement it is the chip's own, for most the mean of
all engines. A stack's correction depends on the load (`stacks.py`); it is taken at the batch that the layout is chosen
for, and is one factor on the time of its steps.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.errors import Infeasible, Notice
from planner.facts import catalog
from planner.facts.schema import Chip, Engine, Model, Serving
from planner.model.calibration import shipped
from planner.model.choose import choose, is_better
from planner.model.coefficients import ENGINES, POOLED
from planner.model.stacks import LEVELS, effect
from planner.model.wish import Choice, Wish

__all__ = ["Stack", "best", "candidates", "factor", "notices", "of", "row_of"]

_MODES = {"mixed": "agg", "decode": "disagg"}
"""How points call the roles; prompts by themselves have no time between tokens."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A deployment under one engine."""

    engine: str
    choice: Choice
    factor: float
    """Steps over those of the engine's coefficients; 1 where nothing was measured."""


def candidates(chip: Chip, model: Model) -> tuple[str, ...]:
    """The engines measured with the model on the chip, or on another of its vendor; the chip's own if none."""
    if chip.engine != POOLED:
        return (chip.engine,)
    stacks = _measured()
    on_chip = sorted({engine for engine, name, where in stacks if (name, where) == (model.name, chip.name)})
    if on_chip:
        return tuple(on_chip)
    facts = catalog.load()
    near = {engine for engine, name, where in stacks if name == model.name and facts.chip(where).vendor == chip.vendor}
    return tuple(sorted(near)) or (chip.engine,)


@functools.cache
def _measured() -> frozenset[tuple[str, str, str]]:
    """Engine, model and chip of every measured stack."""
    labels = shipped().tree["corrections"]["tpot"][-1]
    parts = [label.split("/") for label in labels]
    return frozenset((backend, model, chip) for backend, model, _precision, _mode, chip in parts)


def best(
    chip: Chip, model: Model, names: tuple[str, ...], serving: Serving, wish: Wish, *, role: str = "mixed"
) -> Stack:
    """The engine of `names` that makes most of the deployment; ties to the first.

    Raises:
        Infeasible: no layout with that many chips can be laid out or fits memory, under any of them.
    """
    found: Stack | None = None
    problem: Infeasible | None = None
    for name in names:
        try:
            one = of(chip, model, catalog.load().engine(name), serving, wish, role=role)
        except Infeasible as error:
            problem = problem or error
            continue
        if found is None or is_better(one.choice, found.choice):
            found = one
    if found is None:
        assert problem is not None
        raise problem
    return found


def of(chip: Chip, model: Model, engine: Engine, serving: Serving, wish: Wish, *, role: str = "mixed") -> Stack:
    """The deployment under one engine, its steps as its stack was measured."""
    plain = choose(chip, model, engine, serving, wish)
    times = factor(chip, model, engine.name, plain, wish, role=role)
    if times == 1.0:
        return Stack(engine.name, plain, 1.0)
    # The layout is chosen again under the measured steps, which change the batch that a limit allows.
    choice = choose(chip, model, engine, serving, replace(wish, stack_factor=times))
    return Stack(engine.name, choice, times)


def factor(chip: Chip, model: Model, engine: str, choice: Choice, wish: Wish, *, role: str = "mixed") -> float:
    """What steps take over those of the engine's coefficients: in a measured stack its correction, and on chips of a
    vendor without measured points what published runs say (`vendors.py`).
    """
    log = shipped().vendor(chip.vendor, "tpot").middle
    if engine in ENGINES and role in _MODES and wish.mean_input_tokens is not None and wish.mean_output_tokens:
        row = {
            "backend": engine,
            "model": model.name,
            "precision": _label(choice),
            "mode": _MODES[role],
            "chip": chip.name,
            "chips": float(wish.n_chips),
            "concurrency": float(choice.n_seqs),
            "isl_mean": max(wish.mean_input_tokens, 1.0),
            "osl_mean": max(wish.mean_output_tokens, 1.0),
        }
        log += float(effect([row], LEVELS["tpot"], shipped().tree["corrections"]["tpot"])[0])
    # Four digits: the last bits of a logarithm differ between machines.
    return round(math.exp(log), 4)


def notices(chip: Chip, model: Model, stack: Stack, names: tuple[str, ...]) -> tuple[Notice, ...]:
    """Which engine was taken where the scenario names none, and what its measured steps are off by."""
    words = []
    if len(names) > 1:
        others = " and ".join(names)
        words.append(f"engine {stack.engine} for {model.name} on {chip.name}: of {others} it gives most, as measured")
    elif names and stack.engine != chip.engine:
        words.append(f"engine {stack.engine} for {model.name} on {chip.name}: the one measured there, or on its like")
    vendor = shipped().vendor(chip.vendor, "tpot")
    if vendor.n:
        ends = (math.exp(vendor.middle + sign * vendor.extra) for sign in (-1.0, 1.0))
        low, high = (f"{end:.2g}" for end in ends)
        what = f"no chip of {chip.vendor} was measured here: by {vendor.n} published figures"
        words.append(f"{what} steps take {math.exp(vendor.middle):.2g} times the model's there ({low} to {high})")
    elif f"{stack.factor:.3g}" != "1":
        steps = f"its steps take {stack.factor:.3g} times what that engine's take with other models"
        words.append(steps if words else f"engine {stack.engine} for {model.name} on {chip.name}: {steps}")
    return (Notice("stack", "; ".join(words)),) if words else ()


def row_of(chip: Chip, model: Model, found: Stack, role: str) -> dict[str, Any]:
    """The deployment as a row of points, at the sequences of a replica that its layout is chosen for."""
    return {
        "chip": chip.name,
        "vendor": chip.vendor,
        "model": model.name,
        "backend": found.engine,
        "precision": _label(found.choice),
        "mode": "agg" if role == "mixed" else "disagg",
        "concurrency": float(max(found.choice.n_seqs, 1)),
        "pp": found.choice.pp,
        "draft_tokens": (found.choice.spec["serving"].get("speculation") or {}).get("draft_tokens"),
    }


def _label(choice: Choice) -> str:
    """The precision as the points call it."""
    precision: Mapping[str, Any] = choice.spec["precision"]
    part = "expert" if choice.spec["model"].get("moe") else "rest"
    stored = float(precision[f"{part}_bytes_per_param"])
    if stored < 0.75:
        return "int4" if "int4" in choice.precision else "fp4"
    return "fp8" if stored < 1.5 else "bf16"

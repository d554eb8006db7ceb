"""What a deployment is asked to be, and what was chosen for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import Notice


@dataclass(frozen=True, slots=True)
class Wish:
    """What a deploy entry fixes (None = open), and the load and limit that an open layout is chosen for."""

    n_chips: int
    tp: int | None = None
    dp: int | None = None
    pp: int | None = None
    ep: int | None = None
    precision: str | None = None
    kv_dtype: str | None = None
    max_batch: int | None = None
    chunk_tokens: int | None = None
    speculation: Mapping[str, float] | None = None
    """Draft tokens, acceptance and cost, as the core has them; None without drafts."""
    tpot_limit_s: float | None = None
    """The tightest TPOT limit of the classes of the model; None if they have none."""
    mean_input_tokens: float | None = None
    """Mean lengths over the classes of the model; None if no class asks for it."""
    mean_output_tokens: float | None = None
    stack_factor: float = 1.0
    """Steps of the measured stack over those of its engine's coefficients."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A deployment that fits: its layout, the core's spec and plan of it."""

    tp: int
    dp: int
    pp: int
    ep: int
    precision: str
    """How weights are stored and computed, in words: `mxfp4 experts, bf16 rest`."""
    spec: Mapping[str, Any]
    plan: Mapping[str, Any]
    notices: tuple[Notice, ...] = ()
    n_seqs: int = 0
    """The batch that it was chosen at: the largest inside memory and limit, or 1 where none is inside."""
    tpot_s: float = 0.0
    """Time between tokens at that batch and the mean lengths, prompts of a steady stream included."""
    is_inside: bool = False
    """Whether a sequence of the mean lengths fits and is inside the limit."""

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second of the replica, in a steady stream at that batch."""
        return self.n_seqs / self.tpot_s if self.tpot_s > 0 else 0.0

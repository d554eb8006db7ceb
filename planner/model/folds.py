"""What is kept back to know where a model stands: deployments in ten parts, one chip, one model at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["KINDS", "Fold", "folds"]

KINDS = ("deployment", "chip", "model")
"""What the rows of a fold have that the fit has not seen."""
N_PARTS = 10


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows that one fit leaves out."""

    kind: str
    name: str
    is_out: np.ndarray


def folds(rows: Sequence[Mapping[str, Any]]) -> list[Fold]:
    """The folds of `rows`, in a fixed order; a deployment's part follows from a digest of its name."""
    import numpy as np

    found = []
    names = sorted({str(row["deployment"]) for row in rows}, key=lambda one: hashlib.sha256(one.encode()).hexdigest())
    part_of = {name: place % N_PARTS for place, name in enumerate(names)}
    part = np.array([part_of[str(row["deployment"])] for row in rows])
    for number in range(N_PARTS):
        found.append(Fold("deployment", f"part {number + 1}", part == number))
    for kind in ("chip", "model"):
        column = np.array([str(row[kind]) for row in rows])
        found.extend(Fold(kind, name, column == name) for name in sorted(set(column.tolist())))
    return [fold for fold in found if fold.is_out.any() and not fold.is_out.all()]

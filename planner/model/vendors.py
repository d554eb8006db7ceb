"""Chips of a vendor that no measured point is of: how far off the model is there, from what others published.

The coefficients are those of one vendor's chips and software. Of another vendor's chips a few runs are published
(`facts/data/published`); with r = log(published / predicted) of each, and a stack a chip with a model:

- `middle`: the mean over stacks of the median r of times between tokens. Steps take exp(middle) times as long, and so
  do first tokens, which are made of steps: their own figures are fewer and say nothing more of other stacks.
- `extra`: what is added to a side h of the band that a chip without any points has, as independent errors are
  added: the root of the quantile of (r - middle')^2 - h^2, where middle' is that of the other stacks.

A vendor without published runs is taken to be as far off as such a vendor has turned out: nothing is multiplied, and
the extra is made of r itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from planner.errors import FactError
from planner.facts import catalog
from planner.model.bands import SHARE

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MEASURED", "Vendor", "found", "rows_of", "vendor_of"]


@dataclass(frozen=True, slots=True)
class Vendor:
    """What is known of a vendor's chips for one metric, as logarithms."""

    middle: float
    extra: float
    n: int
    """Published figures of this vendor; 0 where the extra is another's."""


MEASURED = Vendor(0.0, 0.0, 0)
"""A vendor of measured points: nothing is added."""


def vendor_of(row: Mapping[str, Any]) -> str:
    """Whose chip a row is of: the row says it, or the catalogue; '' where neither does."""
    if "vendor" in row:
        return str(row["vendor"])
    try:
        return catalog.load().chip(str(row["chip"])).vendor
    except FactError:
        return ""


def rows_of(vendor: str) -> list[dict[str, Any]]:
    """The published figures as rows of points."""
    found = []
    for fact in catalog.load().published(vendor):
        one: Mapping[str, Any] = fact.group
        found.append(
            {
                **{name: one[name] for name in ("chip", "model", "precision", "concurrency")},
                "backend": one["engine"],
                "mode": "agg",
                "chips": one["n_chips"],
                "isl_mean": one["isl_mean_tokens"],
                "osl_mean": one["osl_mean_tokens"],
                "tpot_ms": one["tpot_s"] * 1e3,
                "ttft_ms": None if one["ttft_s"] is None else one["ttft_s"] * 1e3,
            }
        )
    return found


def found(
    rows: Sequence[Mapping[str, Any]], off: Mapping[str, np.ndarray], sides: Mapping[str, np.ndarray]
) -> dict[str, tuple[Vendor, Vendor]]:
    """By metric what published rows say: of their own vendor, and of one without published runs.

    By metric, `off` is the r of each row, NaN where it has none, and `sides` are the lengths of its band to low and
    high, as logarithms, shape (rows, 2).
    """
    import numpy as np

    stacks = np.array([f"{row['chip']}/{row['model']}" for row in rows])
    steps = off["tpot"]
    medians = {name: float(np.median(steps[stacks == name])) for name in sorted(set(stacks.tolist()))}
    middle = fmean(medians.values())
    others = np.array([fmean(value for other, value in medians.items() if other != name) for name in stacks])
    result = {}
    for metric, each in off.items():
        at = np.isfinite(each)
        own = Vendor(middle, _extra((each - others)[at], sides[metric][at], metric), int(at.sum()))
        result[metric] = own, Vendor(0.0, _extra(each[at], sides[metric][at], metric), 0)
    return result


def _extra(off: np.ndarray, sides: np.ndarray, metric: str) -> float:
    """What has to be added to the sides for the share of a band to be inside."""
    import numpy as np

    side = np.where(off > 0, sides[:, 1], sides[:, 0])
    return math.sqrt(max(float(np.quantile(off**2 - side**2, SHARE[metric], method="higher")), 0.0))

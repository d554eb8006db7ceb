"""Jalapeño's posterior as it is shipped: weighted members, each with the headline figures that it makes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import FactError, Fault
from planner.facts import catalog

__all__ = ["BAND", "Member", "Posterior", "load", "quantile", "shipped"]

FILE = catalog.DATA / "posterior" / "jalapeno.yaml"
BAND = (0.1, 0.9)
"""Ends of the 80 % band."""


@dataclass(frozen=True, slots=True)
class Member:
    """One set of values for everything undisclosed."""

    weight: float
    values: Mapping[str, float]
    figures: Mapping[str, float]
    """By `target/metric`-like names (`infer.figures_of`), in the units of the headline."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Weighted members, the best one first."""

    members: tuple[Member, ...]
    tree: Mapping[str, Any]

    @property
    def best(self) -> Member:
        """The likeliest member."""
        return self.members[0]

    def band(self, figure: str) -> tuple[float, float]:
        """The 80 % band of a figure over the members."""
        values = [member.figures[figure] for member in self.members]
        weights = [member.weight for member in self.members]
        return quantile(values, weights, BAND[0]), quantile(values, weights, BAND[1])


def quantile(values: Sequence[float], weights: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the weight does not exceed."""
    total, wanted = 0.0, share * sum(weights)
    ordered = sorted(zip(values, weights, strict=True))
    for value, weight in ordered:
        total += weight
        if total >= wanted - 1e-12:
            return value
    return ordered[-1][0]


def load(path: Path) -> Posterior:
    """The posterior of a file.

    Raises:
        FactError: it cannot be read, or is not a posterior.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except (OSError, yaml.YAMLError) as error:
        way_out = "make one with planner posterior"
        raise FactError(Fault(f"cannot read the posterior: {error}", way_out, file=str(path))) from None
    if not isinstance(tree, dict) or tree.get("schema") != "posterior/1":
        raise FactError(Fault("is not a posterior", "its first line is 'schema: posterior/1'", file=str(path)))
    members = tuple(
        Member(
            float(one["weight"]),
            dict(zip(tree["unknowns"], one["values"], strict=True)),
            dict(zip(tree["figures"], one["figures"], strict=True)),
        )
        for one in tree["members"]
    )
    return Posterior(members, tree)


@functools.cache
def shipped() -> Posterior:
    """The posterior in the catalogue."""
    return load(FILE)

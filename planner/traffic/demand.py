"""Demand of real services over days and weeks, from the catalogue: a rate for each stretch of time, and lengths.

Statistics only: what is planned over months walks over these rates (`planner/study`), no request of theirs exists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.facts import catalog
from planner.traffic.fact_text import yaml_text

if TYPE_CHECKING:
    import polars as pl

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long prompts or answers are, weighted by the rate of the clients that have them."""

    mean_tokens: float
    max_tokens: int
    quantiles: tuple[tuple[float, float], ...]
    """Share of the requests below, and tokens; rising."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One service: requests per second in windows of equal length, without a gap."""

    name: str
    title: str
    window_s: float
    rate_req_per_s: tuple[float, ...]
    dispersion: tuple[float, ...]
    """An upper guide for the variation of the gaps in each window: the rate-weighted mean over its clients."""
    input: Lengths | None
    """None where the source has no lengths of it."""
    output: Lengths | None
    lengths_cover_frac: float
    """Share of the load whose lengths are known."""

    @property
    def span_s(self) -> float:
        """From the start of the first window to the end of the last."""
        return self.window_s * len(self.rate_req_per_s)

    @property
    def mean_req_per_s(self) -> float:
        """Mean rate over the span."""
        return sum(self.rate_req_per_s) / len(self.rate_req_per_s)

    @property
    def peak_to_mean(self) -> float:
        """The highest rate over the mean."""
        return max(self.rate_req_per_s) / self.mean_req_per_s

    def frame(self) -> pl.DataFrame:
        """One row a window: `start_s rate_req_per_s dispersion`."""
        import polars as pl

        starts = [self.window_s * k for k in range(len(self.rate_req_per_s))]
        return pl.DataFrame(
            {"start_s": starts, "rate_req_per_s": list(self.rate_req_per_s), "dispersion": list(self.dispersion)}
        )


def load(name: str) -> Demand:
    """The demand of service `name` of the catalogue.

    Raises:
        FactError: no such service; names the nearest.
    """
    tree = catalog.load().demand(name)
    rates, lengths = tree["rates"].group, tree["lengths"].group
    return Demand(
        name=name,
        title=tree["title"],
        window_s=rates["window"],
        rate_req_per_s=tuple(float(v) for v in rates["rate_req_per_s"]),
        dispersion=tuple(float(v) for v in rates["dispersion"]),
        input=_lengths(lengths.get("input_tokens")),
        output=_lengths(lengths.get("output_tokens")),
        lengths_cover_frac=lengths["cover_frac"],
    )


def _lengths(found: Mapping[str, Any] | None) -> Lengths | None:
    if found is None:
        return None
    quantiles = tuple((float(share), float(tokens)) for share, tokens in found["quantiles"])
    return Lengths(float(found["mean"]), int(found["max"]), quantiles)


def write_all(path: str | Path, folder: str | Path) -> list[Path]:
    """Re-shapes the statistics in `path` (one JSON file of services) into one file of facts each; says which."""
    written = []
    for name, service in json.loads(Path(path).read_text(encoding="utf-8"))["services"].items():
        known = {"grade": "measured", "source": "servegen"}
        rates = {
            "window": f"{service['window_s']} s",
            "n_clients": service["clients"],
            "rate_req_per_s": [float(f"{v:.5g}") for v in service["rate_req_per_s"]],
            "dispersion": [float(f"{v:.3g}") for v in service["dispersion"]],
        }
        lengths: dict[str, Any] = {"cover_frac": service["lengths_cover_frac"]}
        for side in ("input_tokens", "output_tokens"):
            if side in service:
                found = service[side]
                quantiles = [[float(share), tokens] for share, tokens in found["quantiles"].items()]
                lengths[side] = {"mean": found["mean"], "max": found["max"], "quantiles": quantiles}
        days = round(service["span_days"])
        tree = {
            "schema": "demand/1",
            "title": f"Demand of the service {name} over {days} day{'s' * (days > 1)}, in ten-minute windows",
            "rates": known | {"note": "summed over clients; a rate of 0 is as recorded"} | rates,
            "lengths": known | {"note": "inputs and outputs were recorded apart: their pairing is unknown"} | lengths,
        }
        out = Path(folder) / f"{name}.yaml"
        out.write_text(yaml_text(tree), encoding="utf-8")
        written.append(out)
    return written

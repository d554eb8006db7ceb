"""Profiles of real services, realised from a seed: compact statistics in the catalogue, no recorded request in them.

`planner/traffic/fit_profile.py` made them and says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import core
from planner.facts import catalog
from planner.facts.fact import Fact

if TYPE_CHECKING:
    import polars as pl

_PASS = 1 << 32
"""Realisations of one stretch of time are numbered from a multiple of this, so that stretches never share one."""


def load(name: str) -> dict[str, Any]:
    """The statistics of profile `name` as the core's spec has them (`span_ns gap_quantiles batch_sizes ...`).

    Raises:
        FactError: no such profile; names the nearest.
    """
    return spec_of(catalog.load().profile(name))


def spec_of(tree: dict[str, Any]) -> dict[str, Any]:
    """The core's spec of a profile from the tree of its file."""
    arrivals, lengths = (_group(tree[key]) for key in ("arrivals", "lengths"))
    return {
        "span_ns": round(arrivals["span"] * 1e9),
        "gap_quantiles": [[share, gap_s * 1e9] for share, gap_s in arrivals["gap_quantiles_s"]],
        "gap_order": _order(arrivals["gap_order"]),
        "batch_sizes": arrivals["batch_sizes"],
        "size_order": _order(arrivals["size_order"]),
        "input_runs": lengths["input_runs"],
        "output_runs": lengths["output_runs"],
        "joint": lengths["joint"],
    }


def _group(value: Any) -> dict[str, Any]:
    """A group of facts as plain values."""
    found: dict[str, Any] = value.group if isinstance(value, Fact) else value
    return found


def _order(order: dict[str, Any]) -> dict[str, Any]:
    """An order in time; parts that are left out are absent from it."""
    return {"trend": order.get("trend", []), "white": order.get("white", 1.0), "ar": order.get("ar", [])}


def realise(
    spec: dict[str, Any],
    *,
    key: int,
    seed: int,
    scale: float = 1.0,
    number: int = 0,
    context_tokens: int | None = None,
) -> pl.DataFrame:
    """`scale` independent realisations of a profile's span, superposed.

    Columns `arrival_ns input_tokens output_tokens redraws`. A fraction is one more realisation, thinned. `number` tells
    stretches of time apart when a profile is repeated. A request longer than `context_tokens` is drawn again.
    """
    import polars as pl

    asked = sampled_spec(spec, key=key, seed=seed, scale=scale, number=number, context_tokens=context_tokens)
    return core.sample({"kind": "profile", **asked}).with_columns(pl.col("arrival_ns").cast(pl.Int64))


def sampled_spec(
    spec: dict[str, Any], *, key: int, seed: int, scale: float, context_tokens: int | None, number: int = 0
) -> dict[str, Any]:
    """What the core is asked for by `realise`."""
    whole = int(scale)
    return {
        "seed": seed,
        "key": key,
        "first_copy": number * _PASS,
        "n_copies": whole,
        "part_frac": scale - whole,
        "context_tokens": context_tokens,
        **spec,
    }

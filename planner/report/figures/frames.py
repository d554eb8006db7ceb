"""What frames have in common: columns, and the ends of a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["decades", "schema"]


def schema(columns: Mapping[str, str]) -> dict[str, pl.DataType]:
    """Polars types of columns that are named `str`, `f64` or `i64`."""
    import polars as pl

    types: dict[str, pl.DataType] = {"str": pl.String(), "f64": pl.Float64(), "i64": pl.Int64()}
    return {name: types[kind] for name, kind in columns.items()}


def decades(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Ends of a logarithmic axis around some values, and its ticks: powers of ten, thinned; 1, 2, 5 of a short one.

    >>> decades([0.02, 3.0])
    ([0.016, 3.75], [0.1, 1.0])
    """
    low, high = min(values, default=0.1) * 0.8, max(values, default=1.0) * 1.25
    tens = [float(f"1e{power}") for power in range(-9, 10)]
    ticks = [ten for ten in tens if low <= ten <= high]
    if len(ticks) < 2:
        ticks = [float(f"{step}e{power}") for power in range(-9, 10) for step in (1, 2, 5)]
        ticks = [tick for tick in ticks if low <= tick <= high]
    return [low, high], ticks[:: max(1, -(-len(ticks) // 5))]

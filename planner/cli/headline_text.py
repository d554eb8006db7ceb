"""The headline table as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["headline_text"]

SIDES = {
    "jalapeno": "Jalapeño, best member of its posterior",
    "reference": "references, best measured stack",
    "ratio": "ratios at the reference's best time between tokens (checks, nothing is fitted to them)",
}
UNITS = {"s": (1e3, "ms"), "tokens_per_s_per_kw": (1.0, "tok/s/kW"), "x": (1.0, "x")}


def headline_text(rows: Sequence[dict[str, Any]]) -> str:
    """One line a figure, by side."""
    lines = [f"{'published figure':14s} {'unit':>9s} {'published':>10s} {'model':>10s} {'off':>7s}   80 % band"]
    for side, title in SIDES.items():
        lines.append(title)
        for row in rows:
            if row["side"] == side:
                scale, unit = UNITS[row["unit"]]
                published, model, low, high = (
                    _digits(row[name] * scale) for name in ("published", "model", "low", "high")
                )
                inside = "in band" if row["in_band"] else "OUT OF BAND"
                off = f"{row['residual_frac']:+.1%}"
                lines.append(
                    f"  {row['id']:12s} {unit:>9s} {published:>10s} {model:>10s} {off:>7s}   {low} .. {high}  {inside}"
                )
    n_in = sum(row["in_band"] for row in rows)
    lines.append(f"{n_in} of {len(rows)} published figures inside the band")
    return "\n".join(lines)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"

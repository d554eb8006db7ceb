"""Headroom as lines of text: the multiple, what breaks first, and the same with a rack out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import units
from planner.study.headroom import left
from planner.words import plain, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.study.headroom import Breaks, Edge, Headroom


def headroom_report(found: Headroom, *, title: str, rates: Mapping[str, str], spare_frac: float) -> str:
    """How much more load the fleet takes; `rates` says each class's load as the scenario writes it."""
    lines = [plain(title), f"  {_multiple(found)}"]
    if spare_frac:
        lines.append(f"  with {spare_frac * 100:.4g} % of each pool kept free, as fleet.spare asks")
    if found.edge.breaks is not None:
        lines.append(f"  breaks first: {_breaks(found.edge.breaks)}, at {found.edge.breaks_at:.4g} times the load")
    lines += [plain(f"  {name}: now {now}") for name, now in rates.items()]
    if found.n1:
        rows: list[Sequence[str]] = [["with", "load", "breaks first"]]
        for one in sorted(found.n1, key=left):
            load = "none" if one.edge is None else _load(one.edge)
            why = one.reason if one.edge is None else "" if one.edge.breaks is None else _breaks(one.edge.breaks)
            rows.append([one.label, load, why])
        lines += table(rows, left=(0, 1, 2))
    return "\n".join(lines)


def _multiple(found: Headroom) -> str:
    edge = found.edge
    noise = f"90 % interval {found.low:.4g} to {found.high:.4g}" if found.low is not None else "no interval"
    about = f"({noise}, {found.n_seeds} seeds, {found.n_simulations} simulations)"
    if edge.multiplier is None:
        return f"every limit holds at all loads that were tried {about}"
    if not edge.multiplier:
        return f"a limit is missed at every load that was tried {about}"
    return f"holds every limit up to {edge.multiplier:.4g} times the load {about}"


def _load(edge: Edge) -> str:
    if edge.multiplier is None:
        return "any"
    return f"{edge.multiplier:.4g} x" if edge.multiplier else "none"


def _breaks(breaks: Breaks) -> str:
    limit = breaks.limit
    name = " ".join(part for part in (limit.name, limit.metric, limit.quantile) if part)
    kind = "frac" if limit.quantile is None else "time"
    value = "never reached" if breaks.value is None else units.format(breaks.value, kind)
    words = f"{name} ({value}, limit {units.format(breaks.limit_value, kind)})"
    if breaks.pool is not None:
        words += f" in pool {breaks.pool} ({breaks.bottleneck})"
    return plain(f"{words} with {limit.label}" if limit.label else words)

"""A measured run beside its replay, drawn: what ran over time, and each request's times against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

__all__ = ["svg"]

WIDTH, HEIGHT, EDGE = 420, 300, 46
COLOURS = {"measured": "#555555", "simulated": "#d9480f"}
NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}


def svg(result: Mapping[str, Any]) -> str:
    """The figure of `planner validate --requests`: an SVG of four panels."""
    panels = [_over_time(result["timeseries"])]
    for metric, name in NAMES.items():
        pairs = [
            (row[f"measured_{metric}"], row[f"simulated_{metric}"])
            for row in result["per_request"]
            if row[f"measured_{metric}"] and row[f"simulated_{metric}"]
        ]
        panels.append(_against(name, pairs))
    places = [(at % 2 * WIDTH, at // 2 * HEIGHT) for at in range(4)]
    parts = [f'<g transform="translate({x} {y})">{panel}</g>' for (x, y), panel in zip(places, panels, strict=True)]
    size = f'width="{2 * WIDTH}" height="{2 * HEIGHT}" viewBox="0 0 {2 * WIDTH} {2 * HEIGHT}"'
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="white"/>' + (
        "".join(parts) + "</svg>\n"
    )


def _over_time(rows: Sequence[Mapping[str, float]]) -> str:
    last = max((row["t_s"] for row in rows), default=1)
    most = max((row[f"{side}_running"] for row in rows for side in COLOURS), default=1) or 1
    parts = [_frame("running requests", f"0 to {last} s", f"{most}")]
    for at, (side, colour) in enumerate(COLOURS.items()):
        points = " ".join(f"{_x(row['t_s'] / last):.1f},{_y(row[f'{side}_running'] / most):.1f}" for row in rows)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{WIDTH - EDGE}" y="{28 + 13 * at}" text-anchor="end" fill="{colour}">{side}</text>')
    return "".join(parts)


def _against(name: str, pairs: Sequence[tuple[float, float]]) -> str:
    values = [value for pair in pairs for value in pair] or [1.0]
    low, high = log10(min(values)), log10(max(values))
    span = max(high - low, 1e-9)
    parts = [_frame(f"{name}, seconds (log)", f"measured: {10**low:.3g} to {10**high:.3g}", "simulated")]
    parts.append(f'<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#bbbbbb"/>')
    for measured, simulated in pairs:
        x, y = _x((log10(measured) - low) / span), _y((log10(simulated) - low) / span)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{COLOURS["simulated"]}" fill-opacity="0.5"/>')
    return "".join(parts)


def _frame(title: str, below: str, left: str) -> str:
    box = (
        f'<rect x="{_x(0)}" y="{_y(1)}" width="{_x(1) - _x(0)}" height="{_y(0) - _y(1)}" fill="none" stroke="#999999"/>'
    )
    words = f'<text x="{_x(0)}" y="{EDGE / 2 - 4}" font-weight="bold">{title}</text>'
    words += f'<text x="{_x(0.5)}" y="{HEIGHT - 14}" text-anchor="middle">{below}</text>'
    return box + words + f'<text x="{_x(0) - 4}" y="{_y(1) + 10}" text-anchor="end" font-size="9">{left}</text>'


def _x(frac: float) -> float:
    return EDGE + frac * (WIDTH - 1.5 * EDGE)


def _y(frac: float) -> float:
    return HEIGHT - EDGE + 8 - frac * (HEIGHT - 1.6 * EDGE)

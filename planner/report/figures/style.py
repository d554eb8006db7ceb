"""How every figure looks: one palette that is safe for colour-blind readers, in light and dark, and one type size.

A colour is a *role*. Charts are drawn in the light colours; on the page each becomes a CSS variable, so that the same
SVG is light or dark as the reader's screen is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.words import plain

__all__ = [
    "DARK",
    "LIGHT",
    "LIVE",
    "POOLS",
    "Look",
    "chart",
    "compiled",
    "inline_svg",
    "live",
    "live_config",
    "look",
    "on_white",
    "png",
    "still",
]

LIGHT: Mapping[str, str] = {
    "ink": "#1b2330",
    "soft": "#566072",
    "line": "#e1e5eb",
    "limit": "#b42318",
    "mark": "#3d4757",
    "p0": "#0b66b8",
    "p1": "#b95407",
    "p2": "#0a7f6a",
    "p3": "#a03c8c",
    "p4": "#86690a",
    "p5": "#5457b8",
}
"""Role -> colour on white; every one has a contrast of at least 4.5 for words and marks (3 for `line`'s ticks)."""
DARK: Mapping[str, str] = {
    "ink": "#e8ebf0",
    "soft": "#a4aebd",
    "line": "#2d3542",
    "limit": "#ff8f85",
    "mark": "#b9c2d0",
    "p0": "#66b2f5",
    "p1": "#f5a05c",
    "p2": "#41cdb0",
    "p3": "#e595d2",
    "p4": "#dcc052",
    "p5": "#a9acf7",
}
POOLS = ("p0", "p1", "p2", "p3", "p4", "p5")
"""Roles of pools, in the order in which a result first names them; the seventh starts again, its label tells it."""
WIDTH, TYPE = 470, 11.5
FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
PNG_SCALE = 2.0
LIVE = "live"
"""How the names of marks begin that only a live drawing has."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a drawing needs to know beside its rows."""

    pools: Mapping[str, str]
    """Pool -> colour."""
    width: int = WIDTH

    @property
    def domain(self) -> list[str]:
        """Names of the pools, as they are shown."""
        return [plain(name) for name in self.pools]

    @property
    def colours(self) -> list[str]:
        """Colours in the order of `domain`."""
        return list(self.pools.values())


def look(pools: Sequence[str]) -> Look:
    """The look of a result with these pools, the same for all of its figures."""
    return Look({name: LIGHT[POOLS[ix % len(POOLS)]] for ix, name in enumerate(dict.fromkeys(pools))})


def config() -> dict[str, Any]:
    """Vega-Lite's configuration: no frame, thin grid, small type."""
    words = {"labelColor": LIGHT["soft"], "titleColor": LIGHT["soft"], "labelFont": FONT, "titleFont": FONT}
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": words
        | {
            "labelFontSize": TYPE,
            "titleFontSize": TYPE,
            "titleFontWeight": "normal",
            "gridColor": LIGHT["line"],
            "domainColor": LIGHT["line"],
            "tickColor": LIGHT["line"],
            "labelPadding": 4,
            "titlePadding": 6,
        },
        "header": words | {"labelFontSize": TYPE, "titleFontSize": TYPE, "labelColor": LIGHT["ink"]},
        "legend": words | {"labelFontSize": TYPE, "titleFontSize": TYPE},
        "title": {"color": LIGHT["ink"], "font": FONT, "fontSize": TYPE, "anchor": "start", "fontWeight": 600},
        "text": {"fontSize": TYPE, "font": FONT, "color": LIGHT["ink"]},
        "line": {"strokeWidth": 1.75},
        "rule": {"color": LIGHT["limit"], "strokeWidth": 1.25},
    }


TIME_LABEL = (
    "datum.value >= 1 ? format(datum.value, '~r') + ' s' : datum.value >= 0.001 ? "
    "format(datum.value * 1e3, '~r') + ' ms' : format(datum.value * 1e6, '~r') + ' us'"
)
"""Vega expression: seconds in the unit that keeps 1..999."""


def chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A chart of some rows. They go in as one text, which Altair neither copies nor looks through at each step; six
    figures of a number are more than a drawing can show.
    """
    import altair as alt

    short = [{key: _short(value) for key, value in row.items()} for row in rows]
    return alt.Chart(alt.InlineData(values=json.dumps(short, allow_nan=False), format={"type": "json"}))


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


SI_LABEL = "datum.value == 0 ? '0' : format(datum.value, '~s')"
"""Vega expression: 12k, 1.5M, and a plain zero."""


def unchecked() -> Any:
    """A context in which Altair does not hold each part of a drawing against its schema, which takes most of its time
    (the tests do).
    """
    from altair.utils.schemapi import debug_mode

    return debug_mode(False)


def layer(*parts: Any, width: float, height: float, title: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Marks over each other, as Vega-Lite. (Altair's own joining copies every part again at each step.)"""
    head = {} if title is None else {"title": dict(title)}
    return _joined("layer", parts, {"width": width, "height": height, **head})


def vconcat(*parts: Any, spacing: float) -> dict[str, Any]:
    """Panels below each other."""
    return _joined("vconcat", parts, {"spacing": spacing})


def hconcat(*parts: Any, spacing: float) -> dict[str, Any]:
    """Panels beside each other."""
    return _joined("hconcat", parts, {"spacing": spacing})


def head(text: str, **more: Any) -> dict[str, Any]:
    """The title of a panel, over its plot."""
    return {"text": plain(text), "offset": 4, "frame": "group", **more}


def _joined(kind: str, parts: Sequence[Any], more: Mapping[str, Any]) -> dict[str, Any]:
    specs = [part if isinstance(part, dict) else part.to_dict(validate=False) for part in parts]
    rows = {name: values for spec in specs for name, values in spec.get("datasets", {}).items()}
    bare = [{key: value for key, value in spec.items() if key not in _OF_THE_WHOLE} for spec in specs]
    return {kind: bare, **more, "datasets": rows}


_OF_THE_WHOLE = {"$schema", "config", "datasets"}


def specification(drawing: Mapping[str, Any]) -> dict[str, Any]:
    """The drawing as Vega-Lite, with the look of this file."""
    return {**drawing, "config": config(), "padding": 2}


def compiled(drawing: Mapping[str, Any]) -> dict[str, Any]:
    """The chart as Vega: what a still and a live drawing are both made of."""
    import vl_convert

    found: dict[str, Any] = vl_convert.vegalite_to_vega(specification(drawing))
    return found


def inline_svg(vega: Mapping[str, Any], *, alt: str) -> str:
    """A compiled chart as SVG for a page: scales with its column, roles as CSS variables, a native tooltip a mark."""
    import vl_convert

    svg: str = vl_convert.vega_to_svg(still(vega))
    return _for_page(svg, alt)


def still(vega: Mapping[str, Any]) -> dict[str, Any]:
    """A compiled chart without the marks that only a live drawing has.

    Nor are its marks clipped, for it shows the whole of its axes, and names of clips are one list for all of a page.
    """

    def kept(marks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [
            {key: kept(value) if key == "marks" else value for key, value in mark.items() if key != "clip"}
            for mark in marks
            if not mark.get("name", "").startswith(LIVE)
        ]

    return {**vega, "marks": kept(vega["marks"])}


@cache
def live_config() -> dict[str, Any]:
    """The look of this file as a live drawing has it."""
    found: dict[str, Any] = live(compiled(layer(chart([]).mark_point(), width=1, height=1)))["config"]
    return found


def live(vega: Mapping[str, Any]) -> dict[str, Any]:
    """A compiled chart as data for a page's own runtime: rows as rows, roles as CSS variables."""
    names = {colour: f"var(--{role})" for role, colour in LIGHT.items()}

    def put(thing: Any) -> Any:
        if isinstance(thing, str):
            return names.get(thing, thing)
        if isinstance(thing, dict):
            return {key: put(value) for key, value in thing.items()}
        return [put(value) for value in thing] if isinstance(thing, list) else thing

    data = [
        {key: value for key, value in each.items() if key != "format"} | {"values": json.loads(each["values"])}
        if isinstance(each.get("values"), str)
        else each
        for each in vega["data"]
    ]
    told: dict[str, Any] = put({key: value for key, value in vega.items() if key not in {"$schema", "data"}})
    return {**told, "data": data}


def png(drawing: Mapping[str, Any]) -> bytes:
    """The chart as a picture on white."""
    import vl_convert

    made: bytes = vl_convert.vega_to_png(on_white(drawing), scale=PNG_SCALE)
    return made


def on_white(drawing: Mapping[str, Any]) -> dict[str, Any]:
    """The chart as Vega, still, with a ground and an edge of its own."""
    return still(compiled(drawing)) | {"background": "white", "padding": 12}


_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')
_LABELLED = re.compile(r'<(path|line|text|rect)\b([^>]*?) aria-label="([^"]*)"([^>]*?)/>')
_NOISE = re.compile(r' (?:class|role|aria-roledescription|aria-hidden|pointer-events)="[^"]*"')


def _for_page(svg: str, alt: str) -> str:
    from html import escape

    found = _SIZE.match(svg)
    if found is None:
        raise ValueError("the renderer wrote no <svg> with a size")
    width, height = (float(found[n]) for n in (1, 2))
    body = svg[found.end() :]
    body = _LABELLED.sub(r"<\1\2\4><title>\3</title></\1>", body)
    body = _NOISE.sub("", body)
    for role, colour in LIGHT.items():
        body = body.replace(f'"{colour}"', f'"var(--{role},{colour})"')
    body = re.sub(r' font-family="[^"]*"', "", body)
    head = f'<svg class="fig" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(plain(alt))}"'
    return f'{head} style="max-width:{width * 1.35:.0f}px">{body}'

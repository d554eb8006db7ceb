"""What a figure can do on a screen: figures under the pointer, one pool picked out, a stretch of time looked at closer.

A drawing says it in its own marks, so that the same drawing is a still picture, a page's live one and a notebook's:

- `spot` and `span` are marks that cannot be seen; they carry the words that are shown where the pointer is. Stills
  leave them away (their names begin with `live`).
- `picked` is the opacity of marks that belong to a pool: all are whole until the signal `pick` names one.
- `Time` is an axis of time between the signals `t0` and `t1`, and how an instant and a stretch of it are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner import units
from planner.report.figures.style import LIGHT, LIVE, chart

__all__ = ["Time", "clock", "picked", "span", "spot", "time_of", "with_signals", "words"]

FAINT = 0.12
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Time:
    """An axis of time: its unit, the unit's seconds, and where it ends."""

    unit: str
    seconds: float
    end_s: float

    def scale(self) -> Any:
        """The axis' scale, between the signals."""
        import altair as alt

        return alt.Scale(domain=[alt.ExprRef("t0"), alt.ExprRef("t1")], nice=False)

    def x(self, title: str | None) -> Any:
        """The channel of the field `t`."""
        import altair as alt

        return alt.X("t:Q", title=title, scale=self.scale(), axis=alt.Axis(grid=False, tickCount=6, labelFlush=True))

    def at(self, seconds: float) -> float:
        """An instant on the axis."""
        return seconds / self.seconds

    def between(self, start_s: float, end_s: float) -> str:
        """A stretch in words."""
        return f"{clock(start_s, self)} to {clock(end_s, self)}"


def time_of(end_s: float) -> Time:
    """Minutes up to three hours, hours up to four days, days."""
    if end_s <= 3 * 3600:
        return Time("min", 60.0, end_s)
    return Time("h", 3600.0, end_s) if end_s <= 4 * _DAY_S else Time("d", _DAY_S, end_s)


def clock(seconds: float, time: Time) -> str:
    """An instant of the run: hours, minutes and, on a short axis, seconds; days before them on a long one.

    >>> clock(5400, Time("min", 60.0, 7200))
    '1:30:00'
    >>> clock(183600, Time("d", 86400.0, 864000))
    'day 2, 3:00'
    """
    whole = round(seconds)
    if time.unit == "d":
        return f"day {whole // 86_400}, {whole % 86_400 // 3600}:{whole // 60 % 60:02d}"
    text = f"{whole // 3600}:{whole // 60 % 60:02d}"
    return f"{text}:{whole % 60:02d}" if time.unit == "min" else text


def words(head: str, *lines: tuple[str, float | None, str]) -> str:
    """What is shown at a mark: a line of its own for each figure that is there, with its unit."""
    told = [f"{name}: {units.format(value, kind)}" for name, value, kind in lines if value is not None]
    return "\n".join([head, *told])


def span(rows: Sequence[Mapping[str, Any]], time: Time, *, ix: int = 0) -> Any:
    """Stretches from `t` to `t2` over the whole height, with their `words`."""
    import altair as alt

    return (
        alt.Chart(chart(rows).data, name=f"{LIVE}{ix}")
        .mark_rect(fill=LIGHT["ink"], fillOpacity=0, clip=True)
        .encode(x=time.x(None), x2=alt.X2("t2:Q"), **_told())
    )


def spot(rows: Sequence[Mapping[str, Any]], *, x: Any, y: Any, ix: int = 0, size: float = 90) -> Any:
    """Points at `x` and `y`, with their `words`."""
    import altair as alt

    return (
        alt.Chart(chart(rows).data, name=f"{LIVE}{ix}")
        .mark_point(filled=True, size=size, fill=LIGHT["ink"], stroke=None, fillOpacity=0, opacity=1)
        .encode(x=x, y=y, **_told())
    )


def _told() -> dict[str, Any]:
    import altair as alt

    return {"description": alt.Description("words:N"), "tooltip": alt.Tooltip("words:N")}


def picked(whole: float = 1.0) -> Any:
    """Opacity of a pool's marks."""
    import altair as alt

    return alt.condition("pick === null || datum.pool === pick", alt.value(whole), alt.value(whole * FAINT))


def with_signals(drawing: Mapping[str, Any], time: Time | None = None) -> dict[str, Any]:
    """The drawing with the signals that its marks and axes read."""
    found: list[dict[str, Any]] = [{"name": "pick", "value": None}]
    if time is not None:
        found += [{"name": "t0", "value": 0}, {"name": "t1", "value": time.at(time.end_s) or 1.0}]
    return {**drawing, "params": found}

"""How requests come about: bursts, shapes of the day, sessions and agents, and what clients do when they wait long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from planner.scenario.fields import Bounds, Factor, Quantity, Seconds, SecondsOrNone, Share, Text, Tokens, Whole
from planner.scenario.section import Section, Trouble, idle, needs

_PAUSE_KEYS = {
    "fixed": ("value",),
    "exponential": ("mean",),
    "lognormal": ("median", "p95"),
    "uniform": ("low", "high"),
}


class Pause(Section):
    """How long a pause is."""

    kind: Literal["fixed", "exponential", "lognormal", "uniform"] = Field(alias="dist")
    """The family: fixed (value), exponential (mean), lognormal (median, p95), uniform (low, high)."""
    value_s: SecondsOrNone | None = Field(None, alias="value")
    """The one length (fixed)."""
    mean_s: Seconds | None = Field(None, alias="mean")
    """The mean (exponential)."""
    median_s: Seconds | None = Field(None, alias="median")
    """Half of the pauses are shorter (lognormal)."""
    p95_s: Seconds | None = Field(None, alias="p95")
    """95 % of the pauses are shorter (lognormal); above the median."""
    low_s: SecondsOrNone | None = Field(None, alias="low")
    """The shortest (uniform)."""
    high_s: SecondsOrNone | None = Field(None, alias="high")
    """The longest (uniform)."""

    @classmethod
    def expand(cls, data: Any) -> Any:
        return {"dist": "fixed", "value": data} if isinstance(data, str) else data

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        asked = _PAUSE_KEYS.get(str(data.get("dist")))
        if asked:
            yield from needs(data, asked, f"a {data['dist']} pause needs {' and '.join(asked)}")
            others = [key for keys in _PAUSE_KEYS.values() for key in keys if key not in asked]
            yield from idle(data, others, f"a {data['dist']} pause has {' and '.join(asked)}")

    def laws(self) -> Iterator[Trouble]:
        if self.median_s is not None and self.p95_s is not None and self.p95_s <= self.median_s:
            yield Trouble(("p95",), "p95 is not above the median", "write a larger p95")
        if self.low_s is not None and self.high_s is not None and self.high_s < self.low_s:
            yield Trouble(("high",), "high is below low", "write the smaller one as low")


NO_PAUSE = Pause.model_validate("0 s")


class Turns(Section):
    """How many turns a session has, or steps a task."""

    kind: Literal["geometric", "fixed"] = Field(alias="dist")
    """The family: geometric (mean) or fixed (value)."""
    mean: Annotated[float, Factor(Bounds(least=1.0, most=1e6))] | None = None
    """The mean number of turns (geometric)."""
    value: Annotated[int, Whole(1, 1_000_000)] | None = None
    """The number of turns (fixed)."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        asked = {"geometric": "mean", "fixed": "value"}.get(str(data.get("dist")))
        if asked:
            yield from needs(data, [asked], f"turns of this family need {asked}")
            yield from idle(data, {"mean", "value"} - {asked}, f"turns of this family have {asked}")

    @property
    def mean_turns(self) -> float:
        """The mean of the family."""
        return float(self.mean or self.value or 1)


class Sessions(Section):
    """Requests that come in turns: each turn's prompt is the session so far and what the turn adds."""

    turns: Turns
    """How many turns a session has."""
    think: Pause = NO_PAUSE
    """Time from the end of an answer to the next turn."""
    system: Tokens | None = None
    """Instructions at the head of each session's first prompt, the same in all sessions of the class."""


class Agents(Section):
    """Tasks of several steps: each step's prompt is the task so far and what a tool has returned."""

    steps: Turns
    """How many requests a task takes."""
    tool: Pause = NO_PAUSE
    """Time from the end of an answer to the next step: the tool's work."""
    system: Tokens | None = None
    """Instructions and tools at the head of each task's first prompt, the same in all tasks of the class."""


class Burst(Section):
    """Bursts of requests that bring each other on."""

    size: Annotated[float, Factor(Bounds(least=1.0, most=1e6))]
    """Mean number of requests in a burst, the first included."""
    decay_s: Seconds = Field(alias="decay")
    """Mean time from a request to one that it brings on directly."""


class Shape(Section):
    """How the rate goes up and down: relative rates over a period that repeats."""

    demand: Text | None = None
    """Demand of a real service over days, by its name in the catalogue (`m-large`)."""
    factors: tuple[Annotated[float, Factor(Bounds(least=0.0, most=1e9))], ...] | None = None
    """Relative rates of equal stretches of time, 24 for the hours of a day; they are divided by their mean."""
    step_s: Annotated[float, Quantity("time", Bounds(least=1.0, most=3.2e7))] = Field(3600.0, alias="step")
    """How long each of `factors` holds."""
    start_s: SecondsOrNone = Field(0.0, alias="start")
    """Where in the shape the run begins."""

    @classmethod
    def expand(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"demand": data}
        return {"factors": data} if isinstance(data, (list, tuple)) else data

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        if "demand" in data:
            yield from idle(data, ["factors", "step"], "the demand has its own rates; take this key or `demand` away")
        elif "factors" not in data:
            yield Trouble((), "the shape has no rates", "write demand: m-large, or factors: [...] by the hour")

    def laws(self) -> Iterator[Trouble]:
        if self.factors is not None and not sum(self.factors) > 0:
            yield Trouble(("factors",), "all factors are 0" if self.factors else "no factors", "give one a rate")
        if self.factors is not None and len(self.factors) > 100_000:
            yield Trouble(("factors",), f"{len(self.factors):,} factors", "at most 100,000")


class Region(Section):
    """A part of the load that lives the same shape at another time."""

    share_frac: Share = Field(alias="share")
    """Its share of the class's requests."""
    shift_s: Annotated[float, Quantity("time", Bounds(least=-3.2e9, most=3.2e9))] = Field(0.0, alias="shift")
    """How much later the shape comes there: 6 h moves a peak at noon to 18 h; -6 h to 6 h in the morning."""


class Retries(Section):
    """What a client does after a request of its was rejected, timed out or failed."""

    n: Annotated[int, Whole(1, 100)]
    """How often it tries again."""
    backoff_s: SecondsOrNone = Field(1.0, alias="backoff")
    """Time from the failure to the first retry."""
    factor: Annotated[float, Factor(Bounds(least=1.0, most=1000.0))] = 2.0
    """By how much each further wait is longer than the one before."""

"""What the fleet is asked to serve: classes of traffic, their lengths, and the limits they have to be served within."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from planner.scenario.fields import (
    Bounds,
    Count,
    Factor,
    Flag,
    Name,
    Quantity,
    Seconds,
    SecondsOrNone,
    Share,
    Text,
    Tokens,
    Whole,
)
from planner.scenario.section import Section, Trouble, idle, needs
from planner.scenario.sections_clients import Agents, Burst, Pause, Region, Retries, Sessions, Shape

Metric = Literal["ttft", "tpot", "itl", "e2e", "queue", "task"]
Quantile = Literal["p50", "p90", "p95", "p99"]
METRICS: tuple[Metric, ...] = ("ttft", "tpot", "itl", "e2e", "queue", "task")

_DIST_KEYS = {
    "lognormal": ("median", "p95"),
    "uniform": ("low", "high"),
    "fixed": ("value",),
    "empirical": (),
}
_TRACE_KEYS = ("format", "scale", "speedup", "idle_cap", "start", "repeat", "class_column", "model_column")
_DRAWN_KEYS = ("arrivals", "rate", "burstiness", "burst", "shape", "regions", "growth", "input", "output")
_OPEN_KEYS = ("rate", "burstiness", "burst", "shape", "regions", "growth")
_CHAIN_KEYS = ("sessions", "agents")
_CLOSED_KEYS = ("concurrency", "requests", "think")
_LAW_KEYS = {"gamma": "burstiness", "weibull": "burstiness", "hawkes": "burst"}


class Dist(Section):
    """How the lengths of prompts or answers are spread; all lengths are in tokens."""

    kind: Literal["lognormal", "uniform", "fixed", "empirical"] = Field(alias="dist")
    """The family: lognormal (median, p95), uniform (low, high), fixed (value), empirical (values, weights; or file)."""
    median: Tokens | None = None
    """Half of the lengths are below it (lognormal)."""
    p95: Tokens | None = None
    """95 % of the lengths are below it (lognormal); above the median."""
    low: Tokens | None = None
    """The smallest length, itself drawn too (uniform)."""
    high: Tokens | None = None
    """The greatest length, itself drawn too (uniform)."""
    value: Tokens | None = None
    """The one length (fixed)."""
    values: tuple[Tokens, ...] | None = None
    """The lengths to draw from (empirical)."""
    weights: tuple[Annotated[float, Factor(Bounds(least=0.0, most=1e15))], ...] | None = None
    """How often each of `values` is drawn, relative to the others; equally often when absent (empirical)."""
    file: Text | None = None
    """A file of one length a line to draw from, as ./lengths.txt (empirical)."""

    @classmethod
    def expand(cls, data: Any) -> Any:
        return {"dist": "fixed", "value": data} if isinstance(data, str) else data

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        kind = data.get("dist")
        if not isinstance(kind, str) or kind not in _DIST_KEYS:
            return
        asked = _DIST_KEYS[kind]
        if kind == "empirical":
            asked = ("file",) if "file" in data else ("values", "weights")
            if "file" not in data and "values" not in data:
                yield Trouble((), "lengths are missing", "an empirical distribution needs values or file")
        else:
            yield from needs(data, asked, f"a {kind} distribution needs {' and '.join(asked)}")
        others = [key for key in cls.model_fields if key not in {"kind", *asked}]
        reason = f"a {kind} distribution has {' and '.join(asked)}; take this one away (key: null removes it)"
        yield from idle(data, others, reason)

    def laws(self) -> Iterator[Trouble]:
        if self.median is not None and self.p95 is not None and self.p95 <= self.median:
            yield Trouble(
                ("p95",), f"p95 of {self.p95:,} tok is not above the median of {self.median:,} tok", "raise p95"
            )
        if self.low is not None and self.high is not None and self.high < self.low:
            yield Trouble(
                ("high",), f"high of {self.high:,} tok is below low of {self.low:,} tok", "write the smaller one as low"
            )
        if self.values is not None and not self.values:
            yield Trouble(("values",), "no lengths to draw from", "write at least one")
        if self.weights is not None and self.values is not None:
            if len(self.weights) != len(self.values):
                yield Trouble(
                    ("weights",), f"{len(self.weights)} weights for {len(self.values)} values", "one for each"
                )
            elif not sum(self.weights) > 0:
                yield Trouble(("weights",), "all weights are 0", "give one of them a weight")


class TrafficClass(Section):
    """One class of requests: a recorded trace or profile, or arrivals and lengths that are drawn."""

    model: Text
    """The model that serves the class: a name in the catalogue, or ./config.json of a checkpoint."""
    slo: Text | None = None
    """The set of limits of section `slo` that the class has to be served within."""
    tenant: Name | None = None
    """Whose requests they are: the cost of a tenant is that of its classes."""
    trace: Text | None = None
    """Recorded arrivals and lengths: a profile of the catalogue (`azure-conv-2023`) or ./file of a known format."""
    format: Text | None = None
    """The trace's format, when its content does not tell (`planner trace inspect` lists them)."""
    scale: Annotated[float, Factor(Bounds(above=0.0, most=1e6))] = 1.0
    """How many times the recorded rate: seeded copies of the trace, the first as recorded; a fraction thins it."""
    speedup: Annotated[float, Factor(Bounds(above=0.0, most=1e6))] = 1.0
    """How many times faster the recorded clock runs: gaps are divided by it."""
    idle_cap_s: Seconds | None = Field(None, alias="idle_cap")
    """The longest gap that is kept; longer ones are cut to it, after `speedup`."""
    start_s: SecondsOrNone = Field(0.0, alias="start")
    """Where on its clock, after `speedup` and `idle_cap`, the run begins; what is before that comes after its end."""
    repeat: Flag = False
    """Whether a trace that is shorter than `run.length` starts again."""
    class_column: Text | None = None
    """The trace's column that names classes: only rows that name this class are taken."""
    model_column: Text | None = None
    """The trace's column that names models: only rows that name this class's model are taken."""
    arrivals: Literal["poisson", "gamma", "weibull", "hawkes", "closed"] | None = None
    """How drawn requests arrive: by a law of their gaps, in bursts (hawkes), or each after another's end (closed)."""
    rate_req_per_s: Annotated[float, Quantity("rate", Bounds(above=0.0, most=1e9))] | None = Field(None, alias="rate")
    """Mean rate of drawn requests over the whole shape, at the begin of any growth."""
    burstiness: Annotated[float, Factor(Bounds(above=0.0, most=1000.0))] | None = None
    """Coefficient of variation of the gaps of gamma and weibull arrivals; 1 is poisson."""
    burst: Burst | None = None
    """Size and decay of the bursts of hawkes arrivals."""
    shape: Shape | None = None
    """How the rate goes up and down over days: the name of a demand (`m-large`), or 24 factors for the hours."""
    regions: dict[Name, Region] = Field(default_factory=dict)
    """Parts of the load that live the shape at other times."""
    growth_frac_per_year: Annotated[float, Quantity("frac_per_year", Bounds(least=-0.99, most=1000.0))] | None = Field(
        None, alias="growth"
    )
    """Growth of the rate in a year, compounded from the begin of the run on."""
    concurrency: Annotated[int, Whole(1, 10_000_000)] | None = None
    """How many requests of closed arrivals are under way at a time."""
    requests: Count | None = None
    """How many requests closed arrivals have in total; as many as run.length can take when absent."""
    think: Pause | None = None
    """Time from the end of an answer to the next request of closed arrivals; none when absent."""
    input: Dist | None = None
    """Prompt lengths of drawn requests; with `sessions` or `agents`, what a turn adds."""
    output: Dist | None = None
    """Answer lengths of drawn requests."""
    prefix_reuse_frac: Share | None = Field(None, alias="prefix_reuse")
    """Share of the input tokens that repeat an earlier prefix of the class."""
    sessions: Sessions | None = None
    """Turns of a conversation; `rate` counts requests still."""
    agents: Agents | None = None
    """Steps of an agent's task; `rate` counts requests still."""
    priority: Annotated[int, Whole(0, 255)] = 0
    """Who is served first where requests wait: 0 before 1."""
    batch_cap: Annotated[int, Whole(1, 65_536)] | None = None
    """Most requests that run on a replica while one of this class does: small batches give fast tokens."""
    timeout_s: Seconds | None = Field(None, alias="timeout")
    """A request without its first token by then is given up."""
    cancel_after_s: Seconds | None = Field(None, alias="cancel_after")
    """The client goes away by then, whatever it has got."""
    retries: Retries | None = None
    """What the client does after a failure; it gives up at once when absent."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        described = (*_DRAWN_KEYS, *_CHAIN_KEYS, *_CLOSED_KEYS)
        if "trace" in data:
            reason = "the trace has the arrivals and lengths; take this key or `trace` away"
            yield from idle(data, described, reason)
            return
        yield from idle(data, _TRACE_KEYS, "it shapes a recorded trace, and the class has none")
        if not any(key in data for key in described):
            yield Trouble((), "no traffic is described", "write trace: NAME, or arrivals, rate, input and output")
            return
        yield from needs(
            data, ["arrivals"], "write arrivals: poisson, gamma, weibull, hawkes or closed, or trace: NAME"
        )
        yield from _arrivals(data)
        if "sessions" in data:
            yield from idle(data, ["agents"], "a class has sessions or agents; split it in two classes")
        if any(key in data for key in _CHAIN_KEYS):
            reason = "the turns of a session repeat what was said before; `system` is what sessions share"
            yield from idle(data, ["prefix_reuse"], reason)

    def laws(self) -> Iterator[Trouble]:
        shares = [region.share_frac for region in self.regions.values()]
        if shares and abs(sum(shares) - 1.0) > 1e-6:
            yield Trouble(("regions",), f"the shares sum to {sum(shares) * 100:g} %", "they have to sum to 100 %")
        if self.requests is not None and self.concurrency is not None and self.requests < self.concurrency:
            yield Trouble(
                ("requests",),
                f"{self.requests:,} requests cannot be {self.concurrency:,} at a time",
                "lower concurrency",
            )


def _arrivals(data: Mapping[str, Any]) -> Iterator[Trouble]:
    """Faults between the keys that say when drawn requests come."""
    law = data.get("arrivals")
    if law == "closed":
        yield from needs(data, ["concurrency", "input", "output"], "closed arrivals need concurrency, input and output")
        reason = "closed arrivals come when an answer ends, not by a rate"
        yield from idle(data, (*_OPEN_KEYS, *_CHAIN_KEYS), reason)
        return
    yield from needs(data, ["rate", "input", "output"], "drawn requests need rate, input and output")
    if law is not None:
        yield from idle(data, _CLOSED_KEYS, "it belongs to arrivals: closed")
        own = _LAW_KEYS.get(str(law))
        if own == "burstiness":
            yield from needs(data, [own], f"{law} arrivals need the coefficient of variation of their gaps")
        elif own == "burst":
            yield from needs(data, [own], "hawkes arrivals need {size, decay} of their bursts")
        for key, owners in (("burstiness", "gamma or weibull"), ("burst", "hawkes")):
            if key != own:
                yield from idle(data, [key], f"it belongs to arrivals: {owners}")
    if "shape" not in data:
        yield from idle(data, ["regions"], "regions live a shape at other times, and the class has no shape")


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a class: the metric, the quantile as a share and as it is written, and the most it may be."""

    metric: Metric
    quantile: float
    label: Quantile
    limit_s: float


_Limits = dict[Quantile, Seconds]


class Slo(Section):
    """Limits that a class has to be served within, by metric and quantile."""

    ttft: _Limits = Field(default_factory=dict)
    """Time to the first token, the queue included."""
    tpot: _Limits = Field(default_factory=dict)
    """Mean time per output token after the first, of one request."""
    itl: _Limits = Field(default_factory=dict)
    """Gap between consecutive tokens, over all tokens of all requests."""
    e2e: _Limits = Field(default_factory=dict)
    """Time from arrival to the last token."""
    queue: _Limits = Field(default_factory=dict)
    """Time from arrival to the start of the work."""
    task: _Limits = Field(default_factory=dict)
    """Time from the first arrival to the last token of a session or task; not part of the attainment of requests."""
    attainment_frac: Annotated[float, Quantity("frac", Bounds(above=0.0, most=1.0))] | None = Field(
        None, alias="attainment"
    )
    """Share of the offered requests that have to be inside every limit."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        for metric in METRICS:
            if metric in data and data[metric] == {}:
                yield Trouble((metric,), f"{metric} names no quantile", "such as p95: 500 ms")
        if not any(data.get(metric) for metric in METRICS):
            yield Trouble((), "no limit is named", f"such as {{ttft: {{p95: 500 ms}}}}; metrics: {', '.join(METRICS)}")

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits by metric, then quantile, lowest first."""
        return tuple(
            Limit(metric, int(label[1:]) / 100, label, limit_s)
            for metric in METRICS
            for label, limit_s in sorted(getattr(self, metric).items())
        )

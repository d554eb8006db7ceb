"""What serves the traffic: pools of racks, the models deployed on them, and which class may use which pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from planner.facts.schema import Fact
from planner.scenario.fields import (
    Bounds,
    Count,
    FactOf,
    Flag,
    Name,
    Quantity,
    Seconds,
    SecondsOrNone,
    Share,
    Text,
    Whole,
)
from planner.scenario.section import Section, Trouble, idle, needs, troubles
from planner.scenario.sections_operation import Autoscale, Failures, Outage, Speculation

_DIVIDES = "the product of the degrees divides the chips"
_DEGREES = ("tp", "pp", "dp")
_ChunkTokens = Annotated[int, Quantity("tokens", Bounds(least=1.0, most=1e7), is_whole=True, bare_unit="tok")]
_RackCount = Annotated[int, Whole(0, 1_000_000)]


class Deploy(Section):
    """Copies of one model on the racks of a pool, each over the same number of chips."""

    model: Text
    """The model: a name in the catalogue, or ./config.json of a checkpoint."""
    chips: Count
    """Chips of one replica; tp x dp x pp when those are given."""
    per_rack: Count | None = None
    """Replicas in each rack; the one entry without it takes the chips that are left."""
    tp: Count | None = None
    """Tensor parallel degree; chosen by the layout when absent."""
    pp: Count | None = None
    """Pipeline stages; 1 when absent, or the fewest with which the model fits where it does not without."""
    dp: Count | None = None
    """Attention data parallel degree; chosen by the layout when absent."""
    ep: Count | None = None
    """Expert parallel degree; the chips of a stage for a mixture of experts when absent."""
    precision: Literal["bf16", "fp8", "fp4", "mxfp4", "nvfp4", "int4"] | None = None
    """Format of the weights; the checkpoint's own when absent."""
    engine: Text | None = None
    """Serving software, by its name in the catalogue; the best measured for chip and model when absent."""
    role: Literal["mixed", "prefill", "decode"] = "mixed"
    """What the replicas do: both phases, or one of them with a hand-over of the prompt."""
    decode_pool: Text | None = None
    """The pool that decodes what a prefill replica hands over."""
    max_batch: Annotated[int, Whole(1, 65_536)] | None = None
    """Most requests in one step of a replica."""
    chunk_tokens: _ChunkTokens | None = None
    """Most tokens in one step of a replica: prefill is cut into chunks that fit."""
    kv_dtype: Literal["bf16", "fp8"] | None = None
    """Format of the key-value cache; bf16 when absent."""
    prefix_cache: Flag = True
    """Whether prompts that begin like earlier ones find their key-value blocks again."""
    kv_host_bytes: Annotated[int, Quantity("bytes", Bounds(above=0.0, most=1e16), is_whole=True)] | None = Field(
        None, alias="kv_host"
    )
    """Host memory of a replica that keeps the blocks which its chips have no room for."""
    preemption: Literal["recompute", "swap"] = "recompute"
    """What becomes of the blocks of a request that has to make room: lost, or moved to host memory."""
    watermark_frac: Share | None = Field(None, alias="watermark")
    """Share of the blocks that stays free when a request is admitted; none when absent."""
    speculation: Speculation | None = None
    """Speculative decoding."""

    @classmethod
    def expand(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "chips" in data:
            return data
        degrees = [data[key] for key in _DEGREES if key in data]
        chips = 1
        for degree in degrees:
            if not str(degree).isdecimal():
                return data
            chips *= int(degree)
        return {**data, "chips": chips} if degrees else data

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        yield from needs(data, ["chips"] if "model" in data else [], "say over how many chips a replica is spread")
        if data.get("role") == "prefill":
            yield from needs(data, ["decode_pool"], "a prefill replica hands its prompts to a pool that decodes")
            yield from idle(data, ["speculation"], "prefill replicas do not decode: draft in the pool that does")
        else:
            yield from idle(data, ["decode_pool"], "it belongs to role: prefill")

    def laws(self) -> Iterator[Trouble]:
        given = {key: getattr(self, key) for key in _DEGREES if getattr(self, key) is not None}
        placed = 1
        for degree in given.values():
            placed *= degree
        product = " x ".join(f"{key} {degree}" for key, degree in given.items())
        if len(given) == 3 and placed != self.chips:
            yield Trouble(
                ("chips",), f"{product} = {placed} is not the {self.chips} chips of the replica", "make the two equal"
            )
        elif self.chips % placed:
            yield Trouble(("chips",), f"{product} does not divide the {self.chips} chips of the replica", _DIVIDES)
        if self.preemption == "swap" and self.kv_host_bytes is None:
            yield Trouble((), "kv_host is missing", "swapped blocks go to host memory: say how much a replica has")
        if self.ep is not None and self.chips % self.ep:
            yield Trouble(("ep",), f"ep {self.ep} does not divide the {self.chips} chips of the replica", _DIVIDES)


class CountRange(Section):
    """How many racks `planner optimize` may choose."""

    min: _RackCount = 0
    """The fewest racks."""
    max: _RackCount
    """The most racks."""

    def laws(self) -> Iterator[Trouble]:
        if self.max < self.min:
            yield Trouble(("max",), f"max {self.max} is below min {self.min}", "write the smaller one as min")


class Pool(Section):
    """Racks of one kind, bought or rented together and laid out alike."""

    rack: Text
    """The rack: a name in the catalogue, or ./my-rack.yaml."""
    count: Annotated[_RackCount, BeforeValidator(lambda v: 0 if isinstance(v, Mapping) else v)] = Field(alias="count")
    """Number of racks; `{min, max}` lets `planner optimize` choose."""
    count_range: Annotated[CountRange | None, BeforeValidator(lambda v: v if isinstance(v, Mapping) else None)] = Field(
        None, alias="count"
    )
    """The racks to choose from, when `count` is `{min, max}`."""
    deploy: Annotated[tuple[Deploy, ...], BeforeValidator(lambda v: () if v == "any" else v)]
    """What runs on a rack, in this order; `any` lets `planner optimize` choose."""
    capex_usd_per_rack: Annotated[Fact, FactOf("usd_per_rack")] | None = Field(None, alias="capex")
    """Price of a rack as delivered, in place of the catalogue's."""
    rent_usd_per_chip_h: Annotated[Fact, FactOf("usd_per_chip_h")] | None = Field(None, alias="rent")
    """Price of a rented chip-hour; the pool is then rented, not bought."""
    contract: Literal["3-year", "hyperscaler", "neocloud"] | None = None
    """The catalogue's price of a chip-hour in place of `rent`: of three years, or what large owners pay all in."""
    existing: _RackCount = 0
    """How many of the racks are owned already: no capex, but they count in power."""
    retire: dict[Name, _RackCount] = Field(default_factory=dict)
    """Racks of `existing` that are gone from the begin of a period on, as {period: racks}; for planner optimize."""
    available_from: Text | None = None
    """When a bought rack can stand at the earliest: a date, or a time after the plan's start; the catalogue's date when
    absent. It counts where periods have dates."""
    lead_time_s: Seconds | None = Field(None, alias="lead_time")
    """From `goal.order` to delivery, in place of the catalogue's."""
    deliveries: Annotated[_RackCount | None, BeforeValidator(lambda v: None if isinstance(v, Mapping) else v)] = None
    """Most racks that are delivered in a period; a map gives each period its own."""
    deliveries_by_period: Annotated[
        dict[Name, _RackCount] | None, BeforeValidator(lambda v: v if isinstance(v, Mapping) else None)
    ] = Field(None, alias="deliveries")
    """The deliveries of each period, when `deliveries` is a map."""
    new_silicon: Flag = False
    """Whether chip or rack are in their first year: more failures and a loss of packages are charged as allowance."""
    power_cap_w_per_chip: Annotated[float, Quantity("power_per_chip", Bounds(above=0.0))] | None = Field(
        None, alias="power_cap"
    )
    """The most that a chip may draw; steps that would draw more take longer."""
    failures: Failures | None = None
    """Failures by chance; `default` takes the catalogue's rates."""
    outages: tuple[Outage, ...] = ()
    """Failures at known times: what runs there is lost."""
    maintenance: tuple[Outage, ...] = ()
    """Planned downtime: a replica takes no new requests and ends those it has before it goes down."""
    cold_start_s: SecondsOrNone | None = Field(None, alias="cold_start")
    """Time from switching a replica on to its first request: loading of weights, warm-up. At once when absent."""
    autoscale: Autoscale | None = None
    """Replicas that follow the load."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        if data.get("deploy") in ([], ()):
            yield Trouble(("deploy",), "nothing is deployed on the pool's racks", "write at least one {model, chips}")
        for key in ("rent", "contract"):
            if key in data:
                reason = f"the pool is rented: take it or `{key}` away"
                yield from idle(data, ["capex", "existing", "new_silicon"], reason)
        if "rent" in data:
            yield from idle(data, ["contract"], "`rent` says the price: take one of the two away")

    def laws(self) -> Iterator[Trouble]:
        most = self.count if self.count_range is None else self.count_range.max
        if self.existing > most:
            yield Trouble(
                ("existing",),
                f"{self.existing} racks are owned already and the pool has at most {most}",
                "raise max, or own fewer",
            )
        gone = sum(self.retire.values())
        if gone > self.existing:
            yield Trouble(
                ("retire",), f"{gone} racks are to retire and {self.existing} are owned already", "retire fewer"
            )


class Survive(Section):
    """What may be down while the limits still hold."""

    racks: Count
    """Racks down at the same time, the worst ones."""


def _route(value: Any) -> Any:
    """A route as pool -> share; a bare name or a list of names has no shares."""
    if isinstance(value, str):
        return {value: None}
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return dict.fromkeys(value)
    return value


def _whole_route(route: dict[str, float | None]) -> dict[str, float | None]:
    """The route, if its shares are the whole of the class's requests or there are none."""
    shares = [share for share in route.values() if share is not None]
    if not route:
        raise troubles([Trouble((), "the route names no pool", "write pool names, or take the route away")])
    if shares and abs(sum(shares) - 1.0) > 1e-6:
        raise troubles([Trouble((), f"the shares sum to {sum(shares) * 100:g} %", "they have to sum to 100 %")])
    return route


_Route = Annotated[dict[Name, Share | None], BeforeValidator(_route), AfterValidator(_whole_route)]


class Router(Section):
    """How the replica of a request is picked. A bare word is the policy."""

    policy: Literal[
        "round-robin",
        "random",
        "power-of-two",
        "least-outstanding-tokens",
        "least-requests",
        "prefix-affine",
        "session-affine",
        "slo-aware",
        "cheapest-first",
    ] = "least-outstanding-tokens"
    """What it looks at; cheapest-first fills pools in the order of the route or of `pools`."""
    candidates: Annotated[int, Whole(1, 1024)] | None = None
    """slo-aware: of how many replicas of each deployment, those with the least to do, it predicts; 4 when absent."""
    rejects: Flag | None = None
    """slo-aware: whether it turns away a request that would miss its class's limit on ttft on all of them."""
    most_frac: Annotated[float, Quantity("frac", Bounds(least=0.01, most=1e4))] | None = Field(None, alias="most")
    """Affine policies: tokens outstanding over the mean beyond which a replica is passed over; 150 % when absent."""
    spill_frac: Share | None = Field(None, alias="spill")
    """cheapest-first: share of the cache that prompts may fill before the next pool is tried; half when absent."""

    @classmethod
    def expand(cls, data: Any) -> Any:
        return {"policy": data} if isinstance(data, str) else data

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        for key, policies in _TOLD.items():
            if data.get("policy") not in policies:
                yield from idle(data, [key], f"it belongs to policy: {' or '.join(policies)}")


_TOLD = {
    "candidates": ("slo-aware",),
    "rejects": ("slo-aware",),
    "most": ("prefix-affine", "session-affine"),
    "spill": ("cheapest-first",),
}
"""What a policy may be told -> the policies that listen."""


class FleetSpec(Section):
    """The racks and how requests reach them."""

    router: Router = Field(default_factory=lambda: Router.model_validate({}))
    """How the replica of a request is picked: a policy, or a map of it and what it may be told."""
    pools: dict[Name, Pool]
    """The pools by name."""
    routes: dict[Name, _Route] = Field(default_factory=dict)
    """The pools that a class may use, with shares of its requests or without; all that deploy its model when absent."""
    spare_frac: Annotated[float, Quantity("frac", Bounds(least=0.0, most=0.99))] | None = Field(None, alias="spare")
    """Capacity kept free: limits have to hold with each pool's load divided by 1 - spare."""
    survive: Survive | None = None
    """What may be down while the limits still hold."""
    kv_link_bytes_per_s: Annotated[Fact, FactOf("bytes_per_s", Bounds(above=0.0))] | None = Field(None, alias="kv_link")
    """Link between prefill and decode pools; the chips' scale-out links when absent."""
    cell_replicas: Count | None = None
    """Replicas of one independently simulated part of a large fleet."""

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        if data.get("pools") == {}:
            yield Trouble(("pools",), "the fleet has no pool", "write at least one")

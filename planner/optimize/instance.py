"""What is to be decided, as plain numbers: kinds of racks, ways to serve each class, spans of time, sites and limits.

Everything that the integer program and its checks know stands here; nothing here knows of scenarios or files. Rates are
requests per second, power is at the meter, money is USD, energy is kWh, carbon is kgCO2e.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HOURS_PER_YEAR = 8760


@dataclass(frozen=True, slots=True)
class Option:
    """A deployment that a rack may hold."""

    name: str
    chips: int
    per_rack: int | None = None
    """How many each rack holds; None = chosen, rack by rack."""
    parked_w: float = 0.0
    """What a chosen replica without work draws more than idle chips would."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Racks of one pool at one site, all alike."""

    name: str
    domains: tuple[int, ...]
    """Chips that chosen replicas may take in each scale-up domain of a rack."""
    options: tuple[Option, ...]
    site: str = ""
    rated_w: float = 0.0
    rest_w: float = 0.0
    """What a rack draws that holds no chosen replica and does no work."""
    places: float = 1.0
    """Rack positions that it takes."""
    capex_usd: float = 0.0
    """Cash at order."""
    new_usd_per_year: Mapping[str, float] = field(default_factory=dict)
    """Cost of a bought rack by part, without energy: pays off its price, upkeep, space."""
    owned_usd_per_year: Mapping[str, float] = field(default_factory=dict)
    """The same of a rack that is owned already."""
    embodied_kgco2e_per_year: float = 0.0
    existing: tuple[int, ...] = ()
    """Racks owned already, by span; they retire where the number falls."""
    least: int = 0
    most: int = 0
    """Racks that stand in any span, owned ones included."""
    first_span: int = 0
    """The first span in which a bought rack can stand."""
    most_bought: tuple[int | None, ...] = ()
    """Deliveries by span; None = no limit."""
    vendor: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to serve a class: by one deployment, or prompts here and answers there."""

    name: str
    cls: str
    takes: tuple[tuple[int, int, float], ...]
    """(kind, option, replicas that a request per second takes at the peak)."""
    w_per_req_s: tuple[tuple[int, float], ...] = ()
    """(kind, power that a request per second adds there)."""


@dataclass(frozen=True, slots=True)
class Span:
    """A period of the plan."""

    name: str
    start_years: float
    end_years: float
    discounted_years: float
    """What a dollar a year over the span is worth at the begin of the plan."""
    peak_req_per_s: Mapping[str, float]
    mean_req_per_s: Mapping[str, float]
    budget_usd: float | None = None

    @property
    def years(self) -> float:
        """Its length."""
        return self.end_years - self.start_years


@dataclass(frozen=True, slots=True)
class Place:
    """A site."""

    name: str = ""
    power_w: float | None = None
    """Most rated power at the meter."""
    racks: float | None = None
    """Rack positions."""
    usd_per_kwh: float = 0.0
    kgco2e_per_kwh: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """What prompts are handed over on, from the replicas that read them to those that answer."""

    name: str
    bytes_by_way: tuple[tuple[int, float], ...]
    """(way, keys and values that a request of it moves)."""
    bytes_per_s: float = 0.0
    """What it takes whatever stands."""
    by_replica: tuple[tuple[int, int, float], ...] = ()
    """(kind, option, bytes a second that each of its replicas adds)."""


@dataclass(frozen=True, slots=True)
class VendorShare:
    """Least and most of the racks' purchase value that a vendor's racks are, in every span with racks."""

    vendor: str
    least_frac: float = 0.0
    most_frac: float = 1.0


@dataclass(frozen=True, slots=True)
class Instance:
    """The whole question."""

    kinds: tuple[Kind, ...]
    ways: tuple[Way, ...]
    spans: tuple[Span, ...]
    places: tuple[Place, ...] = (Place(),)
    goal: Mapping[str, float] = field(default_factory=lambda: {"tco": 1.0})
    """Goals and their weights."""
    then: str | None = None
    """The second goal, among plans that are best in the first."""
    spare_frac: float = 0.0
    racks_down: int = 0
    """Racks of any one kind without which the limits still hold."""
    budget_usd: float | None = None
    carbon_kgco2e: float | None = None
    """Most carbon over the whole plan."""
    vendors: tuple[VendorShare, ...] = ()
    links: tuple[Link, ...] = ()
    fixed_usd_per_year: float = 0.0
    """What the fleet costs whatever its racks: staff, software."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes of traffic, in the order of the first span."""
        return tuple(self.spans[0].peak_req_per_s)

    def place_of(self, kind: Kind) -> Place:
        """The site of a kind."""
        return next(place for place in self.places if place.name == kind.site)

    def existing(self, k: int, t: int) -> int:
        """Racks of a kind that are owned already in a span."""
        return self.kinds[k].existing[t] if self.kinds[k].existing else 0


@dataclass(frozen=True, slots=True)
class Decision:
    """Whole counts and rounded shares: all that is taken from a solver."""

    bought: tuple[tuple[int, ...], ...]
    """By kind and span."""
    replicas: tuple[tuple[tuple[int, ...], ...], ...]
    """By kind, option and span."""
    shares: tuple[tuple[float, ...], ...]
    """Of the class's requests, by way and span."""

    def racks(self, instance: Instance, k: int, t: int) -> int:
        """Racks of a kind that stand in a span."""
        return instance.existing(k, t) + sum(self.bought[k][: t + 1])


@dataclass(frozen=True, slots=True)
class Rates:
    """What one unit of each decision adds to a goal."""

    standing: tuple[tuple[float, ...], ...]
    """A bought rack that stands, by kind and span."""
    owned: tuple[tuple[float, ...], ...]
    bought: tuple[tuple[float, ...], ...]
    replica: tuple[tuple[tuple[float, ...], ...], ...]
    """A chosen replica, by kind, option and span."""
    share: tuple[tuple[float, ...], ...]
    """All requests of the class, by way and span."""
    fixed: float


def rates(instance: Instance, goal: str) -> Rates:
    """What racks, replicas and shares add to `goal` (tco in USD, capex in USD, energy in kWh, carbon in kgCO2e)."""
    n_spans = len(instance.spans)
    spans = range(n_spans)
    places = [instance.place_of(kind) for kind in instance.kinds]

    def per_w(k: int, t: int) -> float:
        """The goal's cost of a watt through the span."""
        kwh = HOURS_PER_YEAR / 1000
        if goal == "tco":
            return kwh * places[k].usd_per_kwh * instance.spans[t].discounted_years
        if goal == "energy":
            return kwh * instance.spans[t].years
        if goal == "carbon":
            return kwh * places[k].kgco2e_per_kwh * instance.spans[t].years
        return 0.0

    def rack(kind: Kind, k: int, t: int, parts: Mapping[str, float]) -> float:
        power = kind.rest_w * per_w(k, t)
        if goal == "tco":
            return sum(parts.values()) * instance.spans[t].discounted_years + power
        if goal == "carbon":
            return kind.embodied_kgco2e_per_year * instance.spans[t].years + power
        return power

    kinds = list(enumerate(instance.kinds))
    return Rates(
        standing=tuple(tuple(rack(kind, k, t, kind.new_usd_per_year) for t in spans) for k, kind in kinds),
        owned=tuple(tuple(rack(kind, k, t, kind.owned_usd_per_year) for t in spans) for k, kind in kinds),
        bought=tuple(tuple(kind.capex_usd if goal == "capex" else 0.0 for _ in spans) for _, kind in kinds),
        replica=tuple(
            tuple(
                tuple(0.0 if option.per_rack is not None else option.parked_w * per_w(k, t) for t in spans)
                for option in kind.options
            )
            for k, kind in kinds
        ),
        share=tuple(
            tuple(
                sum(w * per_w(k, t) for k, w in way.w_per_req_s) * instance.spans[t].mean_req_per_s[way.cls]
                for t in spans
            )
            for way in instance.ways
        ),
        fixed=instance.fixed_usd_per_year * sum(s.discounted_years for s in instance.spans) if goal == "tco" else 0.0,
    )


def parts(instance: Instance, decision: Decision, goal: str) -> dict[str, float]:
    """What a decision comes to, by part: racks bought, racks owned, replicas' and requests' energy, fixed cost."""
    found = rates(instance, goal)
    spans = range(len(instance.spans))
    sums = {"bought": 0.0, "owned": 0.0, "replicas": 0.0, "requests": 0.0, "fixed": found.fixed}
    for k, kind in enumerate(instance.kinds):
        for t in spans:
            new = decision.racks(instance, k, t) - instance.existing(k, t)
            sums["bought"] += new * found.standing[k][t] + decision.bought[k][t] * found.bought[k][t]
            sums["owned"] += instance.existing(k, t) * found.owned[k][t]
            for o, _ in enumerate(kind.options):
                sums["replicas"] += decision.replicas[k][o][t] * found.replica[k][o][t]
    for w, _ in enumerate(instance.ways):
        for t in spans:
            sums["requests"] += decision.shares[w][t] * found.share[w][t]
    return sums


def total(instance: Instance, decision: Decision, goal: str | None = None) -> float:
    """The goal of a decision; without `goal` the weighted sum that the instance asks for."""
    weights = instance.goal if goal is None else {goal: 1.0}
    return sum(weight * sum(parts(instance, decision, name).values()) for name, weight in weights.items())

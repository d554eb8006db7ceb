"""What a fleet consists of once it is laid out: pools of racks, the replicas on them, and the facts that price them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from planner.errors import Notice
    from planner.facts.schema import Chip, Fact, Rack
    from planner.model.trust import Trust


@dataclass(frozen=True, slots=True)
class Placed:
    """One deployment on a pool, and how many copies of it the pool's racks hold."""

    pool: str
    model: str
    n_replicas: int
    n_chips: int
    """Chips of one replica."""
    tp: int
    dp: int
    pp: int
    ep: int
    engine: str
    precision: str
    """How weights are stored, in words: `mxfp4 experts, bf16 rest`."""
    spec: Mapping[str, Any]
    """The core's deployment spec."""
    plan: Mapping[str, Any]
    """The core's plan of it: memory by part, KV capacity."""
    facts: tuple[Fact, ...] = ()
    """Facts of the scenario that are in the spec."""
    trust: Trust | None = None
    """How far off the model may be for it."""

    @property
    def label(self) -> str:
        """`gpt-oss-120b tp8`, for reports."""
        draft = (self.spec["serving"].get("speculation") or {}).get("draft_tokens")
        parts = [f"tp{self.tp}"] + [
            f"{name}{n}" for name, n in (("dp", self.dp), ("pp", self.pp), ("ep", self.ep)) if n > 1
        ]
        parts += [f"draft{draft}"] if draft else []
        return " ".join([self.model, *parts])


@dataclass(frozen=True, slots=True)
class NewSilicon:
    """What the first year of a chip or rack costs more: facts of the catalogue."""

    failures_per_chip_year: Fact
    """Of a mature chip; `upkeep` pays for those."""
    multiplier: Fact
    """How many times as many a new one has."""
    replaced_frac: Fact
    """Share of the failures after which hardware is replaced."""
    packaging_yield_frac: Fact
    """Share of the packages paid for that work."""
    usd_per_chip: Fact | None
    """Price of a chip; its share of the rack's where it is not known."""


@dataclass(frozen=True, slots=True)
class Times:
    """What a site has by hour of the local day (24) or month (12); None where it is the same all the time."""

    usd_per_kwh: tuple[Fact, ...] | None = None
    kgco2e_per_kwh: tuple[Fact, ...] | None = None
    pue: tuple[Fact, ...] | None = None
    start: datetime | None = None
    """When the run begins; the mean over the day and the year where nobody says."""


@dataclass(frozen=True, slots=True)
class SiteLayout:
    """Where some pools stand: what electricity costs and emits there, what the building adds, what the site bears."""

    name: str
    pools: tuple[str, ...]
    pue: Fact
    electricity_usd_per_kwh: Fact
    carbon_kgco2e_per_kwh: Fact
    rated_w: float
    """What its racks are provisioned for, at the meter."""
    power_limit_w: float | None
    times: Times = field(default_factory=Times)


@dataclass(frozen=True, slots=True)
class PoolLayout:
    """A pool of equal racks."""

    name: str
    rack: Rack
    chip: Chip
    n_racks: int
    n_existing: int
    """Racks that are owned already: they have no capex."""
    placed: tuple[Placed, ...]
    n_chips: int
    idle_chips: int
    """Chips that no replica uses: they are billed and draw their idle power."""
    capex_usd_per_rack: Fact
    rent_usd_per_chip_h: Fact | None
    """Set where the racks are rented: then they have no capex, network, storage or upkeep."""
    new_silicon: NewSilicon | None = None
    """Set where chip or rack are in their first year."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet that fits: memory, domains, racks and the site's power were checked."""

    pools: tuple[PoolLayout, ...]
    placed: tuple[Placed, ...]
    """All deployments, in the order of the simulator's `deployment_ix`."""
    pue: Fact
    electricity_usd_per_kwh: Fact
    carbon_kgco2e_per_kwh: Fact
    rated_w: float
    """What the racks are provisioned for, at the meter: sum of rated power x PUE."""
    power_limit_w: float | None
    notices: tuple[Notice, ...]
    times: Times = field(default_factory=Times)
    """What the site has by hour or month, in place of the flat facts above."""
    sites: tuple[SiteLayout, ...] = ()
    """The sites where there are several; then the facts above are those of the first."""
    round_trips_s: Mapping[str, Mapping[str, Fact]] = field(default_factory=dict)
    """By pool and class: from its clients to the pool's site and back, where that is said."""
    kv_link_bytes_per_s: Fact | None = None
    """The link over which prompts are handed over, where the scenario gives it."""

    @property
    def places(self) -> tuple[SiteLayout, ...]:
        """Every site: the several, or the one."""
        if self.sites:
            return self.sites
        return (
            SiteLayout(
                name="site",
                pools=tuple(pool.name for pool in self.pools),
                pue=self.pue,
                electricity_usd_per_kwh=self.electricity_usd_per_kwh,
                carbon_kgco2e_per_kwh=self.carbon_kgco2e_per_kwh,
                rated_w=self.rated_w,
                power_limit_w=self.power_limit_w,
                times=self.times,
            ),
        )

    def at(self, pool: PoolLayout) -> Fleet | SiteLayout:
        """Where a pool stands."""
        return next((site for site in self.sites if pool.name in site.pools), self)

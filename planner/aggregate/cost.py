"""What the fleet costs an hour, part by part, in whole nano-dollars: sums are exact in whatever order they are taken.

    annuity = (1 - residual) x r / (1 - 1 / g) + residual x r,  g = (1 + r)^life      yearly cost of a dollar of capex

| symbol | name | source |
|---|---|---|
| r | discount | cost of capital a year |
| life | life | years over which a rack is paid off |
| residual | residual | share of capex that is left at the end of life |

That is capital recovery with salvage: the level yearly payment whose present value, with that of the residual, is the
price (Park, Contemporary Engineering Economics). `cost_parts.PART_FORMULAS` says how each part is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from planner.aggregate import clock
from planner.aggregate.cost_parts import COVERED_PARTS, NAMED_PARTS, PARTS
from planner.aggregate.power import Book, PoolPower, mean_w, peak_w

if TYPE_CHECKING:
    from planner.aggregate.inputs import Span
    from planner.facts.fact import Fact
    from planner.fleet.fleet import Fleet, PoolLayout
    from planner.scenario.schema import CostSpec

HOURS_PER_YEAR = 8760
MONTHS_PER_YEAR = 12
NANO = 1_000_000_000
_EXACT = Context(prec=40)
_NO_RATE = Decimal("1e-15")
"""Below it no interest is paid that any figure would show."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The facts that price a fleet; None = not charged."""

    life_years: Fact
    discount_frac: Fact
    residual_frac: Fact
    upkeep_frac: Fact
    network_usd_per_chip: Fact
    storage_frac: Fact
    space_usd_per_kw_month: Fact | None = None
    staff_usd_per_year: Fact | None = None
    software_usd_per_year: Fact | None = None
    demand_usd_per_kw_month: Fact | None = None
    installation_frac: Fact | None = None
    spares_frac: Fact | None = None
    support_frac: Fact | None = None
    insurance_frac: Fact | None = None
    has_allowance: bool = False
    """Whether any pool is of new silicon."""

    @classmethod
    def of(cls, cost: CostSpec, finance: Mapping[str, Fact], *, has_allowance: bool = False) -> Terms:
        """What the scenario says, else the catalogue's finance facts; the rest only where the scenario names it."""
        silent = {
            name: given if (given := getattr(cost, name)) is not None else finance[name]
            for name in (
                "life_years",
                "discount_frac",
                "residual_frac",
                "upkeep_frac",
                "network_usd_per_chip",
                "storage_frac",
            )
        }
        named = {name: getattr(cost, name) for name in _NAMED.values()}
        return cls(**silent, **named, has_allowance=has_allowance)

    def names(self, part: str) -> bool:
        """Whether the scenario names a part that is not charged otherwise."""
        return self.has_allowance if part == "allowance" else getattr(self, _NAMED[part]) is not None

    @property
    def left_out(self) -> tuple[str, ...]:
        """Parts that nobody named, so that they are not charged."""
        return tuple(name for name in NAMED_PARTS if not self.names(name))

    @property
    def without_figure(self) -> tuple[str, ...]:
        """Parts that are left out, or that another covers."""
        return (*self.left_out, *(name for name in COVERED_PARTS if not self.names(name)))


_NAMED = {
    "installation": "installation_frac",
    "spares": "spares_frac",
    "space": "space_usd_per_kw_month",
    "demand": "demand_usd_per_kw_month",
    "support": "support_frac",
    "insurance": "insurance_frac",
    "staff": "staff_usd_per_year",
    "software": "software_usd_per_year",
}
"""Part -> the term that names it."""
_OF_NEW_CAPEX = ("installation", "spares")
"""Parts that are a share of the capex to pay off, paid off with it."""
_OF_CAPEX = ("support", "insurance")
"""Parts that are a share of the racks' price each year."""


@dataclass(frozen=True, slots=True)
class Charge:
    """One part of one pool's cost."""

    pool: str
    part: str
    nano_usd_per_h: int


@lru_cache(maxsize=1024)
def annuity_frac(life_years: float, discount_frac: float, residual_frac: float) -> float:
    """Yearly cost of a dollar of capex; decimal arithmetic, so that it is the same on every machine.

    >>> annuity_frac(5, 0.0, 0.0)
    0.2
    """
    life, rate, residual = (Decimal(x) for x in (life_years, discount_frac, residual_frac))
    one = Decimal(1)
    lost = _EXACT.subtract(one, residual)
    if rate < _NO_RATE:
        return float(_EXACT.divide(lost, life))
    growth = _EXACT.power(_EXACT.add(one, rate), life)
    recovery = _EXACT.divide(rate, _EXACT.subtract(one, _EXACT.divide(one, growth)))
    return float(_EXACT.add(_EXACT.multiply(lost, recovery), _EXACT.multiply(residual, rate)))


def charges(
    fleet: Fleet, terms: Terms, powers: Sequence[PoolPower], span: Span, book: Book | None = None
) -> list[Charge]:
    """Every part of every pool's cost; `book` can change facts, with the simulation held."""
    book = book or Book()
    annuity = annuity_frac(book(terms.life_years), book(terms.discount_frac), book(terms.residual_frac))
    made: list[Charge] = []
    for power in powers:
        rate = power.pool.rent_usd_per_chip_h
        parts = {"rent": power.pool.n_chips * book(rate)} if rate else _owned(power, fleet, terms, annuity, span, book)
        made += [Charge(power.pool.name, part, _nano(usd)) for part, usd in parts.items()]
    made += _shared(fleet, terms, powers, span, book)
    return made


def _owned(power: PoolPower, fleet: Fleet, terms: Terms, annuity: float, span: Span, book: Book) -> dict[str, float]:
    """USD an hour of a pool that is bought; racks that are owned already have no capex and still need upkeep."""
    pool = power.pool
    to_pay = pool.n_racks - pool.n_existing
    parts = {"racks": 0.0, "network": 0.0, "storage": 0.0, "upkeep": 0.0}
    if pool.n_racks:
        price = book(pool.capex_usd_per_rack)
        parts["upkeep"] = pool.n_racks * price * book(terms.upkeep_frac) / HOURS_PER_YEAR
        for part in _OF_CAPEX:
            share: Fact | None = getattr(terms, _NAMED[part])
            if share is not None:
                parts[part] = pool.n_racks * price * book(share) / HOURS_PER_YEAR
        if to_pay:
            chips = pool.n_chips // pool.n_racks * to_pay
            yearly = annuity / HOURS_PER_YEAR
            parts["racks"] = to_pay * price * yearly
            parts["network"] = chips * book(terms.network_usd_per_chip) * yearly
            parts["storage"] = to_pay * price * book(terms.storage_frac) * yearly
            for part in _OF_NEW_CAPEX:
                share = getattr(terms, _NAMED[part])
                if share is not None:
                    parts[part] = to_pay * price * book(share) * yearly
        if pool.new_silicon is not None:
            parts["allowance"] = _allowance(pool, price, annuity, book) / HOURS_PER_YEAR
        if terms.space_usd_per_kw_month is not None:
            rated_kw = pool.n_racks * book(pool.rack.rated_w) / 1000
            parts["space"] = rated_kw * book(terms.space_usd_per_kw_month) * MONTHS_PER_YEAR / HOURS_PER_YEAR
    site = fleet.at(pool)
    facility_kw = mean_w(power, book) * clock.pue(site, span, book) / 1000
    return parts | {"energy": facility_kw * clock.usd_per_kwh(site, power, span, book)}


def _allowance(pool: PoolLayout, usd_per_rack: float, annuity: float, book: Book) -> float:
    """USD a year that the first year of a chip costs more: failures beyond a mature chip's, and packages that were paid
    for and do not work.
    """
    new = pool.new_silicon
    assert new is not None
    chips_per_rack = pool.n_chips // pool.n_racks
    usd_per_chip = usd_per_rack / chips_per_rack if new.usd_per_chip is None else book(new.usd_per_chip)
    failures = pool.n_chips * book(new.failures_per_chip_year) * (book(new.multiplier) - 1)
    replaced = failures * book(new.replaced_frac)
    lost = (pool.n_racks - pool.n_existing) * chips_per_rack * (1 / book(new.packaging_yield_frac) - 1)
    return usd_per_chip * (replaced + lost * annuity)


def _shared(fleet: Fleet, terms: Terms, powers: Sequence[PoolPower], span: Span, book: Book) -> list[Charge]:
    """What is charged to the whole fleet, shared out: staff and software by chips, a site's demand charge by peak."""
    made: list[Charge] = []
    pools = [power.pool for power in powers]
    for part, yearly in (("staff", terms.staff_usd_per_year), ("software", terms.software_usd_per_year)):
        if yearly is not None:
            shares = share_out(_nano(book(yearly) / HOURS_PER_YEAR), [pool.n_chips for pool in pools])
            made += [Charge(pool.name, part, nano) for pool, nano in zip(pools, shares, strict=True)]
    for site in fleet.places:
        owned = [power for power in powers if not power.pool.rent_usd_per_chip_h and power.pool.name in site.pools]
        if terms.demand_usd_per_kw_month is None or not owned:
            continue
        pue = clock.pue(site, span, book)
        usd = peak_w(owned, span, book) * pue / 1000 * book(terms.demand_usd_per_kw_month)
        weights = [round(peak_w([power], span, book) * 1000) for power in owned]
        shares = share_out(_nano(usd * MONTHS_PER_YEAR / HOURS_PER_YEAR), weights)
        made += [Charge(power.pool.name, "demand", nano) for power, nano in zip(owned, shares, strict=True)]
    return made


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to the weights that sum to `total`; what is left goes to the largest remainders.

    >>> share_out(10, [1, 1, 1])
    [4, 3, 3]
    """
    whole = sum(weights) or len(weights)
    weights = weights if sum(weights) else [1] * len(weights)
    shares = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda ix: (-(total * weights[ix] % whole), ix))
    for ix in by_remainder[: total - sum(shares)]:
        shares[ix] += 1
    return shares


def _nano(usd: float) -> int:
    return round(usd * NANO)


def total_usd_per_h(made: Sequence[Charge]) -> float:
    """All of it."""
    return sum(charge.nano_usd_per_h for charge in made) / NANO


def by_part(made: Sequence[Charge], without: Sequence[str]) -> dict[str, float | None]:
    """USD an hour of each part; None for one that is left out or covered by another."""
    sums = dict.fromkeys(PARTS, 0)
    for charge in made:
        sums[charge.part] += charge.nano_usd_per_h
    return {part: None if part in without else nano / NANO for part, nano in sums.items()}


def by_pool(made: Sequence[Charge], pools: Sequence[PoolLayout]) -> dict[str, float]:
    """USD an hour of each pool."""
    sums = {pool.name: 0 for pool in pools}
    for charge in made:
        sums[charge.pool] += charge.nano_usd_per_h
    return {pool: nano / NANO for pool, nano in sums.items()}

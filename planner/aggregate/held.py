"""Figures that facts move while the simulation is held: money, power, energy and carbon of one simulated seed.

`Held` is what a simulation leaves of itself for them; a `Book` says which value every fact has. So intervals, swings
and break-evens over prices cost no simulation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.aggregate import allocate
from planner.aggregate.allocate import Uses, class_figures
from planner.aggregate.carbon import carbon, left_out
from planner.aggregate.cost import NANO, Charge, Terms, annuity_frac, by_part, by_pool, charges, total_usd_per_h
from planner.aggregate.energy import energy
from planner.aggregate.inputs import NS_PER_S, Span
from planner.aggregate.per_token import usd_per_mtok
from planner.aggregate.places import places
from planner.aggregate.power import Book, PoolPower, draws
from planner.aggregate.work import Sums

if TYPE_CHECKING:
    from planner.facts.fact import Fact
    from planner.fleet.fleet import Fleet
    from planner.scenario.schema import CostSpec

Tree = dict[str, Any]
HEADLINE = (
    "cost.usd_per_h",
    "cost.idle_usd_per_h",
    "cost.usd_per_mtok_in",
    "cost.usd_per_mtok_out",
    "cost.usd_per_mtok_all",
    "cost.usd_per_mtok_out_whole",
    "energy.facility_kwh",
    "energy.j_per_token_in",
    "energy.j_per_token_out",
    "energy.j_per_token_all",
    "energy.j_per_token_out_whole",
    "carbon.kgco2e",
    "carbon.kgco2e_per_mtok_all",
    "carbon.kgco2e_per_mtok_out_whole",
    "fleet.facility_w.mean",
    "fleet.facility_w.peak",
)
"""Paths of the figures that have swings and intervals, beside those of each class."""
_STEPS = tuple((path, *path.split(".")) for path in HEADLINE)
CLASS_HEADLINE = ("usd_per_h", "usd_per_mtok_out_whole", "usd_per_request", "usd_per_task")


@dataclass(frozen=True, slots=True)
class Held:
    """One simulation, as far as money, power and carbon need it."""

    fleet: Fleet
    terms: Terms
    allocation: str
    powers: tuple[PoolPower, ...]
    works: tuple[Sums, ...]
    uses: Uses
    span: Span

    @property
    def tokens(self) -> dict[str, float]:
        """Computed in the span."""
        return {
            "input": sum(work["input_tokens"] for work in self.works),
            "output": sum(work["output_tokens"] for work in self.works),
        }


def made(held: Held, book: Book) -> list[Charge]:
    """Every part of every pool's cost."""
    return charges(held.fleet, held.terms, held.powers, held.span, book)


def cost(held: Held, found: Sequence[Charge], by_class: Sequence[Mapping[str, Any]], book: Book) -> Tree:
    """The section `cost` of a result; `by_class` is what each class costs."""
    terms, pools = held.terms, held.fleet.pools
    usd = by_pool(found, pools)
    idle = sum(
        usd[pool.name] * _idle_frac(pool.n_chips, work, held.span) for pool, work in zip(pools, held.works, strict=True)
    )
    whole = total_usd_per_h(found)
    return {
        "usd_per_h": whole,
        "idle_usd_per_h": idle,
        "used_usd_per_h": whole - idle,
        "annuity_frac": annuity_frac(book(terms.life_years), book(terms.discount_frac), book(terms.residual_frac)),
        "allocation": held.allocation,
        **usd_per_mtok(
            [usd[pool.name] for pool in pools],
            [work["prefill_chip_s"] for work in held.works],
            [work["decode_chip_s"] for work in held.works],
            input_tokens=held.tokens["input"],
            output_tokens=held.tokens["output"],
            span_s=held.span.span_s,
            allocation=held.allocation,
        ),
        "parts": by_part(found, terms.without_figure),
        "tenants": allocate.tenants(held.uses, by_class),
        "left_out": list(terms.left_out),
    }


def nano_by_pool(held: Held, found: Sequence[Charge]) -> list[int]:
    """Nano-dollars an hour of each pool."""
    usd = by_pool(found, held.fleet.pools)
    return [round(usd[pool.name] * NANO) for pool in held.fleet.pools]


def _idle_frac(n_chips: int, work: Sums, span: Span) -> float:
    """Share of a pool's chip time, chips without a replica included, in which no step ran."""
    chip_s = n_chips * span.span_s
    return 1 - work["busy_chip_s"] / chip_s if chip_s > 0 else 1.0


def figures_of(held: Held, book: Book) -> Tree:
    """All that facts move: sections `cost`, `energy`, `carbon`, `fleet` (draws) and `classes` (cost)."""
    found = made(held, book)
    by_class = class_figures(nano_by_pool(held, found), held.uses, held.span)
    return {
        "cost": cost(held, found, by_class, book),
        "energy": energy(held.fleet, held.powers, held.works, held.tokens, held.span, book),
        "carbon": {
            **carbon(held.fleet, held.powers, held.terms.life_years, held.tokens, held.span, book),
            "left_out": left_out(held.fleet),
        },
        "fleet": draws(held.powers, held.fleet, held.span, book),
        "sites": places(held.fleet, held.powers, found, held.span, book),
        "classes": {one.name: row for one, row in zip(held.uses.classes, by_class, strict=True)},
    }


def headline(held: Held, book: Book) -> dict[str, float | None]:
    """The figures that have swings and intervals, by path."""
    tree = figures_of(held, book)
    found: dict[str, float | None] = {}
    for path, *steps in _STEPS:
        here: Any = tree
        for step in steps:
            here = here[step]
        found[path] = here
    for name, row in tree["classes"].items():
        found |= {f"classes.{name}.{figure}": row[figure] for figure in CLASS_HEADLINE}
    return found


def read_at_rest(spec: CostSpec, fleet: Fleet, powers: Sequence[PoolPower], finance: Mapping[str, Fact]) -> list[Fact]:
    """The facts that money, power and carbon of a fleet read, in the order in which they do."""
    book = Book()
    hour = Span(warmup_ns=0, length_ns=3600 * NS_PER_S, window_ns=3600 * NS_PER_S)
    terms = Terms.of(spec, finance, has_allowance=any(pool.new_silicon for pool in fleet.pools))
    charges(fleet, terms, powers, hour, book)
    draws(powers, fleet, hour, book)
    carbon(fleet, powers, terms.life_years, {"input": 0.0, "output": 0.0}, hour, book)
    return book.read

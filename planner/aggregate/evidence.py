"""How sure the figures are: the swing of each fact behind them, one at a time, with the simulation held.

A fact's swing of a figure is how far the figure moves while the fact goes from its low to its high and all else stays.
A fact without a range has none. `assumed_frac` is the share of all swings that comes from facts graded assumed or
undisclosed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.aggregate.power import Book
from planner.facts.fact import Fact

if TYPE_CHECKING:
    from planner.fleet.fleet import Fleet

Figures = Callable[[Book], Mapping[str, float | None]]


@dataclass(frozen=True, slots=True)
class Swing:
    """What one fact does to one figure."""

    fact: Fact
    low: float
    """The figure with the fact at its low."""
    high: float
    swing: float


@dataclass(frozen=True, slots=True)
class Swings:
    """What every fact does to every figure."""

    base: Mapping[str, float | None]
    """The figures with every fact as it is."""
    ends: Mapping[Fact, tuple[Mapping[str, float | None], Mapping[str, float | None]]]
    """The figures with each fact at its low and at its high, in the order in which facts are read."""
    moved: Mapping[Fact, frozenset[str]]
    """The figures that a fact without a range would move."""

    def of(self, figure: str) -> list[Swing]:
        """The swing of each fact, as far as the figure exists."""
        base = self.base[figure]
        if base is None:
            return []
        found = []
        for fact, (at_low, at_high) in self.ends.items():
            low, high = at_low[figure], at_high[figure]
            if low is not None and high is not None:
                found.append(Swing(fact, low, high, max(base, low, high) - min(base, low, high)))
        return found


def swings(figures: Figures) -> Swings:
    """The swing of every fact that `figures` reads."""
    book = Book()
    base = figures(book)
    ends, moved = {}, {}
    for fact in book.read:
        low, high = (base if end is None else figures(Book({fact.path: end})) for end in (fact.low, fact.high))
        ends[fact] = (low, high)
        if fact.low is None and fact.high is None:
            nudged = figures(Book({fact.path: fact.number * _NUDGE or _NUDGE - 1}))
            moved[fact] = frozenset(name for name, value in nudged.items() if value != base[name])
    return Swings(base, ends, moved)


_NUDGE = 1.01
"""By so much a fact without a range is changed to see which figures it moves."""


def assumed_frac(found: Sequence[Swing]) -> float | None:
    """Share of all swings that is of assumed or undisclosed facts; None where nothing swings."""
    total = math.fsum(swing.swing for swing in found)
    if total <= 0:
        return None
    return math.fsum(swing.swing for swing in found if swing.fact.is_assumed) / total


def swing_rows(found: Swings) -> Iterator[dict[str, Any]]:
    """Rows of swings.parquet: every fact that moves a figure, widest first, those without a range last."""
    for figure in found.base:
        for swing in sorted(found.of(figure), key=lambda swing: (-swing.swing, swing.fact.path)):
            if swing.swing > 0:
                yield {
                    "figure": figure,
                    "path": swing.fact.path,
                    "grade": swing.fact.grade,
                    "is_assumed": swing.fact.is_assumed,
                    "is_simulated": False,
                    "low": swing.fact.low,
                    "high": swing.fact.high,
                    "figure_low": swing.low,
                    "figure_high": swing.high,
                    "swing": swing.swing,
                    "rank_correlation": None,
                }
        for fact in sorted((fact for fact, names in found.moved.items() if figure in names), key=lambda f: f.path):
            row = {"figure": figure, "path": fact.path, "grade": fact.grade, "is_assumed": fact.is_assumed}
            nothing = ("low", "high", "figure_low", "figure_high", "swing", "rank_correlation")
            yield row | {"is_simulated": False, **dict.fromkeys(nothing)}


def facts_of(thing: object) -> Iterator[Fact]:
    """The facts of a chip, a rack, a model or the like, in the order of its fields."""
    if isinstance(thing, Fact):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from facts_of(value)
    elif is_dataclass(thing):
        for each in fields(thing):
            yield from facts_of(getattr(thing, each.name))


def fleet_facts(fleet: Fleet) -> list[Fact]:
    """What the simulator reads of a fleet beside its chips and engines: ways to the clients, and the link."""
    link = fleet.kv_link_bytes_per_s
    trips = [fact for by_class in fleet.round_trips_s.values() for fact in by_class.values()]
    return list({fact.path: fact for fact in [*trips, *([] if link is None else [link])]}.values())


def facts_used(fleet: Fleet, base_dir: Path) -> list[Fact]:
    """Every fact behind the figures: racks, chips, models, serving software and its limits, the site."""
    from planner.errors import FactError
    from planner.facts import catalog

    facts = catalog.load()
    things: list[object] = []
    for pool in fleet.pools:
        things += [pool.rack, pool.chip]
    for placed in fleet.placed:
        things += placed.facts
        things.append(facts.model(placed.model, base=base_dir))
        try:
            things.append(facts.engine(placed.engine, base=base_dir))
        except FactError:
            continue  # a person's own engine file: the spec in the result has its figures
    general = facts.general()
    things += [general["low_load_memory_frac"], general["high_load_compute_frac"]]
    things.append(facts.serving())
    for site in fleet.places:
        things += [site.pue, site.electricity_usd_per_kwh, site.carbon_kgco2e_per_kwh]
        for table in (site.times.pue, site.times.usd_per_kwh, site.times.kgco2e_per_kwh):
            things += table or ()
    things += fleet_facts(fleet)
    unique: dict[str, Fact] = {}
    for thing in things:
        for fact in facts_of(thing):
            unique.setdefault(fact.path, fact)
    return list(unique.values())


def fact_row(fact: Fact, swing: Swing | None = None) -> dict[str, Any]:
    """One row of facts.parquet."""
    used = fact.used
    number = float(used) if isinstance(used, int | float) and not isinstance(used, bool) else None
    return {
        "path": fact.path,
        "unit": fact.unit,
        "value": number,
        "value_text": None if used is None or number is not None else _text(used),
        "low": fact.low,
        "high": fact.high,
        "grade": fact.grade,
        "replaces": fact.replaces or None,
        "is_assumed": fact.is_assumed,
        "source": " ".join(fact.source),
        "note": fact.note,
        "usd_per_h_low": swing.low if swing else None,
        "usd_per_h_high": swing.high if swing else None,
        "swing_usd_per_h": swing.swing if swing else None,
    }


def source_rows(facts: Iterable[Fact]) -> Iterator[dict[str, Any]]:
    """Rows of sources.parquet: every source of some facts, once; what the catalogue does not know is one's own."""
    from planner.facts import catalog

    known = catalog.load().sources()
    for name in dict.fromkeys(name for fact in facts for name in fact.source):
        found = known.get(name)
        if found is None:
            row = {"title": name, "where": None, "kind": "own", "read": None, "date": None, "note": None}
        else:
            columns = ("title", "where", "kind", "read", "date", "note")
            row = {column: getattr(found, column) or None for column in columns}
        yield {"source": name, **row}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""Intervals of every headline figure over the uncertain facts, and the tornado of what moves it.

Samples (`uncertainty.sample`) are applied to the first seed of each variant: what the simulator reads by simulating
again, at most `run.samples_simulated` times, the rest with the simulation held. Whether a sample holds its limits is
judged as the run's verdict is: with `fleet.spare` and `fleet.survive` under the same facts. A sample whose chips do not
hold the replicas has no figures; it counts as one in which the limits do not hold.

The tornado has two measures of a fact. Rank correlation (Spearman, ties at their mean rank) is over the samples, all
facts moving at once. The swing is from the fact's low to its high alone; of facts that the simulator reads it takes
two simulations each, so only the `N_ALONE` that correlate most with cost and limits have one. With k different draws a
correlation below 1.96 / sqrt(k - 1) is noise: a simulated fact without a swing is a bar of the tornado above that only.
A fact of Jalapeño's posterior swings over the posterior's 80 % band, not over its own range, whose ends contradict the
published figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.aggregate.held import headline
from planner.aggregate.power import Book
from planner.facts import catalog
from planner.facts.fact import Fact
from planner.study.uncertainty import Sample, Uncertain, alone
from planner.study.work import Simulate
from planner.study.worlds import N_ALONE, Drawn, Figures, Job, world_of, worlds

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.inputs import VariantRun
    from planner.aggregate.result import Result

__all__ = ["LEVEL_FRAC", "quantile", "rank_correlation", "with_spread"]

LEVEL_FRAC = 0.9
"""Share of the samples inside an interval."""
N_SHOWN = 12
"""Bars of a tornado in `result.json`; the table has all."""
_P_95 = 1.96
"""A standard normal is this far from 0 in 5 % of cases."""
_LEAD = "cost.usd_per_mtok_out_whole"

Row = dict[str, Any]


@dataclass(slots=True)
class _Spread:
    """One variant's samples and what they gave."""

    run: VariantRun
    facts: Uncertain
    samples: Sequence[Sample]
    base: Figures
    found: list[Figures | None]
    """Of each sample; None where the replicas do not fit."""
    n_met: int
    alone: dict[str, tuple[Fact, float, float, Figures | None, Figures | None]]
    """Path of a simulated fact -> its ends and the figures there."""


def with_spread(
    result: Result, runs: Sequence[VariantRun], drawn: Sequence[Drawn], made: Sequence[VariantRun], simulate: Simulate
) -> Result:
    """The result with `uncertainty` of each variant that asks for samples, and the tables `samples` and `swings`.

    `drawn` is of each run, and `made` what came of the cases of all of them; `simulate` does what is found out to be
    worth a look after that.
    """
    left = iter(made)
    spreads = [
        _spread(run, one, {key: next(left) for key in one.keys})
        for run, one in zip(runs, drawn, strict=True)
        if one.samples
    ]
    if not spreads:
        return result
    trees = dict(result.variants)
    _swing_alone(spreads, simulate)
    import polars as pl

    tables = dict(result.tables)
    for spread in spreads:
        name = spread.run.scenario.name
        swings = _swings(spread, tables["swings"])
        trees[name] = {**trees[name], "uncertainty": _tree(spread, swings)}
        others = tables["swings"].filter((pl.col("variant") != name) | (pl.col("seed") != _seed(spread)))
        tables["swings"] = pl.concat([others, _frame("swings", swings)])
    tables["samples"] = pl.concat([_samples(spread) for spread in spreads])
    return replace(result, variants=trees, tables=tables)


def _seed(spread: _Spread) -> int:
    return spread.run.seeds[0].seed


# -- simulating --------------------------------------------------------------------------------------------------------


def _spread(run: VariantRun, one: Drawn, made: Mapping[int, VariantRun]) -> _Spread:
    base = world_of(run)
    figures = base.simulated | headline(base.held, Book())
    spread = _Spread(run, one.facts, one.samples, figures, [None] * len(one.samples), 0, {})
    worlds = {key: world_of(each) for key, each in made.items() if each.seeds}
    for ix, each in enumerate(one.samples):
        world = worlds.get(each.simulated_ix)
        if world is not None:
            spread.found[ix] = world.simulated | headline(world.held, Book(each.values))
            spread.n_met += world.is_met
    return spread


def _swing_alone(spreads: Sequence[_Spread], simulate: Simulate) -> None:
    """Simulate the ends of the facts that correlate most with cost and limits, one at a time."""
    jobs: list[Job] = []
    ends = {}
    for spread in spreads:
        for fact in _leading(spread):
            low, high = _ends(fact)
            ends[spread.run.scenario.name, fact.path] = (fact, low, high)
            jobs += [(spread.run, (fact.path, end), alone(spread.run.fleet, fact.path, end)) for end in (low, high)]
    made = worlds(jobs, simulate)
    by_name = {spread.run.scenario.name: spread for spread in spreads}
    for (name, path), (fact, low, high) in ends.items():
        figures = []
        for end in (low, high):
            world = made.get((name, (path, end)))
            changed = Book(alone(by_name[name].run.fleet, path, end))
            figures.append(None if world is None else world.simulated | headline(world.held, changed))
        by_name[name].alone[path] = (fact, low, high, figures[0], figures[1])


def _leading(spread: _Spread) -> list[Fact]:
    """The simulated facts that correlate most with the cost of a token and with the limits."""
    figures = [_LEAD, *(name for name in spread.base if ".limits." in name)]
    facts = [fact for fact in (*spread.facts.simulated, *spread.facts.members) if not fact.path.startswith("racks.")]

    def strength(fact: Fact) -> float:
        return max(abs(_correlation(spread, fact, figure) or 0.0) for figure in figures)

    return sorted(facts, key=lambda fact: (-strength(fact), fact.path))[:N_ALONE]


def _ends(fact: Fact) -> tuple[float, float]:
    """Low and high of a fact: of the posterior's 80 % band where it has one."""
    from planner.model.posterior import shipped

    head, _, rest = fact.path.partition(".")
    name, _, attr = rest.partition(".")
    chip = catalog.load().chip("jalapeno")
    if (head, name) in {("chips", chip.name), ("engines", chip.engine)}:
        scale = {"flop_per_s.fp8": 0.5, "flop_per_s.bf16": 0.25}.get(attr, 1.0)
        wanted = f"{head.removesuffix('s')}.{'flop_per_s.fp4' if scale != 1.0 else attr}"
        for known in shipped().tree["known"]:
            if known["path"] == wanted:
                return known["low"] * scale, known["high"] * scale
    low, high = (fact.number if end is None else end for end in (fact.low, fact.high))
    return low, high


# -- summing up --------------------------------------------------------------------------------------------------------


def quantile(values: Sequence[float], share: float) -> float:
    """The linearly interpolated quantile of some values.

    >>> quantile([1.0, 2.0, 4.0], 0.75)
    3.0
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None where either does not vary or there are fewer than three.

    >>> rank_correlation([1.0, 2.0, 3.0], [5.0, 6.0, 90.0])
    1.0
    """
    if len(one) < 3:
        return None
    a, b = _ranks(one), _ranks(other)
    middle = (len(one) + 1) / 2
    a, b = [rank - middle for rank in a], [rank - middle for rank in b]
    spread = math.fsum(x * x for x in a) * math.fsum(y * y for y in b)
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(spread) if spread > 0 else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, equal values at their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for ix in order[at : end + 1]:
            ranks[ix] = (at + end) / 2 + 1
        at = end + 1
    return ranks


def _correlation(spread: _Spread, fact: Fact, figure: str) -> float | None:
    pairs = [
        (one.values[fact.path], value)
        for one, figures in zip(spread.samples, spread.found, strict=True)
        if figures is not None and (value := figures.get(figure)) is not None and fact.path in one.values
    ]
    return rank_correlation([x for x, _ in pairs], [y for _, y in pairs])


def _tree(spread: _Spread, swings: Sequence[Row]) -> Row:
    """`uncertainty` of `result.json`."""
    n = len(spread.samples)
    figures = {}
    for name, base in spread.base.items():
        values = [value for found in spread.found if found is not None and (value := found[name]) is not None]
        ends = [(1 - LEVEL_FRAC) / 2, 0.5, (1 + LEVEL_FRAC) / 2]
        low, median, high = (quantile(values, share) for share in ends) if values else (None, None, None)
        figures[name] = {"value": base, "low": low, "median": median, "high": high, "n": len(values)}
    n_simulated = len({one.simulated_ix for one in spread.samples})
    by_figure: dict[str, list[Row]] = {name: [] for name in spread.base}
    for row in swings:
        by_figure[row["figure"]].append(row)
    shares = {name: _assumed(rows) for name, rows in by_figure.items()}
    told = {name: [row for row in rows if _is_told(row, n_simulated)] for name, rows in by_figure.items()}
    tornado = {name: [_bar(row) for row in rows[:N_SHOWN]] for name, rows in told.items() if rows}
    return {
        "samples": n,
        "simulated": n_simulated,
        "infeasible": sum(found is None for found in spread.found),
        "met_frac": spread.n_met / n,
        "seed": _seed(spread),
        "level_frac": LEVEL_FRAC,
        "figures": figures,
        "assumed_frac": shares,
        "tornado": tornado,
    }


def _is_told(row: Row, n_simulated: int) -> bool:
    """Whether a row is more than chance: it swings, or correlates above the noise of so many draws."""
    noise = _P_95 / math.sqrt(max(1, n_simulated - 1))
    return bool(row["swing"]) or (row["is_simulated"] and abs(row["rank_correlation"] or 0.0) > noise)


def _bar(row: Row) -> Row:
    keys = ("path", "grade", "is_assumed", "is_simulated", "low", "high")
    figures = ("figure_low", "figure_high", "swing", "rank_correlation")
    return {key: row[key] for key in (*keys, *figures)}


def _assumed(rows: Sequence[Row]) -> float | None:
    total = math.fsum(row["swing"] or 0.0 for row in rows)
    return math.fsum(row["swing"] or 0.0 for row in rows if row["is_assumed"]) / total if total > 0 else None


def _swings(spread: _Spread, held: Any) -> list[Row]:
    """The swings of a variant's first seed with those that were simulated and every rank correlation, widest first."""
    import polars as pl

    name, seed = spread.run.scenario.name, _seed(spread)
    mine = held.filter((pl.col("variant") == name) & (pl.col("seed") == seed)).to_dicts()
    held_paths = {fact.path for fact in spread.facts.held}
    facts = {fact.path: fact for fact in (*spread.facts.held, *spread.facts.simulated, *spread.facts.members)}
    simulated = {path for path in facts if path not in held_paths and not path.startswith("racks.")}
    by_key = {(row["figure"], row["path"]): row for row in mine if row["path"] not in simulated}
    for figure, base in spread.base.items():
        for path, fact in facts.items():
            if path in simulated:
                by_key[figure, path] = _simulated_row(spread, fact, figure, base)
            key = (figure, path)
            if key in by_key:
                by_key[key] = by_key[key] | {"rank_correlation": _correlation(spread, fact, figure)}
    rows = [r for r in by_key.values() if r["swing"] or r["rank_correlation"] is not None or not r["is_simulated"]]
    places = {figure: ix for ix, figure in enumerate(spread.base)}
    return sorted(
        rows,
        key=lambda row: (
            places[row["figure"]],
            -(row["swing"] or 0.0),
            -abs(row["rank_correlation"] or 0.0),
            row["path"],
        ),
    )


def _simulated_row(spread: _Spread, fact: Fact, figure: str, base: float | None) -> Row:
    low, high = _ends(fact)
    row: Row = {
        "variant": spread.run.scenario.name,
        "seed": _seed(spread),
        "figure": figure,
        "path": fact.path,
        "grade": fact.grade,
        "is_assumed": fact.is_assumed,
        "is_simulated": True,
        "low": low,
        "high": high,
        "figure_low": None,
        "figure_high": None,
        "swing": None,
        "rank_correlation": None,
    }
    if fact.path in spread.alone and base is not None:
        _, low, high, at_low, at_high = spread.alone[fact.path]
        ends = [None if at is None else at[figure] for at in (at_low, at_high)]
        there = [base, *(end for end in ends if end is not None)]
        swing = max(there) - min(there)
        row |= {"figure_low": ends[0], "figure_high": ends[1], "swing": swing}
    return row


def _samples(spread: _Spread) -> pl.DataFrame:
    """Every value of every sample: facts as they were drawn, then figures; null where the replicas do not fit."""
    import polars as pl

    from planner.aggregate.columns import SAMPLES, schema_of

    columns: dict[str, list[Any]] = {name: [] for name in SAMPLES}
    for one, found in zip(spread.samples, spread.found, strict=True):
        figures: Figures = dict.fromkeys(spread.base) if found is None else found
        for kind, values in (("fact", one.values), ("figure", figures)):
            n = len(values)
            columns["sample_ix"] += [one.ix] * n
            columns["simulated_ix"] += [one.simulated_ix] * n
            columns["member"] += [one.member] * n
            columns["kind"] += [kind] * n
            columns["name"] += values
            columns["value"] += values.values()
    n = len(columns["value"])
    columns["variant"] = [spread.run.scenario.name] * n
    columns["seed"] = [_seed(spread)] * n
    return pl.DataFrame(columns, schema=schema_of(SAMPLES))


def _frame(table: str, rows: Sequence[Row]) -> Any:
    import polars as pl

    from planner.aggregate.columns import TABLES, schema_of

    schema = schema_of(TABLES[table])
    return pl.DataFrame([[row[name] for name in schema] for row in rows], schema=schema, orient="row")

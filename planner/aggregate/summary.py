"""From the simulations of a variant to its figures: one tree a seed, their mean, and its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner import units
from planner.aggregate import intervals, metrics, slo
from planner.aggregate.carbon import carbon
from planner.aggregate.cost import Charge, Terms, annuity_frac, by_part, by_pool, charges, total_usd_per_h
from planner.aggregate.energy import energy
from planner.aggregate.evidence import Swing, assumed_frac, swings
from planner.aggregate.inputs import SeedRun, Span, VariantRun
from planner.aggregate.latency import latencies
from planner.aggregate.per_token import usd_per_mtok
from planner.aggregate.power import Book, PoolPower, draws, pool_power, rated_chips_w
from planner.aggregate.slo import Counts
from planner.aggregate.utilisation import per_s, pool_figures, wait_frac
from planner.aggregate.work import Sums, Windows, chip_work, pool_sums, pool_windows
from planner.errors import Notice

if TYPE_CHECKING:
    from planner.facts.fact import Fact
    from planner.fleet.fleet import Fleet, Placed, PoolLayout

Tree = dict[str, Any]

_SUMMED = frozenset({"requests", "tokens"})
"""Sections that are whole numbers over all seeds."""
_ASKED = frozenset({"run"})
"""Sections that say what was asked: that of the first seed stands for all. Everything else is the mean over seeds."""
_WORDS = frozenset({"scenario", "title", "question", "slo"} | {m.name for m in metrics.METRICS if m.unit == "-"})
"""Keys that hold words or truths, or null in their place."""


@dataclass(frozen=True, slots=True)
class SeedSummary:
    """One simulation, summed up."""

    run: SeedRun
    span: Span
    tree: Tree
    works: tuple[Sums, ...]
    windows: tuple[Windows, ...]
    powers: tuple[PoolPower, ...]
    charges: tuple[Charge, ...]
    swings: tuple[Swing, ...]


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """One variant, summed up: the tree of `result.json`, and what each seed adds to the tables."""

    run: VariantRun
    tree: Tree
    seeds: tuple[SeedSummary, ...]


def summarise(run: VariantRun, finance: Mapping[str, Fact]) -> VariantSummary:
    """The figures of a variant; `finance` are the catalogue's, for what the scenario does not say."""
    terms = Terms.of(run.scenario.cost, finance)
    seeds = tuple(_seed(run, seed, terms) for seed in run.seeds)
    trees = [seed.tree for seed in seeds]
    tree = _over_seeds(trees, intervals.mean, intervals.total, intervals.first)
    _judge(tree, trees)
    for name, pool in tree["pools"].items():
        words = [each["pools"][name]["bottleneck"] for each in trees]
        pool["bottleneck"] = max(words, key=lambda word: (words.count(word), -words.index(word)))
    # A notice about a class differs from seed to seed in its counts alone: the first seed's stands for all.
    drawn = {(n.code, n.message.split(":")[0]): n for seed in reversed(run.seeds) for n in seed.traffic.notices}
    notices = list(dict.fromkeys([*run.scenario.notices, *run.fleet.notices, *drawn.values(), *_owned(run.fleet)]))
    tree["notices"] = [{"code": notice.code, "message": notice.message} for notice in notices]
    for name, sign in (("low", -1), ("high", 1)):
        ends = (intervals.end(sign), intervals.end(sign, times=len(trees)), intervals.first_of_several)
        tree[name] = intervals.numbers(_over_seeds(trees, *ends), _WORDS)
    tree["seeds"] = trees
    return VariantSummary(run, tree, seeds)


def _owned(fleet: Fleet) -> list[Notice]:
    """Says what price the upkeep of racks without capex is charged on."""
    return [
        Notice(
            "upkeep_of_owned",
            f"{pool.name}: racks that are owned already have no capex; their upkeep is charged on "
            f"{units.format(pool.capex_usd_per_rack.number, 'usd_per_rack')}",
        )
        for pool in fleet.pools
        if pool.n_existing and not pool.rent_usd_per_chip_h
    ]


def _over_seeds(
    trees: Sequence[Tree], figures: intervals.Combine, sums: intervals.Combine, asked: intervals.Combine
) -> Tree:
    return {
        name: intervals.over_seeds(
            [tree[name] for tree in trees], sums if name in _SUMMED else asked if name in _ASKED else figures
        )
        for name in trees[0]
    }


def _judge(tree: Tree, trees: Sequence[Tree]) -> None:
    """Limits and verdicts of the means."""
    for name, figures in tree["classes"].items():
        figures["limits"] = [
            slo.means_judged([each["classes"][name]["limits"][ix] for each in trees], limit)
            for ix, limit in enumerate(figures["limits"])
        ]
        figures["verdict"] = slo.verdict(figures)
    tree["verdict"] = slo.verdict_of_all([figures["verdict"] for figures in tree["classes"].values()])


def _seed(run: VariantRun, seed: SeedRun, terms: Terms) -> SeedSummary:
    fleet, sim = run.fleet, seed.sim
    span = Span.of(run.scenario, seed)
    whole, by_window = chip_work(sim.deployments, fleet), chip_work(sim.windows, fleet)
    works = tuple(pool_sums(whole, ix) for ix in range(len(fleet.pools)))
    windows = tuple(pool_windows(by_window, ix) for ix in range(len(fleet.pools)))
    powers = tuple(
        pool_power(pool, work, window, span) for pool, work, window in zip(fleet.pools, works, windows, strict=True)
    )
    made = tuple(charges(fleet, terms, powers, span))
    found = tuple(swings(lambda book: total_usd_per_h(charges(fleet, terms, powers, span, book))))
    tokens = {
        "input": sum(work["input_tokens"] for work in works),
        "output": sum(work["output_tokens"] for work in works),
    }
    energies = energy(fleet, powers, works, tokens, span.span_s)
    classes = _classes(run, seed, span)
    tree: Tree = {
        "scenario": run.scenario.name,
        "title": run.scenario.title,
        "question": run.scenario.question,
        "run": {
            "length_s": span.length_ns / 1e9,
            "warmup_s": span.warmup_ns / 1e9,
            "drain_s": run.scenario.run.drain_s,
            "window_s": span.window_s,
            "seed": seed.seed,
            "seeds": len(run.seeds),
        },
        "verdict": slo.verdict_of_all([figures["verdict"] for figures in classes.values()]),
        "requests": _requests(seed),
        "tokens": {"input": _total(seed, "input_tokens"), "output": _total(seed, "output_tokens")},
        "classes": classes,
        "pools": _pools(fleet, seed, span, works, powers, by_pool(made, fleet.pools)),
        "fleet": _fleet(fleet, powers, span, tokens),
        "cost": _cost(terms, made, works, tokens, fleet, span),
        "energy": energies,
        "carbon": carbon(energies["facility_kwh"] or 0.0, fleet.carbon_kgco2e_per_kwh, tokens),
        "evidence": {"assumed_frac": assumed_frac(found)},
    }
    return SeedSummary(seed, span, tree, works, windows, powers, made, found)


def _total(seed: SeedRun, column: str) -> int:
    return sum(seed.sim.classes[column].to_list())


def _requests(seed: SeedRun) -> Tree:
    return {
        "offered": _total(seed, "offered"),
        "completed": _total(seed, "completed"),
        "rejected": _total(seed, "rejected"),
        "timed_out": _total(seed, "timed_out"),
        "cancelled": _total(seed, "cancelled"),
        "unfinished": _total(seed, "unfinished"),
        "retried": _total(seed, "retried"),
        "lost": _total(seed, "lost"),
        "failed_rows": seed.traffic.failed_rows,
    }


def _classes(run: VariantRun, seed: SeedRun, span: Span) -> Tree:
    scenario, sim = run.scenario, seed.sim
    rows = {row["class_ix"]: row for row in sim.classes.to_dicts()}
    found = latencies(sim.sketches, len(scenario.traffic))
    classes: Tree = {}
    for ix, (name, traffic) in enumerate(scenario.traffic.items()):
        row = rows[ix]
        counts = Counts(row["span_offered"], row["span_completed"], row["span_attained"], row["span_single_token"])
        limits = scenario.slo[traffic.slo] if traffic.slo is not None else None
        figures: Tree = {
            "model": traffic.model,
            "slo": traffic.slo,
            **found[ix],
            "offered": counts.offered,
            "completed": counts.completed,
            "rate_req_per_s": per_s(counts.offered, span.span_s),
            "goodput_req_per_s": per_s(counts.attained, span.span_s) if limits is not None else None,
            "attainment_frac": slo.attainment(counts, limits),
            "attainment_limit_frac": limits.attainment_frac if limits is not None else None,
            "limits": slo.judged_limits(sim.sketches, ix, counts, limits) if limits is not None else [],
        }
        classes[name] = figures | {"verdict": slo.verdict(figures)}
    return classes


def _pools(
    fleet: Fleet,
    seed: SeedRun,
    span: Span,
    works: Sequence[Sums],
    powers: Sequence[PoolPower],
    usd: Mapping[str, float],
) -> Tree:
    book = Book()
    return {
        pool.name: {
            "rack": pool.rack.title,
            "racks": pool.n_racks,
            "replicas": sum(placed.n_replicas for placed in pool.placed),
            "chips": pool.n_chips,
            "idle_chips": pool.idle_chips,
            **pool_figures(
                work,
                placed_chips=pool.n_chips - pool.idle_chips,
                span_s=span.span_s,
                waited_frac=wait_frac(seed.sim.sketches, ix),
            ),
            "chip_rated_w": rated_chips_w(pool),
            **draws([power], fleet, span, book),
            "usd_per_h": usd[pool.name],
            "deployments": [_deployment(placed) for placed in pool.placed],
        }
        for ix, (pool, work, power) in enumerate(zip(fleet.pools, works, powers, strict=True))
    }


def _deployment(placed: Placed) -> Tree:
    return {
        "model": placed.model,
        "replicas": placed.n_replicas,
        "chips": placed.n_chips,
        "tp": placed.tp,
        "dp": placed.dp,
        "ep": placed.ep,
        "engine": placed.engine,
        "precision": placed.precision,
        "max_batch": placed.spec["serving"]["max_batch"],
        "chunk_tokens": placed.spec["serving"]["chunk_tokens"],
        "kv_capacity_tokens": placed.plan["kv_capacity_tokens"],
    }


def _fleet(fleet: Fleet, powers: Sequence[PoolPower], span: Span, tokens: Mapping[str, float]) -> Tree:
    n_chips = sum(pool.n_chips for pool in fleet.pools)
    counts = {"in": tokens["input"], "out": tokens["output"], "all": tokens["input"] + tokens["output"]}
    rates = {which: per_s(count, span.span_s) for which, count in counts.items()}
    per_chip = {which: rate / n_chips if rate is not None and n_chips else None for which, rate in rates.items()}
    return {
        "racks": sum(pool.n_racks for pool in fleet.pools),
        "chips": n_chips,
        "idle_chips": sum(pool.idle_chips for pool in fleet.pools),
        "provisioned_w": fleet.rated_w,
        "power_limit_w": fleet.power_limit_w,
        **draws(powers, fleet, span, Book()),
        **{f"tokens_per_s_{which}": rate for which, rate in rates.items()},
        **{f"tokens_per_s_per_chip_{which}": rate for which, rate in per_chip.items()},
    }


def _cost(
    terms: Terms, made: Sequence[Charge], works: Sequence[Sums], tokens: Mapping[str, float], fleet: Fleet, span: Span
) -> Tree:
    book = Book()
    usd = by_pool(made, fleet.pools)
    return {
        "usd_per_h": total_usd_per_h(made),
        "idle_usd_per_h": sum(
            usd[pool.name] * _idle_frac(pool, work, span) for pool, work in zip(fleet.pools, works, strict=True)
        ),
        "annuity_frac": annuity_frac(book(terms.life_years), book(terms.discount_frac), book(terms.residual_frac)),
        **usd_per_mtok(
            [usd[pool.name] for pool in fleet.pools],
            [work["prefill_chip_s"] for work in works],
            [work["decode_chip_s"] for work in works],
            input_tokens=tokens["input"],
            output_tokens=tokens["output"],
            span_s=span.span_s,
        ),
        "parts": by_part(made, terms.left_out),
        "left_out": list(terms.left_out),
    }


def _idle_frac(pool: PoolLayout, work: Sums, span: Span) -> float:
    """Share of a pool's chip time, chips without a replica included, in which no step ran."""
    chip_s = pool.n_chips * span.span_s
    return 1 - work["busy_chip_s"] / chip_s if chip_s > 0 else 1.0

"""From the simulations of a variant to its figures: one tree a seed, their mean, and its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner import units
from planner.aggregate import batches, intervals, metrics, slo
from planner.aggregate.allocate import uses
from planner.aggregate.cost import Charge, Terms, by_pool
from planner.aggregate.evidence import Swings, assumed_frac, swings
from planner.aggregate.held import Held, figures_of, headline, made
from planner.aggregate.inputs import SeedRun, Span, VariantRun
from planner.aggregate.judged import check_figures, judge_means, judged_classes
from planner.aggregate.latency import latencies
from planner.aggregate.power import Book, PoolPower, draws, pool_power, rated_chips_w
from planner.aggregate.utilisation import per_s, pool_figures, wait_frac
from planner.aggregate.work import Sums, Windows, chip_work, pool_sums, pool_windows
from planner.errors import Notice

if TYPE_CHECKING:
    from planner.facts.fact import Fact
    from planner.fleet.fleet import Fleet, Placed
    from planner.model.trust import Trust

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
    held: Held
    charges: tuple[Charge, ...]
    swings: Swings

    @property
    def powers(self) -> tuple[PoolPower, ...]:
        """The power of each pool."""
        return self.held.powers


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """One variant, summed up: the tree of `result.json`, and what each seed adds to the tables."""

    run: VariantRun
    tree: Tree
    seeds: tuple[SeedSummary, ...]


def summarise(run: VariantRun, finance: Mapping[str, Fact]) -> VariantSummary:
    """The figures of a variant; `finance` are the catalogue's, for what the scenario does not say."""
    terms = Terms.of(run.scenario.cost, finance, has_allowance=any(pool.new_silicon for pool in run.fleet.pools))
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
    tree["checks"] = [check_figures(run.scenario, check) for check in run.checks]
    tree["verdict"] = slo.verdict_of_all([tree["verdict"], *(check["verdict"] for check in tree["checks"])])
    tree["notices"] = [{"code": notice.code, "message": notice.message} for notice in notices]
    tree |= _intervals(run, seeds)
    tree["headroom"] = None  # until it is searched (`planner.study.headroom`)
    tree["split"] = None  # until a run is cut in time (`planner.study.seams`)
    tree["horizon"] = None  # until one is walked (`planner.study.horizon`)
    tree["uncertainty"] = None  # until samples are drawn (`planner.study.spread`)
    tree["seeds"] = trees
    return VariantSummary(run, tree, seeds)


def _intervals(run: VariantRun, seeds: Sequence[SeedSummary]) -> Tree:
    """The 90 % interval of each figure: over the seeds, or over batches of the windows of one long run."""
    trees = [seed.tree for seed in seeds]
    alone = seeds[0]
    cut = batches.cut(alone.run, alone.span, alone.windows) if len(trees) == 1 else []
    if cut:
        parts = [_batch(run, batch, alone) for batch in cut]
        batch_s = cut[0].span.span_s
        low, high = batches.ends(trees[0], parts, times=alone.span.span_s / batch_s)
        about = {"over": "batches", "n": len(cut), "batch_s": batch_s}
    else:
        low, high = (
            _over_seeds(trees, intervals.end(sign), intervals.end(sign, times=len(trees)), intervals.first_of_several)
            for sign in (-1, 1)
        )
        about = {"over": "seeds" if len(trees) > 1 else None, "n": len(trees), "batch_s": None}
    ends = {name: intervals.possible(intervals.numbers(end, _WORDS)) for name, end in (("low", low), ("high", high))}
    return {"interval": {"level_frac": intervals.LEVEL_FRAC, **about}, **ends}


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
    judge_means(tree["classes"], [each["classes"] for each in trees])
    tree["verdict"] = slo.verdict_of_all([figures["verdict"] for figures in tree["classes"].values()])


def hold(run: VariantRun, seed: SeedRun, terms: Terms) -> tuple[Held, tuple[Windows, ...]]:
    """What money, power and carbon need of a simulation, and the work of each pool by window."""
    fleet, sim, scenario = run.fleet, seed.sim, run.scenario
    span = Span.of(scenario, seed)
    whole, by_window = chip_work(sim.deployments, fleet), chip_work(sim.windows, fleet)
    works = tuple(pool_sums(whole, ix) for ix in range(len(fleet.pools)))
    windows = tuple(pool_windows(by_window, ix) for ix in range(len(fleet.pools)))
    powers = tuple(
        pool_power(pool, work, window, span) for pool, work, window in zip(fleet.pools, works, windows, strict=True)
    )
    classes = [(name, traffic.model, traffic.tenant) for name, traffic in scenario.traffic.items()]
    allocation = scenario.cost.allocation
    shares = uses(fleet, classes, whole, sim.classes, sim.sketches, allocation=allocation)
    return Held(fleet, terms, allocation, powers, works, shares, span), windows


def _seed(run: VariantRun, seed: SeedRun, terms: Terms) -> SeedSummary:
    held, windows = hold(run, seed, terms)
    book = Book()
    found = swings(lambda changed: headline(held, changed))
    tree = _tree(run, seed, held, figures_of(held, book), assumed_frac(found.of("cost.usd_per_h")))
    return SeedSummary(seed, held.span, tree, held.works, windows, held, tuple(made(held, book)), found)


def _batch(run: VariantRun, batch: batches.Batch, whole: SeedSummary) -> Tree:
    """The figures of a stretch of a run; those that hang on what each class did there are left out."""
    powers = tuple(
        pool_power(pool, work, window, batch.span)
        for pool, work, window in zip(run.fleet.pools, batch.works, whole.windows, strict=True)
    )
    held = replace(whole.held, powers=powers, works=batch.works, span=batch.span)
    moved = figures_of(held, Book())
    moved["classes"] = {name: dict.fromkeys(row) for name, row in moved["classes"].items()}
    moved["cost"] |= {"tenants": dict.fromkeys(moved["cost"]["tenants"])}
    tree = _tree(run, batch.seed, held, moved, None)
    share = batch.span.span_s / whole.span.span_s
    return tree | {"classes": batches.told(tree["classes"], whole.tree["classes"], share)}


def _tree(run: VariantRun, seed: SeedRun, held: Held, moved: Tree, assumed: float | None) -> Tree:
    """The figures of one simulation, in the shape of `result.json`."""
    span = held.span
    classes = {name: found_ | moved["classes"][name] for name, found_ in class_figures(run, seed, span).items()}
    return {
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
        "pools": _pools(run.fleet, seed, held, by_pool(made(held, Book()), run.fleet.pools)),
        "fleet": _fleet(held, moved["fleet"]),
        "sites": moved["sites"],
        "cost": moved["cost"],
        "energy": moved["energy"],
        "carbon": moved["carbon"],
        "evidence": {"assumed_frac": assumed},
    }


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


def class_figures(run: VariantRun, seed: SeedRun, span: Span) -> Tree:
    """Latencies, counts and limits of each class in one simulation."""
    scenario = run.scenario
    found = latencies(seed.sim.sketches, len(scenario.traffic))
    judged = judged_classes(scenario, seed)
    classes: Tree = {}
    for ix, (name, traffic) in enumerate(scenario.traffic.items()):
        figures = judged[name]
        attained = figures.pop("attained")
        classes[name] = {
            "model": traffic.model,
            "slo": traffic.slo,
            **found[ix],
            "offered": figures["offered"],
            "completed": figures["completed"],
            "rate_req_per_s": per_s(figures["offered"], span.span_s),
            "goodput_req_per_s": per_s(attained, span.span_s) if traffic.slo is not None else None,
            **figures,
        }
    return classes


def _pools(fleet: Fleet, seed: SeedRun, held: Held, usd: Mapping[str, float]) -> Tree:
    span = held.span
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
        for ix, (pool, work, power) in enumerate(zip(fleet.pools, held.works, held.powers, strict=True))
    }


def _deployment(placed: Placed) -> Tree:
    return {
        "model": placed.model,
        "replicas": placed.n_replicas,
        "chips": placed.n_chips,
        "tp": placed.tp,
        "dp": placed.dp,
        "pp": placed.pp,
        "ep": placed.ep,
        "engine": placed.engine,
        "precision": placed.precision,
        "max_batch": placed.spec["serving"]["max_batch"],
        "chunk_tokens": placed.spec["serving"]["chunk_tokens"],
        "kv_capacity_tokens": placed.plan["kv_capacity_tokens"],
        "tokens_per_step": placed.plan["tokens_per_step"],
        **_trust(placed.trust),
    }


def _trust(trust: Trust | None) -> Tree:
    """How far off the model may be, as factors on its times; null where nothing says so."""
    tpot, ttft = (trust.tpot, trust.ttft) if trust else ((None, None), (None, None))
    return {
        "grade": trust.grade if trust else None,
        "tpot_low_factor": tpot[0],
        "tpot_high_factor": tpot[1],
        "ttft_low_factor": ttft[0],
        "ttft_high_factor": ttft[1],
    }


def _fleet(held: Held, drawn: Tree) -> Tree:
    fleet, span, tokens = held.fleet, held.span, held.tokens
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
        **drawn,
        **{f"tokens_per_s_{which}": rate for which, rate in rates.items()},
        "tokens_per_s_cached": per_s(sum(work["cached_input_tokens"] for work in held.works), span.span_s),
        **{f"tokens_per_s_per_chip_{which}": rate for which, rate in per_chip.items()},
    }

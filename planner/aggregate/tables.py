"""The tables of a result: one row a variant and seed and what the table is about; units are in the column names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from planner.aggregate.clock import pue
from planner.aggregate.columns import (
    CLASSES,
    COSTS,
    DEPLOYMENTS,
    FACTS,
    KEYS,
    ON_DEMAND,
    POOLS,
    SOURCES,
    SWINGS,
    TABLES,
    WINDOWS,
    Columns,
    schema_of,
)
from planner.aggregate.cost_parts import PART_FORMULAS
from planner.aggregate.evidence import fact_row, facts_used, source_rows, swing_rows
from planner.aggregate.inputs import NS_PER_S
from planner.aggregate.latency import METRICS
from planner.aggregate.power import Book, chip_w, rack_it_w
from planner.aggregate.utilisation import FRACTIONS
from planner.aggregate.work import COUNTS, chip_work

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.summary import SeedSummary, VariantSummary
    from planner.facts.fact import Fact

Row = dict[str, Any]
_TOGETHER = 32
"""Simulations whose tables are put together before more are made."""


def tables(variants: Sequence[VariantSummary]) -> dict[str, pl.DataFrame]:
    """All tables of some variants, in the order of variants, seeds and what each is about."""
    import polars as pl

    made: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    some: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}

    def put_together(at_least: int) -> None:
        """Frames of a few rows take more memory for their columns than for their rows."""
        for name, frames in some.items():
            if len(frames) >= at_least:
                made[name].append(pl.concat(frames, rechunk=True))
                frames.clear()

    for variant in variants:
        fixed = facts_used(variant.run.fleet, variant.run.scenario.base_dir)
        for seed in variant.seeds:
            for name, frame in _of_seed(variant, seed, fixed).items():
                some[name].append(_keyed(frame, variant.run.scenario.name, seed.run.seed, TABLES[name]))
            put_together(_TOGETHER)
    put_together(1)
    found = {}
    for name in TABLES:
        frames = made.pop(name)
        if frames or name not in ON_DEMAND:
            found[name] = pl.concat(frames) if frames else pl.DataFrame(schema=schema_of(TABLES[name]))
    return found


def _keyed(frame: pl.DataFrame, variant: str, seed: int, columns: Columns) -> pl.DataFrame:
    import polars as pl

    keyed = frame.with_columns(pl.lit(variant).alias("variant"), pl.lit(seed, dtype=pl.UInt64).alias("seed"))
    return keyed.select(pl.col(name).cast(dtype) for name, dtype in schema_of(columns).items())


def _of_seed(variant: VariantSummary, seed: SeedSummary, fixed: Sequence[Fact]) -> dict[str, pl.DataFrame]:
    made = {
        "pools": _frame(_pool_rows(seed), POOLS),
        "deployments": _deployments(variant, seed),
        "classes": _frame(_class_rows(seed), CLASSES),
        "windows": _windows(variant, seed),
        "class_windows": _class_windows(variant, seed),
        "sketches": _sketches(variant, seed),
        "costs": _frame(_cost_rows(seed), COSTS),
        "facts": _frame(_fact_rows(seed, fixed), FACTS),
        "sources": _frame(source_rows([*seed.swings.ends, *fixed]), SOURCES),
        "swings": _frame(swing_rows(seed.swings), SWINGS),
    }
    if seed.run.sim.requests is not None:
        made["requests"] = _requests(variant, seed)
    if seed.run.sim.timeline is not None:
        made["timeline"] = _timeline(variant, seed)
    return made


def _frame(rows: Iterable[Row], columns: Columns) -> pl.DataFrame:
    import polars as pl

    schema = {name: dtype for name, dtype in schema_of(columns).items() if name not in KEYS}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def _pool_rows(seed: SeedSummary) -> Iterable[Row]:
    for name, pool in seed.tree["pools"].items():
        row = {column: pool[column] for column in POOLS if column in pool}
        draws = {
            f"{basis}_{which}_w": pool[f"{basis}_w"][which]
            for basis in ("rack_it", "facility")
            for which in ("mean", "peak")
        }
        yield {"pool": name, **row, **draws}


def _class_rows(seed: SeedSummary) -> Iterable[Row]:
    counters = {row["class_ix"]: row for row in seed.run.sim.classes.to_dicts()}
    for ix, (name, figures) in enumerate(seed.tree["classes"].items()):
        row = {column: value for column, value in counters[ix].items() if column in CLASSES}
        latencies = {
            f"{metric}_{which}_s": value for metric in METRICS for which, value in figures[f"{metric}_s"].items()
        }
        words = {column: figures[column] for column in ("model", "attainment_frac", "verdict")}
        yield {"class": name, **row, **words, **latencies}


def _cost_rows(seed: SeedSummary) -> Iterable[Row]:
    for charge in seed.charges:
        usd_per_h = charge.nano_usd_per_h / 1e9
        yield {"pool": charge.pool, "part": charge.part, "usd_per_h": usd_per_h, "formula": PART_FORMULAS[charge.part]}


def _fact_rows(seed: SeedSummary, fixed: Sequence[Fact]) -> Iterable[Row]:
    """First what the cost swings with, widest first, then what else the simulation was made of."""
    swung = sorted(seed.swings.of("cost.usd_per_h"), key=lambda swing: (-swing.swing, swing.fact.path))
    paths = {swing.fact.path for swing in swung}
    yield from (fact_row(swing.fact, swing) for swing in swung)
    yield from (fact_row(fact) for fact in fixed if fact.path not in paths)


def _deployments(variant: VariantSummary, seed: SeedSummary) -> pl.DataFrame:
    import polars as pl

    placed = variant.run.fleet.placed
    words = {
        "pool": [p.pool for p in placed],
        "model": [p.model for p in placed],
        "layout": [p.label.removeprefix(p.model).strip() for p in placed],
        "engine": [p.engine for p in placed],
        "precision": [p.precision for p in placed],
        "replicas": [p.n_replicas for p in placed],
        "chips_per_replica": [p.n_chips for p in placed],
        "kv_capacity_tokens": [p.plan["kv_capacity_tokens"] for p in placed],
    }
    schema = {name: dtype for name, dtype in schema_of(DEPLOYMENTS).items() if name in words}
    work = chip_work(seed.run.sim.deployments, variant.run.fleet).sort("deployment_ix")
    return pl.concat([pl.DataFrame(words, schema=schema), work.drop("deployment_ix", "pool_ix")], how="horizontal")


def _windows(variant: VariantSummary, seed: SeedSummary) -> pl.DataFrame:
    import polars as pl

    book = Book()
    frames = [_frame([], WINDOWS)]
    for power, windows in zip(seed.powers, seed.windows, strict=True):
        chip_s = (power.pool.n_chips - power.pool.idle_chips) * seed.span.window_s
        it_w = rack_it_w(power, power.windows, book)
        columns = {
            "window_ix": windows.window_ix,
            "start_s": windows.window_ix * seed.span.window_s,
            **{name: windows.sums[part] / chip_s if chip_s else windows.sums[part] for name, part in FRACTIONS.items()},
            "chip_w": chip_w(power, power.windows, book),
            "rack_it_w": it_w,
            "facility_w": it_w * pue(variant.run.fleet.at(power.pool), seed.span, book),
            **{name: windows.sums[name] for name in COUNTS},
        }
        schema = {name: dtype for name, dtype in schema_of(WINDOWS).items() if name not in KEYS}
        frame = pl.DataFrame(columns).with_columns(pl.lit(power.pool.name).alias("pool"))
        frames.append(frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items()))
    return pl.concat(frames)


def _class_windows(variant: VariantSummary, seed: SeedSummary) -> pl.DataFrame:
    import polars as pl

    frame = _named(seed.run.sim.class_windows, "class_ix", "class", list(variant.run.scenario.traffic))
    return frame.with_columns((pl.col("window_ix") * (seed.span.window_ns / NS_PER_S)).alias("start_s"))


def _sketches(variant: VariantSummary, seed: SeedSummary) -> pl.DataFrame:
    frame = _named(seed.run.sim.sketches, "class_ix", "class", list(variant.run.scenario.traffic))
    frame = _named(frame, "pool_ix", "pool", [pool.name for pool in variant.run.fleet.pools])
    return _named(frame, "metric_ix", "metric", METRICS)


def _requests(variant: VariantSummary, seed: SeedSummary) -> pl.DataFrame:
    import polars as pl

    from planner import core

    assert seed.run.sim.requests is not None
    frame = _named(seed.run.sim.requests, "class_ix", "class", list(variant.run.scenario.traffic))
    nowhere = pl.col("replica_ix") == core.NOWHERE
    frame = frame.with_columns(pl.when(~nowhere).then("replica_ix").alias("replica_ix"))
    return _named(frame, "fate", "fate", core.FATES)


def _timeline(variant: VariantSummary, seed: SeedSummary) -> pl.DataFrame:
    import polars as pl

    assert seed.run.sim.timeline is not None
    frame = seed.run.sim.timeline
    pools = [placed.pool for placed in variant.run.fleet.placed for _ in range(placed.n_replicas)]
    return frame.with_columns(pl.Series(pools, dtype=pl.String).gather(frame["replica_ix"]).alias("pool"))


def _named(frame: pl.DataFrame, code: str, name: str, names: Sequence[str]) -> pl.DataFrame:
    """The frame with a column of names for a column of codes, in the order that it had."""
    import polars as pl

    of = pl.Series(list(names), dtype=pl.String)
    return frame.with_columns(of.gather(frame[code]).alias(name))

"""Hand-made fleets and simulations: small frames with figures that can be worked out on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from planner.aggregate.inputs import SeedRun, VariantRun
from planner.core import FATES, METRICS, SimTables
from planner.errors import Notice
from planner.facts.fact import Fact
from planner.facts.schema import Chip, Rack, ScaleOut, ScaleUp
from planner.fleet.fleet import Fleet, Placed, PoolLayout
from planner.scenario import Scenario, load

WORK = [
    "busy_s",
    "prefill_s",
    "decode_s",
    "prefill_j",
    "decode_j",
    "bytes",
    "flop",
    "memory_s",
    "compute_s",
    "network_s",
    "launch_s",
    "power_s",
    "down_s",
    "off_s",
    "kv_token_s",
]
COUNTS = ["steps", "input_tokens", "output_tokens", "recomputed_tokens"]
COUNTS += ["prefix_hit_tokens", "cached_input_tokens", "preemptions"]
NS = 1_000_000_000


def fact(
    value: float, path: str, *, low: float | None = None, high: float | None = None, grade: str = "vendor"
) -> Fact:
    """A fact with as much as a test needs."""
    return Fact(value, low=low, high=high, grade=grade, path=path, kind="ratio")


def chip(name: str = "toy", **watts: float) -> Chip:
    """A chip of 1 TB/s, 100 TFLOP/s in bf16, 200 in fp8 and 400 in fp4; idle 100, parked 100, high 500, rated 600 W."""
    drawn = {"idle_w": 100.0, "parked_w": 100.0, "low_load_w": 300.0, "high_load_w": 500.0, "tdp_w": 600.0} | watts
    rates = {"bf16": 100e12, "fp8": 200e12, "fp4": 400e12}
    return Chip(
        name=name,
        title="Toy chip",
        memory_bytes=fact(100e9, f"chips.{name}.memory_bytes"),
        memory_bytes_per_s=fact(1e12, f"chips.{name}.memory_bytes_per_s"),
        flop_per_s={rate: fact(value, f"chips.{name}.flop_per_s.{rate}") for rate, value in rates.items()},
        scale_up=ScaleUp(
            bytes_per_s=fact(1e11, "up"), domain_chips=fact(64, "domain"), latency_s=fact(1e-6, "latency")
        ),
        scale_out=ScaleOut(
            nic_bits_per_s=fact(4e11, "nic"), bytes_per_s=fact(5e10, "out"), latency_s=fact(1e-5, "far")
        ),
        **{key: fact(value, f"chips.{name}.{key}") for key, value in drawn.items()},
    )


def rack(name: str = "toy-rack", n_chips: int = 8, *, capex: Fact | None = None, **watts: float) -> Rack:
    """A rack of 8 chips: idle 2 kW, typical 6 kW, rated 8 kW, 400,000 USD."""
    drawn = {"idle_w": 2000.0, "typical_w": 6000.0, "rated_w": 8000.0} | watts
    return Rack(
        name=name,
        title="Toy rack",
        chip="toy",
        n_chips=fact(n_chips, f"racks.{name}.n_chips"),
        capex_usd=capex or fact(400_000, f"racks.{name}.capex_usd"),
        **{key: fact(value, f"racks.{name}.{key}") for key, value in drawn.items()},
    )


def placed(
    pool: str = "toy",
    n_replicas: int = 1,
    n_chips: int = 8,
    *,
    model: str = "gpt-oss-120b",
    kv_tokens: int = 1000,
    **spec: Any,
) -> Placed:
    """Copies of a mixture whose experts compute in fp4 and whose rest computes in bf16, on toy chips."""
    precision = {"experts_rate": "fp4", "rest_rate": "bf16"} | spec.get("precision", {})
    return Placed(
        pool=pool,
        model=model,
        n_replicas=n_replicas,
        n_chips=n_chips,
        tp=n_chips,
        dp=1,
        pp=1,
        ep=1,
        engine="generic",
        precision="mxfp4 experts, bf16 rest",
        spec={
            "chip": {
                "memory_bytes_per_s": 1e12,
                "flop_per_s": {"bf16": 100e12, "fp8": 200e12, "fp4": 400e12},
                "parked_w": 100.0,
                "high_load_w": 500.0,
            },
            "model": {"moe": spec.get("moe", {"n_experts": 8})},
            "precision": precision,
            "serving": {"max_batch": 64, "chunk_tokens": 512},
        },
        plan={"kv_capacity_tokens": kv_tokens, "tokens_per_step": 1.0},
    )


def pool(
    name: str = "toy",
    deployments: Sequence[Placed] = (),
    *,
    n_racks: int = 1,
    n_existing: int = 0,
    rent: float | None = None,
    of_rack: Rack | None = None,
    of_chip: Chip | None = None,
) -> PoolLayout:
    """Racks with what stands on them; chips under no replica are idle."""
    of_rack = of_rack or rack()
    n_chips = int(of_rack.n_chips.number) * n_racks
    return PoolLayout(
        name=name,
        rack=of_rack,
        chip=of_chip or chip(),
        n_racks=n_racks,
        n_existing=n_existing,
        placed=tuple(deployments),
        n_chips=n_chips,
        idle_chips=n_chips - sum(p.n_replicas * p.n_chips for p in deployments),
        capex_usd_per_rack=of_rack.capex_usd,
        rent_usd_per_chip_h=None if rent is None else fact(rent, f"fleet.pools.{name}.rent"),
    )


def fleet(*pools: PoolLayout, pue: float = 1.2, usd_per_kwh: float = 0.08, kgco2e_per_kwh: float = 0.4) -> Fleet:
    """Pools at one site."""
    return Fleet(
        pools=pools,
        placed=tuple(p for each in pools for p in each.placed),
        pue=fact(pue, "site.pue"),
        electricity_usd_per_kwh=fact(usd_per_kwh, "site.power_price"),
        carbon_kgco2e_per_kwh=fact(kgco2e_per_kwh, "site.carbon"),
        rated_w=sum(p.n_racks * p.rack.rated_w.number for p in pools) * pue,
        power_limit_w=None,
        notices=(),
    )


FINANCE = {
    "life_years": fact(5, "prices.finance.life_years", low=4, high=6, grade="estimate"),
    "discount_frac": fact(0.09, "prices.finance.discount_frac", low=0.06, high=0.14, grade="assumed"),
    "residual_frac": fact(0.05, "prices.finance.residual_frac"),
    "upkeep_frac": fact(0.04, "prices.finance.upkeep_frac"),
    "network_usd_per_chip": fact(6000, "prices.finance.network_usd_per_chip"),
    "storage_frac": fact(0.03, "prices.finance.storage_frac"),
}


def work(*rows: Mapping[str, float]) -> pl.DataFrame:
    """Rows of the core's `deployments`, or of `windows` where rows have a `window_ix`; what is not given is 0."""
    keys = ["deployment_ix", *(["window_ix"] if any("window_ix" in row for row in rows) else [])]
    types: dict[str, Any] = {"deployment_ix": pl.UInt32, "window_ix": pl.UInt64}
    columns = {key: [row.get(key, 0) for row in rows] for key in keys}
    frame = pl.DataFrame(columns, schema={key: types[key] for key in keys})
    return frame.with_columns(
        *(pl.Series(name, [float(row.get(name, 0)) for row in rows], dtype=pl.Float64) for name in WORK),
        *(pl.Series(name, [int(row.get(name, 0)) for row in rows], dtype=pl.UInt64) for name in COUNTS),
    )


def no_windows() -> pl.DataFrame:
    """The `windows` of a run in which nothing happened."""
    return work({"window_ix": 0}).clear()


def sketches(values: Mapping[tuple[int, int, str], Sequence[float]] | None = None) -> pl.DataFrame:
    """Sketches that keep every value, by (class, pool, metric); values in seconds."""
    rows = []
    for (class_ix, pool_ix, metric), seconds in (values or {}).items():
        keys = sorted(round(s * NS) for s in seconds)
        for at, key in enumerate(keys):
            total = sum(keys) if at == 0 else 0
            rows.append((class_ix, pool_ix, METRICS.index(metric), 0, key, 1, total // NS, total % NS * 1_000_000))
    names = ("class_ix", "pool_ix", "metric_ix", "is_bucket", "key_ns", "count", "sum_s", "sum_fs")
    return pl.DataFrame(rows, schema={n: pl.UInt16 if i < 4 else pl.UInt64 for i, n in enumerate(names)}, orient="row")


def class_counts(**counts: int) -> dict[str, int]:
    """A row of the core's `classes`: of the span what is given, of the whole run the same."""
    whole = {name: counts.get(name, 0) for name in (*FATES, "offered", "retried", "lost")}
    tokens = {name: counts.get(name, 0) for name in ("input_tokens", "output_tokens")}
    span = {f"span_{n}": counts.get(n, 0) for n in ("offered", "completed", "attained", "single_token", "tasks")}
    return {**whole, **tokens, **span}


def sim(
    *,
    classes: Sequence[Mapping[str, int]] = (),
    deployments: pl.DataFrame,
    windows: pl.DataFrame | None = None,
    latencies: Mapping[tuple[int, int, str], Sequence[float]] | None = None,
    class_windows: Sequence[Mapping[str, int]] = (),
) -> SimTables:
    """What a simulation leaves."""
    names = ("class_ix", "window_ix", "offered", "completed", "rejected", "timed_out", "cancelled", "retried", "lost")
    names += ("attained",)
    counted = [{"class_ix": ix, **row} for ix, row in enumerate(classes or [class_counts()])]
    return SimTables(
        classes=pl.DataFrame(counted, schema={n: pl.UInt32 if n == "class_ix" else pl.UInt64 for n in counted[0]}),
        class_windows=pl.DataFrame(
            [[row.get(n, 0) for n in names] for row in class_windows],
            schema={n: pl.UInt32 if n == "class_ix" else pl.UInt64 for n in names},
            orient="row",
        ),
        deployments=deployments,
        windows=no_windows() if windows is None else windows,
        sketches=sketches(latencies),
        requests=None,
        n_events=0,
    )


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is read of a seed's traffic."""

    length_ns: int = 3600 * NS
    failed_rows: int = 0
    notices: tuple[Notice, ...] = ()
    shortest_kv_tokens: tuple[int, ...] = (1,)


SCENARIO = """
schema: 1
title: Toy
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 1 req/s, input: 100 tok, output: 10 tok, slo: interactive,
         tenant: acme}
slo:
  interactive: {ttft: {p95: 500 ms}, tpot: {p95: 20 ms}, attainment: 99 %}
fleet:
  pools:
    toy: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}
run: {length: 1 h}
"""


def scenario(text: str = SCENARIO, *sets: str) -> Scenario:
    """A scenario from text; its classes, limits, money and run are read, its fleet is hand-made beside it."""
    return load("-", stdin_text=text, sets=sets)


def variant(of: Fleet, *sims: SimTables, asked: Scenario | None = None, traffic: Traffic | None = None) -> VariantRun:
    """A variant with a seed for each simulation."""
    seeds = tuple(SeedRun(seed=ix + 1, tables=each, traffic=traffic or Traffic()) for ix, each in enumerate(sims))
    return VariantRun(scenario=asked or scenario(), fleet=of, seeds=seeds)

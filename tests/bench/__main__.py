"""`make bench`: one JSON line a figure, `name value unit ratio`; ratios of one run outlast a noisy machine.

`sim_requests_per_s_azure-conv_loadN`: requests simulated a second on one core, all outputs on, at N % of what the
replicas can complete; `ratio` is the time a request takes against that at the first load. `..._disagg`: a prefill pool
before a decode pool. `sim_requests_per_s_flat_*`: loads, output lengths, batches and numbers of replicas apart from
those, where the cost of a request should stay the same; `ratio` is its time against the first of its kind.
`sim_requests_per_s_mooncake_prefix`: the Mooncake trace with the prefix cache on, two replicas four fifths busy;
`ratio` is the time against the same without the cache. Only where the shared traces are.
`step_times_per_s_*`: steps costed a second on one core (`tests/bench/steps.py`).
`optimize_*`: purchases proven and weighed against uncertain facts (`tests/bench/optimize.py`).
`year_*`: a year of hourly demand for five pools (`tests/bench/year.py`).
`ray_*`: a Ray cluster of this machine against threads (`tests/bench/cluster.py`).
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl

from planner import core
from planner.facts import catalog
from planner.model.choose import choose
from planner.model.wish import Wish
from planner.traffic import profiles
from tests.bench import cluster, optimize, prefixes, steps, year

N_REQUESTS = 1_000_000
N_FLAT = 200_000
N_DAY = 10_000_000
DAY_NS = 86_400 * 10**9
DAY_LIMIT_S = 180.0
N_REPLICAS = 16
MOONCAKE_COPIES = 20
LOADS = (30, 60, 90, 110)
PROFILE = "azure-conv-2023"


def main() -> None:
    """Print the figures."""
    lengths = requests(N_REQUESTS)
    capacity = completed_per_s(lengths)
    first: float | None = None
    for load in LOADS:
        span_ns = round(N_REQUESTS / (capacity * load / 100) * 1e9)
        frame = spread(lengths, span_ns)
        start_s = time.perf_counter()
        core.simulate(spec(span_ns), frame)
        spent_s = time.perf_counter() - start_s
        first = first or spent_s
        say(f"sim_requests_per_s_{PROFILE}_load{load}", N_REQUESTS / spent_s, "req/s", spent_s / first)
    split = split_spec(round(N_REQUESTS / (capacity * 0.45) * 1e9))
    spent_s = timed(split, spread(lengths, split["length_ns"]))
    say(f"sim_requests_per_s_{PROFILE}_disagg", N_REQUESTS / spent_s, "req/s", spent_s / (first or spent_s))
    with_prefixes()
    flat(lengths.head(N_FLAT))
    day(lengths)
    steps.main(spec(1)["deployments"][0]["deployment"], say)
    optimize.main(say)
    year.main(say)
    cluster.main(say)


def day(lengths: pl.DataFrame) -> None:
    """A day of 2,000 replicas: memory does not grow with the number of requests, so fewer than 100 million do."""

    def frames() -> Iterator[pl.DataFrame]:
        span_ns = DAY_NS * N_REQUESTS // (N_DAY // 2)
        part = spread(lengths, span_ns)
        for at in range(N_DAY // 2 // N_REQUESTS):
            yield part.with_columns(pl.col("arrival_ns") + at * span_ns)

    def cell(seed: int) -> None:
        core.simulate(spec(DAY_NS, n_replicas=1000) | {"seed": seed}, frames())

    start_s = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(cell, (1, 2)))
    spent_s = time.perf_counter() - start_s
    say("sim_requests_per_s_day", N_DAY / spent_s, "req/s", spent_s / N_DAY * 100e6 / DAY_LIMIT_S)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    say("sim_peak_bytes_day", peak, "bytes", peak / 2**31)


def with_prefixes() -> None:
    """The figure with a prefix cache."""
    span_ns = MOONCAKE_COPIES * 3_600 * 10**9
    made = prefixes.requests(MOONCAKE_COPIES, span_ns)
    if made is None:
        return
    frame, blocks = made
    spent_s = {}
    for has_cache in (False, True):
        made_spec = spec(span_ns) | {"hash_block_tokens": prefixes.HASH_TOKENS}
        made_spec["deployments"][0] |= {"n_replicas": 2, "prefix_cache": has_cache}
        start_s = time.perf_counter()
        core.simulate(made_spec, frame, blocks if has_cache else None)
        spent_s[has_cache] = time.perf_counter() - start_s
    say("sim_requests_per_s_mooncake_prefix", frame.height / spent_s[True], "req/s", spent_s[True] / spent_s[False])


def flat(lengths: pl.DataFrame) -> None:
    """The cost of a request along each axis, at 60 % of what the replicas can complete (loads apart)."""
    for load in (10, 60, 110):
        flat_point("load", load, lengths, load=load)
    for tokens in (200, 1_000, 4_000, 16_000):
        longer = lengths.with_columns(pl.lit(tokens, dtype=pl.UInt32).alias("output_tokens"))
        flat_point("output", tokens, longer)
    for batch in (8, 64, 256, 1_024):
        flat_point("batch", batch, lengths, max_batch=batch)
    for replicas in (1, 16, 1_000, 10_000):
        flat_point("replicas", replicas, lengths, n_replicas=replicas)


FIRST: dict[str, float] = {}


def flat_point(axis: str, value: int, lengths: pl.DataFrame, *, load: int = 60, **changes: int) -> None:
    """One figure: microseconds a request, and against the first of its axis."""
    capacity = completed_per_s(lengths.head(20_000), **(changes | {"n_replicas": 4})) / 4
    n_replicas = changes.get("n_replicas", N_REPLICAS)
    span_ns = round(lengths.height / (capacity * n_replicas * load / 100) * 1e9)
    each_s = timed(spec(span_ns, **changes), spread(lengths, span_ns)) / lengths.height
    first = FIRST.setdefault(axis, each_s)
    say(f"sim_requests_per_s_flat_{axis}{value}", 1 / each_s, "req/s", each_s / first)


def timed(what: dict[str, Any], frame: pl.DataFrame) -> float:
    """Seconds that a simulation takes."""
    start_s = time.perf_counter()
    core.simulate(what, frame)
    return time.perf_counter() - start_s


def split_spec(span_ns: int) -> dict[str, Any]:
    """The same chips, half of them before the others, over a link of 400 GB/s."""
    split = spec(span_ns)
    (placed,) = split["deployments"]
    placed |= {"n_replicas": N_REPLICAS // 2}
    split["deployments"] = [placed | {"role": "prefill", "decode_targets": [1]}, placed | {"role": "decode"}]
    split["link"] = {"bytes_per_s": 400e9, "latency_ns": 10_000}
    return split


def requests(n: int) -> pl.DataFrame:
    """`n` requests with the profile's lengths, in the order in which they came."""
    facts = profiles.load(PROFILE)
    frame = profiles.realise(facts, key=1, seed=1, scale=1 + n // 19_000, context_tokens=131_072)
    return frame.sort("arrival_ns", maintain_order=True).head(n)


def spread(frame: pl.DataFrame, span_ns: int) -> pl.DataFrame:
    """The same requests with their arrivals stretched over `span_ns`."""
    whole = frame["arrival_ns"].max()
    return frame.select(
        (pl.col("arrival_ns") * (span_ns / whole)).cast(pl.UInt64).clip(0, span_ns).alias("arrival_ns"),
        pl.lit(0, dtype=pl.UInt16).alias("class_ix"),
        pl.col("input_tokens").cast(pl.UInt32),
        pl.col("output_tokens").cast(pl.UInt32),
    )


def spec(span_ns: int, *, n_replicas: int = N_REPLICAS, max_batch: int | None = None) -> dict[str, Any]:
    """gpt-oss-120b on four GB300 chips a replica, one class with limits."""
    facts = catalog.load()
    chip = facts.chip("gb300")
    wish = Wish(n_chips=4, mean_input_tokens=1155.0, mean_output_tokens=211.0, tpot_limit_s=0.05)
    made = choose(chip, facts.model("gpt-oss-120b"), facts.engine(chip.engine), facts.serving(), wish)
    deployment = dict(made.spec)
    if max_batch is not None:
        deployment["serving"] = {**deployment["serving"], "max_batch": max_batch}
    return {
        "spec_version": 1,
        "seed": 1,
        "warmup_ns": 0,
        "length_ns": span_ns,
        "drain_ns": 86_400_000_000_000,
        "window_ns": 60_000_000_000,
        "router": "least-outstanding-tokens",
        "n_pools": 1,
        "classes": [
            {
                "limits": [{"metric": "ttft", "limit_ns": 500_000_000}, {"metric": "tpot", "limit_ns": 20_000_000}],
                "targets": [{"deployments": [0], "share": None}],
            }
        ],
        "deployments": [{"pool_ix": 0, "n_replicas": n_replicas, "deployment": deployment}],
        "keep_requests": False,
    }


def completed_per_s(lengths: pl.DataFrame, **changes: int) -> float:
    """What the replicas complete a second when all requests are there from the start."""
    few = lengths.head(100_000)
    asked = spec(few.height, **changes)
    tables = core.simulate(asked, spread(few, few.height))
    (placed,) = asked["deployments"]
    return few.height / (tables.windows["busy_s"].sum() / placed["n_replicas"])


def say(name: str, value: float, unit: str, ratio: float) -> None:
    """One figure."""
    print(
        json.dumps(
            {
                "name": name,
                "value": round(value) if value >= 1000 else float(f"{value:.3g}"),
                "unit": unit,
                "ratio": round(ratio, 3),
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()

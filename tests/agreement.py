"""Whether the engine, which jumps, and the oracle, which does not, say the same, request by request."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from planner import core
from planner.fleet import batched
from tests.cells import Hashes
from tests.deployments import blocks, requests
from tests.reference import Request, Simulation

COUNTS = (
    "steps",
    "input_tokens",
    "output_tokens",
    "recomputed_tokens",
    "prefix_hit_tokens",
    "cached_input_tokens",
    "preemptions",
)
EXACT_MAX = 1000
"""Values that a sketch keeps as they are."""


def check(
    spec: dict[str, Any],
    rows: list[Request],
    links: list[tuple[int | None, int]] | None = None,
    sessions: list[int] | None = None,
    hashes: Hashes | None = None,
) -> Simulation:
    """Simulate both ways; every table has to be equal. Batches change nothing but that they are there."""
    oracle = Simulation(spec, rows, links, sessions, hashes).run()
    batches = {"first_ns": spec["warmup_ns"], "each_ns": max(1, (spec["length_ns"] - spec["warmup_ns"]) // 4), "n": 3}
    plain, got = (
        core.simulate(each, requests(rows, links, sessions), None if hashes is None else blocks(hashes))
        for each in (spec, spec | {"batches": batches})
    )
    assert plain.sketches.equals(got.sketches)
    assert plain.batches is None
    check_batches(got, oracle, batches)
    check_requests(got, oracle)
    check_classes(got, oracle)
    check_work(got, oracle)
    check_sketches(got, oracle)
    return oracle


def as_table(work: Counter[str]) -> dict[str, float]:
    """Work of the oracle in the units of the core's tables."""
    row: dict[str, float] = {"busy_s": float(work["busy_ns"]) / 1e9, "down_s": float(work["down_ns"]) / 1e9}
    row["off_s"] = float(work["off_ns"]) / 1e9
    for name in ("prefill", "decode", "memory", "compute", "network", "launch", "power", "kv_token"):
        row[f"{name}_s"] = float(work[f"{name}_s"]) / 1e15
    for name in ("prefill_j", "decode_j"):
        row[name] = float(work[name]) / 1e15
    for name in ("bytes", "flop"):
        row[name] = float(work[name])
    for name in COUNTS:
        row[name] = work[name]
    return row


def bucket(value: int) -> int:
    """The place of a value among buckets 1/128 of a power of two wide."""
    if value < 128:
        return value
    exponent = value.bit_length() - 8
    return (exponent + 1) * 128 + (value >> exponent) - 128


def check_requests(got: core.SimTables, oracle: Simulation) -> None:
    assert got.requests is not None
    names = [
        "row",
        "arrival_ns",
        "seen_ns",
        "start_ns",
        "first_token_ns",
        "end_ns",
        "fate",
        "generated_tokens",
        "cached_tokens",
    ]
    names += ["replica_ix"]
    expected = [
        (
            row,
            seq.arrival,
            seq.seen,
            seq.start,
            seq.first,
            seq.times[-1] if seq.fate == 0 else None,
            seq.fate,
            len(seq.times),
            seq.cached,
            core.NOWHERE if seq.replica is None else seq.replica.number,
        )
        for row, seq in sorted(oracle.rows.items())
    ]
    assert got.requests.select(names).rows() == expected


def check_classes(got: core.SimTables, oracle: Simulation) -> None:
    for row in got.classes.iter_rows(named=True):
        counts = oracle.counts[row.pop("class_ix")]
        assert row == {name: counts[name] for name in row}
    windows = {(row.pop("class_ix"), row.pop("window_ix")): row for row in got.class_windows.iter_rows(named=True)}
    assert windows.keys() == oracle.class_windows.keys()
    for key, row in windows.items():
        assert row == {name: oracle.class_windows[key][name] for name in row}


def check_work(got: core.SimTables, oracle: Simulation) -> None:
    for row in got.deployments.iter_rows(named=True):
        expected = as_table(oracle.span[row["deployment_ix"]])
        assert {name: row[name] for name in expected} == expected
    windows = {(row.pop("deployment_ix"), row.pop("window_ix")): row for row in got.windows.iter_rows(named=True)}
    assert windows.keys() == oracle.windows.keys()
    for key, row in windows.items():
        assert row == as_table(oracle.windows[key])


def check_batches(got: core.SimTables, oracle: Simulation, of: dict[str, int]) -> None:
    """What each batch has of values and counts: a request by when it came, a gap by when it ended."""
    assert got.batches is not None
    n_classes = len(oracle.spec["classes"])
    found: dict[tuple[int, int, str], Counter[int]] = defaultdict(Counter)
    exact: dict[tuple[int, int, str], bool] = {}
    for row in got.batches.iter_rows(named=True):
        batch, klass = divmod(row["class_ix"], n_classes)
        key = (batch, klass, (*core.METRICS, *batched.COUNTS)[row["metric_ix"]])
        found[key][row["key_ns"]] += row["count"]
        exact[key] = not row["is_bucket"]
    for batch in range(of["n"]):
        begin = of["first_ns"] + batch * of["each_ns"]
        inside = range(begin, begin + of["each_ns"])
        for klass in range(n_classes):
            for metric_ix, metric in enumerate(core.METRICS):
                values = [value for at, value in oracle.when[klass, metric_ix] if at in inside]
                assert found[batch, klass, metric] == Counter(
                    values if exact.get((batch, klass, metric)) else map(bucket, values)
                )
            for what in batched.COUNTS:
                n = sum(n for at, n in oracle.counted[klass, what] if at in inside)
                assert found[batch, klass, what].total() == n


def check_sketches(got: core.SimTables, oracle: Simulation) -> None:
    found: dict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    sums: Counter[tuple[int, int, int]] = Counter()
    for row in got.sketches.iter_rows(named=True):
        key = (row["class_ix"], row["pool_ix"], row["metric_ix"])
        assert row["is_bucket"] == (len(oracle.values[key]) > EXACT_MAX)
        found[key][row["key_ns"]] += row["count"]
        sums[key] += row["sum_s"] * 10**15 + row["sum_fs"]
    values = {key: each for key, each in oracle.values.items() if each}
    assert found.keys() == values.keys()
    for key, each in values.items():
        assert found[key] == Counter(map(bucket, each) if len(each) > EXACT_MAX else each)
        assert sums[key] == oracle.sums_fs[key]

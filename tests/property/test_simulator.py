"""The engine, which jumps, against the oracle, which does not: request by request, to the nanosecond."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from planner import core
from tests.cells import MS, Hashes, Request, scenarios, storms, with_features
from tests.deployments import blocks, cell, requests, toy
from tests.reference import METRICS, Simulation

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


def as_table(work: Counter[str]) -> dict[str, float]:
    """Work of the oracle in the units of the core's tables."""
    row: dict[str, float] = {"busy_s": float(work["busy_ns"]) / 1e9}
    for name in ("prefill", "decode", "memory", "compute", "network", "launch", "kv_token"):
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
    names = ["start_ns", "first_token_ns", "end_ns", "fate", "generated_tokens", "cached_tokens", "replica_ix"]
    expected = [
        (
            seq.start,
            seq.times[0] if seq.times else None,
            seq.times[-1] if seq.fate == 0 else None,
            seq.fate,
            len(seq.times),
            seq.cached,
            seq.replica,
        )
        for seq in oracle.rows
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


def check(spec: dict[str, Any], rows: list[Request], hashes: Hashes | None = None) -> Simulation:
    oracle = Simulation(spec, rows, hashes).run()
    got = core.simulate(spec, requests(rows), None if hashes is None else blocks(hashes))
    check_requests(got, oracle)
    check_classes(got, oracle)
    check_work(got, oracle)
    check_sketches(got, oracle)
    return oracle


def note(oracle: Simulation) -> None:
    preemptions = sum(work["preemptions"] for work in oracle.windows.values())
    event(f"preempted: {'never' if not preemptions else 'once' if preemptions == 1 else 'often'}")
    event(f"a piece of a line ends: {any(r.n_pieces_ended for r in oracle.replicas)}")
    event(f"found in a cache: {any(seq.cached for seq in oracle.rows)}")
    for what in ("own", "fetched", "swapped", "quicker"):
        event(f"{what}: {any(r.seen[what] for r in oracle.replicas)}")
    event(f"fates: {sorted({seq.fate for seq in oracle.rows})}")


quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@settings(quick, max_examples=150)
@given(scenarios())
def test_jumps_and_steps_agree(scenario: tuple[dict[str, Any], list[Request]]) -> None:
    note(check(*scenario))


@settings(quick, max_examples=50)
@given(storms())
def test_jumps_and_steps_agree_in_a_storm_of_preemptions(scenario: tuple[dict[str, Any], list[Request]]) -> None:
    note(check(*scenario))


@settings(quick, max_examples=300)
@given(st.one_of(scenarios(), storms()), st.data())
def test_jumps_and_steps_agree_with_every_feature(
    scenario: tuple[dict[str, Any], list[Request]], data: st.DataObject
) -> None:
    spec, hashes = data.draw(with_features(*scenario))
    note(check(spec, scenario[1], hashes))


@settings(quick, max_examples=100)
@given(st.one_of(scenarios(), storms()), st.data())
def test_jumps_and_steps_agree_at_the_edges(
    scenario: tuple[dict[str, Any], list[Request]], data: st.DataObject
) -> None:
    """Arrivals, the span, windows, the end and limits that fall on the very nanosecond of a token."""
    spec, rows = scenario
    hashes = None
    if data.draw(st.booleans()):
        spec, hashes = data.draw(with_features(spec, rows))
    before = Simulation(spec, rows, hashes).run()
    moments = sorted({ns for seq in before.rows for ns in seq.times})
    if not moments:
        return
    moment = st.sampled_from(moments)
    arrival = st.tuples(moment, st.sampled_from(range(len(spec["classes"]))), st.integers(1, 20), st.integers(1, 20))
    before_rows = rows
    rows = sorted(rows + data.draw(st.lists(arrival, max_size=4)), key=lambda row: row[0])
    length = max(data.draw(moment), rows[-1][0])
    values = [(metric, ns) for (_, _, metric), each in before.values.items() for ns in each] or [(0, 0)]
    reached = st.tuples(st.sampled_from(values), st.sampled_from([0, -1]))
    limits = [
        {"metric": METRICS[metric], "limit_ns": max(ns + less, 0)}
        for (metric, ns), less in data.draw(st.lists(reached, max_size=2))
    ]
    fields = {
        "classes": [klass | {"limits": limits} for klass in spec["classes"]],
        "length_ns": length,
        "warmup_ns": min(data.draw(moment), length),
        "drain_ns": max(data.draw(moment) - length, 0),
        "window_ns": max(data.draw(moment), MS),
    }
    if hashes is not None:  # rows have moved
        hashes = {rows.index(before_rows[row]): chain for row, chain in hashes.items()}
    check(spec | fields, rows, hashes)


def test_a_long_batch_agrees() -> None:
    """Thousands of gaps, so that sketches turn to buckets; a window of 300 tokens fills on the way."""
    spec = toy(window=300, blocks=600)
    rows = [(at * 40 * MS, 0, 1 + 37 * at % 211, 150 + 53 * at % 307) for at in range(40)]
    oracle = check(cell(spec, window_ns=500 * MS, warmup_ns=300 * MS), rows)
    assert len(oracle.values[0, 0, METRICS.index("itl")]) > 5 * EXACT_MAX


def test_the_oracle_sees_what_it_should() -> None:
    """The hard cases do come up: sequences driven out again and again, and lines whose max() changes sides."""
    spec = toy(blocks=20, block_tokens=4, chunk_tokens=32)
    oracle = check(cell(spec), [(0, 0, 4, 60)] * 6)
    assert oracle.windows[0, 0]["preemptions"] >= 5
    # Eight sequences compute at first; as they grow, reading their cache takes over.
    oracle = check(cell(toy(memory_bytes_per_s=1e9)), [(0, 0, 10, 400)] * 8)
    assert oracle.replicas[0].n_pieces_ended >= 1


def test_cases_that_chance_seldom_meets() -> None:
    # The first request ends before its window fills, and its place in the books goes to one that waits, while the
    # second, one step of 250 tokens long, is under way.
    check(cell(toy(window=48, max_batch=1)), [(0, 0, 1, 10), (0, 0, 250, 80), (100 * MS, 0, 1, 1)])
    # Blocks run out while two prompts are under way in two attention groups: the younger one goes.
    spec = toy(blocks=18, block_tokens=4, chunk_tokens=6, layout={"dp": 2})
    oracle = check(cell(spec), [(0, 0, 4, 30), (0, 0, 30, 5), (0, 0, 30, 5)])
    assert oracle.windows[0, 0]["preemptions"] >= 1
    assert oracle.rows[1].times[0] < oracle.rows[2].times[0]

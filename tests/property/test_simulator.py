"""The engine, which jumps, against the oracle, which does not: request by request, to the nanosecond."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.agreement import EXACT_MAX, check
from tests.cells import MS, Request, scenarios, storms, with_features
from tests.deployments import cell, toy
from tests.reference import METRICS, Simulation


def note(oracle: Simulation) -> None:
    preemptions = sum(work["preemptions"] for work in oracle.windows.values())
    event(f"preempted: {'never' if not preemptions else 'once' if preemptions == 1 else 'often'}")
    event(f"a piece of a line ends: {any(r.n_pieces_ended for r in oracle.replicas)}")
    event(f"found in a cache: {any(seq.cached for seq in oracle.rows.values())}")
    for what in ("own", "fetched", "swapped", "quicker"):
        event(f"{what}: {any(r.seen[what] for r in oracle.replicas)}")
    event(f"fates: {sorted({seq.fate for seq in oracle.rows.values()})}")


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
    note(check(spec, scenario[1], hashes=hashes))


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
    before = Simulation(spec, rows, hashes=hashes).run()
    moments = sorted({ns for seq in before.rows.values() for ns in seq.times})
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
    check(spec | fields, rows, hashes=hashes)


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


def test_whole_prompts_wait_for_a_step_that_takes_them() -> None:
    """Prompts of 60 and 50 tokens, in steps of 100: cut, the second begins beside the first; whole, a step later."""
    spec = cell(toy(chunk_tokens=100, context_tokens=100, block_tokens=16, max_batch=4)) | {"window_ns": 20 * MS}
    rows = [(0, 0, 60, 3), (0, 0, 50, 3)]
    starts = []
    for is_whole in (False, True):
        spec["deployments"] = [spec["deployments"][0] | {"whole_prompts": is_whole}]
        oracle = check(spec, rows)
        starts.append([oracle.rows[row].start for row in (0, 1)])
    assert starts[0] == [0, 0]
    assert starts[1] == [0, oracle.rows[0].first]

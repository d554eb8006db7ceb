"""The engine, which jumps, against the oracle, which does not: request by request, to the nanosecond."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from planner import core
from tests.agreement import EXACT_MAX, check
from tests.deployments import cell, toy
from tests.reference import METRICS, Simulation

MS = 10**6

Request = tuple[int, int, int, int]


@st.composite
def deployments(draw: st.DrawFn) -> dict[str, Any]:
    return toy(
        blocks=draw(st.sampled_from([4, 6, 9, 14, 30, 60, 200])),
        window=draw(st.sampled_from([None, None, 1, 7, 16, 30, 48])),
        layout=draw(st.sampled_from([{}, {}, {}, {"dp": 2}, {"tp": 2}])),
        block_tokens=draw(st.sampled_from([1, 4, 16])),
        max_batch=draw(st.sampled_from([1, 2, 5, 64, 64])),
        chunk_tokens=draw(st.sampled_from([1, 3, 8, 17, 64, 256, 256])),
        context_tokens=draw(st.sampled_from([40, 100, 100_000])),
        memory_bytes_per_s=draw(st.sampled_from([5e8, 1e9, 1.3e9])),
        max_w=draw(st.sampled_from([5.5, 8.0, 9.0])),
    )


@st.composite
def arrivals(draw: st.DrawFn, n_classes: int, longest: int) -> list[Request]:
    """Bursts at one instant, lulls long enough to go idle; many sequences that just fit, some that never do."""
    gap = st.sampled_from([0, 0, 0, 1, 5 * MS, 17 * MS + 3, 400 * MS])
    some = st.integers(1, max(longest // 2, 1))
    room = st.one_of(some, some, some, st.integers(1, min(8, longest)), st.integers(1, longest), st.just(longest))
    now, rows = 0, []
    for _ in range(draw(st.integers(0, 25))):
        now += draw(gap)
        tokens = draw(room) + draw(st.sampled_from([0] * 15 + [1]))
        n_out = draw(
            st.one_of(st.just(1), st.just(tokens), st.integers(1, tokens), st.integers(tokens // 2 + 1, tokens))
        )
        rows.append((now, draw(st.integers(0, n_classes - 1)), tokens + 1 - n_out, n_out))
    return rows


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[dict[str, Any], list[Request]]:
    placed = draw(st.lists(st.tuples(deployments(), st.sampled_from([1, 1, 2, 3])), min_size=1, max_size=3))
    ixs = range(len(placed))
    limits = st.lists(
        st.builds(
            lambda metric, ns: {"metric": metric, "limit_ns": ns},
            st.sampled_from(METRICS[:5]),
            st.sampled_from([0, MS, 3 * MS, 20 * MS, 300 * MS]),
        ),
        max_size=3,
    )
    some = st.lists(st.sampled_from(ixs), min_size=1, max_size=len(placed), unique=True)
    shares = st.sampled_from([[1.0], [0.3, 0.7], [0.5, 0.25, 0.25], [0.0, 1.0]])
    classes = []
    for _ in range(draw(st.integers(1, 3))):
        drawn = draw(st.one_of(st.none(), shares))
        targets = [{"deployments": draw(some), "share": share} for share in drawn or [None]]
        classes.append({"limits": draw(limits), "targets": targets})
    longest = draw(st.sampled_from([core.plan(spec)["max_sequence_tokens"] for spec, _ in placed]))
    rows = draw(arrivals(len(classes), min(longest, 250)))
    last = rows[-1][0] if rows else 0
    length = last + draw(st.sampled_from([0, 1, 30 * MS, 5000 * MS]))
    spec = cell(
        placed,
        classes=classes,
        seed=draw(st.integers(0, 2**64 - 1)),
        length_ns=length,
        warmup_ns=draw(st.sampled_from([0, length // 3, length])),
        drain_ns=draw(st.sampled_from([0, 3 * MS, 50 * MS + 1, 10**12])),
        window_ns=draw(st.sampled_from([MS, 7 * MS + 13, 100 * MS, 10**12])),
        router=draw(st.sampled_from(["round-robin", "least-outstanding-tokens"])),
        n_pools=len(placed) + 1,
    )
    for placement in spec["deployments"]:
        placement["pool_ix"] = draw(st.integers(0, len(placed)))
    return spec, rows


@st.composite
def storms(draw: st.DrawFn) -> tuple[dict[str, Any], list[Request]]:
    """More sequences at once than the cache can hold to their ends, so that they drive each other out."""
    chosen = {
        "blocks": draw(st.integers(8, 60)),
        "block_tokens": draw(st.sampled_from([1, 2, 4, 8])),
        "chunk_tokens": draw(st.sampled_from([2, 7, 32])),
        "window": draw(st.sampled_from([None, 6, 20])),
        "memory_bytes_per_s": draw(st.sampled_from([7e8, 1e9, 1.3e9])),
        "layout": draw(st.sampled_from([{}, {"dp": 2}, {"dp": 4}])),
    }
    spec = toy(**chosen)
    longest = core.plan(spec)["max_sequence_tokens"]
    n_in = st.integers(1, max(longest // draw(st.sampled_from([2, 8])), 1))
    n_out = st.integers(max(longest // 4, 1), max(3 * longest // 4, 1))
    gaps = draw(st.lists(st.sampled_from([0, 0, MS, 13 * MS, 90 * MS]), min_size=8, max_size=30))
    times = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    rows = [(now, 0, draw(n_in), draw(n_out)) for now in times]
    limit = {"metric": "itl", "limit_ns": draw(st.sampled_from([8 * MS, 30 * MS]))}
    classes = [{"limits": [limit], "targets": [{"deployments": [0], "share": None}]}]
    return cell(spec, classes=classes, window_ns=20 * MS, drain_ns=draw(st.sampled_from([10**9, 10**14]))), rows


def note(oracle: Simulation) -> None:
    preemptions = sum(work["preemptions"] for work in oracle.windows.values())
    event(f"preempted: {'never' if not preemptions else 'once' if preemptions == 1 else 'often'}")
    event(f"a piece of a line ends: {any(r.n_pieces_ended for r in oracle.replicas)}")
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


@settings(quick, max_examples=100)
@given(st.one_of(scenarios(), storms()), st.data())
def test_jumps_and_steps_agree_at_the_edges(
    scenario: tuple[dict[str, Any], list[Request]], data: st.DataObject
) -> None:
    """Arrivals, the span, windows, the end and limits that fall on the very nanosecond of a token."""
    spec, rows = scenario
    before = Simulation(spec, rows).run()
    moments = sorted({ns for seq in before.rows.values() for ns in seq.times})
    if not moments:
        return
    moment = st.sampled_from(moments)
    arrival = st.tuples(moment, st.sampled_from(range(len(spec["classes"]))), st.integers(1, 20), st.integers(1, 20))
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
    check(spec | fields, rows)


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

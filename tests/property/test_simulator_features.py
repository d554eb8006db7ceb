"""Chains, clients that give up, routers, handing over and operation: the engine against the oracle, all at once."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from planner import core
from tests.agreement import check
from tests.cells import MS, drafts, with_features
from tests.deployments import cell, toy
from tests.reference import NO_SESSION, Request, Simulation

ROUTERS = [
    "round-robin",
    "random",
    "power-of-two",
    "least-outstanding-tokens",
    "least-requests",
    "prefix-affine",
    "session-affine",
    "slo-aware",
    "cheapest-first",
]

quick = settings(
    deadline=None, report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
durations = st.sampled_from([1, 3 * MS, 40 * MS, 40 * MS + 1, 300 * MS, 2000 * MS])
Links = list[tuple[int | None, int]]


def some_deployment(draw: st.DrawFn) -> dict[str, Any]:
    return toy(
        blocks=draw(st.sampled_from([12, 14, 30, 60, 200])),
        window=draw(st.sampled_from([None, None, None, 7, 30])),
        block_tokens=draw(st.sampled_from([4, 16])),
        max_batch=draw(st.sampled_from([1, 2, 5, 64])),
        chunk_tokens=draw(st.sampled_from([8, 64, 256])),
        memory_bytes_per_s=draw(st.sampled_from([5e8, 1e9, 1.3e9])),
        power_cap_w=draw(st.sampled_from([None, None, None, 4.0])),
        speculation=draw(drafts),
    )


def outages(draw: st.DrawFn, n: int) -> list[dict[str, int]]:
    found = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        first = draw(st.integers(0, n - 1))
        many = draw(st.integers(1, n - first))
        at, length = draw(durations), draw(durations)
        found.append({"at_ns": at, "length_ns": length, "first": first, "n_replicas": many})
    return found


@st.composite
def placed(draw: st.DrawFn, role: str = "mixed") -> dict[str, Any]:
    n = draw(st.sampled_from([1, 2, 3, 5]))
    scale = {
        "min": draw(st.integers(1, n)),
        "max": n,
        "target_ppm": draw(st.sampled_from([20_000, 500_000, 900_000])),
        "delay_ns": draw(st.sampled_from([20 * MS, 150 * MS])),
    }
    failure = {
        "mean_ns": draw(st.sampled_from([200 * MS, 3000 * MS])),
        "repair_ns": draw(durations),
        "n_together": draw(st.integers(1, n)),
        "key": draw(st.sampled_from([None, 7])),
    }
    return {
        "pool_ix": 0,
        "n_replicas": n,
        "deployment": some_deployment(draw),
        "role": role,
        "cold_start_ns": draw(st.sampled_from([0, 0, 70 * MS])),
        "outages": outages(draw, n),
        "maintenance": outages(draw, n),
        "failures": draw(st.sampled_from([[], [], [failure]])),
        "autoscale": draw(st.sampled_from([None, None, scale])),
    }


@st.composite
def classes(draw: st.DrawFn, deployments: list[int]) -> dict[str, Any]:
    some = st.lists(st.sampled_from(deployments), min_size=1, unique=True)
    shares = draw(st.sampled_from([[None], [None], [0.3, 0.7]]))
    retries = {
        "n": draw(st.integers(1, 3)),
        "backoff_ns": draw(st.sampled_from([0, 0, 9 * MS, 200 * MS])),
        "factor": draw(st.sampled_from([1.0, 1.5])),
    }
    limits = [{"metric": m, "limit_ns": draw(durations)} for m in draw(st.sampled_from([[], ["ttft"], ["itl", "e2e"]]))]
    return {
        "limits": limits,
        "targets": [{"deployments": draw(some), "share": share} for share in shares],
        "timeout_ns": draw(st.one_of(st.none(), durations)),
        "cancel_after_ns": draw(st.one_of(st.none(), st.none(), durations)),
        "retries": draw(st.sampled_from([None, retries])),
        "chains_go_on": draw(st.booleans()),
    }


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], list[Request], Links | None, list[int] | None]:
    is_split = draw(st.booleans())
    places = [draw(placed()) for _ in range(draw(st.sampled_from([0, 1, 2] if is_split else [1, 1, 2])))]
    if is_split:
        takers = [len(places) + 1] + [ix for ix in range(len(places)) if draw(st.booleans())]
        places += [draw(placed("prefill")) | {"decode_targets": takers}, draw(placed("decode"))]
    for place in places:
        place["pool_ix"] = draw(st.integers(0, 1))
    able = [ix for ix, place in enumerate(places) if place["role"] != "decode"]
    kinds = [draw(classes(able)) for _ in range(draw(st.integers(1, 2)))]
    longest = min(150, *(core.plan(place["deployment"])["max_sequence_tokens"] for place in places))
    gap = st.sampled_from([0, 0, 0, 1, 5 * MS, 17 * MS + 3, 200 * MS])
    rows: list[Request] = []
    links: Links = []
    now = 0
    for row in range(draw(st.integers(0, 25))):
        now += draw(gap)
        n_in = draw(st.integers(1, longest // 2))
        n_out = draw(st.one_of(st.just(1), st.integers(1, longest - n_in + 2)))
        rows.append((now, draw(st.integers(0, len(kinds) - 1)), n_in, n_out))
        after = draw(st.one_of(st.none(), st.integers(0, row - 1))) if row else None
        links.append((after, draw(st.sampled_from([0, 0, 1, 30 * MS]))))
    length = now + draw(st.sampled_from([0, 1, 30 * MS, 1000 * MS]))
    link = {"bytes_per_s": draw(st.sampled_from([1e6, 1e7, 1e9])), "latency_ns": draw(st.sampled_from([0, 5 * MS]))}
    spec = cell(
        toy(),
        classes=kinds,
        n_pools=2,
        seed=draw(st.integers(0, 2**64 - 1)),
        length_ns=length,
        warmup_ns=draw(st.sampled_from([0, 0, length // 3])),
        drain_ns=draw(st.sampled_from([0, 50 * MS + 1, 10**10])),
        window_ns=draw(st.sampled_from([7 * MS + 13, 100 * MS, 10**12])),
        router=draw(st.sampled_from(ROUTERS)),
        router_options={
            "n_candidates": draw(st.integers(1, 3)),
            "rejects": draw(st.booleans()),
            "most_percent": draw(st.sampled_from([100, 150])),
            "spill_frac": draw(st.sampled_from([0.0, 0.1, 0.5])),
        },
        link=draw(st.sampled_from([None, link])),
        lost_are_rejected=draw(st.booleans()),
    ) | {"deployments": places}
    sessions = [draw(st.sampled_from([0, 1, 2, 3, NO_SESSION])) for _ in rows] if draw(st.booleans()) else None
    return spec, rows, draw(st.sampled_from([None, links])), sessions


def check_laws(oracle: Simulation) -> None:
    """Of the oracle, which agrees with the engine: nothing is counted twice or forgotten."""
    for counts in oracle.counts.values():
        ended = sum(counts[name] for name in core.FATES)
        assert counts["offered"] == ended
    for seq in oracle.rows.values():
        moments = [seq.arrival, *(t for t in (seq.start, seq.first) if t is not None)]
        assert moments == sorted(moments)


@settings(quick, max_examples=250)
@given(worlds(), st.data())
def test_jumps_and_steps_agree_with_everything_on(
    world: tuple[dict[str, Any], list[Request], Links | None, list[int] | None], data: st.DataObject
) -> None:
    spec, rows, links, sessions = world
    hashes = None
    if data.draw(st.booleans()):
        spec, hashes = data.draw(with_features(spec, rows))
    oracle = check(spec, rows, links, sessions, hashes)
    check_laws(oracle)
    for counts in oracle.counts.values():
        for name in ("timed_out", "cancelled", "retried", "lost"):
            event(f"{name}: {counts[name] > 0}")
    was_decoded = [seq.replica.role == "decode" for seq in oracle.rows.values() if seq.replica is not None]
    event(f"handed over: {any(was_decoded)}")

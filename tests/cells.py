"""Random cells for the agreement test: deployments, arrivals that crowd and lull, and every feature of a replica."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from planner import core
from tests.deployments import cell, toy
from tests.reference import METRICS

MS = 10**6

Request = tuple[int, int, int, int]
Hashes = dict[int, list[int]]


@st.composite
def deployments(draw: st.DrawFn) -> dict[str, Any]:
    return toy(
        blocks=draw(st.sampled_from([4, 6, 9, 14, 30, 60, 200])),
        window=draw(st.sampled_from([None, None, 1, 7, 16, 30, 48])),
        layout=draw(st.sampled_from([{}, {}, {}, {"dp": 2}, {"tp": 2}, {"pp": 2}, {"pp": 3}, {"dp": 2, "pp": 2}])),
        block_tokens=draw(st.sampled_from([1, 4, 16])),
        max_batch=draw(st.sampled_from([1, 2, 5, 64, 64])),
        chunk_tokens=draw(st.sampled_from([1, 3, 8, 17, 64, 256, 256])),
        context_tokens=draw(st.sampled_from([40, 100, 100_000])),
        memory_bytes_per_s=draw(st.sampled_from([5e8, 1e9, 1.3e9])),
        max_w=draw(st.sampled_from([5.5, 8.0, 9.0])),
        speculation=draw(drafts),
    )


drafts = st.one_of(
    st.none(),
    st.builds(
        lambda draft, acceptance, cost: {
            "draft_tokens": draft,
            "acceptance_frac": acceptance,
            "draft_cost_frac": cost,
        },
        st.sampled_from([0, 1, 2, 3, 5, 20, 64]),
        st.sampled_from([0.0, 0.3, 0.5, 0.77, 1.0]),
        st.sampled_from([0.0, 0.0, 0.05, 1.0]),
    ),
)
"""Speculative decoding, from no draft to one longer than a block."""


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
        if draw(st.integers(0, 3)) == 0:
            trips = st.sampled_from([0, 1, 3 * MS, 40 * MS])
            classes[-1]["round_trip_ns"] = draw(st.lists(trips, min_size=len(placed) + 1, max_size=len(placed) + 1))
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
        "speculation": draw(drafts),
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


@st.composite
def with_features(draw: st.DrawFn, spec: dict[str, Any], rows: list[Request]) -> tuple[dict[str, Any], Hashes]:
    """The scenario with caches, host memory, watermarks, priorities and caps, and the hashes of its prompts."""
    sizes = [placed["deployment"]["serving"]["block_tokens"] for placed in spec["deployments"]]
    hash_tokens = math.lcm(*sizes) * draw(st.sampled_from([1, 1, 2, 3]))
    spec = spec | {"hash_block_tokens": hash_tokens, "deployments": [dict(placed) for placed in spec["deployments"]]}
    spec["classes"] = [dict(klass) for klass in spec["classes"]]
    for placed in spec["deployments"]:
        block_bytes = (
            core.plan(placed["deployment"])["kv_bytes_per_token"] * placed["deployment"]["serving"]["block_tokens"]
        )
        host_blocks = draw(st.sampled_from([0, 0, 3, 20, 1000]))
        placed["prefix_cache"] = draw(st.booleans())
        placed["async_scheduling"] = draw(st.booleans())
        plan, serving = core.plan(placed["deployment"]), placed["deployment"]["serving"]
        most = serving["chunk_tokens"] // placed["deployment"]["layout"]["dp"]
        placed["whole_prompts"] = most >= plan["max_sequence_tokens"] and draw(st.booleans())
        placed["watermark_frac"] = draw(st.sampled_from([0.0, 0.0, 0.05, 0.3]))
        if host_blocks:
            placed["host_kv_bytes"] = block_bytes * (host_blocks + 0.5)
            placed["host_link_bytes_per_s"] = draw(st.sampled_from([1e6, 1e8, 1e12]))
            placed["preemption"] = draw(st.sampled_from(["recompute", "swap", "swap"]))
    is_ranked, is_capped = draw(st.booleans()), draw(st.booleans())
    for klass in spec["classes"]:
        klass["priority"] = draw(st.integers(0, 2)) if is_ranked else 1
        klass["batch_cap"] = draw(st.sampled_from([None, 1, 2, 3, 10])) if is_capped else None
    return spec, draw(chains(rows, hash_tokens))


@st.composite
def chains(draw: st.DrawFn, rows: list[Request], hash_tokens: int) -> Hashes:
    """Prompts that begin like an earlier one, to a length that both have."""
    hashes: Hashes = {}
    fresh = 0
    for row, (_, _, n_in, _) in enumerate(rows):
        n = -(-n_in // hash_tokens) if draw(st.integers(0, 7)) else n_in // hash_tokens
        other = draw(st.integers(0, row))
        shared = draw(st.sampled_from([0, 1, 2, 5, 1000, 1000]))
        # A stretch that is not whole is shared only by prompts of the same length.
        whole = min(n_in, rows[other][2]) // hash_tokens if n_in != rows[other][2] else n
        chain = hashes.get(other, [])[: min(shared, whole)]
        chain += range(fresh, fresh + n - len(chain))
        fresh += n
        if chain:
            hashes[row] = chain
    return hashes

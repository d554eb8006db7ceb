"""Drafts where they are hardest: many tokens a step in a cache so small that sequences drive each other out to host
memory and come back. The engine against the oracle.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from planner import core
from tests.agreement import check
from tests.cells import MS, Request
from tests.deployments import cell, toy


@st.composite
def crowds(draw: st.DrawFn) -> tuple[dict[str, Any], list[Request]]:
    draft = {
        "draft_tokens": draw(st.sampled_from([1, 3, 4, 9, 30])),
        "acceptance_frac": draw(st.sampled_from([0.5, 0.9, 1.0])),
        "draft_cost_frac": 0.0,
    }
    spec = toy(
        blocks=draw(st.integers(6, 16)),
        block_tokens=draw(st.sampled_from([2, 4, 8])),
        chunk_tokens=draw(st.sampled_from([8, 32])),
        window=draw(st.sampled_from([None, None, 10])),
        speculation=draft,
    )
    plan = core.plan(spec)
    longest, block = plan["max_sequence_tokens"], plan["kv_bytes_per_token"] * spec["serving"]["block_tokens"]
    rows: list[Request] = []
    now = 0
    for _ in range(draw(st.integers(3, 12))):
        now += draw(st.sampled_from([0, 0, MS, 9 * MS, 30 * MS]))
        n_in = draw(st.integers(1, max(longest // 3, 1)))
        rows.append((now, 0, n_in, draw(st.integers(1, longest - n_in + 1))))
    asked = cell(spec, window_ns=20 * MS, drain_ns=10**14)
    asked["deployments"][0] |= {
        "preemption": "swap",
        "host_kv_bytes": block * draw(st.sampled_from([3.5, 1000.5])),
        "host_link_bytes_per_s": draw(st.sampled_from([1e7, 1e12])),
        "async_scheduling": draw(st.booleans()),
        "watermark_frac": draw(st.sampled_from([0.0, 0.0, 0.2])),
    }
    return asked, rows


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(crowds())
def test_sequences_come_back_with_room_for_all_that_their_next_step_gives(
    crowd: tuple[dict[str, Any], list[Request]],
) -> None:
    oracle = check(*crowd)
    event(f"swapped: {oracle.replicas[0].seen['swapped'] > 0}")


def test_who_waits_in_host_memory_may_have_room_at_a_step_that_gives_less() -> None:
    """1.9 tokens a step: where the clock gives one token, the one outside needs no further block and comes back."""
    draft = {"draft_tokens": 1, "acceptance_frac": 0.9, "draft_cost_frac": 0.0}
    spec = toy(blocks=12, block_tokens=8, chunk_tokens=8, window=10, speculation=draft)
    asked = cell(spec, window_ns=20 * MS, drain_ns=10**14)
    block = core.plan(spec)["kv_bytes_per_token"] * 8
    asked["deployments"][0] |= {"preemption": "swap", "host_kv_bytes": block * 1000.5, "host_link_bytes_per_s": 1e7}
    oracle = check(asked, [(0, 0, 1, 38), (30 * MS, 0, 21, 5), (30 * MS, 0, 1, 1)])
    assert oracle.replicas[0].seen["swapped"] == 1
    assert oracle.rows[1].times[3] == oracle.rows[0].times[-1]  # it is back for the last step of the first

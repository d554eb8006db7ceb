"""Whose cost it is: classes, tenants, requests and tasks, by hand and by law."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.aggregate.allocate import ClassUse, Use, Uses, by_class, class_figures, tenants, tokens_of_classes, uses
from planner.aggregate.inputs import Span
from planner.aggregate.per_token import usd_per_mtok
from planner.aggregate.work import chip_work
from tests.fleets import NS, class_counts, fleet, placed, pool, sim, work

HOUR = Span(warmup_ns=0, length_ns=3600 * NS, window_ns=600 * NS)
USD = 1_000_000_000
OF = fleet(
    pool("a", [placed("a", n_replicas=1, n_chips=6), placed("a", n_replicas=1, n_chips=2, model="kimi-k2.5")]),
    pool("idle"),
)
CLASSES = [("chat", "gpt-oss-120b", "acme"), ("code", "gpt-oss-120b", "acme"), ("agent", "kimi-k2.5", None)]


def simulated(allocation: str = "busy-time") -> Uses:
    """A deployment for chat and code (3:1 by decode time), one for agents; chat has ten requests, code two."""
    rows = work(
        {"deployment_ix": 0, "prefill_s": 100, "decode_s": 300, "input_tokens": 2000, "output_tokens": 200},
        {"deployment_ix": 1, "prefill_s": 50, "decode_s": 50, "input_tokens": 500, "output_tokens": 500},
    )
    latencies = {(0, 0, "ttft"): [0.1] * 10, (0, 0, "itl"): [0.01] * 110}
    latencies |= {(1, 0, "ttft"): [0.1] * 2, (1, 0, "itl"): [0.01] * 78}
    latencies |= {(2, 0, "ttft"): [0.1] * 5, (2, 0, "itl"): [0.01] * 495, (2, 0, "task"): [9.0] * 2}
    classes = [
        class_counts(offered=10, completed=10, input_tokens=1000),
        class_counts(offered=2, completed=2, input_tokens=1000),
        class_counts(offered=5, completed=5, input_tokens=500),
    ]
    found = sim(classes=classes, deployments=rows, latencies=latencies)
    whole = chip_work(found.deployments, OF)
    return uses(OF, CLASSES, whole, found.classes, found.sketches, allocation=allocation)


def test_by_hand() -> None:
    # Pool a costs 80 USD: 60 for the six chips of chat and code, of which 15 prefill and 45 decode. Input 1000:1000,
    # output 120:80: chat 7.5 + 27, code 7.5 + 18; agents 20. The idle pool's 8 are shared as those 80 are.
    nanos = by_class([80 * USD, 8 * USD], simulated())
    assert nanos == [round(x * 1.1 * USD) for x in (34.5, 25.5, 20.0)]


def test_figures_of_a_class() -> None:
    chat, code, agent = class_figures([80 * USD, 0], simulated(), HOUR)
    assert chat["usd_per_request"] == pytest.approx(34.5 / 10)
    assert chat["usd_per_task"] is None
    assert agent["usd_per_task"] == pytest.approx(10.0)
    assert agent["usd_per_request"] == pytest.approx(4.0)
    # Of the 200 output tokens computed there chat has 120.
    assert chat["usd_per_mtok_out_whole"] == pytest.approx(34.5 / 120e-6)
    assert code["usd_per_mtok_all"] == pytest.approx(25.5 / (1080e-6))
    assert tokens_of_classes(simulated()) == [(1000, 120), (1000, 80), (500, 500)]
    assert tenants(simulated(), [chat, code, agent]) == pytest.approx({"acme": 60.0})


def test_every_allocation_works() -> None:
    # By tokens 2000:200 of 60 USD is 54.545 for input; to output alone, chat has 120/200 of 60.
    by_tokens = by_class([80 * USD, 0], simulated("tokens"))
    assert by_tokens is not None
    assert by_tokens[0] == pytest.approx((60 * 2000 / 2200 / 2 + 60 * 200 / 2200 * 0.6) * USD, abs=2)
    to_output = by_class([80 * USD, 0], simulated("output"))
    assert to_output == [36 * USD, 24 * USD, 20 * USD]


def test_allocation_of_the_whole() -> None:
    def of(allocation: str) -> dict[str, float | None]:
        return usd_per_mtok(
            [10.0], [30.0], [10.0], input_tokens=3e6, output_tokens=1e6, span_s=3600, allocation=allocation
        )

    assert (of("busy-time")["usd_per_mtok_in"], of("busy-time")["usd_per_mtok_out"]) == (2.5, 2.5)
    assert (
        of("tokens")["usd_per_mtok_in"] == of("tokens")["usd_per_mtok_out"] == of("tokens")["usd_per_mtok_all"] == 2.5
    )
    assert (of("output")["usd_per_mtok_in"], of("output")["usd_per_mtok_out"]) == (0.0, 10.0)
    for one in ("busy-time", "tokens", "output"):
        found = of(one)
        assert 3 * (found["usd_per_mtok_in"] or 0) + (found["usd_per_mtok_out"] or 0) == pytest.approx(10.0)


def test_nobody_served_means_nobody_charged() -> None:
    nothing = sim(classes=[class_counts()] * 3, deployments=work({}, {"deployment_ix": 1}))
    found = uses(
        OF, CLASSES, chip_work(nothing.deployments, OF), nothing.classes, nothing.sketches, allocation="tokens"
    )
    assert by_class([5 * USD, 5 * USD], found) is None
    assert class_figures([5, 5], found, HOUR)[0]["usd_per_h"] is None
    assert tenants(found, class_figures([5, 5], found, HOUR)) == {"acme": None}


weights = st.integers(0, 10**9)


@st.composite
def shares(draw: st.DrawFn) -> Uses:
    n_classes, n_pools = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    each = st.tuples(*[weights] * n_classes)
    deployments = draw(
        st.lists(
            st.builds(
                Use,
                st.integers(0, n_pools - 1),
                st.integers(0, 100),
                weights,
                weights,
                each,
                each,
                weights,
                weights,
            ),
            max_size=5,
        )
    )
    classes = tuple(ClassUse(f"c{ix}", None, 1, 0) for ix in range(n_classes))
    return Uses(tuple(deployments), classes, n_pools)


@given(shares(), st.lists(st.integers(0, 10**13), min_size=3, max_size=3))
def test_classes_sum_to_the_whole(of: Uses, nanos: list[int]) -> None:
    nanos = nanos[: of.n_pools]
    found = by_class(nanos, of)
    if found is not None:
        assert sum(found) == sum(nanos)
        assert min(found) >= 0

"""Laws of the step model, over chips, models, layouts and loads of the catalogue."""

from __future__ import annotations

import copy
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner import core
from planner.errors import Infeasible
from planner.facts import catalog
from planner.model.spec import deployment_spec

COLUMNS = ("n_seqs", "context_tokens", "window_tokens", "n_growing_in_window", "chunk_tokens", "chunk_past_tokens")
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "deepseek-r1", "kimi-k2.5", "gemma-3-12b", "qwen3-235b-a22b")
ROUNDING_S = 2e-15
"""Parts of a step are rounded to femtoseconds."""


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A deployment that fits."""
    facts = catalog.load()
    chip = facts.chip(draw(st.sampled_from(("h200-sxm", "gb200", "gb300", "jalapeno", "mi300x"))))
    model = facts.model(draw(st.sampled_from(MODELS)))
    engine = facts.engine(draw(st.sampled_from(("generic", "trtllm", "openai"))))
    tp, dp = draw(st.sampled_from(((1, 1), (2, 1), (8, 1), (1, 8), (2, 4), (4, 2))))
    pp = draw(st.sampled_from((1, 1, 1, 2, 3)))
    kv_dtype = draw(st.sampled_from((None, "fp8")))
    options = {"tp": tp, "dp": dp, "pp": pp, "kv_dtype": kv_dtype}
    spec, _, _ = deployment_spec(chip, model, engine=engine, serving=facts.serving(), **options)
    try:
        core.plan(spec)
    except Infeasible:
        assume(False)
    return spec


@st.composite
def loads(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Sequences, the context of each, the chunk of a prompt beside them and what it has in the cache."""
    n_seqs = draw(st.integers(0, 1024))
    context = draw(st.integers(1, 60_000))
    chunk = draw(st.integers(0, 8192)) if n_seqs else draw(st.integers(1, 8192))
    return n_seqs, context, chunk, draw(st.integers(0, 60_000))


def rows(spec: dict[str, Any], *asked: tuple[int, int, int, int]) -> list[dict[str, float]]:
    sliding = spec["model"].get("sliding")
    window = sliding["window_tokens"] if sliding else 0
    table = [
        (n, n * context, n * min(context, window), n if context < window else 0, chunk, past)
        for n, context, chunk, past in asked
    ]
    frame = pl.DataFrame(table, schema=dict.fromkeys(COLUMNS, pl.UInt64), orient="row")
    return core.step_times(spec, frame).rows(named=True)


def with_scaled(spec: dict[str, Any], part: str, factor: float) -> dict[str, Any]:
    changed = copy.deepcopy(spec)
    if part == "flop_per_s":
        rates = changed["chip"]["flop_per_s"]
        changed["chip"]["flop_per_s"] = {name: rate and rate * factor for name, rate in rates.items()}
    else:
        changed["chip"][part] *= factor
    return changed


@settings(max_examples=60, deadline=None)
@given(specs(), loads(), st.floats(1, 10))
@pytest.mark.parametrize("part", ["memory_bytes_per_s", "flop_per_s", "scale_up_bytes_per_s"])
def test_more_hardware_is_never_slower(
    part: str, spec: dict[str, Any], load: tuple[int, int, int, int], factor: float
) -> None:
    (before,) = rows(spec, load)
    (after,) = rows(with_scaled(spec, part, factor), load)
    assert after["time_s"] <= before["time_s"] + ROUNDING_S
    assert after["bytes"] == before["bytes"]
    assert after["flop"] == before["flop"]


@settings(max_examples=60, deadline=None)
@given(specs(), loads(), st.floats(0, 1))
def test_shorter_links_are_never_slower(spec: dict[str, Any], load: tuple[int, int, int, int], factor: float) -> None:
    (before,) = rows(spec, load)
    (after,) = rows(with_scaled(spec, "scale_up_latency_s", factor), load)
    assert after["time_s"] <= before["time_s"] + ROUNDING_S


@settings(max_examples=150, deadline=None)
@given(specs(), loads(), st.integers(1, 200), st.integers(1, 5000))
def test_more_work_is_never_cheaper(
    spec: dict[str, Any], load: tuple[int, int, int, int], more_seqs: int, more_tokens: int
) -> None:
    n_seqs, context, chunk, past = load
    base, batch, longer, bigger, later = rows(
        spec,
        load,
        (n_seqs + more_seqs, context, chunk, past),
        (n_seqs, context + more_tokens, chunk, past),
        (n_seqs, context, chunk + more_tokens, past),
        (n_seqs, context, chunk, past + more_tokens),
    )
    for other in (batch, longer, bigger, later):
        for figure in ("time_s", "bytes", "flop", "energy_j"):
            assert other[figure] >= base[figure] * (1 - 1e-12) - ROUNDING_S, figure


@settings(max_examples=150, deadline=None)
@given(specs(), loads())
def test_a_step_is_its_parts_and_above_the_roofline(spec: dict[str, Any], load: tuple[int, int, int, int]) -> None:
    (step,) = rows(spec, load)
    stages = spec["layout"]["pp"]
    n_chips = spec["layout"]["tp"] * spec["layout"]["dp"] * stages
    chip = spec["chip"]
    parts = step["launch_s"] + max(step["memory_s"], step["compute_s"]) + step["network_s"]
    if stages == 1:
        assert step["time_s"] == pytest.approx(parts, rel=1e-12)
    # Stages may each be ruled by the other side, and what one waits for is not what the next does.
    assert step["time_s"] >= parts * (1 - 1e-12)
    # Attention groups of a dense model never meet; those of a mixture exchange tokens.
    is_alone = stages == 1 and spec["layout"]["tp"] == 1 and (n_chips == 1 or not spec["model"].get("moe"))
    # Where the slowest stage sets the pace, hand-overs hide behind it.
    assert (step["network_s"] == 0) == is_alone or stages > 1
    fastest = max(rate for rate in chip["flop_per_s"].values() if rate)
    assert step["time_s"] >= step["bytes"] / (n_chips * chip["memory_bytes_per_s"])
    assert step["time_s"] >= step["flop"] / (n_chips * fastest)
    watts = step["energy_j"] / step["time_s"] / n_chips
    assert chip["parked_w"] * (1 - 1e-12) <= watts <= chip["max_w"] * (1 + 1e-12)


@settings(max_examples=150, deadline=None)
@given(specs(), st.integers(1, 1024), st.integers(1, 50_000), st.integers(0, 2000))
def test_a_line_is_the_step_recomputed(spec: dict[str, Any], n_seqs: int, context: int, i: int) -> None:
    sliding = spec["model"].get("sliding")
    if sliding and context < sliding["window_tokens"]:
        i = min(i, sliding["window_tokens"] - context - 1)
    (line,) = rows(spec, (n_seqs, context, 0, 0))
    assume(i < line["valid_steps"])
    (again,) = rows(spec, (n_seqs, context + i, 0, 0))
    assert line["time_s"] + i * line["time_slope_s"] == pytest.approx(
        again["time_s"], abs=(i + 2) * 2 * spec["layout"]["pp"] * 1e-15, rel=1e-14
    )
    assert line["bytes"] + i * line["bytes_slope"] == pytest.approx(again["bytes"], abs=i + 2)
    assert line["flop"] + i * line["flop_slope"] == pytest.approx(again["flop"], abs=i + 2, rel=1e-14)
    layout = spec["layout"]
    drift_j = (i + 2) * 2e-15 * layout["tp"] * layout["dp"] * layout["pp"] ** 2 * spec["chip"]["max_w"]
    assert line["energy_j"] + i * line["energy_slope_j"] == pytest.approx(again["energy_j"], abs=drift_j, rel=1e-14)


@settings(max_examples=60, deadline=None)
@given(specs(), st.floats(1.01, 3))
def test_more_memory_holds_more_and_a_narrow_cache_twice_as_much(spec: dict[str, Any], factor: float) -> None:
    plan = core.plan(spec)
    assert core.plan(with_scaled(spec, "memory_bytes", factor))["kv_capacity_tokens"] > plan["kv_capacity_tokens"]
    narrow = copy.deepcopy(spec)
    narrow["precision"]["kv_bytes_per_element"] /= 2
    halved = core.plan(narrow)
    assert halved["kv_bytes_per_token"] * 2 == plan["kv_bytes_per_token"]
    assert halved["kv_capacity_tokens"] // 2 == pytest.approx(plan["kv_capacity_tokens"], abs=2 * spec["layout"]["dp"])


@settings(max_examples=60, deadline=None)
@given(specs(), st.integers(1, 60_000), st.integers(2, 4))
def test_stages_take_memory_off_a_chip_and_nothing_off_one_token(
    spec: dict[str, Any], context: int, stages: int
) -> None:
    one = copy.deepcopy(spec)
    one["layout"]["pp"] = 1
    several = copy.deepcopy(spec)
    several["layout"]["pp"] = stages
    try:
        plan, more = core.plan(one), core.plan(several)
    except Infeasible:
        assume(False)
    assert more["memory"]["weights_bytes"] < plan["memory"]["weights_bytes"]
    assert more["memory"]["kv_bytes_per_token"] < plan["memory"]["kv_bytes_per_token"]
    assert more["kv_capacity_tokens"] > plan["kv_capacity_tokens"]
    assert more["weight_bytes"] >= plan["weight_bytes"] * (1 - 1e-12)
    ((alone,), (staged,)) = rows(one, (1, context, 0, 0)), rows(several, (1, context, 0, 0))
    assert staged["time_s"] > alone["time_s"]
    # The rest is launches, links and roundings: the layers are the same.
    transfers = staged["network_s"] - alone["network_s"]
    assert staged["time_s"] - alone["time_s"] <= transfers + max(0.0, staged["memory_s"] - alone["memory_s"]) + 1e-9

"""Speculative decoding by hand: what a step verifies, what it gives, and the laws of both."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
import pytest

from planner import core
from planner.errors import CoreError
from tests.deployments import GPT_OSS, cell, requests, toy

Row = tuple[int, int, int, int]


def drafted(draft: int, acceptance: float, cost: float = 0.0) -> dict[str, Any]:
    return {"draft_tokens": draft, "acceptance_frac": acceptance, "draft_cost_frac": cost}


def kept(spec: dict[str, Any], rows: list[Row]) -> list[dict[str, Any]]:
    tables = core.simulate(spec, requests(rows))
    assert tables.requests is not None
    return list(tables.requests.iter_rows(named=True))


def work(spec: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    return core.simulate(spec, requests(rows)).deployments.row(0, named=True)


def line(spec: dict[str, Any], n_seqs: int, context: int, window: int = 0) -> dict[str, Any]:
    columns = {"load_ix": 0, "n_seqs": n_seqs, "context_tokens": context, "window_tokens": window}
    columns |= {"n_growing_in_window": 0, "chunk_tokens": 0, "chunk_past_tokens": 0}
    return core.step_times(spec, pl.DataFrame({k: pl.Series([v], dtype=pl.UInt64) for k, v in columns.items()})).row(
        0, named=True
    )


def test_a_lone_sequence_has_the_whole_part_of_steps_times_the_mean() -> None:
    # 1 + 1/2 + 1/4 + 1/8 = 1.875 tokens a step: after 1..8 steps 1 3 5 7 9 11 13 15 tokens.
    # 16 tokens: one of the prompt's step and 15 more, in 8 steps; 17: 16 more, in the ninth.
    spec = cell(toy(speculation=drafted(3, 0.5)))
    for n_out, steps in [(2, 1), (3, 2), (4, 2), (5, 3), (16, 8), (17, 9)]:
        done = work(spec, [(0, 0, 50, n_out)])
        assert done["steps"] == 1 + steps, n_out
        assert done["output_tokens"] == n_out
        # Each step that decodes is one gap, however many tokens come with it.
        gaps = core.simulate(spec, requests([(0, 0, 50, n_out)])).sketches.filter(pl.col("metric_ix") == 2)
        assert gaps["count"].sum() == steps


def test_a_step_verifies_the_draft_and_reads_keys_and_values_once() -> None:
    # Toy, 4 layers, 2 sequences of 100 tokens: a plain step reads 2 x 100 and writes 2 x 1 tokens a layer; with a draft
    # of 3 it reads 2 x 103 and writes 2 x 4. A token of a layer has 4 heads x 64 x 2 x 2 bytes = 1,024 bytes.
    plain, three = line(toy(), 2, 200), line(toy(speculation=drafted(3, 0.5)), 2, 200)
    assert three["bytes"] - plain["bytes"] == 4 * (2 * 3 + 2 * 3) * 1024
    # Arithmetic: 4 times the tokens over the parameters; each token worked on attends to its own context: of a
    # sequence 100 + 101 + 102 + 103 pairs a layer in place of 100, of 4 x 64 x 4 operations.
    matrices = 2 * (plain["flop"] / 2 - 4 * 100 * 1024)
    assert three["flop"] == 4 * matrices + 2 * 4 * (100 + 101 + 102 + 103) * 1024
    # Contexts grow by 1.875 tokens a sequence and step.
    assert three["bytes_slope"] == pytest.approx(1.875 * plain["bytes_slope"], abs=1)
    assert three["flop_slope"] == pytest.approx(4 * 1.875 * plain["flop_slope"], abs=1)


def test_experts_are_touched_by_all_that_is_verified() -> None:
    # 8 sequences with a draft of 3 route 32 tokens, as 32 sequences do. Bytes differ by keys and values alone.
    spec = {**GPT_OSS, "serving": {**GPT_OSS["serving"], "speculation": drafted(3, 0.5)}}
    few, many = line(spec, 8, 8 * 1000, 8 * 128), line(GPT_OSS, 32, 32 * 1000, 32 * 128)
    token = 2 * 8 * 64 * 2

    def kv(n: int, context: int, more: int) -> int:
        return token * 18 * (n * context + n * 128 + 2 * n * more)

    # 4 tokens written a layer, and 3 more read; 1 written where nothing is drafted.
    assert few["bytes"] - kv(8, 1000, 7) == pytest.approx(many["bytes"] - kv(32, 1000, 1), rel=1e-12)


def test_drafting_costs_its_share_of_plain_steps() -> None:
    # Two drafted tokens at half a step each: one plain step before the step that verifies.
    plain, free, paid = (
        line(toy(**more), 3, 300)
        for more in ({}, *({"speculation": s} for s in (drafted(2, 0.5), drafted(2, 0.5, 0.5))))
    )
    for name in ("time_s", "energy_j", "bytes", "flop", "launch_s", "network_s"):
        assert paid[name] == pytest.approx(free[name] + plain[name], rel=1e-9), name


@pytest.mark.parametrize("spec", [drafted(0, 0.9), drafted(0, 0.0, 1.0)])
def test_no_draft_is_no_speculation(spec: dict[str, Any]) -> None:
    rows = [(at * 3_000_000, 0, 20 + at % 7, 1 + at % 23) for at in range(60)]
    plain, none = cell(toy(blocks=30)), cell(toy(blocks=30, speculation=spec))
    one, other = core.simulate(plain, requests(rows)), core.simulate(none, requests(rows))
    for name in ("requests", "deployments", "windows", "classes", "sketches"):
        assert getattr(one, name).equals(getattr(other, name)), name


def test_drafts_that_are_never_accepted_only_cost() -> None:
    rows = [(0, 0, 40, 30)] * 5
    plain, wasted = work(cell(toy()), rows), work(cell(toy(speculation=drafted(4, 0.0))), rows)
    assert wasted["steps"] == plain["steps"]
    assert wasted["output_tokens"] == plain["output_tokens"]
    assert wasted["decode_s"] > plain["decode_s"]
    assert wasted["flop"] > plain["flop"]


def test_more_acceptance_is_never_slower() -> None:
    chances = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
    for n_out in (2, 7, 100):
        done = [work(cell(toy(speculation=drafted(3, chance))), [(0, 0, 50, n_out)]) for chance in chances]
        steps = [each["steps"] for each in done]
        assert steps == sorted(steps, reverse=True)
        # Of as many steps those that give more have longer contexts to read; of fewer, all are shorter.
        for less, more in itertools.pairwise(done):
            assert more["steps"] == less["steps"] or more["decode_s"] < less["decode_s"]
            assert more["decode_s"] < less["decode_s"] * 1.002


def test_a_sequence_that_fills_the_cache_takes_no_block_beyond_its_end() -> None:
    # A draft of 64 that is always accepted gives 65 tokens at once; the cache holds just what is kept.
    spec = toy(blocks=20, chunk_tokens=64, speculation=drafted(64, 1.0))
    most = core.plan(spec)["max_sequence_tokens"]
    rows = kept(cell(spec), [(0, 0, 100, most - 99), (0, 0, 100, most - 98)])
    assert [row["fate"] for row in rows] == [0, 1]
    assert rows[0]["generated_tokens"] == most - 99


def test_wrong_drafts_are_refused_by_name() -> None:
    for wrong, field in [
        (drafted(65, 0.5), "draft_tokens"),
        (drafted(3, 1.1), "acceptance_frac"),
        (drafted(3, 0.5, -1.0), "draft_cost_frac"),
        ({"draft_tokens": 3}, "acceptance_frac"),
    ]:
        with pytest.raises(CoreError, match=field):
            toy(speculation=wrong)

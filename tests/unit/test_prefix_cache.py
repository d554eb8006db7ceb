"""What is found in a prefix cache, on real prompts and on small ones counted by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from planner import core
from planner.errors import CoreError
from tests.deployments import blocks, cell, requests, toy

S = 10**9
HASH_TOKENS = 512


def cached(spec: dict[str, Any], hash_tokens: int = 16, **fields: Any) -> dict[str, Any]:
    made = cell(spec, hash_block_tokens=hash_tokens, **fields)
    made["deployments"][0]["prefix_cache"] = True
    return made


@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_an_endless_cache_hits_what_the_trace_repeats(shared: Path, name: str) -> None:
    """Mooncake's hashes, one request after the other on one replica that forgets nothing."""
    file = f"mooncake_{name}_trace.jsonl.gz"
    golden = json.loads((shared / "traces" / "golden.json").read_text())[file]
    with gzip.open(shared / "traces" / file) as lines:
        rows = [json.loads(line) for line in lines]
    # A request is done long before the next one comes, so that its prompt can be found.
    spaced = [(1000 * S * at, 0, row["input_length"], 1) for at, row in enumerate(rows)]
    spec = toy(blocks=10_000_000, context_tokens=1_000_000, chunk_tokens=8192, memory_bytes_per_s=1e15)
    spec["chip"]["flop_per_s"]["bf16"] = 1e15
    run = cached(spec, HASH_TOKENS, length_ns=1000 * S * len(rows), window_ns=10**15, keep_requests=False)
    hashes = {at: row["hash_ids"] for at, row in enumerate(rows)}
    work = core.simulate(run, requests(spaced), blocks(hashes)).deployments.row(0, named=True)
    assert work["prefix_hit_tokens"] == golden["prefix_hit_tokens_infinite_cache"]
    # Whole blocks are reused, and at least one token of each prompt is computed.
    assert work["cached_input_tokens"] <= work["prefix_hit_tokens"]
    assert work["cached_input_tokens"] > work["prefix_hit_tokens"] - 16 * golden["rows"]
    assert work["input_tokens"] + work["cached_input_tokens"] == golden["input_tokens"]
    assert work["preemptions"] == work["recomputed_tokens"] == 0


def test_recomputed_tokens_are_no_hits() -> None:
    """C37: two prompts of 1,024 tokens with nothing in common; one is preempted after its prefill and found again."""
    spec = toy(blocks=129, block_tokens=16, chunk_tokens=2048, activation_bytes=0.0)
    rows = [(0, 0, 1024, 33), (0, 0, 1024, 33)]
    got = core.simulate(cached(spec), requests(rows), blocks({0: list(range(64)), 1: list(range(100, 164))}))
    work = got.deployments.row(0, named=True)
    assert work["preemptions"] == 1
    assert work["prefix_hit_tokens"] == work["cached_input_tokens"] == 0
    assert work["input_tokens"] == 2048
    # The second loses what the first needs to end, from its end: 64 + 2 blocks of 129 leave 63 of its 65.
    assert 0 < work["recomputed_tokens"] < 100
    assert got.requests is not None
    assert got.requests["cached_tokens"].to_list() == [0, 0]


def test_a_prompt_found_whole_computes_its_last_block() -> None:
    rows = [(0, 0, 64, 1), (S, 0, 64, 1), (2 * S, 0, 70, 1), (3 * S, 0, 40, 1)]
    hashes = {0: [1, 2, 3, 4], 1: [1, 2, 3, 4], 2: [1, 2, 3, 4, 5], 3: [1, 2]}
    got = core.simulate(cached(toy()), requests(rows), blocks(hashes))
    assert got.requests is not None
    assert got.requests["cached_tokens"].to_list() == [0, 48, 64, 32]
    work = got.deployments.row(0, named=True)
    assert (work["prefix_hit_tokens"], work["cached_input_tokens"]) == (64 + 64 + 32, 48 + 64 + 32)
    assert work["input_tokens"] == 64 + 16 + 6 + 8


def test_the_stretch_used_longest_ago_goes_first() -> None:
    """Ten blocks of 16: three prompts of 48 fill nine; a fourth of 48 takes the free one and two of the oldest."""
    spec = toy(blocks=10, chunk_tokens=64)
    first = [(at * S, 0, 48, 1) for at in range(4)]
    hashes = {at: [10 * at + 1, 10 * at + 2, 10 * at + 3] for at in range(4)}
    # Then the second, which is there whole, and the first, of which the head is left.
    rows = [*first, (5 * S, 0, 48, 1), (6 * S, 0, 48, 1)]
    hashes |= {4: hashes[1], 5: hashes[0]}
    got = core.simulate(cached(spec), requests(rows), blocks(hashes))
    assert got.requests is not None
    assert got.requests["cached_tokens"].to_list() == [0, 0, 0, 0, 32, 16]


def test_host_memory_keeps_what_is_evicted_and_the_step_waits_for_it() -> None:
    spec = toy(blocks=6, chunk_tokens=64)
    rows = [(0, 0, 80, 1), (S, 0, 80, 1), (2 * S, 0, 80, 1)]
    hashes = {0: [1, 2, 3, 4, 5], 1: [6, 7, 8, 9, 10], 2: [1, 2, 3, 4, 5]}
    plain = cached(spec)
    host = cached(spec)
    block_bytes = core.plan(spec)["kv_bytes_per_token"] * 16
    host["deployments"][0] |= {"host_kv_bytes": 100 * block_bytes, "host_link_bytes_per_s": block_bytes / 1e-3}
    without = core.simulate(plain, requests(rows), blocks(hashes)).requests
    with_it = core.simulate(host, requests(rows), blocks(hashes)).requests
    assert without is not None
    assert with_it is not None
    assert without["cached_tokens"].to_list() == [0, 0, 16]
    assert with_it["cached_tokens"].to_list() == [0, 0, 64]
    # Four blocks at a millisecond each, and one step instead of the two that 80 tokens take.
    spent = with_it["first_token_ns"][2] - with_it["arrival_ns"][2]
    one_step = core.step_times(
        spec,
        pl.DataFrame(
            {
                "n_seqs": [0],
                "context_tokens": [0],
                "window_tokens": [0],
                "n_growing_in_window": [0],
                "chunk_tokens": [16],
                "chunk_past_tokens": [64],
            },
            schema_overrides=dict.fromkeys(
                (
                    "n_seqs",
                    "context_tokens",
                    "window_tokens",
                    "n_growing_in_window",
                    "chunk_tokens",
                    "chunk_past_tokens",
                ),
                pl.UInt64,
            ),
        ),
    )["time_s"][0]
    assert spent == pytest.approx(4e6 + one_step * 1e9, abs=2)


@pytest.mark.parametrize(
    ("hash_tokens", "hashes", "message"),
    [
        (0, {0: [1]}, "hash_block_tokens: must be given"),
        (24, {0: [1]}, "hash_block_tokens: must be a multiple of serving.block_tokens, 16"),
        (16, {0: [1, 2, 3]}, "0: more than 20 prompt tokens / 16, rounded up"),
        (16, {7: [1]}, "7: no such request was fed"),
    ],
)
def test_hashes_that_cannot_be_are_refused(hash_tokens: int, hashes: dict[int, list[int]], message: str) -> None:
    with pytest.raises(CoreError, match=message):
        core.simulate(cached(toy(), hash_tokens), requests([(0, 0, 20, 1)]), blocks(hashes))


def test_hashes_that_nobody_shares_change_nothing() -> None:
    rows = [(at * S // 50, 0, 40 + 37 * at % 200, 1 + 11 * at % 30) for at in range(60)]
    hashes = {at: list(range(1000 * at, 1000 * at + row[2] // 16)) for at, row in enumerate(rows)}
    plain = core.simulate(cell(toy()), requests(rows)).requests
    with_cache = core.simulate(cached(toy()), requests(rows), blocks(hashes)).requests
    assert plain is not None
    assert with_cache is not None
    assert plain.equals(with_cache)

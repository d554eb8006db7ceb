"""Steps computed by hand, in plain arithmetic, against the core: one dense model, one with latents, one with windows.

Chips and models are those of the catalogue; the serving engine is one of round numbers, so that a calibration changes
nothing here. Every figure of a comment is the one that the line below it computes with.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from planner import core
from planner.facts import catalog
from planner.model.spec import deployment_spec

ROUND_ENGINE = {
    "memory_eff_frac": 0.8,
    "compute_eff_frac": 0.5,
    "prefill_eff_frac": 0.4,
    "kv_read_eff_frac": 0.75,
    "host_s": 200e-6,
    "launch_layer_s": 20e-6,
    "launch_moe_s": 30e-6,
    "launch_mla_s": 10e-6,
    "launch_sparse_s": 50e-6,
    "launch_linear_s": 15e-6,
    "collective_base_s": 1e-6,
    "collective_log_s": 4e-6,
    "link_eff_frac": 0.25,
    "expert_skew": 1.0,
}


def spec_of(chip: str, model: str, **layout: Any) -> dict[str, Any]:
    facts = catalog.load()
    spec, _, _ = deployment_spec(
        facts.chip(chip), facts.model(model), engine=facts.engine("generic"), serving=facts.serving(), **layout
    )
    chip_spec = {**spec["chip"], "low_load_memory_frac": 0.4, "high_load_compute_frac": 0.25}
    return {**spec, "chip": chip_spec, "engine": ROUND_ENGINE}


def step(spec: dict[str, Any], *, chunk: tuple[int, int] = (0, 0), **load: int) -> dict[str, float]:
    columns = ("n_seqs", "context_tokens", "window_tokens", "n_growing_in_window")
    row = {name: load.get(name, 0) for name in columns} | {"chunk_tokens": chunk[0], "chunk_past_tokens": chunk[1]}
    return core.step_times(spec, pl.DataFrame([row], schema=dict.fromkeys(row, pl.UInt64))).row(0, named=True)


def check(got: dict[str, float], **expected: float) -> None:
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=1e-9), name


def test_llama_on_one_h100() -> None:
    # Llama-3.1-8B: 32 layers, 8 key-value heads of 128, 7,504,658,432 active parameters of 2 bytes. 16 sequences of
    # 1,000 tokens. H100: 3,350e9 bytes/s, 989e12 flop/s in bf16; a step draws 430 W before any
    # work, 462 W at low load and 639 W at high load.
    got = step(spec_of("h100-sxm", "llama-3.1-8b", tp=1), n_seqs=16, context_tokens=16_000)
    launch_s = 200e-6 + 32 * 20e-6  # 840 us
    weight_bytes = 7_504_658_432 * 2  # 15,009,316,864
    kv_token_bytes = 32 * 2 * 8 * 128 * 2  # 131,072
    kv_bytes = (16_000 + 16) * kv_token_bytes  # read all, write one a sequence: 2,099,249,152
    memory_s = weight_bytes / (3350e9 * 0.8) + kv_bytes / (3350e9 * 0.75)
    matrix_flop = 2 * 7_504_658_432 * 16
    attention_flop = 4 * 32 * 128 * 32 * 16_000  # scores and values: 16,384 a layer and pair of tokens
    compute_s = (matrix_flop + attention_flop) / (989e12 * 0.5)
    time_s = launch_s + max(memory_s, compute_s)
    check(got, launch_s=launch_s, memory_s=memory_s, compute_s=compute_s, time_s=time_s)
    check(got, bytes=weight_bytes + kv_bytes, flop=matrix_flop + attention_flop)
    assert got["network_s"] == 0
    assert got["is_compute_bound"] == 0
    # Each further step: 16 more tokens of context.
    check(got, time_slope_s=16 * kv_token_bytes / (3350e9 * 0.75), bytes_slope=16 * kv_token_bytes)
    j_per_byte = (462 - 430) / (3350e9 * 0.4)  # low load: 0.4 of the bandwidth
    j_per_flop = (639 - 462) / (989e12 * 0.25)  # high load: a quarter of the dense rate beside it
    work_j = j_per_byte * (weight_bytes + kv_bytes) + j_per_flop * (matrix_flop + attention_flop)
    check(got, energy_j=430 * time_s + work_j)


def test_llama_on_eight_h100_with_a_prompt_beside() -> None:
    # tp 8: an eighth of weights, heads and cache on each chip, two all-reduces a layer over NVLink at 450e9 bytes/s.
    # Beside 16 sequences, a chunk of 2,048 tokens of a prompt that has 1,024 in the cache.
    got = step(spec_of("h100-sxm", "llama-3.1-8b", tp=8), n_seqs=16, context_tokens=16_000, chunk=(2048, 1024))
    weight_bytes = 15_009_316_864
    decode_kv_bytes = 16_016 * 131_072
    # The chunk writes its 2,048 tokens and reads all 3,072 once.
    chunk_kv_bytes = (2048 + 3072) * 131_072
    memory_s = weight_bytes / 8 / (3350e9 * 0.8) + (decode_kv_bytes + chunk_kv_bytes) / 8 / (3350e9 * 0.75)
    head = 128_256 * 4096  # parameters of the output head: once for the whole chunk
    decode_flop = 2 * 7_504_658_432 * 16 + 16_384 * 32 * 16_000
    # Pairs: 2,048 x (1,024 + 2,049 / 2) = 4,195,328.
    chunk_flop = 2 * (7_504_658_432 - head) * 2048 + 2 * head + 16_384 * 32 * 2048 * (1024 + 2049 / 2)
    compute_s = decode_flop / 8 / (989e12 * 0.5) + chunk_flop / 8 / (989e12 * 0.4)
    # 64 collectives wait 1 us + max(5 us link, 4 us x log2 8 = 12 us); each moves 2 x 7/8 of 8,192 bytes a token.
    network_s = 64 * 13e-6 + 64 * (16 + 2048) * 2 * 7 / 8 * 4096 * 2 / (450e9 * 0.25)
    check(got, memory_s=memory_s, compute_s=compute_s, network_s=network_s)
    assert got["is_compute_bound"] == 1
    check(got, time_s=840e-6 + compute_s + network_s)
    check(got, bytes=weight_bytes + decode_kv_bytes + chunk_kv_bytes, flop=decode_flop + chunk_flop)


def test_deepseek_on_eight_gb300() -> None:
    # DeepSeek-R1, fp8: 653,908,770,816 parameters in routed experts (256, top 8, 58 layers), 16,189,947,904 others
    # active; 61 layers keep a latent of 512 + 64 elements, whole on each chip. 32 sequences of 4,000 tokens. GB300:
    # 8,000e9 bytes/s, 5,000e12 flop/s in fp8, 2,500e12 in bf16, NVLink at 900e9 bytes/s.
    got = step(spec_of("gb300", "deepseek-r1", tp=8), n_seqs=32, context_tokens=128_000)
    launch_s = 200e-6 + 61 * 20e-6 + 58 * 30e-6 + 61 * 10e-6  # 3,770 us
    touched = 1 - (1 - 8 / 256) ** 32  # 0.6379
    expert_bytes = 653_908_770_816 * touched
    kv_token_bytes = 61 * 576 * 2  # 70,272 on each chip
    kv_chip_bytes = (128_000 + 32) * kv_token_bytes
    memory_s = (expert_bytes / 8 + 16_189_947_904 / 8) / (8000e9 * 0.8) + kv_chip_bytes / (8000e9 * 0.75)
    # Decoding attends in the compressed space: 128 heads x 2 x (512 + 64 + 512) a pair, split over the chips by heads.
    attention_flop = 2 * 128 * (2 * 512 + 64) * 61 * 128_000
    matrix_flop = 2 * (16_189_947_904 + 20_434_649_088) * 32
    compute_s = matrix_flop / 8 / (5000e12 * 0.5) + attention_flop / 8 / (2500e12 * 0.5)
    network_s = 122 * 13e-6 + 122 * 32 * 2 * 7 / 8 * 7168 * 2 / (900e9 * 0.25)
    check(got, launch_s=launch_s, memory_s=memory_s, compute_s=compute_s, network_s=network_s)
    check(got, time_s=launch_s + memory_s + network_s)
    check(got, bytes=expert_bytes + 16_189_947_904 + 8 * kv_chip_bytes, flop=matrix_flop + attention_flop)


def test_deepseek_with_data_parallel_attention() -> None:
    # tp 2, dp 4: each of four groups holds 8 of 30 sequences in its busiest case, the dense weights over two chips, and
    # whole latents on both; experts stay spread over all eight.
    got = step(spec_of("gb300", "deepseek-r1", tp=2, dp=4), n_seqs=30, context_tokens=120_000)
    touched = 1 - (1 - 8 / 256) ** 30
    share = 8 / 30  # of the context that the busiest group attends to
    kv_group_bytes = (120_000 + 30) * share * 70_272
    memory_s = (653_908_770_816 * touched / 8 + 16_189_947_904 / 2) / (8000e9 * 0.8) + kv_group_bytes / (8000e9 * 0.75)
    compute_s = (
        2 * 16_189_947_904 * 8 / 2 / (5000e12 * 0.5)
        + 2 * 20_434_649_088 * 30 / 8 / (5000e12 * 0.5)
        + 2 * 128 * 1088 * 61 * 120_000 * share / 2 / (2500e12 * 0.5)
    )
    # Over two chips: 61 all-reduces after attention and 3 after the dense layers, each 1 us + max(5 us, 4 us x 1) and
    # 2 x 1/2 of 14,336 bytes a token. Over eight: 58 dispatches and 58 combines, 13 us each, in which a chip sends half
    # of the group's tokens to 8 experts: 4 x 7/8 of 14,336 bytes a token. The busiest group has 8 tokens.
    network_s = 64 * 6e-6 + 116 * 13e-6 + 8 * (64 * 14_336 + 116 * 4 * 7 / 8 * 14_336) / (900e9 * 0.25)
    check(got, memory_s=memory_s, compute_s=compute_s, network_s=network_s)
    # Bytes over the replica: four copies of the dense weights, two of each sequence's latent.
    check(got, bytes=653_908_770_816 * touched + 4 * 16_189_947_904 + 2 * 120_030 * 70_272)


def test_gpt_oss_on_four_gb200() -> None:
    # gpt-oss-120b: 114,701,598,720 expert parameters at 4.25 bits (MXFP4 with scales, multiplied in fp8), 1,548,209,664
    # others active in bf16; 18 layers attend to all, 18 to 128 tokens; 8 key-value heads of 64. 32 sequences of 100
    # tokens, still inside the window, and 32 of 5,000.
    context, window = 32 * 100 + 32 * 5000, 32 * 100 + 32 * 128  # 163,200 and 7,296
    spec = spec_of("gb200", "gpt-oss-120b", tp=4)
    got = step(spec, n_seqs=64, context_tokens=context, window_tokens=window, n_growing_in_window=32)
    touched = 1 - (1 - 4 / 128) ** 64
    expert_bytes = 114_701_598_720 * 0.53125 * touched
    rest_bytes = 1_548_209_664 * 2
    layer_token_bytes = 2 * 8 * 64 * 2  # 2,048
    kv_bytes = (18 * context + 18 * window + 36 * 64) * layer_token_bytes
    memory_s = (expert_bytes + rest_bytes) / 4 / (8000e9 * 0.8) + kv_bytes / 4 / (8000e9 * 0.75)
    attention_flop = 4 * 64 * 64 * 18 * (context + window)
    compute_s = (
        2 * 1_548_209_664 * 64 / 4 / (2500e12 * 0.5)
        + 2 * 3_584_424_960 * 64 / 4 / (5000e12 * 0.5)
        + attention_flop / 4 / (2500e12 * 0.5)
    )
    network_s = 72 * (1e-6 + 8e-6) + 72 * 64 * 2 * 3 / 4 * 2880 * 2 / (900e9 * 0.25)
    launch_s = 200e-6 + 36 * 20e-6 + 36 * 30e-6
    check(got, launch_s=launch_s, memory_s=memory_s, compute_s=compute_s, network_s=network_s)
    check(got, time_s=launch_s + memory_s + network_s, bytes=expert_bytes + rest_bytes + kv_bytes)
    # Next step: 64 tokens more in the full layers, 32 more in the windows.
    check(got, bytes_slope=18 * (64 + 32) * layer_token_bytes)


def test_gpt_oss_prompt_in_its_windows() -> None:
    # 1,000 tokens of a prompt after 100: full layers attend to 1,000 x (100 + 1,001 / 2) pairs. Sliding ones: positions
    # 101..128 to themselves and all before, (128 x 129 - 100 x 101) / 2 = 3,206, and 972 more to 128 each: 127,622.
    got = step(spec_of("gb200", "gpt-oss-120b", tp=1), chunk=(1000, 100))
    pairs = 18 * 600_500 + 18 * 127_622
    head = 201_088 * 2880
    flop = 2 * (1_548_209_664 - head) * 1000 + 2 * head + 2 * 3_584_424_960 * 1000 + 4 * 64 * 64 * pairs
    # Full layers read 1,100 tokens and write 1,000; sliding ones could read 1,000 + 127, and 1,100 are there.
    kv_bytes = (18 * (1100 + 1000) + 18 * (1100 + 1000)) * 2048
    touched = 1 - (1 - 4 / 128) ** 1000
    check(got, flop=flop, bytes=114_701_598_720 * 0.53125 * touched + 1_548_209_664 * 2 + kv_bytes)
    compute_s = (
        (2 * (1_548_209_664 - head) * 1000 + 2 * head) / (2500e12 * 0.4)
        + 2 * 3_584_424_960 * 1000 / (5000e12 * 0.4)
        + 4 * 64 * 64 * pairs / (2500e12 * 0.4)
    )
    check(got, compute_s=compute_s)


@pytest.mark.parametrize(("n_seqs", "gigabytes"), [(1, 1.13), (8, 8.13), (32, 23.1), (128, 35.6)])
def test_a_step_reads_the_experts_that_it_touches(n_seqs: int, gigabytes: float) -> None:
    # 60 layers x 256 experts x 3 x 4,096 x 1,536 parameters of one byte = 289.91e9, top 8, over 8 chips: a step of B
    # tokens reads 289.91e9 x (1 - (1 - 8/256)^B) / 8 bytes on each chip; not 8 experts, and not all.
    spec = spec_of("gb300", "deepseek-r1", tp=8)
    total = 60 * 256 * 3 * 4096 * 1536
    params = {"routed_expert_total": total, "routed_expert_active": total / 32}
    moe = {"n_experts": 256, "top_k": 8, "n_shared_experts": 0, "expert_intermediate": 1536, "moe_layers": 60}
    spec["model"] = {**spec["model"], "moe": moe, "params": {**spec["model"]["params"], **params}}
    got = step(spec, n_seqs=n_seqs, context_tokens=n_seqs)
    others = 16_189_947_904 + 8 * 2 * n_seqs * 70_272  # the dense weights, and latents read and written on each chip
    assert (got["bytes"] - others) / 8 == pytest.approx(total * (1 - (1 - 8 / 256) ** n_seqs) / 8, rel=1e-9)
    assert (got["bytes"] - others) / 8e9 == pytest.approx(gigabytes, rel=4e-3)
    # Memory holds all 256, an eighth on each chip.
    assert core.plan(spec)["memory"]["weights_bytes"] == pytest.approx((total + 17_116_626_944) / 8, rel=1e-12)


def test_deepseek_in_two_stages_over_two_servers() -> None:
    # DeepSeek-R1, fp8, on 16 H200 in two stages of tp 8, a server each: 61 layers are 31 and 30, and the second has the
    # head of 129,280 x 7,168 = 926,679,040 parameters, and the host. 64 sequences of 2,000 tokens: 32 at a time.
    got = step(spec_of("h200-sxm", "deepseek-r1", tp=8, pp=2), n_seqs=64, context_tokens=128_000)
    touched = 1 - (1 - 8 / 256) ** 32
    layers_s = 61 * 20e-6 + 58 * 30e-6 + 61 * 10e-6  # launches: 3,570 us
    rest_bytes = 16_189_947_904 - 926_679_040
    layer_bytes_s = (653_908_770_816 * touched + rest_bytes) / 8 / (4800e9 * 0.8)
    kv_s = (64_000 + 32) * 61 * 576 * 2 / (4800e9 * 0.75)
    # NVLink at 450e9 bytes/s: 122 all-reduces of 8, each 13 us; 32 tokens of 2 x 7/8 x 14,336 bytes.
    links_s = 122 * 13e-6 + 122 * 32 * 2 * 7 / 8 * 7168 * 2 / (450e9 * 0.25)
    all_s = layers_s + layer_bytes_s + kv_s + links_s
    first = 31 / 61 * all_s
    last = 30 / 61 * all_s + 926_679_040 / 8 / (4800e9 * 0.8) + 200e-6
    # Between servers: 1 us + max(20 us link, 4 us); 14,336 / 8 bytes a token over 50e9 x 0.25, gathered over NVLink by
    # eight chips of which each passes on 7/8; the sampled tokens go back over the same link.
    message_s = 21e-6
    handed_s = 2 * message_s + 32 * 1792 / (50e9 * 0.25) + 13e-6 + 32 * 7 / 8 * 14_336 / (450e9 * 0.25)
    # The first stage is the slower one, by more than the hand-overs take: it sets the pace.
    assert 2 * first > first + last + handed_s
    check(got, time_s=2 * first)
    weight_bytes = 653_908_770_816 * touched + 16_189_947_904
    check(got, bytes=2 * weight_bytes + (128_000 + 64) * 61 * 576 * 2 * 8)
    (one,) = (step(spec_of("h200-sxm", "deepseek-r1", tp=8, pp=2), n_seqs=1, context_tokens=2000),)
    share = 1 - (1 - 8 / 256)
    bytes_s = (653_908_770_816 * share + 16_189_947_904) / 8 / (4800e9 * 0.8)
    links_s = 122 * 13e-6 + 122 * 2 * 7 / 8 * 7168 * 2 / (450e9 * 0.25)
    handed_s = 2 * message_s + 1792 / (50e9 * 0.25) + 13e-6 + 7 / 8 * 14_336 / (450e9 * 0.25)
    alone_s = layers_s + 200e-6 + bytes_s + 2001 * 61 * 576 * 2 / (4800e9 * 0.75) + links_s
    check(one, time_s=alone_s + handed_s)

"""Laws of the simulator that hold for any scenario, at sizes that a step-by-step oracle would not reach."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import core
from tests.deployments import Spec, cell, requests, toy

MS = 10**6
Rows = list[tuple[int, int, int, int]]
quick = settings(deadline=None, max_examples=40)


def poisson(n: int, rate_req_per_s: float, *, seed: int, n_classes: int = 1) -> Rows:
    """`n` requests with exponential gaps and lengths spread over two orders of magnitude."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1e9 / rate_req_per_s, n)).astype(int)
    lengths = np.maximum(rng.lognormal(3.0, 1.0, (n, 2)).astype(int), 1)
    return [(int(t), int(rng.integers(n_classes)), int(i), int(o)) for t, (i, o) in zip(times, lengths, strict=True)]


@st.composite
def loaded(draw: st.DrawFn) -> tuple[dict[str, Any], Rows]:
    """Two pools, two classes, some hundred requests: from idle to far beyond capacity."""
    pools = [
        (toy(blocks=draw(st.sampled_from([40, 200])), window=40, max_batch=16), draw(st.integers(1, 3))),
        (toy(blocks=200, chunk_tokens=64, memory_bytes_per_s=6e8), 1),
    ]
    limits = [{"metric": "ttft", "limit_ns": 50 * MS}, {"metric": "tpot", "limit_ns": 9 * MS}]
    classes = [
        {"limits": limits, "targets": [{"deployments": [0, 1], "share": None}]},
        {"limits": [], "targets": [{"deployments": [0], "share": 0.3}, {"deployments": [1], "share": 0.7}]},
    ]
    rate = draw(st.sampled_from([1.0, 20.0, 200.0]))
    rows = poisson(draw(st.integers(1, 400)), rate, seed=draw(st.integers(0, 10**6)), n_classes=2)
    length = rows[-1][0] + 1
    return cell(
        pools,
        classes=classes,
        router=draw(st.sampled_from(["round-robin", "least-outstanding-tokens"])),
        length_ns=length,
        warmup_ns=length // 4,
        drain_ns=draw(st.sampled_from([0, 100 * MS, 10**12])),
        window_ns=max(length // 10, MS),
    ), rows


def as_bytes(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


@quick
@given(loaded())
def test_every_request_is_somewhere_and_in_order(scenario: tuple[dict[str, Any], Rows]) -> None:
    spec, rows = scenario
    got = core.simulate(spec, requests(rows))
    classes = got.classes
    assert classes["offered"].sum() == len(rows)
    assert (classes["offered"] == classes["completed"] + classes["rejected"] + classes["unfinished"]).all()
    assert classes["input_tokens"].sum() == sum(row[2] for row in rows)
    kept = got.requests
    assert kept is not None
    assert kept["row"].to_list() == list(range(len(rows)))
    for early, late in [("arrival_ns", "start_ns"), ("start_ns", "first_token_ns"), ("first_token_ns", "end_ns")]:
        assert (kept[early] <= kept[late]).drop_nulls().all()
        assert kept[early].is_not_null().ge(kept[late].is_not_null()).all()
    done = kept.filter(kept["fate"] == 0)
    assert (done["generated_tokens"] == done["output_tokens"]).all()
    assert got.windows["output_tokens"].sum() == kept["generated_tokens"].sum()
    # A prompt whose first token came was computed once, and no token of it is counted twice.
    begun = kept.filter(kept["first_token_ns"].is_not_null())
    assert begun["input_tokens"].sum() <= got.windows["input_tokens"].sum() <= kept["input_tokens"].sum()


@quick
@given(loaded(), st.integers(1, 10**9))
def test_totals_do_not_depend_on_windows(scenario: tuple[dict[str, Any], Rows], window_ns: int) -> None:
    spec, rows = scenario
    cut = core.simulate(spec, requests(rows))
    other = core.simulate(spec | {"window_ns": max(window_ns, MS)}, requests(rows))
    for name in ("classes", "deployments", "sketches", "requests"):
        assert as_bytes(getattr(cut, name)) == as_bytes(getattr(other, name))
    counts = ~pl.selectors.ends_with("_ix") & pl.selectors.integer()
    assert cut.windows.select(counts.sum()).equals(other.windows.select(counts.sum()))
    assert cut.class_windows.select(counts.sum()).equals(other.class_windows.select(counts.sum()))
    for name in ("busy_s", "decode_j", "prefill_j", "bytes", "kv_token_s"):
        assert cut.windows[name].sum() == pytest.approx(other.windows[name].sum(), rel=1e-12)


@quick
@given(loaded())
def test_the_same_seed_gives_the_same_bytes(scenario: tuple[dict[str, Any], Rows]) -> None:
    spec, rows = scenario
    one, other = core.simulate(spec, requests(rows)), core.simulate(copy.deepcopy(spec), requests(rows))
    for name in ("classes", "class_windows", "deployments", "windows", "sketches", "requests"):
        assert as_bytes(getattr(one, name)) == as_bytes(getattr(other, name))


@quick
@given(loaded())
def test_work_is_time_and_time_is_work(scenario: tuple[dict[str, Any], Rows]) -> None:
    """Busy time is prefill and decode, and memory, compute, network and launch; power is between parked and maximum."""
    spec, rows = scenario
    work = core.simulate(spec | {"warmup_ns": 0, "length_ns": 10**12}, requests(rows)).deployments
    near = {"rel": 1e-6, "abs": 1e-6}
    for row in work.iter_rows(named=True):
        assert row["prefill_s"] + row["decode_s"] == pytest.approx(row["busy_s"], **near)
        parts = row["memory_s"] + row["compute_s"] + row["network_s"] + row["launch_s"]
        assert parts == pytest.approx(row["busy_s"], **near)
        energy_j = row["prefill_j"] + row["decode_j"]
        max_w = spec["deployments"][row["deployment_ix"]]["deployment"]["chip"]["max_w"]
        assert row["parked_w"] * row["busy_s"] <= energy_j + 1e-6 <= max_w * row["busy_s"] + 2e-6
        assert row["kv_token_s"] <= row["kv_capacity_tokens"] * row["busy_s"] * (1 + 1e-6) + 1e-6


@quick
@given(st.integers(1, 200), st.integers(1, 200), st.sampled_from([None, 20]))
def test_more_bandwidth_never_slows_a_lone_request(n_in: int, n_out: int, window: int | None) -> None:
    ends = []
    for bytes_per_s in (3e8, 1e9, 3e9, 1e12):
        spec = cell(toy(window=window, memory_bytes_per_s=bytes_per_s))
        kept = core.simulate(spec, requests([(0, 0, n_in, n_out)])).requests
        assert kept is not None
        ends.append((kept["first_token_ns"][0], kept["end_ns"][0]))
    assert ends == sorted(ends, reverse=True)


def p95_s(spec: Spec, n_replicas: int, rows: Rows) -> list[float]:
    got = core.simulate(cell([(spec, n_replicas)], router="least-outstanding-tokens"), requests(rows))
    answers = core.quantiles(got.sketches, [core.Query(0, metric, 0.95) for metric in ("ttft", "e2e", "queue")])
    assert None not in answers
    return [answer for answer in answers if answer is not None]


def test_more_bandwidth_and_more_replicas_help_a_crowd() -> None:
    rows = poisson(3000, 60.0, seed=3)
    base = p95_s(toy(max_batch=16), 2, rows)
    wider = p95_s(toy(max_batch=16, memory_bytes_per_s=2e9), 2, rows)
    more = p95_s(toy(max_batch=16), 4, rows)
    for better in (wider, more):
        assert all(a <= b for a, b in zip(better, base, strict=True))


@quick
@given(st.integers(2, 1000), st.integers(0, 100), st.integers(0, 10**6))
def test_quantiles_of_few_values_are_exact(n: int, percent: int, seed: int) -> None:
    got = core.simulate(cell(toy(blocks=300, max_batch=8)), requests(poisson(n, 20.0, seed=seed)))
    kept = got.requests
    assert kept is not None
    seconds = (kept["first_token_ns"] - kept["arrival_ns"]).drop_nulls().to_numpy() / 1e9
    value, mean = core.quantiles(got.sketches, [core.Query(0, "ttft", percent / 100), core.Query(0, "ttft", None)])
    assert value == pytest.approx(np.quantile(seconds, percent / 100), rel=1e-9)
    assert mean == pytest.approx(seconds.mean(), rel=1e-9)


@pytest.mark.parametrize("rate_req_per_s", [5.0, 40.0])
def test_quantiles_of_many_values_are_within_half_a_percent(rate_req_per_s: float) -> None:
    rows = poisson(20_000, rate_req_per_s, seed=5)
    got = core.simulate(cell(toy(blocks=300, max_batch=8), length_ns=10**13, drain_ns=10**13), requests(rows))
    kept = got.requests
    assert kept is not None
    seconds = (kept["end_ns"] - kept["arrival_ns"]).drop_nulls().to_numpy() / 1e9
    levels = [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0]
    answers = core.quantiles(got.sketches, [core.Query(0, "e2e", level) for level in levels])
    assert answers == pytest.approx(np.quantile(seconds, levels), rel=0.005)


@quick
@given(st.lists(st.integers(1, 700), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_merging_sketches_in_any_order_agrees(sizes: list[int], shuffle: Any) -> None:
    spec = cell(toy(blocks=300, max_batch=8))
    runs = [core.simulate(spec, requests(poisson(n, 10.0, seed=seed))) for seed, n in enumerate(sizes)]
    metrics = [core.Query(0, m, q) for m in core.METRICS for q in (None, 0.5, 0.99)]
    together = core.quantiles(pl.concat([run.sketches for run in runs]), metrics)
    shuffle.shuffle(runs)
    rows = pl.concat([run.sketches for run in runs])
    assert core.quantiles(rows, metrics) == together
    assert core.quantiles(rows.sample(fraction=1, shuffle=True, seed=1), metrics) == together
    joined = pl.concat([run.requests for run in runs if run.requests is not None])
    if joined["end_ns"].drop_nulls().len() <= 1000:
        seconds = (joined["end_ns"] - joined["arrival_ns"]).drop_nulls().to_numpy() / 1e9
        assert core.quantiles(rows, [core.Query(0, "e2e", 0.9)])[0] == pytest.approx(np.quantile(seconds, 0.9))


@quick
@given(loaded(), st.integers(0, 2**32))
def test_independent_pools_may_be_apart(scenario: tuple[dict[str, Any], Rows], seed: int) -> None:
    """Two classes with a pool each share nothing: together they do what each does alone."""
    spec, rows = scenario
    alone = [{"limits": [], "targets": [{"deployments": [at], "share": None}]} for at in (0, 1)]
    spec = spec | {"classes": alone, "seed": seed}
    both = core.simulate(spec, requests(rows))
    assert both.requests is not None
    for at in (0, 1):
        kept = core.simulate(spec, requests([row for row in rows if row[1] == at])).requests
        assert kept is not None
        of_class = both.requests.filter(both.requests["class_ix"] == at)
        assert of_class.drop("row").equals(kept.drop("row"))

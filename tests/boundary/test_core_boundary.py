"""What crosses between Python and the core: tables of any shape, wrong ones by column name, slices, cancellation."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from planner import core
from planner.errors import CoreError, PlannerError
from tests.deployments import Spec, cell, requests, toy

MS = 10**6
ROWS = [(k * 7 * MS, k % 2, 3 + 5 * k % 40, 1 + 11 * k % 60) for k in range(60)]
ANYWHERE = {"limits": [{"metric": "itl", "limit_ns": 9 * MS}], "targets": [{"deployments": [0], "share": None}]}


def spec(**fields: Any) -> dict[str, Any]:
    tight = toy(blocks=40, block_tokens=4, chunk_tokens=32, window=20)
    return cell([(tight, 2)], classes=[ANYWHERE, ANYWHERE], window_ns=50 * MS, **fields)


def as_bytes(tables: core.SimTables) -> list[bytes]:
    names = ("classes", "class_windows", "deployments", "windows", "sketches", "requests")
    frames = [getattr(tables, name) for name in names]
    written = [io.BytesIO() for _ in frames]
    for frame, file in zip(frames, written, strict=True):
        frame.write_parquet(file)
    return [file.getvalue() for file in written]


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    return as_bytes(core.simulate(spec(), requests(ROWS)))


def uneven_chunks(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns cut at different places."""
    cut = [pl.concat([column.slice(0, at + 1), column.slice(at + 1)], rechunk=False) for at, column in enumerate(frame)]
    return pl.DataFrame(cut)


SHAPES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "chunked": lambda frame: pl.concat([frame[k : k + 7] for k in range(0, 60, 7)], rechunk=False),
    "columns chunked apart": uneven_chunks,
    "sliced": lambda frame: pl.concat([frame[:9], frame, frame[:5]]).slice(9, 60),
    "chunked and sliced": lambda frame: pl.concat([frame[:9], frame], rechunk=False).slice(9),
    "an empty chunk": lambda frame: pl.concat([frame[:0], frame], rechunk=False),
    "other columns beside": lambda frame: frame.with_columns(note=pl.lit("x"), maybe=pl.lit(None, pl.Int8)).select(
        "note", "output_tokens", "maybe", "input_tokens", "class_ix", "arrival_ns"
    ),
    "arrow": lambda frame: frame.to_arrow(),
    "arrow with an offset": lambda frame: pa.concat_tables([frame[:3].to_arrow(), frame.to_arrow()]).slice(3),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_and_offsets_change_nothing(shape: str, whole: list[bytes]) -> None:
    assert as_bytes(core.simulate(spec(), SHAPES[shape](requests(ROWS)))) == whole


def test_no_requests_is_a_run_of_nothing() -> None:
    got = core.simulate(spec(), requests([]))
    assert got.classes["offered"].to_list() == [0, 0]
    assert got.deployments["busy_s"].to_list() == [0.0]
    assert got.requests is not None
    assert (got.requests.height, got.windows.height, got.sketches.height) == (0, 0, 0)


WRONG_TABLES: dict[str, tuple[Callable[[pl.DataFrame], Any], str]] = {
    "a null": (
        lambda f: f.with_columns(input_tokens=pl.when(pl.int_range(60) != 3).then("input_tokens")),
        "column 'input_tokens': has 1 nulls",
    ),
    "signed": (
        lambda f: f.with_columns(pl.col("arrival_ns").cast(pl.Int64)),
        "column 'arrival_ns': expected UInt64, got Int64",
    ),
    "float": (
        lambda f: f.with_columns(pl.col("output_tokens").cast(pl.Float64)),
        "column 'output_tokens': expected UInt32, got Float64",
    ),
    "text": (
        lambda f: f.with_columns(class_ix=pl.lit("chat")),
        "column 'class_ix': expected UInt16, got Utf8View",
    ),
    "missing": (lambda f: f.drop("class_ix"), "column 'class_ix': is missing"),
    "empty without columns": (lambda f: pl.DataFrame(), "column 'arrival_ns': is missing"),
    "no table": (lambda f: [1, 2, 3], "expected a table with __arrow_c_stream__"),
    "None": (lambda f: None, "expected a table with __arrow_c_stream__"),
    "unsorted": (lambda f: f.reverse(), "arrival_ns: row 1: must not fall"),
    "too late": (lambda f: f.with_columns(arrival_ns=pl.col("arrival_ns") + 10**15), "arrival_ns: row 0: must not"),
    "no such class": (lambda f: f.with_columns(class_ix=pl.lit(2, pl.UInt16)), "class_ix: row 0: no such class"),
    "no prompt": (lambda f: f.with_columns(input_tokens=pl.lit(0, pl.UInt32)), "row 0: must be at least 1"),
    "no answer": (lambda f: f.with_columns(output_tokens=pl.lit(0, pl.UInt32)), "row 0: must be at least 1"),
}


@pytest.mark.parametrize("fault", WRONG_TABLES)
def test_a_wrong_table_is_refused_by_column(fault: str) -> None:
    spoil, message = WRONG_TABLES[fault]
    with pytest.raises(CoreError) as error:
        core.simulate(spec(), spoil(requests(ROWS)))
    assert message in str(error.value)


def test_a_table_of_loads_is_refused_by_column_too() -> None:
    with pytest.raises(CoreError, match="column 'context_tokens': is missing"):
        core.step_times(toy(), pl.DataFrame({"n_seqs": [1]}, schema={"n_seqs": pl.UInt64}))


def placed(**fields: Any) -> list[Spec]:
    return [{"pool_ix": 0, "n_replicas": 1, "deployment": toy()} | fields]


def target(*deployments: int, share: float | None = None) -> Spec:
    return {"deployments": list(deployments), "share": share}


def classes(*targets: Spec) -> list[Spec]:
    return [{"limits": [], "targets": list(targets)}] * 2


def with_chip(**figures: float) -> list[Spec]:
    deployment = toy()
    deployment["chip"].update(figures)
    return placed(deployment=deployment)


def with_serving(**figures: int) -> list[Spec]:
    deployment = toy()
    deployment["serving"].update(figures)
    return placed(deployment=deployment)


WRONG_SPECS: list[tuple[Spec, str]] = [
    ({"unheard_of": 1}, "unknown field `unheard_of`"),
    ({"deployments": placed(unheard_of=1)}, "unknown field `unheard_of`"),
    ({"classes": [{"limits": [], "targets": [], "x": 1}]}, "unknown field `x`"),
    ({"classes": [{"limits": [{"metric": "latency", "limit_ns": 1}], "targets": []}]}, "unknown variant `latency`"),
    ({"router": "dice"}, "unknown variant `dice`"),
    ({"spec_version": 2}, "spec_version: this core reads version 1, got 2"),
    ({"seed": None}, "invalid type: null"),
    ({"warmup_ns": float("nan")}, "not JSON compliant"),
    ({"warmup_ns": 1.5}, "invalid type: floating point `1.5`, expected u64"),
    ({"window_ns": -1}, "invalid value: integer `-1`"),
    ({"window_ns": 0}, "window_ns: must be above 0"),
    ({"window_ns": 1}, "window_ns: must be above 0 and cut the run into at most 10000000 windows"),
    ({"length_ns": 2**64 - 1}, "length_ns, drain_ns: must be at most 100 years"),
    ({"warmup_ns": 3601 * 10**9}, "warmup_ns: must not be above length_ns"),
    ({"n_pools": 2**40}, "n_pools: must be at most 65535"),
    ({"n_pools": 0}, "deployments.pool_ix: no such pool"),
    ({"classes": []}, "classes: must be 1 to 65535"),
    ({"deployments": []}, "deployments: must have 1 to 1000000 replicas"),
    ({"deployments": placed(n_replicas=2**60)}, "deployments: must have 1 to 1000000 replicas"),
    ({"classes": classes()}, "classes.targets: need a share each"),
    ({"classes": classes(target(1))}, "classes.targets.deployments: no such deployment"),
    ({"classes": classes(target(0, 0))}, "classes.targets.deployments: a deployment is listed twice"),
    ({"classes": classes(target(0), target(0, share=1))}, "classes.targets: need a share each"),
    ({"classes": classes(target(0, share=0.5), target(0, share=0.4))}, "classes.targets.share: must be at least 0"),
    ({"classes": classes(target(0, share=-1), target(0, share=2))}, "classes.targets.share: must be at least 0"),
    ({"deployments": with_chip(memory_bytes_per_s=1e-300)}, "deployments[0]: a step of it may take 1.000e21 s"),
    ({"deployments": with_chip(max_w=1e300, high_load_w=1e300)}, "a figure of it has a wrong unit"),
    ({"deployments": with_chip(memory_bytes=1e300)}, "a figure of it has a wrong unit"),
    ({"deployments": with_chip(memory_bytes_per_s=0.0)}, "chip.memory_bytes_per_s: must be positive and finite"),
    ({"deployments": with_serving(block_tokens=2**50)}, "serving.block_tokens: must be at most 65536"),
    ({"deployments": with_serving(max_batch=0)}, "serving.max_batch: must be positive"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG_SPECS)
def test_a_wrong_spec_is_refused_with_its_field(fields: Spec, message: str) -> None:
    with pytest.raises(PlannerError) as error:
        core.simulate(spec() | fields, requests(ROWS))
    assert message in str(error.value)
    assert "bug" not in str(error.value)


def test_steps_that_take_no_time_end() -> None:
    instant = toy(host_s=0.0, launch_layer_s=0.0, memory_bytes_per_s=1e30)
    instant["chip"]["flop_per_s"]["bf16"] = 1e30
    got = core.simulate(cell(instant), requests([(5, 0, 10, 400)] * 3))
    assert got.requests is not None
    assert got.requests["end_ns"].to_list() == [5] * 3


@pytest.mark.parametrize("n_events", [1, 2, 7, 100])
def test_where_a_run_is_sliced_changes_nothing(
    n_events: int, whole: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "SLICE_EVENTS", n_events)
    told: list[tuple[int, int]] = []
    got = core.simulate(spec(), requests(ROWS), progress=lambda now_ns, n: told.append((now_ns, n)))
    assert as_bytes(got) == whole
    assert told == sorted(told)
    assert len(told) >= got.n_events // n_events


def eventful(**fields: Any) -> tuple[dict[str, Any], list[tuple[int | None, int]], pl.DataFrame]:
    """Drafts, swapping, caches, tasks, failures, maintenance and a link, all in one cell."""
    draft = {"draft_tokens": 3, "acceptance_frac": 0.7, "draft_cost_frac": 0.1}
    tight = toy(blocks=40, block_tokens=4, chunk_tokens=32, window=20, speculation=draft, power_cap_w=5.0)
    classes = [dict(ANYWHERE), dict(ANYWHERE)]
    asked = cell([(tight, 2), (tight, 2), (tight, 2)], classes=classes, window_ns=50 * MS) | {
        "router": "slo-aware",
        "hash_block_tokens": 8,
        "link": {"bytes_per_s": 1e6, "latency_ns": 1000},
    }
    for klass in classes:
        klass["targets"] = [{"deployments": [0, 1], "share": None}]
    failure = {"mean_ns": 300 * MS, "repair_ns": 40 * MS, "n_together": 1, "key": 1}
    down = {"at_ns": 90 * MS, "length_ns": 60 * MS, "first": 1, "n_replicas": 1}
    host = {"prefix_cache": True, "preemption": "swap", "host_kv_bytes": 1e5, "host_link_bytes_per_s": 1e6}
    asked["deployments"][0] |= {"role": "prefill", "decode_targets": [2], "failures": [failure]}
    asked["deployments"][1] |= {**host, "failures": [failure], "cold_start_ns": 3 * MS, "maintenance": [down]}
    asked["deployments"][2] |= {**host, "role": "decode", "async_scheduling": True}
    links = [(None if row < 20 else row - 20, 5 * MS) for row in range(60)]
    hashes = [(row, 0 if at == 0 else 100 * row + at) for row in range(60) for at in range(ROWS[row][2] // 8)]
    return asked | fields, links, pl.DataFrame(hashes, {"row": pl.UInt64, "hash": pl.UInt64}, orient="row")


def test_slices_and_windows_change_nothing_with_everything_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, links, hashes = eventful()
    whole = core.simulate(asked, requests(ROWS, links), hashes)
    work = whole.deployments
    for name in ("power_s", "down_s", "off_s", "cached_input_tokens", "output_tokens"):
        assert work[name].sum() > 0, name
    for n_events in (1, 3, 50):
        monkeypatch.setattr(core, "SLICE_EVENTS", n_events)
        assert as_bytes(core.simulate(asked, requests(ROWS, links), hashes)) == as_bytes(whole)
    for window_ns in (7 * MS + 1, 10**12):
        other = core.simulate(asked | {"window_ns": window_ns}, requests(ROWS, links), hashes)
        assert other.deployments.equals(whole.deployments)
        assert other.sketches.equals(whole.sketches)
        assert other.classes.equals(whole.classes)


def test_a_run_can_be_cancelled_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "SLICE_EVENTS", 10)
    told: list[int] = []
    with pytest.raises(core.Cancelled):
        core.simulate(spec(), requests(ROWS), progress=lambda _, n: told.append(n), is_cancelled=lambda: len(told) == 3)
    assert told == [10, 20, 30]


def test_an_interrupt_acts_after_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "SLICE_EVENTS", 10)
    with pytest.raises(KeyboardInterrupt):
        core.simulate(spec(), requests(ROWS), progress=lambda *_: signal.raise_signal(signal.SIGINT))


def test_requests_are_kept_only_on_demand() -> None:
    assert core.simulate(spec(keep_requests=False), requests(ROWS)).requests is None

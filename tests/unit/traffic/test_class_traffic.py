"""From a scenario's classes to requests: drawn, recorded, mapped; under one seed and the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from planner import scenario
from planner.errors import FactError, TrafficError
from planner.scenario.schema import TrafficClass
from planner.traffic.requests import for_class, for_class_sample, for_scenario

Write = Callable[[str, str | bytes], Path]
S = 10**9
TRACE = "arrival_s,input_tokens,output_tokens,tier,deployment\n" + "".join(
    f"{t},{100 + t},{1 + t},{'gold' if t % 3 else 'free'},{'openai/gpt-oss-120b' if t % 2 else 'gpt-oss-20b'}\n"
    for t in range(5, 36)
)
DRAWN = {
    "model": "gpt-oss-120b",
    "arrivals": "gamma",
    "rate": "9 req/s",
    "burstiness": "2.5",
    "input": {"dist": "lognormal", "median": "8 ktok", "p95": "48 ktok"},
    "output": {"dist": "uniform", "low": "10 tok", "high": "20 tok"},
}


def cls(**keys: Any) -> TrafficClass:
    return TrafficClass.model_validate({"model": "gpt-oss-120b", **keys})


def test_a_recorded_class_is_the_trace(write: Write) -> None:
    path = write("t.csv", TRACE + "99,0,1,free,x\n")
    found = for_class(cls(trace=str(path)), name="chat", seed=1, length_ns=None)
    assert found.frame["arrival_ns"].to_list() == [t * S for t in range(31)]
    assert found.span_ns == 30 * S + 1  # up to and with the last arrival
    assert found.failed_rows == 1
    assert [notice.code for notice in found.notices] == ["failed_rows"]
    assert found.frame.schema == {"arrival_ns": pl.Int64, "input_tokens": pl.UInt32, "output_tokens": pl.UInt32}


def test_the_run_cuts_and_repeats_a_trace(write: Write) -> None:
    path = str(write("t.csv", TRACE))
    assert for_class(cls(trace=path), name="c", seed=1, length_ns=10 * S).frame.height == 11
    short = for_class(cls(trace=path), name="c", seed=1, length_ns=100 * S)
    assert (short.frame.height, short.span_ns) == (31, 100 * S)  # a shorter file is not repeated unless asked
    again = for_class(cls(trace=path, repeat="true"), name="c", seed=1, length_ns=100 * S)
    assert again.frame.height == 31 * 3 + 10  # the fourth pass starts after 90 s and 3 ns
    assert again.frame["arrival_ns"].is_sorted()


@pytest.mark.parametrize("trace", ["file", "azure-conv-2023"])
def test_a_trace_begins_where_it_is_asked_to(write: Write, trace: str) -> None:
    where = str(write("t.csv", TRACE)) if trace == "file" else trace
    whole = for_class(cls(trace=where), name="c", seed=1, length_ns=None)
    start_ns = whole.span_ns // 3
    keys = {"trace": where, "start": f"{start_ns / 1e9} s"}
    later = for_class(cls(**keys), name="c", seed=1, length_ns=None)
    assert later.span_ns == whole.span_ns
    first = whole.frame.filter(pl.col("arrival_ns") >= start_ns)
    assert later.frame.head(first.height).equals(first.with_columns(pl.col("arrival_ns") - start_ns))
    assert later.frame["input_tokens"].sum() == whole.frame["input_tokens"].sum()
    # Repeated, it is as long as asked, in order, and its first pass is the same.
    again = for_class(cls(**keys, repeat="true"), name="c", seed=1, length_ns=2 * whole.span_ns)
    assert again.frame.head(later.frame.height).equals(later.frame)
    assert again.frame["arrival_ns"].is_sorted()
    assert again.frame.height >= 2 * later.frame.height - 1 or trace != "file"
    both = for_class(cls(**keys, speedup="2"), name="c", seed=1, length_ns=None)  # on the clock that is sped up
    fast = for_class(cls(trace=where, speedup="2"), name="c", seed=1, length_ns=None)
    n_before = int((fast.frame["arrival_ns"] < start_ns).sum())
    assert both.frame["input_tokens"][0] == fast.frame["input_tokens"][n_before]


def test_the_clock_changes_before_copies_are_made(write: Write) -> None:
    path = str(write("t.csv", TRACE))
    fast = for_class(cls(trace=path, speedup="2", scale="4"), name="c", seed=1, length_ns=None)
    assert fast.frame.height == 4 * 31
    assert fast.frame["arrival_ns"].max() <= 15 * S
    idle = "arrival_s,input_tokens,output_tokens\n0,1,1\n1,1,1\n1000,1,1\n"
    capped = for_class(
        cls(trace=str(write("i.csv", idle)), idle_cap="5 s", scale="3"), name="c", seed=1, length_ns=None
    )
    assert capped.frame["arrival_ns"].max() <= 6 * S


def test_classes_of_one_trace_keep_step(write: Write) -> None:
    path = str(write("t.csv", TRACE))
    gold = for_class(cls(trace=path, class_column="tier"), name="gold", seed=1, length_ns=None)
    free = for_class(cls(trace=path, class_column="tier"), name="free", seed=1, length_ns=None)
    assert gold.frame.height + free.frame.height == 31
    assert gold.span_ns == free.span_ns
    assert [notice.code for notice in gold.notices] == ["part_of_trace"]
    assert gold.frame["arrival_ns"][0] == 0
    assert free.frame["arrival_ns"][0] == 1 * S  # row 6, the first that 3 divides, comes a second later
    with pytest.raises(TrafficError, match="no row of the trace is for 'fre'; did you mean free"):
        for_class(cls(trace=path, class_column="tier"), name="fre", seed=1, length_ns=None)


def test_models_of_a_trace_are_known_by_any_spelling(write: Write) -> None:
    path = str(write("t.csv", TRACE))
    found = for_class(cls(trace=path, model_column="deployment"), name="c", seed=1, length_ns=None)
    assert found.frame.height == 16
    with pytest.raises(TrafficError, match="no row of the trace is for 'kimi"):
        for_class(cls(trace=path, model="kimi-k2.5", model_column="deployment"), name="c", seed=1, length_ns=None)


def test_an_aggregate_has_no_requests(write: Write) -> None:
    path = write("w.csv", "0,0.5,1.2,Gamma,0.694,2.88\n")
    with pytest.raises(TrafficError, match="describe the class by arrivals, rate, input and output"):
        for_class(cls(trace=str(path)), name="c", seed=1, length_ns=None)


def test_drawn_requests(write: Write) -> None:
    found = for_class(cls(**DRAWN), name="coding", seed=7, length_ns=3600 * S)
    assert found.frame.height == pytest.approx(9 * 3600, rel=0.05)
    assert found.frame["arrival_ns"].is_sorted()
    gaps = found.frame["arrival_ns"].diff().drop_nulls().cast(pl.Float64)
    assert gaps.std() / gaps.mean() == pytest.approx(2.5, rel=0.05)  # type: ignore[operator]
    assert found.frame["input_tokens"].median() == pytest.approx(8000, rel=0.03)
    assert (found.frame["output_tokens"].min(), found.frame["output_tokens"].max()) == (10, 20)
    # gpt-oss holds 131,072 tokens: what was longer was drawn again, and counted.
    assert (found.frame["input_tokens"] + found.frame["output_tokens"]).max() <= 131_072  # type: ignore[operator]
    assert [notice.code for notice in found.notices] == ["redrawn"]


def test_draws_depend_on_seed_and_name_only() -> None:
    one = for_class(cls(**DRAWN), name="coding", seed=7, length_ns=60 * S).frame
    assert for_class(cls(**DRAWN), name="coding", seed=7, length_ns=60 * S).frame.equals(one)
    assert not for_class(cls(**DRAWN), name="coding", seed=8, length_ns=60 * S).frame.equals(one)
    assert not for_class(cls(**DRAWN), name="chat", seed=7, length_ns=60 * S).frame.equals(one)
    longer = for_class(cls(**DRAWN), name="coding", seed=7, length_ns=90 * S).frame
    assert longer.head(one.height).equals(one)


def test_lengths_from_a_file(write: Write) -> None:
    path = write("lengths.txt", "# tokens\n10\n\n20\n20\n")
    keys = DRAWN | {"input": {"dist": "empirical", "file": f"./{path.name}"}, "output": "7 tok"}
    found = for_class(cls(**keys), name="c", seed=1, length_ns=600 * S, base_dir=path.parent).frame
    share = (found["input_tokens"] == 20).sum() / found.height
    assert share == pytest.approx(2 / 3, abs=0.05)
    assert set(found["input_tokens"].unique()) == {10, 20}
    write("lengths.txt", "10\nten\n0\n1.5\n")
    with pytest.raises(TrafficError) as error:
        for_class(cls(**keys), name="c", seed=1, length_ns=S, base_dir=path.parent)
    assert [fault.line for fault in error.value.faults] == [2, 3, 4]  # all of them at once


def test_a_profile_is_realised(write: Write) -> None:
    found = for_class(cls(trace="azure-code-2023", scale="2.5"), name="c", seed=1, length_ns=None)
    assert found.frame.height == pytest.approx(2.5 * 8819, rel=0.02)
    assert found.span_ns == 3_435_948_056_001
    fast = for_class(cls(trace="azure-code-2023", speedup="10"), name="c", seed=1, length_ns=None)
    assert (fast.frame.height, fast.span_ns) == (8819, 343_594_805_601)
    twice = for_class(cls(trace="azure-code-2023", repeat="true"), name="c", seed=1, length_ns=2 * 3_436 * S)
    halves = twice.frame["arrival_ns"] < 3_435_948_056_001
    assert halves.sum() == 8819
    first, second = (twice.frame.filter(mask)["input_tokens"].to_list() for mask in (halves, ~halves))
    assert first != second  # another realisation, not the same hour again
    with pytest.raises(FactError, match="azure-code-2023"):
        for_class(cls(trace="azure-code-2024"), name="c", seed=1, length_ns=None)
    with pytest.raises(TrafficError, match="class_column belongs to trace files") as refused:
        for_class(cls(trace="azure-code-2023", class_column="x", idle_cap="3 s"), name="c", seed=1, length_ns=None)
    assert [fault.path for fault in refused.value.faults] == ["traffic.c.class_column", "traffic.c.idle_cap"]


def test_a_sample_of_lengths_for_each_kind(write: Write) -> None:
    assert for_class_sample(cls(**DRAWN), seed=0).height == 10_000
    assert for_class_sample(cls(trace="mooncake-conversation"), seed=0).height == 12_031
    assert for_class_sample(cls(trace=str(write("t.csv", TRACE))), seed=0).height == 31


SCENARIO = """
schema: 1
title: Two classes
traffic:
  drawn:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 2 req/s
    input: 100 tok
    output: 10 tok
  recorded: {model: gpt-oss-120b, trace: ./t.csv, scale: 2}
fleet: {pools: {a: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}}}
"""


def test_a_scenario_s_requests_are_merged_in_order(write: Write) -> None:
    write("t.csv", TRACE)
    found = for_scenario(scenario.load(write("s.yaml", SCENARIO)), 1)
    assert found.length_ns == 30 * S + 1  # as long as its trace
    assert found.frame.schema == {
        "arrival_ns": pl.UInt64,
        "class_ix": pl.UInt16,
        "input_tokens": pl.UInt32,
        "output_tokens": pl.UInt32,
    }
    assert found.frame.select("arrival_ns", "class_ix").equals(
        found.frame.select("arrival_ns", "class_ix").sort(pl.all())
    )
    counts = dict(found.frame["class_ix"].value_counts().iter_rows())
    assert counts == {ix: c.frame.height for ix, c in enumerate(found.classes.values())}
    assert list(found.classes) == ["drawn", "recorded"]
    assert counts[1] == 62
    again = for_scenario(scenario.load(write("s.yaml", SCENARIO)), 1)
    assert again.frame.equals(found.frame)


def test_a_class_does_not_depend_on_the_others(write: Write) -> None:
    write("t.csv", TRACE)
    both = for_scenario(scenario.load(write("s.yaml", SCENARIO)), 1)
    alone = (
        SCENARIO.replace("  recorded: {model: gpt-oss-120b, trace: ./t.csv, scale: 2}\n", "") + "run: {length: 30 s}\n"
    )
    one = for_scenario(scenario.load(write("s.yaml", alone)), 1)
    assert one.classes["drawn"].frame.equals(both.classes["drawn"].frame)
    assert one.length_ns == 30 * S


def test_refused_rows_of_a_shared_file_count_once(write: Write) -> None:
    write("t.csv", TRACE + "99,0,1,free,x\n")
    text = SCENARIO.replace("  recorded:", "  again: {model: gpt-oss-120b, trace: ./t.csv}\n  recorded:")
    found = for_scenario(scenario.load(write("s.yaml", text)), 1)
    assert found.failed_rows == 1
    assert [notice.message.split(":")[0] for notice in found.notices] == ["again", "recorded"]

"""The timeline as a trace: checked against Chrome's trace event format, as Perfetto and Chrome read it."""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl
import pytest

from planner.aggregate import timeline
from planner.aggregate.columns import TIMELINE, schema_of

US = 1000
COMPLETE = {
    "name": str,
    "cat": str,
    "ph": str,
    "ts": (int, float),
    "dur": (int, float),
    "pid": int,
    "tid": int,
    "args": dict,
}
METADATA = {"name": str, "ph": str, "pid": int, "tid": int, "args": dict}


def check(text: str) -> list[dict[str, Any]]:
    """The events of a trace; fails where the format is not kept to the letter."""
    trace = json.loads(text, parse_constant=lambda what: pytest.fail(f"{what} is no JSON"))
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in {"ms", "ns"}
    named: dict[str, dict[Any, str]] = {"process_name": {}, "thread_name": {}}
    ends: dict[tuple[int, int], float] = {}
    for event in trace["traceEvents"]:
        assert event["ph"] in {"X", "M"}
        fields = COMPLETE if event["ph"] == "X" else METADATA
        assert set(event) == set(fields)
        assert all(isinstance(event[name], kind) and not isinstance(event[name], bool) for name, kind in fields.items())
        assert event["pid"] > 0
        assert event["tid"] >= 0
        if event["ph"] == "M":
            assert set(event["args"]) == {"name"}
            key = event["pid"] if event["name"] == "process_name" else (event["pid"], event["tid"])
            assert key not in named[event["name"]], "named twice"
            named[event["name"]][key] = event["args"]["name"]
            continue
        thread = (event["pid"], event["tid"])
        assert event["pid"] in named["process_name"], "a process is named before its first event"
        assert thread in named["thread_name"]
        assert event["ts"] >= 0
        assert event["dur"] > 0
        # Bars of one thread that overlap without nesting are dropped by the viewer.
        assert event["ts"] >= ends.get(thread, 0.0) - 1e-6
        ends[thread] = event["ts"] + event["dur"]
        assert all(isinstance(value, int) for value in event["args"].values())
    assert len(set(named["process_name"].values())) == len(named["process_name"])
    return list(trace["traceEvents"])


def frame(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    names = ["variant", "seed", "pool", "replica_ix", "begin_ns", "end_ns", "n_decoding", "n_prompts", "steps"]
    schema = {name: schema_of(TIMELINE)[name] for name in names}
    return pl.DataFrame(rows, schema=schema, orient="row")


def written(table: pl.DataFrame) -> list[dict[str, Any]]:
    file = io.StringIO()
    timeline.write(table, file)
    return check(file.getvalue())


def test_each_stretch_is_a_bar_of_its_replica() -> None:
    events = written(
        frame(
            [
                ("base", 1, "gb300", 0, 0, 30 * US, 0, 2, 1),
                ("base", 1, "gb300", 0, 30 * US, 130 * US + 500, 2, 0, 40),
                ("base", 1, "gb300", 1, 5 * US, 6 * US, 3, 1, 1),
                ("base", 2, "gb300", 0, 0, 1 * US, 0, 1, 1),
                ("lean", 1, 'jalapeno "x"', 7, 10 * US, 12 * US, 1, 0, 2),
            ]
        )
    )
    bars = [event for event in events if event["ph"] == "X"]
    assert [(bar["ts"], bar["dur"]) for bar in bars[:2]] == [(0.0, 30.0), (30.0, 100.5)]
    assert [bar["name"] for bar in bars[:3]] == ["prefill 2", "decode 2", "prefill 1, decode 3"]
    assert bars[1]["args"] == {"steps": 40, "decoding": 2, "prompts": 0}
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["gb300 (base, seed 1)", "gb300 (base, seed 2)", 'jalapeno "x" (lean, seed 1)']
    assert len({bar["pid"] for bar in bars}) == 3


def test_nothing_kept_is_still_a_trace() -> None:
    assert written(frame([])) == []


def test_a_wrong_trace_does_not_pass() -> None:
    good = {
        "displayTimeUnit": "ms",
        "traceEvents": [{"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "p"}}],
    }
    check(json.dumps(good))
    bar = {"name": "b", "cat": "step", "ph": "X", "ts": 0, "dur": 1, "pid": 1, "tid": 0, "args": {}}
    for wrong in ({**bar, "ph": "B"}, {**bar, "ts": "0"}, {**bar, "pid": 2}, {**bar, "dur": 0}, bar):
        with pytest.raises(AssertionError):
            check(json.dumps({**good, "traceEvents": [*good["traceEvents"], wrong]}))

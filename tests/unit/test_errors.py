"""Faults say where, what and the way out; errors carry all of them, their exit status, and survive pickling."""

from __future__ import annotations

import pickle

import pytest

from planner.errors import (
    CoreError,
    FactError,
    Fault,
    Infeasible,
    PlannerError,
    RunError,
    ScenarioError,
    TrafficError,
    near,
)


def test_a_fault_is_place_path_what_and_way_out() -> None:
    fault = Fault(
        "unknown unit 'mss'",
        "did you mean ms, s?",
        path="slo.interactive.ttft.p95",
        file="scenario.yaml",
        line=7,
        col=17,
    )
    assert str(fault) == "scenario.yaml:7:17: slo.interactive.ttft.p95: unknown unit 'mss'; did you mean ms, s?"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("broken"), "broken"),
        (Fault("broken", file="a.yaml"), "a.yaml: broken"),
        (Fault("broken", path="a.b"), "a.b: broken"),
        (Fault("broken", "mend it", file="a.yaml", line=3), "a.yaml:3: broken; mend it"),
    ],
)
def test_parts_that_are_not_known_are_left_out(fault: Fault, text: str) -> None:
    assert str(fault) == text


def test_an_error_prints_every_fault_on_a_line_and_the_hint_last() -> None:
    error = ScenarioError(Fault("one", file="a", line=1), "two", hint="see the manual")
    assert str(error).split("\n") == ["a:1: one", "two", "see the manual"]
    assert error.faults == (Fault("one", file="a", line=1), Fault("two"))


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        (ScenarioError, "scenario", 2),
        (FactError, "fact", 2),
        (TrafficError, "traffic", 2),
        (Infeasible, "infeasible", 4),
        (CoreError, "core", 1),
        (RunError, "run", 5),
    ],
)
def test_codes_and_exit_statuses(kind: type[PlannerError], code: str, status: int) -> None:
    assert (kind.code, kind.exit_status) == (code, status)
    assert issubclass(kind, PlannerError)


def test_errors_cross_processes_whole() -> None:
    error = Infeasible(Fault("weights do not fit", "use 4 chips", path="fleet.pools.a"), hint="hint")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is Infeasible
    assert (back.faults, back.hint, str(back)) == (error.faults, error.hint, str(error))


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("gb20", ["gb200", "h100-sxm"], "; did you mean gb200?"),
        ("GB200", ["gb200", "h100-sxm"], "; did you mean gb200?"),
        ("h100", ["gb200", "h100-sxm", "mi300x"], "; did you mean h100-sxm?"),
        ("zzz", ["a", "b"], "; known: a, b"),
        ("zzz", [], "; there are none"),
    ],
)
def test_near_names(name: str, known: list[str], text: str) -> None:
    assert near(name, known) == text


def test_a_long_list_of_names_is_cut() -> None:
    text = near("zzz", [f"n{i:02}" for i in range(30)])
    assert text.endswith("... (30 in all)")
    assert text.count(",") == 12

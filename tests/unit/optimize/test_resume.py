"""An interrupted search goes on: nothing that was found is found again, and the answer has the same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from planner.aggregate.result import Result
from planner.errors import RunError
from planner.fleet.checkpoint import Checkpoint
from planner.fleet.executor import Executor
from planner.fleet.storage import Folder
from planner.optimize.instance import Decision
from planner.optimize.linear import Stop
from planner.optimize.memory import Memory
from planner.optimize.plan import optimize
from planner.optimize.search import Solved, solve
from planner.scenario import Scenario, load
from planner.study import answer as answering
from planner.study.run import run
from tests.instances import large

TEXT = """
schema: 1
title: Small purchase
traffic:
  chat:
    model: gpt-oss-20b
    arrivals: poisson
    rate: 30 req/s
    input: 600 tok
    output: 100 tok
    slo: quick
slo:
  quick: {ttft: {p95: 300 ms}, tpot: {p95: 6 ms}}
fleet:
  pools:
    h100: {rack: hgx-h100, count: {min: 0, max: 4}, deploy: [{model: gpt-oss-20b, chips: 1}]}
    h200: {rack: hgx-h200, count: {min: 0, max: 4}, deploy: [{model: gpt-oss-20b, chips: 1}]}
goal: {minimise: tco, horizon: 4 yr, tries: 1}
run: {length: 40 s, warmup: 10 s, seed: 3, seeds: 2}
"""


class Notebook:
    """Notes in memory."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}

    def noted(self, key: str) -> Any:
        return json.loads(self.pages[key]) if key in self.pages else None

    def note(self, key: str, tree: Any) -> None:
        self.pages[key] = json.dumps(tree)


class Lab:
    """Simulates, and breaks off before simulation number `last`."""

    def __init__(self, last: int | None = None) -> None:
        self.n, self.last = 0, last

    def __call__(self, scenarios: Sequence[Scenario]) -> Result:
        if self.n == self.last:
            raise KeyboardInterrupt
        self.n += 1
        return run(scenarios, workers=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surfaces")


def answered(lab: Lab, folder: Path, out: Path, *, is_resuming: bool = False) -> answering.Answer:
    """As the command line asks."""
    scenario = load("-", stdin_text=TEXT)

    def make(_: Executor | None, notes: Checkpoint) -> Result:
        return optimize(scenario, simulate=lab, folder=folder, notes=notes)

    return answering.answer([scenario], out=out, make=make, called="optimize", is_resuming=is_resuming)


def files(folder: Path) -> dict[str, bytes]:
    """What a result's bytes are, but for its log."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != "log.txt"}


def test_it_goes_on_from_any_interrupt_with_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    whole = Lab()
    answered(whole, folder, tmp_path / "whole")
    assert whole.n >= 4
    for last in range(1, whole.n):
        out = tmp_path / f"after-{last}"
        with pytest.raises(answering.Interrupted, match=r"finished parts are kept in .*--resume goes on"):
            answered(Lab(last), folder, out)
        with pytest.raises(RunError, match=r"--resume goes on with them, --force begins anew"):
            answered(Lab(), folder, out)
        rest = Lab()
        answered(rest, folder, out, is_resuming=True)
        # Of what was proved nothing is simulated again, but for the first seed of the verdict that was under way; the
        # plan itself is simulated for its figures.
        assert rest.n <= whole.n - last + 2
        assert files(out) == files(tmp_path / "whole")
        assert not out.with_name(out.name + ".parts").exists()


def test_a_damaged_note_is_found_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan"
    with pytest.raises(answering.Interrupted):
        answered(Lab(2), folder, out)
    notes = sorted(out.with_name("plan.parts").glob("note-*.part"))
    assert notes
    notes[0].write_text("{")
    for other in notes[1:]:
        other.write_text(other.read_text().replace('"tree": ', '"tree":  ', 1).replace("0", "1", 3))
    answered(Lab(), folder, out, is_resuming=True)
    answered(Lab(), folder, tmp_path / "whole")
    assert files(out) == files(tmp_path / "whole")


def test_a_note_is_of_one_question_and_one_key(tmp_path: Path) -> None:
    place = Folder.of(tmp_path / "run")
    first = Checkpoint(place, "sha256:a")
    first.begin(is_resuming=False, is_forced=False)
    first.note("x", {"a": [1, 0.1, None]})
    assert first.noted("x") == {"a": [1, 0.1, None]}
    assert first.noted("y") is None
    assert first.n_kept == 1
    assert Checkpoint(place, "sha256:b").noted("x") is None
    first.end()


def test_solved_programs_are_remembered_to_the_last_bit() -> None:
    instance = large(2, 3, 2, 1)
    book = Notebook()
    found = Memory(book).solve(instance, Stop())
    assert found == solve(instance, Stop())
    again = Memory(book).solve(instance, Stop())
    assert again == found
    assert isinstance(again.decision, Decision)
    assert len(book.pages) == 1
    other = Memory(book).solve(instance, Stop(), below=0.0)
    assert other == Solved("infeasible")
    assert len(book.pages) == 2

"""Which scenario a verb is asked about: one flag a meaning, the same for every verb."""

from __future__ import annotations

import pytest

from tests.commandline import planner

ONE = ["optimize", "headroom", "break-even"]


@pytest.mark.parametrize("verb", ONE)
def test_one_question_at_a_time(verb: str) -> None:
    more = ["--vary", "load", "--against", "b"] if verb == "break-even" else []
    done = planner(verb, "s.yaml", "-s", "a", "-s", "b", *more)
    assert done.returncode == 2
    assert "one question at a time: name one variant with -s" in done.stderr


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_all_is_not_some(verb: str) -> None:
    done = planner(verb, "s.yaml", "-s", "a", "--all")
    assert done.returncode == 2
    assert "--all and -s exclude each other" in done.stderr

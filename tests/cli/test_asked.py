"""Which scenario a verb is asked about: one flag a meaning, the same for every verb."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from planner.cli.main import main

ONE = ["optimize", "headroom", "break-even"]


@pytest.mark.parametrize("verb", ONE)
def test_one_question_at_a_time(verb: str) -> None:
    more = ["--vary", "load", "--against", "b"] if verb == "break-even" else []
    done = CliRunner().invoke(main, [verb, "s.yaml", "-s", "a", "-s", "b", *more])
    assert done.exit_code == 2
    assert "one question at a time: name one variant with -s" in done.output


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_all_is_not_some(verb: str) -> None:
    done = CliRunner().invoke(main, [verb, "s.yaml", "-s", "a", "--all"])
    assert done.exit_code == 2
    assert "--all and -s exclude each other" in done.output

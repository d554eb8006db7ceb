"""`planner doctor` and `planner completion` through the real entry point."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.commandline import ENTRY, ROOT, answer, planner


def test_a_sound_installation(tmp_path: Path) -> None:
    done = planner("doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    made = answer(planner("doctor", "--json", cwd=tmp_path))
    findings = {one["what"]: one for one in made["result"]["findings"]}
    assert made["result"]["ok"] is True
    assert findings["core"]["found"].startswith("0.1.0, build ")
    assert "sources; newest dated source 20" in findings["catalogue"]["found"]
    assert str(tmp_path / "runs") in findings["runs"]["found"]
    assert all(name in done.stdout for name in ("planner", "processors", "memory", "ray", "figures"))


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a folder nobody can write")
def test_what_is_missing_is_named_with_the_way_out() -> None:
    done = planner("doctor", "--json", cwd=Path("/proc/self"))
    assert done.returncode == 5
    findings = {one["what"]: one for one in answer(done)["result"]["findings"]}
    assert findings["runs"]["state"] == "fault"
    assert "use -o" in findings["runs"]["way_out"]
    assert findings["core"]["state"] != "fault"  # one fault does not hide the rest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_planner_for_completions(shell: str) -> None:
    done = planner("completion", shell)
    assert done.returncode == 0
    assert f"_PLANNER_COMPLETE={shell}_complete" in done.stdout
    assert answer(planner("completion", shell, "--json"))["result"]["shell"] == shell


def test_verbs_and_flags_are_completed() -> None:
    def complete(words: str, at: int) -> list[str]:
        asked = {"_PLANNER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        done = subprocess.run(
            ENTRY, cwd=ROOT, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=True
        )
        return [line.split(",")[1] for line in done.stdout.splitlines()]

    assert complete("planner head", 1) == ["headroom"]
    assert "--no-n1" in complete("planner headroom --n", 2)


def test_an_unknown_shell_is_refused() -> None:
    done = planner("completion", "tcsh")
    assert (done.returncode, done.stdout) == (2, "")

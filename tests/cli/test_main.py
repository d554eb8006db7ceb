"""The group `planner`: fast help that loads no verb, flags on both sides of the verb, and how every run ends."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[2]
ENTRY = [sys.executable, "-m", "planner"]
ONE = "scenarios/01-one-rack.yaml"


def planner(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ENTRY, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_help_lists_every_verb_and_ends_in_examples() -> None:
    done = planner("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"  {verb} " in done.stdout for verb in VERBS)
    assert done.stdout.rstrip().endswith("planner run scenarios/02-mixed-fleet.yaml")
    assert planner("-h").stdout == done.stdout


def test_help_imports_nothing_but_click() -> None:
    code = """
import sys
from planner.cli.main import run
try:
    run(["--help"])
except SystemExit:
    pass
heavy = {"polars", "pydantic", "ray", "numpy", "yaml", "pyarrow", "fsspec", "planner._core", "planner.scenario"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=60)


def test_help_is_fast() -> None:
    """0.2 s, in time of the processor, so that a busy machine does not matter."""

    def spent_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*ENTRY, "--help"], cwd=ROOT, check=True, capture_output=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(spent_s() for _ in range(5)) < 0.2


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_the_shared_flags_and_examples(verb: str) -> None:
    done = planner(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert "Examples:" in done.stdout
    if "COMMAND" not in done.stdout:
        assert all(flag in done.stdout for flag in ("--verbose", "--quiet", "--json", "--color", "--version"))


def test_flags_stand_before_or_after_the_verb() -> None:
    before, after = planner("--json", "check", ONE), planner("check", ONE, "--json")
    assert before.returncode == after.returncode == 0
    assert json.loads(before.stdout) == json.loads(after.stdout)


def test_version() -> None:
    assert planner("--version").stdout.startswith("planner, version ")
    assert planner("check", "--version").stdout == planner("--version").stdout


def test_an_unknown_verb_suggests_near_names() -> None:
    done = planner("chek", ONE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no verb 'chek'; did you mean check" in done.stderr


@pytest.mark.parametrize("arguments", [("chek",), ("check",), ("check", ONE, "--nope"), ("--nope",)])
def test_with_json_stdout_is_one_object_on_misuse_too(arguments: tuple[str, ...]) -> None:
    done = planner(*arguments, "--json")
    assert done.returncode == 2
    made = json.loads(done.stdout)
    assert (made["ok"], made["result"], made["error"]["code"]) == (False, None, "usage")


def test_without_a_verb_the_help_is_shown() -> None:
    done = planner()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Verbs:" in done.stderr


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m planner schema | head -c 10"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 10, "")


@pytest.mark.parametrize("words", ["schema", "catalog list --json", "--help", "run --help"])
def test_a_full_disk_behind_stdout_is_no_fault_of_planner(words: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*ENTRY, *words.split()], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 5, done.stderr
    assert done.stderr.splitlines() == ["error: the answer cannot be written to stdout: No space left on device"]


@pytest.mark.parametrize("words", ["schema", "catalog list --json", "check -"])
def test_streams_that_the_caller_closed_are_no_fault_of_planner(words: str) -> None:
    command = f"{sys.executable} -W error -m planner {words} <&- >&-"
    done = subprocess.run(command, shell=True, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == (2 if words == "check -" else 0), done.stderr
    assert "fault in planner" not in done.stderr
    assert "Traceback" not in done.stderr

"""The slow profile tries more examples than a test asks for; a profile that is none is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.commandline import ROOT

ASKS = """
import pytest
from hypothesis import given, settings, strategies as st
n = [0, 0]
@given(st.integers())
@settings(max_examples=7)
def test_asks(_): n[0] += 1
@pytest.mark.parametrize("k", [1, 2])
@given(st.integers())
def test_does_not(k, _): n[1] += 1
def test_counts(): print("counted", n[0], n[1] // 2)
"""


@pytest.mark.parametrize(("profile", "counts"), [("fast", (7, 100)), ("slow", (35, 500))])
def test_how_many_examples_a_profile_tries(tmp_path, profile, counts):
    (tmp_path / "test_examples.py").write_text(ASKS)
    command = [sys.executable, "-m", "pytest", "-s", "-p", "tests.conftest", f"--rootdir={tmp_path}", str(tmp_path)]
    env = {**os.environ, "HYPOTHESIS_PROFILE": profile, "PYTHONPATH": str(ROOT)}
    env.pop("CI", None)
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"counted {counts[0]} {counts[1]}" in done.stdout
    env["HYPOTHESIS_PROFILE"] = "quick"
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0

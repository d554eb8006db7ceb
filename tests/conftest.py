"""Fixtures that the whole suite shares, and how many examples the properties are tried on.

Hypothesis has two profiles, chosen by HYPOTHESIS_PROFILE: `fast`, and `slow` (`make test-all`) with `MORE` times the
examples that a test asks for.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import pytest

# A suite that a shell starts in the background would ignore Ctrl-C, and so would every process of its tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

MORE = 5
hypothesis.settings.register_profile("fast", hypothesis.settings(), deadline=None)
hypothesis.settings.register_profile("slow", hypothesis.settings(), deadline=None)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fast")
hypothesis.settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a test asks for by itself no profile would change."""
    tests = {id(test): test for item in items if hasattr(test := getattr(item, "obj", None), "hypothesis")}
    for test in tests.values() if PROFILE == "slow" else ():
        own = getattr(test, "_hypothesis_internal_use_settings", None) or hypothesis.settings()
        test._hypothesis_internal_use_settings = hypothesis.settings(own, max_examples=MORE * own.max_examples)


ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of raw traces and measurements beside the project; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the shared data folder {SHARED.name}/ beside the project")
    return SHARED

"""Fixtures that the whole suite shares."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of raw traces and measurements beside the project; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the shared data folder {SHARED.name}/ beside the project")
    return SHARED

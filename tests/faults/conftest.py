"""What runs that are disturbed are compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Driver, scenario


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> str:
    return scenario(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def undisturbed(work: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of threads."""
    out = tmp_path_factory.mktemp("threads") / "out"
    Driver(work, out).end()
    return out

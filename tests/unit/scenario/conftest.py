"""Ways to load a scenario from text, and to have it refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import Fault, ScenarioError
from planner.scenario import Scenario, load
from tests.unit.scenario.scenario_text import SMALL, Faults, Loads


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    """Loads a scenario from text, as the file s.yaml of an empty folder."""

    def run(text: str = SMALL, **options: object) -> Scenario:
        path = tmp_path / "s.yaml"
        path.write_text(text, encoding="utf-8")
        return load(path, **options)  # type: ignore[arg-type]

    return run


@pytest.fixture
def faults(loads: Loads) -> Faults:
    """The faults of a text that is refused."""

    def run(text: str = SMALL, **options: object) -> list[Fault]:
        with pytest.raises(ScenarioError) as caught:
            loads(text, **options)
        assert caught.value.exit_status == 2
        return list(caught.value.faults)

    return run

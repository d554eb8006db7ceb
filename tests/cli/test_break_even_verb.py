"""`planner break-even` through the real entry point."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commandline import answer, planner
from tests.unit.study.test_breakeven import TEXT

VARY = ("--vary", "fleet.pools.own.capex", "--range", "0.5..5 MUSD/rack", "--samples", "4")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(TEXT)
    return tmp_path


def test_text_json_and_figure(file: Path) -> None:
    done = planner("break-even", "s.yaml", *VARY, "--against", "rented", "-o", "out", "--gate", cwd=file)
    assert done.returncode == 0, done.stderr
    assert "both plans hold their limits" in done.stdout
    assert (file / "out" / "figures" / "break-even.parquet").is_file()
    body = answer(planner("break-even", "s.yaml", *VARY, "--against", "rented", "--json", cwd=file))
    whole = body["result"]["figures"][0]
    assert body["schema"] == "planner.break-even/1"
    assert 1.5e6 < whole["break_even"] < 3e6
    assert whole["low"] <= whole["median"] <= whole["high"]


def test_without_equal_service_the_gate_is_broken(file: Path) -> None:
    done = planner("break-even", "s.yaml", *VARY, "--against", "strict", "--gate", cwd=file)
    assert done.returncode == 3
    assert "NOT at equal service" in done.stdout


def test_bad_input_is_2(file: Path) -> None:
    done = planner("break-even", "s.yaml", "--vary", "fleet.pools.own.price", "--against", "rented", cwd=file)
    assert done.returncode == 2
    assert "a scenario has no" in done.stderr

"""The scenario page says what the sections say."""

from __future__ import annotations

from pathlib import Path

from planner.scenario.page import page
from planner.scenario.schema import Deploy, Pool, TrafficClass

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "scenario.md"


def test_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


def test_every_key_is_on_it_with_what_it_takes() -> None:
    text = page()
    for section in (TrafficClass, Pool, Deploy):
        for name, field in section.model_fields.items():
            row = next(line for line in text.splitlines() if line.startswith(f"| `{field.alias or name}` |"))
            cells = [cell.strip() for cell in row.replace("\\|", " ").strip("|").split("|")]
            assert len(cells) == 4
            assert cells[1]
            assert cells[3]

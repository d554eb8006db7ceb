"""The metrics page says what the glossary says."""

from __future__ import annotations

from pathlib import Path

from planner.aggregate.metrics import METRICS
from planner.aggregate.metrics_page import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"


def test_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


def test_every_metric_is_on_it() -> None:
    text = page()
    for metric in METRICS:
        assert f"| `{metric.name}`" in text
    assert all(
        line.count("|") - line.count("\\|") == 6
        for line in text.splitlines()
        if line.startswith("| `") and "<br>" in line
    )

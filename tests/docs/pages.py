"""The generated reference pages: path below docs/ -> the function that makes the page."""

from __future__ import annotations

from collections.abc import Callable

from planner.aggregate import metrics_page
from planner.scenario import page as scenario_page

PAGES: dict[str, Callable[[], str]] = {
    "reference/metrics.md": metrics_page.page,
    "reference/scenario.md": scenario_page.page,
}

"""The generated pages: path below docs/ -> the function that makes the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from planner.aggregate import metrics_page
from planner.scenario import page as scenario_page
from tests.docs import api_page, catalogue_page, cli_page, errors_page, reviews

PAGES: dict[str, Callable[[], str]] = {
    "reference/metrics.md": metrics_page.page,
    "reference/scenario.md": scenario_page.page,
    "reference/cli.md": cli_page.page,
    "reference/catalogue.md": catalogue_page.page,
    "reference/python-api.md": api_page.page,
    "reference/errors.md": errors_page.page,
    "reviews/index.md": reviews.index,
    **{f"reviews/{name}.md": partial(reviews.page, name) for name in reviews.SHOWN},
}

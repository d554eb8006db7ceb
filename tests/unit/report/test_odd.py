"""Results at the edges: every page, table and line of text is whole, and shows names as text."""

from __future__ import annotations

import unicodedata
from functools import cache

import pytest

from planner import Result
from planner.report.figures import registry, style
from planner.report.page import page
from planner.report.text import run_report, width
from tests import reviews
from tests.reviews import Read, at


@cache
def made(kind: str) -> Result:
    return reviews.odd(kind)


@pytest.mark.parametrize("kind", reviews.ODD)
def test_the_page_is_whole_and_right(kind: str) -> None:
    result = made(kind)
    text = page(result)
    read = Read(text)
    tree = result.to_json()
    for attrs, shown in read.data:
        if "data-at" in attrs:
            value = at(tree, attrs["data-at"])
            assert (attrs["value"], shown) == ("", "-") if value is None else float(attrs["value"]) == value
    assert {"svg", "table"} <= {tag for tag, _ in read.tags}
    unsafe = {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"} and c != "\n"}
    assert unsafe == set()
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("kind", reviews.ODD)
def test_every_figure_and_its_table_is_made_or_says_why_not(kind: str) -> None:
    result = made(kind)
    figures = registry.select(["all"])
    frames = registry.frames(result, figures)
    for figure in figures:
        drawn = registry.drawn(figure, frames[figure.name], "base", registry.look_of(result))
        if drawn.chart is None:
            assert drawn.why
            continue
        assert style.inline_svg(style.compiled(drawn.chart), alt=drawn.alt).endswith("</svg>")
        assert drawn.sheet.rows
        assert {len(row) for row in drawn.sheet.rows} == {len(drawn.sheet.head)}


@pytest.mark.parametrize("kind", reviews.ODD)
def test_the_lines_of_text_are_lines(kind: str) -> None:
    lines = run_report(made(kind)).split("\n")
    for line in lines:
        assert not [c for c in line if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}], line
        assert width(line) < 400


def test_nothing_served_says_so() -> None:
    result = made("none served")
    assert not result.n_completed
    words = " ".join(Read(page(result)).words["base--answer"].split())
    assert "Nothing completed." in words


def test_one_token_has_no_time_between_tokens() -> None:
    result = made("one token")
    assert 'class="slo"' in page(result)
    frame = registry.frames(result, registry.select(["latency"]))["latency"]
    assert (
        frame.filter(frame["metric"] == "tpot")["value_s"].null_count()
        == frame.filter(frame["metric"] == "tpot").height
    )

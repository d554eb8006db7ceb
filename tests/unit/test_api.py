"""The public names: typed, lazily imported, and what a notebook shows of a result."""

from __future__ import annotations

import json
import subprocess
import sys

import altair as alt
import pytest

import planner
from planner import Result
from planner.errors import ScenarioError
from tests import reviews
from tests.reviews import Read


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return reviews.several(tmp_path_factory.mktemp("api"))


def test_every_name_is_there_and_costs_nothing_until_used() -> None:
    assert all(getattr(planner, name) is not None for name in planner.__all__)
    assert set(planner.__all__) <= set(dir(planner))
    code = (
        "import sys, planner; print([m for m in ('polars', 'altair', 'ray', 'pydantic', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'planned'"):
        planner.planned  # noqa: B018


def test_a_figure_is_a_chart_of_altair(result: Result) -> None:
    chart = result.figure("cost", "dear_racks")
    assert isinstance(chart, alt.LayerChart)
    spec = json.loads(chart.to_json())
    assert spec["title"] == "What an hour costs"
    for name, words in (("cots", "did you mean"), ("queue", "in-flight"), ("batch", "timeline"), ("all", "no single")):
        with pytest.raises(ScenarioError) as caught:
            result.figure(name)
        assert words in str(caught.value)
    with pytest.raises(ScenarioError, match="no variant 'dearracks'"):
        result.figure("cost", "dearracks")


def test_a_notebook_shows_the_answer_and_text_stays_text(result: Result) -> None:
    bundle = result._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "<script" not in bundle["text/html"]
    read = Read(bundle["text/html"])
    assert any("code" in words and "misses" in words for words in read.words.values())
    assert "MISSED" in bundle["text/plain"]
    one = reviews.one()
    assert "Every limit holds" in one._repr_html_()


def test_results_are_compared(result: Result) -> None:
    found = planner.compare(result, figures=["cost.usd_per_h"])
    assert found.row("cost.usd_per_h", 0).verdict == "better"  # cheap racks
    assert found.row("cost.usd_per_h", 1).verdict == "worse"


def test_a_frontier_has_points_of_each_chip() -> None:
    found = planner.frontier("gpt-oss-120b", ["jalapeno"])
    assert set(found.points["chip"]) == {"jalapeno"}
    assert (found.lengths.input_tokens, found.lengths.output_tokens) == (8192, 1024)

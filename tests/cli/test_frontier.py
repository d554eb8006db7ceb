"""`planner frontier` and `planner posterior`: a table, one JSON object, a Parquet file."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from planner.cli.main import group

KEYS = {"chip", "stack", "tbt_s", "ttft_s", "e2e_s", "tok_s_user", "tok_s_chip", "usd_per_mtok", "pareto", "grade"}


def planner(*arguments: str) -> Result:
    return CliRunner().invoke(group, arguments)


def test_points_as_json_and_parquet(tmp_path: Path) -> None:
    out = tmp_path / "points.parquet"
    done = planner("frontier", "gpt-oss-20b", "--chips", "jalapeno,gb300", "--out", str(out), "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)["result"]
    assert result["lengths"] == {"isl": 8192, "osl": 1024, "range": 0.8}
    assert {point["chip"] for point in result["points"]} == {"jalapeno", "gb300"}
    assert set(result["points"][0]) >= KEYS
    assert any(point["pareto"] for point in result["points"])
    assert pl.read_parquet(out).height == len(result["points"])


def test_the_table_names_each_stack() -> None:
    done = planner("frontier", "deepseek-r1", "--chips", "jalapeno,gb300")
    assert done.exit_code == 0, done.output
    for words in ("best measured stack", "all engines pooled", "jalapeno: inferred", "USD/"):
        assert words in done.stdout


def test_prompts_on_another_chip() -> None:
    done = planner("frontier", "gpt-oss-20b", "--chips", "gb300", "--prefill-chip", "h100-sxm", "--json")
    assert done.exit_code == 0, done.output
    points = json.loads(done.stdout)["result"]["points"]
    assert {point["prefill_chip"] for point in points} == {"h100-sxm"}


def test_a_figure_is_drawn_by_its_ending(tmp_path: Path) -> None:
    page = tmp_path / "curves.html"
    wrong = planner("frontier", "gpt-oss-20b", "--chips", "gb300", "--figure", str(tmp_path / "curves.pdf"))
    assert wrong.exit_code == 5
    assert ".html" in wrong.output
    pytest.importorskip("altair", reason="needs the extra 'figure'")
    done = planner("frontier", "gpt-oss-20b", "--chips", "gb300,jalapeno", "--figure", str(page))
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "jalapeno, inferred" in text
    assert "default-src 'none'" in text
    assert "unsafe-eval" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gpt-oss-20b", "--chips", "gb30"), "gb300"),
        (("gpt-os", "--chips", "gb300"), "gpt-oss-20b"),
        (("gpt-oss-20b", "--chips", ","), "names no chip"),
        (("gpt-oss-20b", "--chips", "gb300", "--range", "1.5"), "range"),
    ],
)
def test_wrong_words_end_with_2(arguments: tuple[str, ...], words: str) -> None:
    done = planner("frontier", *arguments)
    assert done.exit_code == 2
    assert words in done.output


def test_the_posterior_says_what_it_cannot_tell_apart() -> None:
    done = planner("posterior")
    assert done.exit_code == 0, done.output
    for words in ("effective size", "chip.memory_bytes_per_s", "cannot be told apart"):
        assert words in done.stdout

"""`planner report`, and the page that `planner run` writes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from planner import Result
from tests import reviews
from tests.commandline import answer, planner

QUICK = ("--set", "run.length=1 min", "--set", "run.warmup=10 s")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "r"
    reviews.one().save(place)
    return place


def test_page_and_rows_are_written_beside_the_result(folder: Path) -> None:
    done = planner("report", str(folder), "--json")
    assert done.returncode == 0
    found = answer(done)
    assert found["schema"] == "planner.report/1"
    assert found["result"]["page"] == str(folder / "report.html")
    assert found["result"]["bytes"] == (folder / "report.html").stat().st_size < 2_000_000
    assert list(found["result"]["figures"]) == ["demand", "latency", "operating-point", "cost", "busy", "sensitivity"]
    for path in found["result"]["figures"].values():
        assert pl.read_parquet(path).height > 0
    assert Result.load(folder).n_completed > 0  # the page is outside the manifest: the folder is whole with it


def test_pictures_of_what_is_asked_for(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = planner("report", str(folder), "-o", str(page), "--png", str(tmp_path / "png"), "--figures", "cost,kv")
    assert done.returncode == 0
    assert page.is_file()
    assert sorted(path.name for path in (tmp_path / "png").iterdir()) == ["cost.png", "kv.png"]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["report", "{r}", "--figures", "queue"], 2, "in-flight"),
        (["report", "{r}", "--figures", "cots"], 2, "did you mean cost"),
        (["report", "{r}", "--figures", ","], 2, "names no figure"),
        (["report", "{t}"], 2, "is no result"),
        (["report", "{r}", "-o", "/dev/null/x.html"], 5, "cannot write"),
    ],
)
def test_faults(folder: Path, tmp_path: Path, arguments: list[str], status: int, words: str) -> None:
    done = planner(*(word.format(r=folder, t=tmp_path) for word in arguments))
    assert done.returncode == status, done.stderr
    assert words in done.stderr


def test_run_writes_the_page_unless_told_not_to(tmp_path: Path) -> None:
    scenario = str(reviews.ROOT / "scenarios" / "01-one-rack.yaml")
    done = planner("run", scenario, *QUICK, "-o", str(tmp_path / "a"), "--report")
    assert done.returncode == 0
    assert "report.html shows it" in done.stdout
    assert (tmp_path / "a" / "report.html").is_file()
    assert (tmp_path / "a" / "figures" / "cost.parquet").is_file()
    done = planner("run", scenario, *QUICK, "-o", str(tmp_path / "b"), "--no-report")
    assert done.returncode == 0
    assert not (tmp_path / "b" / "report.html").exists()
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (tmp_path / "b" / "manifest.json").read_bytes()


def test_a_result_at_an_address_gets_its_page_there(tmp_path: Path) -> None:
    scenario = str(reviews.ROOT / "scenarios" / "01-one-rack.yaml")
    place = f"local://{tmp_path}/r"
    done = planner("run", scenario, *QUICK, "-o", place, "--report")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r" / "report.html").is_file()
    assert (tmp_path / "r" / "figures" / "cost.parquet").is_file()
    done = planner("report", place, "--figures", "power", "--json")
    assert done.returncode == 0, done.stderr
    assert answer(done)["result"]["figures"] == {"power": f"{place}/figures/power.parquet"}
    assert (tmp_path / "r" / "figures" / "power.parquet").is_file()

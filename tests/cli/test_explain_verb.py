"""`planner explain` through the real entry point."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_compare_verb import TEXT
from tests.commandline import answer, planner


def test_a_figure_with_samples(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(TEXT)
    done = planner(
        "run", "s.yaml", "--set", "run.samples=6", "--set", "run.samples_simulated=2", "-o", "r", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "samples of the uncertain facts" in done.stdout
    body = answer(planner("explain", "r", "usd_per_mtok_out", "--json", cwd=tmp_path))
    (figure,) = body["result"]["figures"]
    assert body["schema"] == "planner.explain/1"
    assert figure["path"] == "cost.usd_per_mtok_out"
    assert figure["over_facts"]["n"] == 6
    assert any(fact["rank_correlation"] is not None for fact in figure["facts"])
    text = planner("explain", "r", cwd=tmp_path)
    assert text.returncode == 0
    assert "cost.usd_per_mtok_out_whole" in text.stdout
    wrong = planner("explain", "r", "usd_per_mtok_ou", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean" in wrong.stderr

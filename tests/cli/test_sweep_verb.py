"""`planner sweep` through the real entry point: table, JSON, folder, gate, bad input, interrupt and resume."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.commandline import ROOT, answer, planner

FILE = "scenarios/09-how-many-racks.yaml"
SHORT = ("--set", "run.length=8 s", "--set", "run.warmup=2 s")


def test_a_row_a_point_and_the_cheapest_that_holds(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = planner("sweep", FILE, *SHORT, "-o", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 points" in done.stdout
    assert "infeasible" in done.stdout
    assert "cheapest that holds every limit: fleet.pools.jalapeno.count=2, fleet.pools.gb300.count=0" in done.stdout
    again = planner("sweep", FILE, *SHORT, "-o", str(out), "--json")
    made = answer(again)
    assert (made["schema"], made["ok"]) == ("planner.sweep/1", True)
    result = made["result"]
    assert result["axes"]["fleet.pools.jalapeno.count"] == ["0", "1", "2", "3"]
    assert result["points"][result["cheapest"]]["values"] == {
        "fleet.pools.jalapeno.count": "2",
        "fleet.pools.gb300.count": "0",
    }
    assert result["points"][0]["verdict"] == "infeasible"
    table = pl.read_parquet(out / "points.parquet")
    assert table.height == 12
    assert table["usd_per_h"].to_list() == [point["usd_per_h"] for point in result["points"]]
    assert sorted(path.name for path in (out / "points").iterdir()) == [f"{ix:05d}" for ix in range(1, 12)]


def test_gate_and_no_fleet(tmp_path: Path) -> None:
    tight = (*SHORT, "--set", "slo.interactive.ttft.p95=1 ms", "--set", "run.drain=1 s")
    done = planner("sweep", FILE, *tight, "-o", str(tmp_path / "a"), "--gate")
    assert done.returncode == 3
    assert "no point holds every limit; nearest: " in done.stdout
    text = (ROOT / FILE).read_text().replace("[0, 1, 2, 3]", "[0]").replace("[0, 1, 2]", "[0]")
    file = tmp_path / "none.yaml"
    file.write_text(text)
    done = planner("sweep", str(file), "-o", str(tmp_path / "b"), "--json")
    assert done.returncode == 4
    assert answer(done)["result"]["cheapest"] is None


def test_bad_input(tmp_path: Path) -> None:
    done = planner("sweep", "scenarios/01-one-rack.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the scenario has no axes to sweep; write sweep: {axes: " in done.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    done = planner("sweep", FILE, "-o", str(tmp_path / "full"), "--force")
    assert done.returncode == 5
    assert "is there and is no sweep" in done.stderr
    assert (tmp_path / "full" / "file").read_text() == "mine"

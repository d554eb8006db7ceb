"""`planner headroom` through the real entry point."""

from __future__ import annotations

from pathlib import Path

from planner import Result
from tests.commandline import answer, planner

FILE = "scenarios/01-one-rack.yaml"
SHORT = ("--set", "run.length=8 s", "--set", "run.warmup=2 s", "--set", "traffic.chat.rate=600 req/s", "--no-n1")


def test_text_json_and_gate() -> None:
    done = planner("headroom", FILE, *SHORT)
    assert done.returncode == 0, done.stderr
    assert "holds every limit up to" in done.stdout
    assert "breaks first: chat" in done.stdout
    made = answer(planner("headroom", FILE, *SHORT, "--json", "--gate"))
    assert (made["schema"], made["ok"]) == ("planner.headroom/1", True)
    result = made["result"]
    assert result["low"] <= result["multiplier"] <= result["high"]
    assert f"up to {result['multiplier']:.4g} times" in done.stdout
    assert result["breaks"]["pool"] == "jalapeno"
    assert result["n1"] == []
    tight = planner("headroom", FILE, *SHORT, "--set", "slo.interactive.ttft.p95=1 us", "--gate")
    assert tight.returncode == 3
    assert "gate: the limits hold up to 0 times the load" in tight.stderr


def test_the_page_of_a_run_has_its_headroom(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = planner("headroom", FILE, *SHORT, "-o", str(out))
    assert done.returncode == 0, done.stderr
    result = Result.load(out)
    found = result.to_json()["headroom"]
    assert f"up to {found['multiplier']:.4g} times the load" in done.stdout
    assert "this load still fits" in (out / "report.html").read_text()
    again = planner("headroom", FILE, *SHORT, "-o", str(out))
    assert again.returncode == 5
    assert "is there already" in again.stderr


def test_bad_input() -> None:
    done = planner("headroom", FILE, "--set", "traffic.chat.slo=null")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no class has limits" in done.stderr
    assert planner("headroom", "scenarios/03-buy-plan.yaml").returncode == 2

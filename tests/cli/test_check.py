"""`planner check` through the real entry point: summary, warnings, faults of all files, the resolved file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.scenario import load

ROOT = Path(__file__).resolve().parents[2]
ENTRY = [sys.executable, "-W", "error", "-m", "planner"]


def planner(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*ENTRY, *arguments], cwd=ROOT, input=stdin, capture_output=True, timeout=60, check=False)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def envelope(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(done.stdout)
    assert made["schema"] == "planner.check/1"
    return made


def test_the_three_examples_pass_and_the_third_is_for_optimize() -> None:
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "scenarios").glob("0[123]*.yaml"))
    done = planner("check", *files)
    assert done.returncode == 0
    assert "One Jalapeño rack for an internal chat service" in done.stdout
    assert "gamma 9 req/s, CV 2.5" in done.stdout
    assert "scenarios: nvidia_only, nvidia_only_clean" in done.stdout
    assert done.stdout.count("  for: planner run, planner headroom\n") == 2
    assert done.stdout.count("  for: planner optimize\n") == 1
    assert done.stderr == ""
    assert planner("check", "-q", *files).stderr == ""


def test_json() -> None:
    done = planner("check", "scenarios/03-buy-plan.yaml", "--json")
    made = envelope(done)
    assert (done.returncode, done.stderr, made["ok"]) == (0, "", True)
    (one,) = made["result"]["scenarios"]
    assert one["title"] == "What to buy for next year's growth"
    assert one["variants"] == {"supply_slips": ["late_jalapeno"]}
    assert one["unsupported"] == []
    assert one["for"] == ["optimize"]
    assert made["warnings"] == []
    assert made["inputs"] == one["digest"] == f"sha256:{load(ROOT / 'scenarios' / '03-buy-plan.yaml').digest()}"


def test_variants_and_all() -> None:
    file = "scenarios/02-mixed-fleet.yaml"
    named = envelope(planner("check", file, "-s", "nvidia_only", "-s", "base", "--json"))["result"]["scenarios"]
    assert [one["scenario"] for one in named] == ["nvidia_only", "base"]
    every = envelope(planner("check", file, "--all", "--json"))["result"]["scenarios"]
    assert [one["scenario"] for one in every] == ["base", "nvidia_only", "nvidia_only_clean"]
    wrong = planner("check", file, "-s", "nvidia_onyl")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean nvidia_only" in wrong.stderr


def test_resolved_loads_again_and_says_where_each_value_is_from() -> None:
    file = "scenarios/02-mixed-fleet.yaml"
    arguments = (file, "-s", "nvidia_only_clean", "--set", "run.seeds=1", "--resolved")
    text = planner("check", *arguments).stdout
    assert any(line.split() == ["seeds:", "1", "#", "--set", "run.seeds"] for line in text.splitlines())
    assert any(line.lstrip().startswith('grid: "no"') and "override clean_grid" in line for line in text.splitlines())
    again = load("-", stdin_text=text)
    asked = load(ROOT / file, variant="nvidia_only_clean", sets=["run.seeds=1"])
    assert again.digest() == asked.digest()
    made = envelope(planner("check", *arguments, "--json"))["result"]["scenarios"][0]
    assert made["resolved"] == asked.resolved()
    assert made["origins"]["run.seeds"] == "--set run.seeds"


def test_the_faults_of_all_files_at_once(tmp_path: Path) -> None:
    small = (ROOT / "scenarios" / "01-one-rack.yaml").read_text()
    (tmp_path / "a.yaml").write_text(small.replace("500 ms", "500 mss").replace("rate: 40 req/s", "rate: 40"))
    (tmp_path / "b.yaml").write_text(small.replace("rack: jalapeno-rack", "rack: jalapeno-rak"))
    files = [str(tmp_path / name) for name in ("a.yaml", "b.yaml", "c.yaml")]
    done = planner("check", *files, "scenarios/01-one-rack.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.split(": ", 2)[1:] for line in done.stderr.splitlines()] == [
        [f"{tmp_path}/a.yaml:8:11", "traffic.chat.rate: '40' has no unit; write a quantity such as 40 req/s"],
        [f"{tmp_path}/a.yaml:13:29", "slo.interactive.ttft.p95: unknown unit 'mss'; did you mean ms, s?"],
        [
            f"{tmp_path}/b.yaml:16:22",
            "fleet.pools.jalapeno.rack: no rack is named 'jalapeno-rak'; did you mean jalapeno-rack?",
        ],
        [f"{tmp_path}/c.yaml", "no such file; did you mean b.yaml, a.yaml?"],
    ]
    made = envelope(planner("check", *files, "--json"))
    assert made["ok"] is False
    assert [fault["line"] for fault in made["error"]["faults"]] == [8, 13, 16, None]
    assert made["error"]["faults"][0]["path"] == "traffic.chat.rate"


def test_stdin() -> None:
    text = (ROOT / "scenarios" / "01-one-rack.yaml").read_bytes()
    assert planner("check", "-", stdin=text).returncode == 0
    assert planner("check", "-", "--all", stdin=b"\xef\xbb\xbf" + text).returncode == 0
    done = planner("check", "-", stdin=text.replace(b"ms", b"\xff\xfe"))
    assert done.returncode == 2
    assert "<stdin>: not UTF-8 text" in done.stderr


def test_text_from_files_cannot_drive_the_terminal(tmp_path: Path) -> None:
    small = (ROOT / "scenarios" / "01-one-rack.yaml").read_text()
    lines = [r'title: "\e[31mred\a"' if line.startswith("title:") else line for line in small.splitlines()]
    path = tmp_path / "s.yaml"
    path.write_text("\n".join(lines))
    done = planner("check", str(path))
    assert done.returncode == 0
    assert not set(done.stdout) & set("\x1b\x07")
    assert "[31mred" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("--nope", "x.yaml"), ("scenarios",)])
def test_misuse(arguments: tuple[str, ...]) -> None:
    done = planner("check", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr

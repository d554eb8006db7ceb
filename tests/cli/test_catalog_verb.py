"""`planner catalog` through the real entry point: text and JSON on stdout, faults on stderr, exit status."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from planner.cli.main import run

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def planner(*arguments: str) -> Done:
    """The entry point in this process, stdout and stderr apart."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        run(arguments)
    return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())


def answer(*arguments: str) -> dict[str, Any]:
    done = planner(*arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    envelope: dict[str, Any] = json.loads(done.stdout)
    assert (envelope["schema"], envelope["ok"]) == ("planner.catalog/1", True)
    result: dict[str, Any] = envelope["result"]
    return result


def test_list_names_every_kind() -> None:
    done = planner("catalog", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("kind")
    assert "jalapeno-rack" in done.stdout
    kinds = answer("catalog", "list")["kinds"]
    assert "us-virginia" in kinds["sites"]
    assert "no" in kinds["sites"]


@pytest.mark.parametrize("kind", ["chips", "racks", "models", "sites", "engines", "prices", "sources", "reliability"])
def test_list_of_a_kind(kind: str) -> None:
    done = planner("catalog", "list", kind)
    assert done.returncode == 0
    names = [entry["name"] for entry in answer("catalog", "list", kind)["entries"]]
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(names)]] == names


def test_a_placeholder_is_marked() -> None:
    lines = {line.split()[0]: line for line in planner("catalog", "list", "chips").stdout.splitlines()}
    assert "~288 GB" in lines["jalapeno"]
    assert " 298 GB" in lines["gb300"]
    assert "~ placeholder" in lines["~"]


def test_show_says_how_each_fact_is_known() -> None:
    text = planner("catalog", "show", "chip", "gb200").stdout
    assert "memory_bytes" in text
    assert "199 GB   range 192 GB .. 199 GB   measured" in text
    assert "189,471 MiB read from the driver = 185 GiB; sold as 186 or 192 GB" in text
    assert "source: aiconfigurator system file gb200 [aic-gb200]" in text
    assert "others say 215 GB [fsim-hw]: too high: 200 GiB does not exist" in text


def test_show_tells_a_placeholder_from_nothing() -> None:
    text = planner("catalog", "show", "chips", "jalapeno").stdout
    lines = {line.split()[0]: line for line in text.splitlines() if line and not line.startswith(" ")}
    assert lines["memory_bytes"].endswith("undisclosed (range estimate)   placeholder")
    assert lines["on_chip_sram_bytes"].endswith("undisclosed (range assumed)   no placeholder")


def test_show_as_data_is_exact() -> None:
    facts = answer("catalog", "show", "chips", "h100-sxm")["facts"]
    memory = facts["memory_bytes"]
    assert (memory["value"], memory["unit"], memory["grade"]) == (85_899_345_920, "bytes", "third-party")
    assert memory["alternatives"][0]["value"] == 80_000_000_000
    assert facts["flop_per_s.fp4"]["value"] is None
    assert answer("catalog", "show", "chips", "jalapeno")["facts"]["tdp_w"]["is_assumed"] is False


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("models", "openai/gpt-oss-120b"),
        ("headline", "jalapeno"),
        ("prices", "finance"),
        ("prices", "tokens"),
        ("prices", "gb300"),
        ("reliability", "defaults"),
        ("general", "formats"),
        ("serving", "default"),
        ("engine", "openai"),
        ("source", "ix-specs"),
        ("site", "no"),
    ],
)
def test_show_of_every_kind(kind: str, name: str) -> None:
    done = planner("catalog", "show", kind, name)
    assert (done.returncode, done.stderr) == (0, "")
    assert answer("catalog", "show", kind, name)["title"]


def test_the_headline_has_its_twelve_targets() -> None:
    assert len(answer("catalog", "show", "headline", "jalapeno")["targets"]) == 12
    assert "1.43 ms" in planner("catalog", "show", "headline", "jalapeno").stdout


def test_diff_puts_values_side_by_side() -> None:
    text = planner("catalog", "diff", "gb200", "gb300").stdout
    line = next(line for line in text.splitlines() if line.startswith("flop_per_s.fp4"))
    assert line.split() == ["flop_per_s.fp4", "10.0", "PFLOP/s", "15.0", "PFLOP/s", "1.50", "x", "vendor"]
    assert "memory_bytes_per_s" not in text  # the same on both
    assert "memory_bytes_per_s" in planner("catalog", "diff", "gb200", "gb300", "--all").stdout
    rows = {row["path"]: row for row in answer("catalog", "diff", "gb200", "gb300")["differences"]}
    assert rows["tdp_w"]["ratio"] == pytest.approx(1400 / 1200)


def test_diff_of_groups_goes_member_by_member() -> None:
    rows = {row["path"] for row in answer("catalog", "diff", "deepseek-r1", "kimi-k2.5")["differences"]}
    assert {"moe.n_experts", "params.total", "n_heads"} <= rows
    assert "moe.top_k" not in rows


def test_a_thing_does_not_differ_from_itself() -> None:
    assert planner("catalog", "diff", "gb300", "gb300").stdout == "gb300 and gb300 do not differ\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "chipz"), "error: unknown kind of facts 'chipz'; did you mean chips?"),
        (("show", "chips", "gb20"), "error: no 'gb20' among the catalogue's chips; did you mean gb200, gb300?"),
        (
            ("diff", "gb300", "jalapeno-rack"),
            "error: 'gb300' is among chips and prices, 'jalapeno-rack' is among racks",
        ),
        (("diff", "gb30", "jalapenno"), "error: no 'gb30' in the catalogue; did you mean gb300"),
    ],
)
def test_a_wrong_name_ends_with_2(arguments: tuple[str, ...], message: str) -> None:
    done = planner("catalog", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    failed = planner("catalog", *arguments, "--json")
    assert failed.returncode == 2
    envelope = json.loads(failed.stdout)
    assert (envelope["ok"], envelope["error"]["code"]) == (False, "fact")


def test_the_command_itself_imports_only_light_libraries() -> None:
    code = (
        "import sys\nfrom planner.cli.main import main\nsys.argv = ['planner', 'catalog', 'list', 'chips']\n"
        "try:\n    main()\nfinally:\n    heavy = {'polars', 'ray', 'numpy', 'pydantic', 'planner._core'}\n"
        "    print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
    assert "jalapeno" in done.stdout


@pytest.mark.parametrize(("kind", "name"), [("demand", "m-small"), ("traffic", "azure-conv-2023")])
def test_long_lists_are_shown_by_their_begin(kind: str, name: str) -> None:
    done = planner("catalog", "show", kind, name)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) < 400
    assert "in all" in done.stdout
    whole = json.loads(planner("catalog", "show", kind, name, "--json").stdout)
    assert "in all" not in json.dumps(whole)

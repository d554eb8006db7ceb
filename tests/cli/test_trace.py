"""`planner trace` through the real entry point: the answer on stdout, the rest on stderr, the exit status."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import ENTRY, answer, planner

BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
12,ChatGPT,640,0,640,Conversation log
19,ChatGPT,310,45,355,Conversation log
31,GPT-4,1205,330,1535,API log
25,GPT-4,95,12,107,API log
"""


@pytest.fixture
def burstgpt(tmp_path: Path) -> Path:
    path = tmp_path / "requests.csv"
    path.write_text(BURSTGPT)
    return path


def test_inspect_says_what_was_read_and_how(burstgpt: Path) -> None:
    done = planner("trace", "inspect", str(burstgpt))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "requests.csv   burstgpt (BurstGPT), told by its content"
    assert lines[1].split(maxsplit=1) == ["rows", "4 read, 1 refused; 3 requests"]
    assert lines[2].split(maxsplit=1) == ["refused", "zero_output 1"]
    assert done.stderr.startswith("warning: 1 rows came after a later arrival")
    assert planner("trace", "inspect", str(burstgpt), "-q").stderr == ""
    named = planner("trace", "inspect", str(burstgpt), "--format", "burstgpt")
    assert "as named" in named.stdout


def test_inspect_as_json(burstgpt: Path) -> None:
    done = planner("trace", "inspect", str(burstgpt), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    envelope = answer(done)
    assert (envelope["schema"], envelope["ok"]) == ("planner.trace/1", True)
    assert envelope["inputs"].startswith("sha256:")
    assert [warning["code"] for warning in envelope["warnings"]] == ["unsorted"]
    result = envelope["result"]
    wanted: dict[str, Any] = {
        "format": "burstgpt",
        "rows_read": 4,
        "rejected": {"zero_output": 1},
        "n_requests": 3,
        "sum_input_tokens": 1610,
        "sum_output_tokens": 387,
        "duration_s": 12,
        "warnings": ["unsorted"],
        "out_of_order_rows": 1,
    }
    assert {key: result[key] for key in wanted} == wanted
    assert result["input"]["p50"] == 310


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.csv", None, "there is no such file"),
        ("empty.csv", "", "the file is empty"),
        ("header.csv", BURSTGPT.splitlines()[0], "the trace has no rows"),
        ("unknown.csv", "a,b\n1,2\n", "no known trace format"),
        ("useless.csv", BURSTGPT.splitlines()[0] + "\n1,m,5,0,5,x\n", "no usable row among 1: 1 zero_output"),
        ("torn.csv.gz", gzip.compress(BURSTGPT.encode() * 999)[:-9], "ends before its end"),
    ],
)
def test_what_cannot_be_read_ends_with_2(tmp_path: Path, name: str, content: str | bytes | None, says: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    done = planner("trace", "inspect", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {path}")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    as_json = planner("trace", "inspect", str(path), "--json")
    assert (as_json.returncode, as_json.stderr) == (2, "")
    envelope = answer(as_json)
    assert (envelope["ok"], envelope["result"], envelope["error"]["kind"]) == (False, None, "TrafficError")
    assert says in envelope["error"]["faults"][0]["message"]


def test_names_from_a_file_cannot_drive_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens,class\n0,1,1,\x1b[31mred\n")
    assert "\x1b" not in planner("trace", "inspect", str(path)).stdout


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_convert_and_back(burstgpt: Path, form: str) -> None:
    folder = burstgpt.parent / "out"
    folder.mkdir()
    done = planner("trace", "convert", str(burstgpt), "--to", form, cwd=folder)
    assert done.returncode == 0
    assert done.stdout == f"wrote requests.{form}   3 of 3 requests read as burstgpt\n"
    assert "1 of 4 rows refused: zero_output 1" in done.stderr
    assert [path.name for path in folder.iterdir()] == [f"requests.{form}"]
    result = answer(planner("trace", "inspect", f"requests.{form}", "--json", cwd=folder))["result"]
    assert (result["format"], result["rows_read"], result["warnings"]) == ("generic", 3, [])
    assert (result["arrivals_s"], result["sum_input_tokens"]) == ([0, 6, 12], 1610)
    again = planner("trace", "convert", str(burstgpt), "--to", form, "--json", cwd=folder)
    assert again.returncode == 2  # the file is there
    assert planner("trace", "convert", str(burstgpt), "--to", form, "--force", cwd=folder).returncode == 0


def test_convert_to_stdout(burstgpt: Path) -> None:
    done = planner("trace", "convert", str(burstgpt), "--to", "csv", "-o", "-", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "arrival_s,input_tokens,output_tokens,class,model",
        "0,310,45,Conversation log,ChatGPT",
    ]
    for wrong in (["--to", "parquet"], ["--to", "csv", "--json"]):
        assert planner("trace", "convert", str(burstgpt), *wrong, "-o", "-").returncode == 2


def test_convert_never_writes_over_what_it_reads(burstgpt: Path) -> None:
    done = planner("trace", "convert", str(burstgpt), "--to", "csv", "-o", str(burstgpt), "--force")
    assert done.returncode == 2
    assert burstgpt.read_text() == BURSTGPT


def test_sample_keeps_each_nth(burstgpt: Path) -> None:
    out = burstgpt.parent / "few.jsonl"
    done = planner("trace", "sample", str(burstgpt), "--every", "2", "--to", "jsonl", "-o", str(out), "--json")
    result = answer(done)["result"]
    assert (result["n_requests"], result["duration_s"], result["path"]) == (2, 12, str(out))
    assert [json.loads(line)["input_tokens"] for line in out.read_text().splitlines()] == [310, 1205]
    assert planner("trace", "sample", str(burstgpt), "--every", "0").returncode == 2


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(f"{k},1,1\n" for k in range(100_000)))
    command = [*ENTRY, "trace", "convert", str(path), "--to", "jsonl", "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(60) == 0


def test_help_of_each_ends_in_two_examples() -> None:
    for verb in ([], ["inspect"], ["convert"], ["sample"]):
        done = planner("trace", *verb, "--help")
        assert done.returncode == 0
        assert done.stdout.rstrip().splitlines()[-2].strip().startswith("planner trace")


def test_ugly_files_and_real_traces_through_the_command(shared: Path) -> None:
    expected = json.loads((shared / "traces/ugly/expected.json").read_text())["files"]
    for name in ("c01_burstgpt_fails.csv", "c15_usage_buckets.json", "c21_truncated_tail.jsonl"):
        result = answer(planner("trace", "inspect", str(shared / "traces/ugly" / name), "--json"))["result"]
        for key in (
            "format",
            "rows_read",
            "rejected",
            "n_requests",
            "sum_input_tokens",
            "sum_output_tokens",
            "duration_s",
        ):
            assert result[key] == expected[name][key], (name, key)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_stream_of_requests_whose_reader_goes_away_ends_quietly(tmp_path: Path, form: str) -> None:
    path = tmp_path / "many.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(f"{n},100,10\n" for n in range(250_000)))
    process = subprocess.Popen(
        [*ENTRY, "trace", "convert", str(path), "--to", form, "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert (process.wait(timeout=60), process.stderr.read()) == (0, b"")
    process.stderr.close()


def test_a_long_stream_of_csv_has_one_header_and_every_row(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(f"{n},100,10\n" for n in range(250_000)))
    assert planner("trace", "convert", str(path), "--to", "csv", "-o", "-").stdout == path.read_text()


def test_a_trace_is_not_written_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(BURSTGPT)
    done = planner("trace", "convert", str(path), "--to", "csv", "-o", str(path), "--force")
    assert done.returncode == 2
    assert "is the trace that is read; name another file with -o" in done.stderr
    assert path.read_text() == BURSTGPT

"""`planner run` through the real entry point: real traces, laws, the same bytes, bad input, exit statuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from planner.errors import RunError
from planner.scenario import load
from planner.study import answer as study
from tests.commandline import ENTRY, ROOT, answer, planner

SMALL = """
schema: 1
title: A small fleet
traffic:
  chat:
    model: {model}
    {traffic}
    slo: easy
slo:
  easy: {{ttft: {{p95: {ttft}}}, tpot: {{p95: 50 ms}}}}
fleet:
  pools:
    pool: {{rack: {rack}, count: 1, deploy: [{{model: {model}, chips: {chips}}}]}}
run: {{{run}}}
"""
DRAWN = """arrivals: poisson
    rate: 3 req/s
    input: {dist: lognormal, median: 500 tok, p95: 2 ktok}
    output: {dist: lognormal, median: 100 tok, p95: 400 tok}"""
REAL = (
    ("AzureLLMInferenceTrace_code.csv", "gpt-oss-120b", "hgx-b200", 4),
    ("AzureLLMInferenceTrace_conv.csv", "gpt-oss-120b", "hgx-b200", 4),
    ("mooncake_conversation_trace.jsonl.gz", "kimi-k2.5", "gb300-nvl72", 12),
    ("mooncake_synthetic_trace.jsonl.gz", "kimi-k2.5", "gb300-nvl72", 12),
)


def scenario(
    folder: Path,
    traffic: str = DRAWN,
    *,
    model: str = "gpt-oss-120b",
    rack: str = "hgx-h200",
    chips: int = 4,
    run: str = "length: 5 min, warmup: 30 s, seed: 3",
    ttft: str = "2 s",
) -> str:
    path = folder / "scenario.yaml"
    path.write_text(SMALL.format(traffic=traffic, model=model, rack=rack, chips=chips, run=run, ttft=ttft))
    return str(path)


@pytest.mark.parametrize(("trace", "model", "rack", "chips"), REAL)
def test_real_traces_are_counted_to_the_token(tmp_path, shared, trace, model, rack, chips):
    golden = json.loads((shared / "traces" / "golden.json").read_text())[trace]
    file = scenario(tmp_path, f"trace: {shared / 'traces' / trace}", model=model, rack=rack, chips=chips, run="seed: 1")
    done = planner("run", file, "--json", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    made = answer(done)
    result = made["result"]
    requests = result["requests"]
    assert (made["schema"], made["ok"]) == ("planner.run/1", True)
    assert requests["offered"] == golden["rows"]
    assert result["tokens"] == {"input": golden["input_tokens"], "output": golden["output_tokens"]}
    ended = ("completed", "rejected", "timed_out", "cancelled", "unfinished")
    assert requests["offered"] == sum(requests[how] for how in ended)
    assert result["run"]["length_s"] == pytest.approx(golden["duration_s"], abs=1e-6)


def test_the_same_seed_gives_the_same_bytes_whatever_the_workers(tmp_path):
    file = scenario(tmp_path, run="length: 3 min, seed: 5, seeds: 3")
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, workers in zip(folders, ("1", "4"), strict=True):
        assert planner("run", file, "-o", str(folder), "-j", workers, "--keep", "requests").returncode == 0
    files = sorted(path.name for path in folders[0].glob("*.parquet"))
    assert "requests.parquet" in files
    assert len(files) >= 8
    for name in [*files, "result.json", "scenario.resolved.yaml"]:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
    for name in files:
        assert {"variant", "seed"} <= set(pl.read_parquet_schema(folders[0] / name)), name


def test_another_seed_gives_other_requests(tmp_path):
    file = scenario(tmp_path)
    ttft = []
    for seed in ("1", "2"):
        done = planner("run", file, "--seed", seed, "--json", "-o", str(tmp_path / seed))
        ttft.append(answer(done)["result"]["classes"]["chat"]["ttft_s"]["mean"])
    assert ttft[0] != ttft[1]


def test_the_same_question_is_answered_once(tmp_path):
    file = scenario(tmp_path)
    first = planner("run", file, cwd=tmp_path)
    assert (first.returncode, "wrote runs/a-small-fleet-" in first.stdout) == (0, True)
    again = planner("run", file, cwd=tmp_path)
    assert "the same question was answered before" in again.stdout
    assert "simulated in" in first.stdout
    assert "simulated in" not in again.stdout
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert "wrote runs/" in planner("run", file, "--force", cwd=tmp_path).stdout
    assert planner("run", file, "--set", "run.seed=9", cwd=tmp_path).returncode == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    done = planner("run", scenario(tmp_path), "-o", str(out))
    assert (done.returncode, (out / "thesis.txt").read_text()) == (5, "years of work")
    assert "choose another folder with -o" in done.stderr
    assert planner("run", scenario(tmp_path), "-o", str(out), "--force").returncode == 5
    assert (out / "thesis.txt").exists()


def test_gate_and_nothing_completed(tmp_path):
    tight = scenario(tmp_path, ttft="1 us")
    done = planner("run", tight, "-o", str(tmp_path / "tight"))
    assert (done.returncode, "MISSED" in done.stdout) == (0, True)
    assert planner("run", tight, "-o", str(tmp_path / "gate"), "--gate").returncode == 3
    # One request of 100,000 output tokens cannot end in the run's ten seconds and no drain.
    long = DRAWN.replace("dist: lognormal, median: 100 tok, p95: 400 tok", "dist: fixed, value: 100 ktok")
    nothing = scenario(tmp_path, long, run="length: 10 s, drain: 0 s")
    done = planner("run", nothing, "--json", "-o", str(tmp_path / "nothing"))
    result = answer(done)["result"]
    assert done.returncode == 4
    assert (result["requests"]["completed"], result["classes"]["chat"]["tpot_s"]["p95"]) == (0, None)
    assert (tmp_path / "nothing" / "result.json").exists()
    assert result["classes"]["chat"]["verdict"] == "missed"


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (("gpt-oss-120b", "gpt-oss-12b"), 2, "did you mean gpt-oss-120b"),
        (("500 tok", "500 parsecs"), 2, "unknown unit"),
        (("hgx-h200", "hgx-h20"), 2, "hgx-h200"),
        (("3 req/s", "3"), 2, "rate"),
        (("chips: 4}", "chips: 16}"), 4, "use at most 8 chips"),
        (("slo: easy", "slo: hard"), 2, "hard"),
        (("run: {", "goal: {minimise: tco}\nrun: {"), 2, "it is for planner optimize"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_nothing_is_written(tmp_path, change, status, says):
    file = Path(scenario(tmp_path))
    text = file.read_text()
    assert change[0] in text
    file.write_text(text.replace(*change))
    done = planner("run", str(file), "--json", cwd=tmp_path)
    made = answer(done)
    assert (done.returncode, made["ok"], made["result"]) == (status, False, None)
    assert says in made["error"]["message"]
    assert "scenario.yaml:" in made["error"]["message"]
    assert not (tmp_path / "runs").exists()
    told = planner("run", str(file), cwd=tmp_path)
    assert (told.returncode, told.stdout, says in told.stderr) == (status, "", True)


def test_a_missing_file_a_directory_and_a_trace_without_rows(tmp_path):
    for source in (tmp_path / "none.yaml", tmp_path):
        assert planner("run", str(source)).returncode == 2
    (tmp_path / "empty.csv").write_text("arrival_s,input_tokens,output_tokens\n")
    done = planner("run", scenario(tmp_path, "trace: ./empty.csv", run="seed: 1"), cwd=tmp_path)
    assert done.returncode == 2
    assert "empty.csv" in done.stderr
    done = planner("run", scenario(tmp_path, "trace: ./gone.csv", run="seed: 1"), cwd=tmp_path)
    assert (done.returncode, "gone.csv" in done.stderr) == (2, True)


def test_a_class_of_which_no_request_fits_is_infeasible(tmp_path):
    # llama-3.1-8b has a context of 131,072 tokens; a prompt of 200,000 never fits and cannot be drawn shorter.
    (tmp_path / "long.csv").write_text("arrival_s,input_tokens,output_tokens\n0,200000,10\n1,150000,10\n")
    file = scenario(tmp_path, "trace: ./long.csv", model="llama-3.1-8b", chips=1, run="seed: 1")
    done = planner("run", file, cwd=tmp_path)
    assert done.returncode == 4
    assert "its shortest request is 150,009 tokens long, its model takes 131,072 at most" in done.stderr
    # 2 x 85.9 GB hold the 141 GB of weights and not the 130,009 x 327,680 B = 42.6 GB of keys and values.
    (tmp_path / "long.csv").write_text("arrival_s,input_tokens,output_tokens\n0,130000,10\n")
    file = scenario(tmp_path, "trace: ./long.csv", model="llama-3.1-70b", rack="hgx-h100", chips=2, run="seed: 1")
    done = planner("run", file, cwd=tmp_path)
    assert done.returncode == 4
    assert "its shortest request needs 130,009 tokens of KV cache, the largest replica holds" in done.stderr
    assert "use more chips a replica" in done.stderr


def test_a_warm_up_beyond_the_trace_is_refused_where_it_is_written(tmp_path):
    (tmp_path / "short.csv").write_text("arrival_s,input_tokens,output_tokens\n100,50,10\n130.25,50,10\n")
    file = scenario(tmp_path, "trace: ./short.csv", run="warmup: 31 s")
    for verb in ("run", "check"):
        done = planner(verb, file, cwd=tmp_path)
        assert done.returncode == 2
        assert "run.warmup: the warm-up is not shorter than the run" in done.stderr
        assert "30.25 s" in done.stderr
    assert planner("run", file, "--set", "run.warmup=30 s", cwd=tmp_path).returncode == 0


def test_a_trace_of_centuries_is_refused_with_a_word_about_its_clock(tmp_path):
    (tmp_path / "far.csv").write_text("arrival_s,input_tokens,output_tokens\n0,50,10\n9000000000,50,10\n")
    done = planner("run", scenario(tmp_path, "trace: ./far.csv", run="seed: 1"), cwd=tmp_path)
    assert done.returncode == 2
    assert "whether a trace's clock is in another unit" in done.stderr
    done = planner("run", scenario(tmp_path, run="length: 3.19e9 s, window: 1 wk"), cwd=tmp_path)
    assert (done.returncode, "run.length" in done.stderr) == (2, True)


def test_one_simulation_serves_variants_that_differ_only_in_money_or_carbon(tmp_path):
    file = Path(scenario(tmp_path))
    variants = "overrides: {clean: {site.grid: no}, dear: {site.power_price: 0.3 USD/kWh}}\n"
    file.write_text(file.read_text() + variants + "scenarios: {a: [clean], b: [dear]}\n")
    result = answer(planner("run", str(file), "--all", "--json", "-o", str(tmp_path / "out")))["result"]["variants"]
    assert list(result) == ["base", "a", "b"]
    assert result["a"]["classes"] == result["base"]["classes"]
    latencies = [[tree["classes"]["chat"][key] for key in ("ttft_s", "tpot_s", "limits")] for tree in result.values()]
    assert latencies == latencies[:1] * 3
    assert result["a"]["cost"] == result["base"]["cost"]
    assert result["a"]["carbon"]["operational_kgco2e"] < result["base"]["carbon"]["operational_kgco2e"]
    assert result["b"]["cost"]["parts"]["energy"] > result["base"]["cost"]["parts"]["energy"]


def test_ctrl_c_ends_at_once_and_leaves_nothing_half_written(tmp_path):
    file = scenario(tmp_path, DRAWN.replace("3 req/s", "800 req/s"), run="length: 8 h, seeds: 2, drain: 0 s")
    process = subprocess.Popen(
        [*ENTRY, "run", file, "-o", str(tmp_path / "out")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(6)
    assert process.poll() is None, process.communicate()
    sent_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - sent_s < 2
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


@pytest.mark.parametrize("flag", ["", "--json"])
def test_ctrl_c_while_the_command_is_loaded_is_answered_too(flag):
    code = f"""
import signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "click":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.argv = ["planner", "run", "none.yaml", *{flag!r}.split()]
from planner.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    if flag:
        assert json.loads(done.stdout)["error"]["code"] == "interrupted"
    else:
        assert (done.stdout, done.stderr) == ("", "interrupted\n")


def test_a_closed_pipe_ends_quietly(tmp_path):
    process = subprocess.Popen(
        [*ENTRY, "run", scenario(tmp_path), "-o", str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as told:
        assert b"Traceback" not in told.read()
    assert process.wait() == 0


def test_stdin_and_usage(tmp_path):
    text = Path(scenario(tmp_path)).read_text()
    assert planner("run", "-", "-o", str(tmp_path / "out"), stdin=text).returncode == 0
    assert planner("run", str(tmp_path / "scenario.yaml"), "--all", "-s", "x").returncode == 2
    assert planner("run", str(tmp_path / "scenario.yaml"), "-s", "nobody").returncode == 2
    assert planner("run").returncode == 2


def test_a_second_driver_is_refused_and_one_that_comes_after_reads_the_answer(tmp_path, monkeypatch):
    asked = [load(scenario(tmp_path))]
    simulate = study.run

    def slow(*given, **options):
        monkeypatch.setattr(study, "run", simulate)
        with pytest.raises(RunError, match=f"another planner, process {os.getpid()} on .*is at work on"):
            study.answer(asked, out=tmp_path / "out")
        return simulate(*given, **options)

    monkeypatch.setattr(study, "run", slow)
    assert not study.answer(asked, out=tmp_path / "out").is_reused
    assert study.answer(asked, out=tmp_path / "out").is_reused
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["out"]


def test_a_run_in_which_nothing_arrives_says_so(tmp_path):
    file = scenario(tmp_path, DRAWN.replace("3 req/s", "0.0000001 req/s"))
    done = planner("run", file, cwd=tmp_path)
    assert done.returncode == 4
    assert "no request completed: none arrived" in done.stderr


def test_a_folder_in_the_way_says_whether_force_helps(tmp_path):
    file, out = scenario(tmp_path), tmp_path / "out"
    assert planner("run", file, "-o", str(out)).returncode == 0
    (out / "pools.parquet").write_bytes(b"cut short")
    done = planner("run", file, "-o", str(out))
    assert (done.returncode, "damaged; --force simulates again" in done.stderr) == (5, True)
    assert planner("run", file, "-o", str(out), "--force").returncode == 0
    done = planner("run", file, "-o", str(out), "--set", "run.seed=4")
    assert (done.returncode, "another question; choose another folder with -o, or use --force" in done.stderr) == (
        5,
        True,
    )
    (out / "manifest.json").unlink()
    done = planner("run", file, "-o", str(out))
    assert (done.returncode, "--force" in done.stderr) == (5, False)
    assert planner("run", file, "-o", str(out), "--force").returncode == 5

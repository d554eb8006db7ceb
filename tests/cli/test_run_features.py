"""Keys of clients, routers, handing over and operation through `planner run`: each one changes what comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.commandline import answer, planner
from tests.unit.aggregate.test_timeline import check

BASE = """
schema: 1
title: Every key acts
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 30 req/s
    input: {dist: lognormal, median: 1200 tok, p95: 8 ktok}
    output: {dist: lognormal, median: 300 tok, p95: 1 ktok}
    slo: quick
slo:
  quick: {ttft: {p95: 500 ms}, tpot: {p95: 20 ms}}
fleet:
  router: least-outstanding-tokens
  pools:
    a: {rack: gb300-nvl72, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, max_batch: 8}]}
run: {length: 20 s, seed: 1}
"""
HANDED = (
    "deploy: [{model: gpt-oss-120b, chips: 4, per_rack: 2, role: prefill, decode_pool: b}]}\n"
    "    b: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8, role: decode}]}"
)
DEPLOY = "deploy: [{model: gpt-oss-120b, chips: 4, max_batch: 8}]}"
ONE = "deploy: [{model: gpt-oss-120b, chips: 4, max_batch: 2, per_rack: 1}]}"
OUT = "count: 1, outages: [{at: 3 s, length: 5 s, replicas: 18}]"
LINE = "    slo: quick\n"
TALK = "    sessions: {turns: {dist: fixed, value: 4}, think: 500 ms}\n"
SHARED = "    prefix_reuse: 60 %\n"
DEAR = "\n    b: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}"
CLOSED = "    arrivals: closed\n    concurrency: 8\n    requests: 60\n"

CHANGES = {
    "stages": [(DEPLOY, "deploy: [{model: gpt-oss-120b, chips: 4, tp: 2, pp: 2, max_batch: 8}]}")],
    "sessions": [(LINE, LINE + "    sessions: {turns: {dist: fixed, value: 3}, think: 1 s}\n")],
    "agents": [(LINE, LINE + "    agents: {steps: {dist: fixed, value: 4}, tool: 500 ms}\n")],
    "closed": [("    arrivals: poisson\n    rate: 30 req/s\n", CLOSED)],
    "timeout": [(DEPLOY, ONE), (LINE, LINE + "    timeout: 1 s\n")],
    "cancel_after": [(LINE, LINE + "    cancel_after: 300 ms\n")],
    "retries": [("count: 1", OUT), (LINE, LINE + "    retries: {n: 3, backoff: 1 s}\n")],
    "round-robin": [("least-outstanding-tokens", "round-robin")],
    "random": [("least-outstanding-tokens", "random")],
    "power-of-two": [("least-outstanding-tokens", "power-of-two")],
    "least-requests": [("least-outstanding-tokens", "least-requests")],
    "slo-aware": [("least-outstanding-tokens", "slo-aware")],
    "candidates": [("least-outstanding-tokens", "{policy: slo-aware, candidates: 1}"), (LINE, LINE + TALK)],
    "rejects": [("least-outstanding-tokens", "{policy: slo-aware, rejects: true}"), ("p95: 500 ms", "p95: 60 ms")],
    "session-affine": [("least-outstanding-tokens", "session-affine"), (LINE, LINE + TALK)],
    "prefix-affine": [("least-outstanding-tokens", "prefix-affine"), (LINE, LINE + SHARED)],
    "most": [("least-outstanding-tokens", "{policy: session-affine, most: 400 %}"), (LINE, LINE + TALK)],
    "cheapest-first": [("least-outstanding-tokens", "cheapest-first"), (DEPLOY, DEPLOY + DEAR)],
    "spill": [("least-outstanding-tokens", "{policy: cheapest-first, spill: 0.1 %}"), (DEPLOY, DEPLOY + DEAR)],
    "outages": [("count: 1", OUT)],
    "failures": [("count: 1", "count: 1, failures: {rate: 100000 /chip-yr, repair: 5 s}")],
    "maintenance": [("count: 1", "count: 1, maintenance: [{at: 3 s, length: 5 s, replicas: 16}]")],
    "cold_start": [("count: 1", OUT + ", cold_start: 4 s")],
    "autoscale": [("count: 1", "count: 1, autoscale: {min: 1, target: 30 %, delay: 2 s}")],
    "power_cap": [("count: 1", "count: 1, power_cap: 300 W/chip")],
    "role": [(DEPLOY, HANDED)],
    "speculation": [("max_batch: 8", "max_batch: 8, speculation: {draft: 3, acceptance: 70 %}")],
    "kv_link": [(DEPLOY, HANDED), ("fleet:\n", "fleet:\n  kv_link: 1 GB/s\n")],
}
AGAINST = {
    "timeout": CHANGES["timeout"][:1],
    "retries": CHANGES["retries"][:1],
    "cold_start": CHANGES["outages"],
    "kv_link": CHANGES["role"],
    "candidates": [("least-outstanding-tokens", "slo-aware"), (LINE, LINE + TALK)],
    "rejects": [("least-outstanding-tokens", "slo-aware"), ("p95: 500 ms", "p95: 60 ms")],
    "session-affine": [(LINE, LINE + TALK)],
    "prefix-affine": [(LINE, LINE + SHARED)],
    "most": CHANGES["session-affine"],
    "cheapest-first": [(DEPLOY, DEPLOY + DEAR)],
    "spill": CHANGES["cheapest-first"],
}
"""What a change is compared with, where it is not the base."""


def run(folder: Path, changes: list[tuple[str, str]]) -> dict[str, Any]:
    text = BASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "scenario.yaml"
    path.write_text(text)
    done = planner("run", str(path), "--json", "-o", str(folder / "out"), "--force")
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = answer(done)["result"]
    requests = result["requests"]
    ended = ("completed", "rejected", "timed_out", "cancelled", "unfinished")
    assert requests["offered"] == sum(requests[name] for name in ended) > 0
    return result


@pytest.mark.parametrize("name", CHANGES)
def test_each_key_changes_what_comes_out(name: str, tmp_path: Path) -> None:
    changed = run(tmp_path, CHANGES[name])
    plain = run(tmp_path, AGAINST.get(name, []))
    assert changed["classes"] != plain["classes"]


def test_what_they_count(tmp_path: Path) -> None:
    assert run(tmp_path, CHANGES["timeout"])["requests"]["timed_out"] > 0
    assert run(tmp_path, CHANGES["cancel_after"])["requests"]["cancelled"] > 0
    lost = run(tmp_path, CHANGES["outages"])["requests"]
    assert lost["lost"] > 0
    assert lost["rejected"] > 0  # all replicas are down
    again = run(tmp_path, CHANGES["retries"])["requests"]
    assert again["retried"] > 0
    assert again["rejected"] < lost["rejected"]
    assert run(tmp_path, CHANGES["agents"])["classes"]["chat"]["task_s"]["p50"] > 1.5  # three times half a second
    assert run(tmp_path, [])["classes"]["chat"]["task_s"]["p50"] is None
    assert run(tmp_path, CHANGES["closed"])["requests"]["offered"] == 60


def test_drafts_shorten_the_time_between_tokens_and_say_what_they_leave_out(tmp_path: Path) -> None:
    plain, drafted = run(tmp_path, []), run(tmp_path, CHANGES["speculation"])
    tpot = [each["classes"]["chat"]["tpot_s"]["p50"] for each in (plain, drafted)]
    # 1 + 0.7 + 0.49 + 0.343 = 2.533 tokens a step, and verifying four of each sequence reads more experts.
    assert tpot[0] / 2.533 < tpot[1] < tpot[0]
    said = {notice["code"]: notice["message"] for notice in drafted["notices"]}
    assert "keeps 2.533 a step at an acceptance of 70 %" in said["speculation"]
    assert "free_drafts" in said
    paid = run(
        tmp_path, [("max_batch: 8", "max_batch: 8, speculation: {draft: 3, acceptance: 70 %, draft_cost: 10 %}")]
    )
    assert "free_drafts" not in {notice["code"] for notice in paid["notices"]}
    assert tpot[1] < paid["classes"]["chat"]["tpot_s"]["p50"]
    facts = pl.read_parquet(tmp_path / "out" / "facts.parquet").filter(pl.col("path").str.contains("speculation"))
    assert sorted(facts["value"].to_list()) == [0.1, 0.7]


def test_a_cap_below_what_a_chip_always_draws_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(BASE.replace("count: 1", "count: 1, power_cap: 20 W/chip"))
    done = planner("run", str(path))
    assert done.returncode == 4
    assert "draws" in done.stderr
    assert "with nothing to do" in done.stderr


def test_requests_and_a_timeline_are_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "scenario.yaml", tmp_path / "out"
    path.write_text(BASE.replace(*CHANGES["outages"][0]))
    done = planner("run", str(path), "-o", str(out), "--keep", "requests", "--keep", "timeline", "--json")
    assert done.returncode == 0, done.stderr
    kept = pl.read_parquet(out / "requests.parquet")
    assert kept.filter(pl.col("fate") == "rejected")["replica_ix"].null_count() > 0
    text = (out / "timeline.json").read_text()
    check(text)
    trace = json.loads(text)
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"]
    assert "a (base, seed 1)" in names
    assert len(spans) == pl.read_parquet(out / "timeline.parquet").height > 0
    # What the bars of the replicas last is how long they are busy, a step that a failure cut short apart.
    busy_s = sum(event["dur"] for event in spans) / 1e6
    windows = pl.read_parquet(out / "deployments.parquet")
    assert busy_s >= windows["busy_chip_s"].sum() / 4 * 0.999
    by_replica: dict[int, float] = {}
    for event in spans:
        assert event["ts"] >= by_replica.get(event["tid"], 0.0) - 1e-3
        by_replica[event["tid"]] = event["ts"] + event["dur"]


def test_stages_over_two_servers_are_named_and_warned_of(tmp_path: Path) -> None:
    """16 H200 in two stages of eight: each step's hand-overs leave the server, and the result says so."""
    text = BASE.replace("rack: gb300-nvl72", "rack: hgx-h200").replace(
        DEPLOY, "deploy: [{model: gpt-oss-120b, tp: 8, pp: 2, chips: 16}]}"
    )
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    found = answer(planner("run", "s.yaml", "--json", "-o", "out", cwd=tmp_path))
    (deployment,) = found["result"]["pools"]["a"]["deployments"]
    assert (deployment["tp"], deployment["pp"], deployment["chips"], deployment["replicas"]) == (8, 2, 16, 2)
    assert {"pipeline_stages", "crosses_domains"} <= {warning["code"] for warning in found["warnings"]}
    assert found["result"]["requests"]["completed"] == found["result"]["requests"]["offered"]

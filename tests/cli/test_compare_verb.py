"""`planner compare` through the real entry point: text, JSON, rules and exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commandline import answer, planner

TEXT = """
schema: 1
title: One rack
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 4 req/s, input: 500 tok, output: 50 tok, slo: fast}
slo:
  fast: {ttft: {p95: 500 ms}}
fleet:
  pools:
    pool: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}
run: {length: 20 s, seeds: 2}
overrides:
  cheap: {fleet.pools.pool.capex: 0.1 MUSD/rack}
scenarios:
  cheap: [cheap]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("compare")
    (home / "s.yaml").write_text(TEXT)
    done = planner("run", "s.yaml", "--all", "-o", "both", "-q", cwd=home)
    assert done.returncode == 0, done.stderr
    return home


def test_variants_beside_each_other(folder: Path) -> None:
    done = planner("compare", "both", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "cost.usd_per_mtok_out_whole" in done.stdout
    assert "better" in done.stdout
    assert "fleet.pools.pool.capex: (nothing) -> 0.1 MUSD/rack" in done.stdout


def test_json_has_every_figure_and_the_rules(folder: Path) -> None:
    done = planner("compare", "both:base", "both:cheap", "--gate", "usd_per_mtok_out <= -10 %", "--json", cwd=folder)
    body = answer(done)
    assert done.returncode == 0, done.stderr
    assert body["schema"] == "planner.compare/1"
    (against,) = body["result"]["against"]
    figures = {row["path"]: row for row in against["figures"]}
    assert figures["cost.usd_per_h"]["verdict"] == "better"
    assert figures["classes.chat.ttft_s.p95"]["verdict"] == "same"  # the same draws on the same fleet
    assert against["gates"][0]["is_held"] is True


def test_a_broken_rule_is_3(folder: Path) -> None:
    done = planner("compare", "both:cheap", "both:base", "--gate", "usd_per_mtok_out <= +2 %", cwd=folder)
    assert done.returncode == 3
    assert "BROKEN" in done.stdout
    assert "1 rules are broken" in done.stderr


def test_bad_input_is_2(folder: Path) -> None:
    done = planner("compare", "both:base", "both:cheap", "--gate", "nonsense", "--gate", "x < 1", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.count("error:") == 2
    assert planner("compare", "both:nobody", cwd=folder).returncode == 2
    assert planner("compare", "nowhere", "both:base", cwd=folder).returncode == 2

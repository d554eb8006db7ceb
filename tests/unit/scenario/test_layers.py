"""Which layer wins, what removes, what contradicts, and where each value says it is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import ScenarioError
from planner.scenario import load, load_all
from tests.unit.scenario.scenario_text import SMALL, Faults, Loads

OVERRIDES = (
    SMALL
    + """\
overrides:
  more: {fleet.pools.a.count: 3}
  same: {fleet.pools.a.count: 3, run.seed: 9}
  other: {fleet.pools.a.count: 4}
  gone: {fleet.pools.a: null, fleet.pools.b: {rack: hgx-h200, count: 2, deploy: [{model: gpt-oss-120b, chips: 4}]}}
  grid: {site.grid: no}
scenarios:
  bigger: [more]
  agree: [more, same]
  swapped: [gone, grid]
"""
)


def test_layers_from_the_bottom_up(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(SMALL)
    child = "extends: ./base.yaml\nrun: {seed: 5}\noverrides: {o: {run.seed: 6, run.seeds: 2}}\nscenarios: {v: [o]}\n"
    path = tmp_path / "child.yaml"
    path.write_text(child)
    assert (load(tmp_path / "base.yaml").run.seed, load(path).run.seed) == (1, 5)
    assert load(path, variant="v").run.seed == 6
    s = load(path, variant="v", sets=["run.seed=7"])
    assert (s.run.seed, s.run.seeds, s.run.length_s, s.title) == (7, 2, 600.0, "small")


def test_maps_merge_lists_and_scalars_replace_null_removes(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(SMALL)
    path = tmp_path / "child.yaml"
    path.write_text(
        "extends: ./base.yaml\nslo: {quick: {ttft: null, tpot: {p99: 30 ms}}}\n"
        "fleet: {pools: {a: {deploy: [{model: gpt-oss-120b, chips: 4}, {model: qwen3-8b, chips: 1, per_rack: 2}]}}}\n"
    )
    s = load(path)
    assert (s.slo["quick"].ttft, s.slo["quick"].tpot) == ({}, {"p95": 0.02, "p99": 0.03})
    assert [entry.chips for entry in s.fleet.pools["a"].deploy] == [4, 1]
    assert s.fleet.pools["a"].rack == "jalapeno-rack"


def test_extends_goes_through_several_files_in_several_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "lengths.txt").write_text("5\n7\n")
    text = SMALL.replace("output: 300 tok", "output: {dist: empirical, file: ./lengths.txt}")
    (tmp_path / "a" / "base.yaml").write_text(text)
    (tmp_path / "middle.yaml").write_text("extends: ./a/base.yaml\ntitle: middle\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "top.yaml").write_text("extends: ../middle.yaml\nrun: {seeds: 2}\n")
    s = load(tmp_path / "b" / "top.yaml")
    assert (s.title, s.run.seeds) == ("middle", 2)
    output = s.traffic["chat"].output
    assert output is not None
    assert output.file is not None
    assert (s.base_dir / output.file).read_text() == "5\n7\n"  # a file is relative to the file that names it
    assert s.origins["title"].file.endswith("middle.yaml")


def test_extends_in_a_circle_and_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: ./b.yaml\n")
    (tmp_path / "b.yaml").write_text("title: b\nextends: ./a.yaml\n")
    with pytest.raises(
        ScenarioError, match=r"b\.yaml:2:10: extends: files extend each other in a circle: a\.yaml -> b"
    ):
        load(tmp_path / "a.yaml")
    (tmp_path / "c.yaml").write_text("extends: ./nothing.yaml\n")
    with pytest.raises(ScenarioError, match=r"c\.yaml:1:10: extends: './nothing\.yaml': no such file"):
        load(tmp_path / "c.yaml")
    (tmp_path / "d.yaml").write_text("extends: a.yaml\n")
    with pytest.raises(ScenarioError, match=r"'a\.yaml' is no file; a file is written \./a\.yaml"):
        load(tmp_path / "d.yaml")


def test_variants(loads: Loads) -> None:
    assert loads(OVERRIDES).fleet.pools["a"].count == 1
    assert loads(OVERRIDES, variant="bigger").fleet.pools["a"].count == 3
    agree = loads(OVERRIDES, variant="agree")
    assert (agree.fleet.pools["a"].count, agree.run.seed) == (3, 9)
    swapped = loads(OVERRIDES, variant="swapped")
    assert (list(swapped.fleet.pools), swapped.site.grid) == (["b"], "no")


@pytest.mark.parametrize("pair", ["[more, other]", "[other, same]"])
def test_two_overrides_that_disagree(faults: Faults, pair: str) -> None:
    found = faults(f"{OVERRIDES}  split: {pair}\n")
    assert len(found) == 1
    assert found[0].path == "fleet.pools.a.count"
    assert "in scenario 'split': fleet.pools.a.count is also set by override" in found[0].what


def test_an_override_below_what_another_removes(faults: Faults) -> None:
    found = faults(f"{OVERRIDES}  split: [gone, more]\n")
    assert "fleet.pools.a.count is also set by override 'gone'" in str(found[0])
    found = faults(f"{OVERRIDES}  split: [more, gone]\n")
    assert "fleet.pools.a is also set by override 'more'" in str(found[0])


def test_unknown_overrides_and_paths_are_refused_for_every_variant(faults: Faults) -> None:
    text = OVERRIDES.replace("[more]", "[mroe]").replace("run.seed: 9", "run.sede: 9")
    text += "  base: [more]\n"
    shown = [str(fault).split(": ", 1)[1] for fault in faults(text)]
    assert shown == [
        "run.sede: unknown key 'sede'; did you mean seed, seeds?",
        "scenarios.bigger[0]: no override is named 'mroe'; did you mean more?",
        "scenarios.base: base is the file itself; use another name",
    ]


def test_an_override_that_no_scenario_uses_is_checked_too(faults: Faults) -> None:
    found = faults(SMALL + "overrides: {o: {fleet.pools.b.count: 2, fleet.pools.c: null, run.length.x: 3}}\n")
    assert [fault.what for fault in found] == [
        "fleet.pools has no 'b'; known: a",
        "fleet.pools has no 'c'; known: a",
        "unknown key 'x'; known: value, low, high, default, grade, source, note, alternatives",
    ]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("fleet.pools.a.deploy[2].chips", "has no item 2"),
        ("fleet.pools.a.deploy.x.chips", "'x' is no item"),
        ("fleet.pools.a.rack.b", "is a single value"),
        ("overrides.o", "overrides cannot be set by a path"),
        ("extends", "extends cannot be set by a path"),
        ("fleet..a", "is no path: a step is empty"),
        ('fleet."a', "has no '='"),
        ("fleet.pools.a.deploy[x]", "is no path: list items are written [0]"),
        ("fleet.pool.a", "did you mean pools"),
        ("", "is no path"),
    ],
)
def test_paths_that_lead_nowhere(faults: Faults, path: str, what: str) -> None:
    (fault,) = faults(SMALL, sets=[f"{path}=1"])
    assert what in str(fault)
    assert fault.file.startswith("--set")


def test_set_takes_yaml(loads: Loads) -> None:
    sets = [
        "fleet.pools.a.deploy[0].max_batch=64",
        "fleet.pools.a.deploy.0.kv_dtype=fp8",
        "fleet.routes={chat: [a]}",
        "site.grid=no",
        'title="a: colon, and = sign"',
        "slo.quick.e2e={p99: 3 s}",
        "slo.quick.ttft=null",
        "question=",
    ]
    s = loads(SMALL.replace("title: small", "title: small\nquestion: why?"), sets=sets)
    (deploy,) = s.fleet.pools["a"].deploy
    assert (deploy.max_batch, deploy.kv_dtype, deploy.chips) == (64, "fp8", 8)
    assert s.fleet.routes == {"chat": {"a": None}}
    assert (s.site.grid, s.title, s.question) == ("no", "a: colon, and = sign", None)
    assert [(limit.metric, limit.label) for limit in s.slo["quick"].limits] == [("tpot", "p95"), ("e2e", "p99")]


def test_the_last_set_of_a_path_wins(loads: Loads) -> None:
    assert loads(SMALL, sets=["run.seed=3", "run.seed=4"]).run.seed == 4


def test_set_reaches_into_the_long_form_of_a_short_quantity(loads: Loads) -> None:
    text = SMALL.replace("grid: us-virginia", "power_price: 0.08 USD/kWh")
    price = loads(text, sets=["site.power_price.low=0.05 USD/kWh"]).site.power_price_usd_per_kwh
    assert price is not None
    assert (price.value, price.low) == (0.08, 0.05)


@pytest.mark.parametrize("bad", ["run.seed", "run.seed={", "run.seed=[1", "run.seed=&a 3", "run.seed=x: y: z"])
def test_sets_that_cannot_be_read(faults: Faults, bad: str) -> None:
    for fault in faults(SMALL, sets=[bad]):
        assert fault.file.startswith("--set")
        assert fault.line is None


def test_origins(loads: Loads) -> None:
    s = loads(OVERRIDES, variant="bigger", sets=["run.seed=3"])
    origins = s.origins
    assert (origins["title"].layer, origins["title"].line, origins["title"].col) == ("file", 1, 8)
    assert origins["fleet.pools.a.count"].layer == "override more"
    assert origins["fleet.pools.a.count"].line == 18
    assert str(origins["run.seed"]) == "--set run.seed"
    assert origins["fleet.pools.a.deploy[0].chips"].line == 14


def test_null_that_removes_nothing(faults: Faults) -> None:
    found = faults(SMALL.replace("site: {grid: us-virginia}", "scenarios: {v: null}\noverrides: {o: null}"))
    assert [fault.path for fault in found] == ["scenarios.v", "overrides.o"]
    assert "removes nothing" in found[0].what


def test_a_known_key_left_empty_is_absent(loads: Loads) -> None:
    s = loads(SMALL + "cost:\ngoal: null\n" + "question: ~\n")
    assert s.goal is None
    assert s.question is None


def test_a_sweep_is_taken_away_by_set(loads: Loads) -> None:
    text = SMALL + "sweep: {axes: {site.pue: [1.1, 1.2]}}\n"
    assert loads(text).sweep is not None
    s = loads(text, sets=["sweep=null"])
    assert (s.sweep, s.unsupported) == (None, ())


def test_several_variants_are_as_each_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        SMALL + "overrides: {two: {fleet.pools.a.count: 2}, slow: {traffic.chat.rate: 1 req/s}}\n"
        "scenarios: {more: [two], slower: [two, slow]}\n"
    )
    sets = ["run.seed=9"]
    found = load_all(path, sets=sets)
    assert [each.name for each in found] == ["base", "more", "slower"]
    for each in found:
        assert each.digest() == load(path, sets=sets, variant=each.name).digest()
        assert each.run.seed == 9
    assert [each.name for each in load_all(path, names=["slower", "base", "slower"])] == ["slower", "base"]
    with pytest.raises(ScenarioError) as caught:
        load_all(path, names=["mor", "slowr"])
    assert ["'mor'" in str(fault) for fault in caught.value.faults] == [True, False]

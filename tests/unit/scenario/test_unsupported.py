"""The one table of what is read and not acted on: its rows name real keys, and each is listed and refused."""

from __future__ import annotations

import pytest

from planner.errors import ScenarioError
from planner.scenario import refuse_unsupported, unsupported
from planner.scenario.layers import FILE
from planner.scenario.shape import Items, Names, Shape, below
from planner.scenario.unsupported import UNSUPPORTED, Key, set_aside, verbs_for
from tests.unit.scenario.scenario_text import SMALL, Loads

ADDED = [
    ("count: 1", "count: {min: 0, max: 2}", "fleet.pools.a.count"),
    ("chips: 8}", "chips: 8}, {model: gpt-oss-120b, chips: 4}", "fleet.pools.a.deploy"),
    ("run:", "goal: {minimise: capex, budget: {plan: 3 MUSD}}\nrun:", "goal"),
    ("run:", "periods: [{name: h1, start: 2027-01-01, length: 6 months, growth: {chat: 1.5}}]\nrun:", "periods"),
    ("count: 1", "count: 1, existing: 1, retire: {plan: 1}", "fleet.pools.a.retire"),
    ("count: 1", "count: 1, available_from: 2027-01-01", "fleet.pools.a.available_from"),
    ("count: 1", "count: 1, lead_time: 20 weeks", "fleet.pools.a.lead_time"),
    ("count: 1", "count: 1, deliveries: {plan: 3}", "fleet.pools.a.deliveries"),
]
SAID = {"sweep", "run.horizon"}


@pytest.mark.parametrize(("old", "new", "path"), ADDED)
def test_listed_with_its_place_and_refused_by_run(loads: Loads, old: str, new: str, path: str) -> None:
    s = loads(SMALL.replace(old, new))
    assert path in [found.path for found in s.unsupported]
    assert all(found.at.line and found.at.col for found in s.unsupported)
    with pytest.raises(ScenarioError, match="planner run refuses it"):
        refuse_unsupported(s, "run")


def test_a_sweep_is_for_another_verb_and_run_goes_on_without_it(loads: Loads) -> None:
    s = loads(SMALL.replace("run:", "sweep: {axes: {site.pue: [1.1, 1.2]}}\nrun:"))
    refuse_unsupported(s, "run")
    (said,) = set_aside(s, "run")
    assert said.code == "for_another_verb"
    assert "sweep is for planner sweep" in said.message
    assert set_aside(s, "sweep") == ()
    assert verbs_for(s) == ("run", "sweep", "headroom")
    assert verbs_for(loads(SMALL)) == ("run", "headroom")


def test_a_verb_refuses_what_another_acts_on_and_names_that(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    spare = Key("fleet.spare", lambda _: True, "capacity is not kept free", verbs=("sweep",))
    monkeypatch.setattr(unsupported, "UNSUPPORTED", (spare, *UNSUPPORTED))
    s = loads(SMALL.replace("fleet:\n", "fleet:\n  spare: 8 %\n"))
    with pytest.raises(ScenarioError, match="it is for planner sweep: planner run refuses it"):
        refuse_unsupported(s, "run")
    refuse_unsupported(s, "sweep")
    assert verbs_for(s) == ()


def test_every_row_of_the_table_is_tried() -> None:
    patterns = {key.pattern for key in UNSUPPORTED if not key.is_said and "run" not in key.verbs}
    tried = {path.replace("chat", "*").replace(".a.", ".*.").replace("[0]", ".*") for _, _, path in ADDED}
    assert patterns == tried
    assert {key.pattern for key in UNSUPPORTED if key.is_said} == SAID


@pytest.mark.parametrize("pattern", sorted({key.pattern for key in UNSUPPORTED}))
def test_every_row_names_a_key_of_the_schema(pattern: str) -> None:
    shape: Shape | None = FILE
    for step in pattern.split("."):
        assert shape is not None
        shape = shape.each if step == "*" and isinstance(shape, (Names, Items)) else below(shape, step)
    assert shape is not None


@pytest.mark.parametrize(
    "extra", ["role: mixed", "pp: 2", "prefix_cache: true", "kv_host: 1 GB, preemption: swap", "watermark: 1 %"]
)
def test_values_that_are_acted_on_are_not_listed(loads: Loads, extra: str) -> None:
    assert loads(SMALL.replace("chips: 8", f"chips: 8, {extra}")).unsupported == ()


def test_a_base_with_nothing_unsupported_is_not_refused(loads: Loads) -> None:
    refuse_unsupported(loads(SMALL), "run")

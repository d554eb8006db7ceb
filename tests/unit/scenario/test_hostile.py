"""Files that were written to harm, or by accident look so: refused in little time, with a place."""

from __future__ import annotations

import time

import pytest

from planner.errors import ScenarioError
from planner.scenario import load
from tests.unit.scenario.scenario_text import SMALL

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)
HOSTILE = {
    "aliases": BOMB,
    "merge key": "base: &b {rate: 3 req/s}\ntitle: x\ntraffic: {chat: {<<: *b}}\n",
    "tag": "title: !!python/object/apply:os.system ['true']\n",
    "deep": "title: " + "[" * 5000,
    "deep maps": "".join(" " * i + "a:\n" for i in range(200)),
    "tabs": "title: x\ntraffic:\n\tchat: 3\n",
    "nul": "title: a\x00b\n",
    "long key": f"title: x\n{'k' * 1_000_000}: 3\n",
    "many keys": "title: x\n" + "".join(f"k{i}: 3\n" for i in range(10_000)),
    "many classes": "title: x\ntraffic:\n" + "".join(f"  c{i}: {{modl: x}}\n" for i in range(5_000)),
    "many values": "title: x\nquestion: [" + ", ".join(["1"] * 250_000) + "]\n",
    "huge": "title: " + "x" * 9_000_000,
    "list": "- a\n- b\n",
    "scalar": "just text\n",
    "empty": "",
    "null": "null\n",
    "two documents": SMALL + "---\n" + SMALL,
    "complex key": "? [a, b]\n: 3\n",
    "not yaml": "title: 'x\n",
    "everything null": "title:\ntraffic:\nfleet:\n",
    "wrong shapes": "title: [x]\ntraffic: 3\nslo: []\nfleet: x\nsite: 1\ncost: []\nrun: x\n"
    "overrides: 3\nscenarios: [a]\nsweep: 1\n",
    "wrong shapes below": "title: x\ntraffic: {a: []}\n"
    "fleet: {pools: {p: {deploy: {}, rack: [], count: []}}, routes: {a: 3}}\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_refused_with_a_place_and_in_time(name: str) -> None:
    started = time.process_time()
    with pytest.raises(ScenarioError) as caught:
        load("-", stdin_text=HOSTILE[name])
    assert time.process_time() - started < 10
    assert len(str(caught.value)) < 200_000
    assert all(fault.file == "<stdin>" for fault in caught.value.faults)


def test_control_characters_in_titles_are_kept_as_text() -> None:
    s = load("-", stdin_text=SMALL.replace("title: small", r'title: "<b>\e[31m =1+1"'))
    assert s.title == "<b>\x1b[31m =1+1"


@pytest.mark.parametrize("name", ["'a\\nb'", '"a\\nb"', '""', '" a"', f"'{'n' * 65}'"])
def test_names_are_visible(name: str) -> None:
    text = SMALL.replace("    a: {rack", f"    {name}: {{rack")
    if name == "'a\\nb'":  # in single quotes there is no escape: a backslash and an n
        assert list(load("-", stdin_text=text).fleet.pools) == ["a\\nb"]
        return
    with pytest.raises(ScenarioError, match="is no name"):
        load("-", stdin_text=text)


def test_a_name_with_a_dot_is_reached_in_quotes() -> None:
    text = SMALL.replace("    a: {rack", "    gpt-4.1: {rack")
    assert load("-", stdin_text=text, sets=['fleet.pools."gpt-4.1".count=3']).fleet.pools["gpt-4.1"].count == 3


SHAPES = ["{a: 1}", "[1]", "[[1]]", "{a: {b: [1]}}", "null", "1e400", "inf", "'\\e[31m'", "-1", "''"]
PLACES = (
    "traffic.chat.model traffic.chat.input.dist traffic.chat.slo traffic.chat.tenant traffic.chat.arrivals traffic.chat"
    " fleet.pools.a.deploy.0.model fleet.pools.a.deploy.0.role fleet.pools.a.deploy.0.decode_pool fleet.pools.a.deploy"
    " fleet.pools.a.rack fleet.pools.a.count fleet.router fleet.routes fleet.kv_link fleet.survive site sites site.name"
    " goal goal.minimise goal.budget run run.length periods cost slo slo.x traffic fleet title question"
)


@pytest.mark.parametrize("place", PLACES.split())
def test_a_value_of_another_shape_is_refused_with_the_way_out(place: str) -> None:
    for shape in [*SHAPES, f"{{chat: {{pools: {SHAPES[0]}}}}}", f"{{chat: {{pools: [{SHAPES[0]}]}}}}"]:
        try:
            load("-", stdin_text=SMALL, sets=[f"{place}={shape}"])
        except ScenarioError as error:
            for fault in error.faults:
                assert (
                    fault.way_out or "did you mean" in fault.what or "known:" in fault.what or "none" in fault.what
                ), str(fault)


def test_variants_of_another_shape_are_refused() -> None:
    for listed in ("[[x]]", "[{a: 1}]", "{a: 1}", "[1, x]"):
        with pytest.raises(ScenarioError):
            load("-", stdin_text=f"{SMALL}scenarios: {{v: {listed}}}\n")
    with pytest.raises(ScenarioError, match="is no item"):
        load("-", stdin_text=SMALL, sets=[f"fleet.pools.a.deploy.{'9' * 5000}.model=x"])

"""The resolved file: it loads to an equal scenario, and its digest is of what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planner.scenario import Scenario, load
from planner.scenario.diff import Difference, diff
from planner.scenario.dump import to_yaml
from tests.unit.scenario.scenario_text import SMALL, Loads

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
ASKED = [
    ("01-one-rack", None),
    ("02-mixed-fleet", None),
    ("02-mixed-fleet", "nvidia_only_clean"),
    ("03-buy-plan", None),
]


@pytest.mark.parametrize(("name", "variant"), ASKED)
def test_the_resolved_file_asks_the_same(name: str, variant: str | None) -> None:
    s = load(SCENARIOS / f"{name}.yaml", variant=variant, sets=["run.seed=11"])
    for text in (to_yaml(s.tree), to_yaml(s.tree, origins=True), yaml.safe_dump(s.resolved(), sort_keys=False)):
        again = load("-", stdin_text=text)
        assert _asked(again) == _asked(s)
        assert again.digest() == s.digest()
        assert again.resolved() == s.resolved()


def _asked(s: Scenario) -> tuple[object, ...]:
    return (s.title, s.question, s.traffic, s.slo, s.fleet, s.site, s.cost, s.goal, s.periods, s.run)


def test_each_value_has_its_origin_beside_it(loads: Loads) -> None:
    lines = to_yaml(loads(SMALL, sets=["run.seed=3"]).tree, origins=True).splitlines()
    assert lines[0].startswith("title: small ")
    assert lines[0].endswith("s.yaml:1:8")
    assert any(line.split("#")[0].strip() == "seed: 3" and line.endswith("# --set run.seed") for line in lines)


@pytest.mark.parametrize("title", ["no", "1e9", "007", "x: y", "# x", "a\tb", "é ñ", "null", "~", "2027-01-01", "[a]"])
def test_any_title_survives(loads: Loads, title: str) -> None:
    s = loads(SMALL.replace("title: small", "title: " + yaml.safe_dump(title, default_style='"').strip()))
    assert s.title == title
    assert load("-", stdin_text=to_yaml(s.tree)).title == title
    assert str(yaml.safe_load(to_yaml(s.tree))["title"]) == title
    assert load("-", stdin_text=yaml.safe_dump(s.resolved())).title == title


def test_the_digest_is_of_what_is_asked(loads: Loads) -> None:
    plain = loads(SMALL)
    comment = loads("# a comment\n" + SMALL.replace("{grid: us-virginia}", "\n  grid: 'us-virginia'"))
    assert plain.digest() == comment.digest()
    assert plain == comment
    for change in ("run.seed=2", "site.grid=no", "title=other", "traffic.chat.rate=5 req/s"):
        other = loads(SMALL, sets=[change])
        assert other.digest() != plain.digest()
        assert other != plain
    assert loads(SMALL, sets=["run.length=10 min"]).digest() == plain.digest()


def test_the_digest_leaves_file_names_out(tmp_path: Path) -> None:
    text = SMALL.replace("output: 300 tok", "output: {dist: empirical, file: ./NAME}")
    for name in ("one", "two"):
        (tmp_path / name).write_text("5\n")
        (tmp_path / f"{name}.yaml").write_text(text.replace("NAME", name))
    assert load(tmp_path / "one.yaml").digest() == load(tmp_path / "two.yaml").digest()


def test_the_digest_is_stable(loads: Loads) -> None:
    """sha256 over the compact JSON of the resolved tree, keys in the order of the schema."""
    import hashlib
    import json

    s = loads(SMALL)
    text = json.dumps(s.resolved(), separators=(",", ":"))
    assert list(s.resolved()) == ["title", "traffic", "slo", "fleet", "site", "run"]
    assert s.digest() == hashlib.sha256(text.encode()).hexdigest()


def test_differences(loads: Loads) -> None:
    base = loads(SMALL)
    other = loads(SMALL, sets=["fleet.pools.a.count=2", "site.pue=1.3", "slo.quick.ttft=null"])
    assert diff(base, other) == (
        Difference("slo.quick.ttft.p95", "500 ms", None),
        Difference("fleet.pools.a.count", "1", "2"),
        Difference("site.pue", None, "1.3"),
    )
    assert diff(base, base) == ()

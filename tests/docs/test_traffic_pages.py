"""The pages about traces and traffic name every format and law, and their snippets are read as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from planner.scenario.schema import TrafficClass
from planner.traffic import FORMATS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "howto"
DRAWN = {"model": "m", "arrivals": "poisson", "rate": "1 req/s", "input": "10 tok", "output": "10 tok"}
TRACE = {"model": "m", "trace": "./t.csv"}


class AsText(yaml.SafeLoader):
    """Plain scalars stay text, as a scenario has them."""


AsText.yaml_implicit_resolvers = {}


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def test_every_format_has_a_row() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", page("trace.md"), re.MULTILINE)
    assert sorted(rows) == sorted(FORMATS)


def test_every_law_has_a_row() -> None:
    named = set(re.findall(r"`([a-z]+)`", "".join(re.findall(r"^\| (`[^|]+) \|", page("traffic.md"), re.MULTILINE))))
    laws = {law for part in get_args(TrafficClass.model_fields["arrivals"].annotation) for law in get_args(part)}
    assert laws == named - {"arrivals"}


def snippets() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name in ("trace.md", "traffic.md"):
        for text in re.findall(r"```yaml\n(.*?)```", page(name), re.DOTALL):
            tree = yaml.load(text, AsText)
            found += [(name, klass) for klass in tree.get("traffic", {"": tree}).values()]
    return found


@pytest.mark.parametrize(("name", "klass"), snippets())
def test_snippets_are_right(name: str, klass: dict[str, Any]) -> None:
    assert TrafficClass.model_validate({**(TRACE if name == "trace.md" else DRAWN), **klass})

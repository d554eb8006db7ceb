"""The JSON Schemas: right by themselves, true of the shipped files, and every key has a line that says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from planner.facts import catalog
from planner.facts.json_schema import catalog as catalog_schema
from planner.scenario import shipped
from planner.scenario.json_schema import scenario as scenario_schema
from planner.scenario.schema import ScenarioFile
from planner.scenario.shape import Fields, Items, Leaf, Names, Shape

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"


class Yaml12(yaml.SafeLoader):
    """Reads as editors do: `no` is text, `true` is true."""


Yaml12.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if tag not in {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", __import__("re").compile("true|false"), list("tf"))  # type: ignore[no-untyped-call]


def read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Yaml12)


@pytest.mark.parametrize("name", shipped.names())
def test_shipped_scenarios_are_right(name: str) -> None:
    schema = scenario_schema()
    Draft202012Validator.check_schema(schema)
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(read(SCENARIOS / f"{name}.yaml"))]
    assert errors == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("titel",), "x"),
        (("traffic", "chat", "rate"), 40),
        (("traffic", "chat", "rate"), "40 rq/s"),
        (("traffic", "chat", "arrivals"), "posson"),
        (("fleet", "pools", "jalapeno", "count"), 1.5),
        (("fleet", "pools", "jalapeno", "capex"), {"value": "1 USD/rack", "hihg": "2 USD/rack"}),
        (("slo", "interactive", "ttft"), {"p96": "1 s"}),
        (("run", "seeds"), 0),
    ],
)
def test_what_check_refuses_the_schema_refuses(path: tuple[str, ...], value: object) -> None:
    tree = read(SCENARIOS / "01-one-rack.yaml")
    here = tree
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    assert list(Draft202012Validator(scenario_schema()).iter_errors(tree))


def test_a_file_that_extends_another_may_leave_out_and_remove() -> None:
    validator = Draft202012Validator(scenario_schema())
    assert validator.is_valid({"extends": "./base.yaml", "fleet": {"pools": {"a": None}}, "scenarios": {"v": None}})
    assert not validator.is_valid({"title": "x"})


@pytest.mark.parametrize("kind", ["chips", "racks", "models", "engines", "serving", "sites"])
def test_catalogue_files_are_right(kind: str) -> None:
    schema = catalog_schema()
    Draft202012Validator.check_schema(schema)
    one = {"$ref": f"#/$defs/{kind.removesuffix('s')}", "$defs": schema["$defs"]}
    for path in sorted((catalog.DATA / kind).glob("*.yaml")):
        errors = [
            f"{path.name} {error.json_path}: {error.message}"
            for error in Draft202012Validator(one).iter_errors(read(path))
        ]
        assert errors == []


def test_every_key_says_what_it_is() -> None:
    def undocumented(shape: Shape) -> list[str]:
        match shape:
            case Fields():
                own = [
                    f"{shape.section.__name__}.{n}" for n, f in shape.section.model_fields.items() if not f.description
                ]
                return own + [name for below in shape.keys.values() for name in undocumented(below)]
            case Names() | Items():
                return undocumented(shape.each)
            case Leaf():
                return []

    assert undocumented(Fields(ScenarioFile)) == []

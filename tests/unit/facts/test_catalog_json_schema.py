"""Every shipped file is right by the JSON Schema that editors get."""

from __future__ import annotations

import pytest

from planner import yaml_tree
from planner.facts import catalog
from planner.facts.json_schema import FILES
from planner.facts.json_schema import catalog as make

jsonschema = pytest.importorskip("jsonschema")
FOLDERS = {
    "chip": "chips",
    "rack": "racks",
    "model": "models",
    "engine": "engines",
    "serving": "serving",
    "site": "sites",
}


def as_editors_see_it(node: yaml_tree.Node) -> object:
    value = node.value
    if isinstance(value, dict):
        return {key: as_editors_see_it(child) for key, child in value.items()}
    if isinstance(value, list):
        return [as_editors_see_it(child) for child in value]
    return value == "true" if value in {"true", "false"} and not node.is_quoted else value


@pytest.mark.parametrize("kind", FILES)
def test_shipped_files_are_valid(kind: str) -> None:
    whole = make()
    checker = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": whole["$defs"]})
    checker.check_schema(whole)
    for name in catalog.load().names(FOLDERS[kind]):
        node = yaml_tree.read_file(catalog.DATA / FOLDERS[kind] / f"{name}.yaml")
        problems = [f"{list(e.path)}: {e.message}" for e in checker.iter_errors(as_editors_see_it(node))]
        assert problems == [], name


def test_a_wrong_key_is_invalid() -> None:
    whole = make()
    checker = jsonschema.Draft202012Validator({"$ref": "#/$defs/site", "$defs": whole["$defs"]})
    good = {"title": "x", "electricity_industrial": "0.1 USD/kWh", "carbon": "100 gCO2e/kWh", "pue": 1.2}
    assert list(checker.iter_errors(good)) == []
    assert list(checker.iter_errors(good | {"peu": 1.1}))
    assert list(checker.iter_errors({key: value for key, value in good.items() if key != "pue"}))

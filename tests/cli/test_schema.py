"""`planner schema`: JSON Schema on stdout."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

from planner.cli.main import run


def planner(*arguments: str) -> tuple[int, str]:
    """The entry point in this process: status and stdout."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), pytest.raises(SystemExit) as end:
        run(arguments)
    return int(end.value.code or 0), out.getvalue()


@pytest.mark.parametrize("what", ["scenario", "result", "catalog"])
def test_a_schema_is_printed_alone_and_in_the_envelope(what: str) -> None:
    status, text = planner("schema", "--what", what)
    assert status == 0
    schema = json.loads(text)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    status, text = planner("schema", "--what", what, "--json")
    envelope = json.loads(text)
    assert (status, envelope["schema"], envelope["ok"]) == (0, "planner.schema/1", True)
    assert envelope["result"] == schema


def test_the_scenario_s_is_the_default_and_shows_what_keys_mean() -> None:
    _, text = planner("schema")
    schema = json.loads(text)
    assert schema["title"] == "planner scenario"
    rate = schema["$defs"]["TrafficClass"]["properties"]["rate"]
    assert rate["description"] == "Mean rate of drawn requests over the whole shape, at the begin of any growth."
    assert rate["anyOf"][0]["examples"] == ["40 req/s"]


def test_an_unknown_kind() -> None:
    assert planner("schema", "--what", "sites")[0] == 2

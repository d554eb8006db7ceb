"""`planner schema`: the JSON Schema of what people write and what planner prints, for editors and programs."""

from __future__ import annotations

import json
from typing import Any

import click

from planner.cli import output

EPILOG = """\b
Examples:
  planner schema > scenario.schema.json
  planner schema --what result
"""


@click.command("schema", epilog=EPILOG)
@click.option(
    "--what",
    type=click.Choice(["scenario", "result", "catalog"]),
    default="scenario",
    help="Scenario files, results of a run, or files of the catalogue [scenario].",
)
@output.verb("planner.schema/1")
def command(what: str, *, to: output.Settings) -> None:
    """Print a JSON Schema (draft 2020-12); in an editor it completes keys and shows what each means."""
    schema = _schema(what)
    output.reply("planner.schema/1", schema, json.dumps(schema, ensure_ascii=False, indent=2), to)


def _schema(what: str) -> dict[str, Any]:
    if what == "scenario":
        from planner.scenario.json_schema import scenario

        return scenario()
    if what == "catalog":
        from planner.facts.json_schema import catalog

        return catalog()
    from planner.aggregate.result_schema import result_schema

    return result_schema()

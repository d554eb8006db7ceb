"""The command `planner`: a group whose verbs are imported only when they are used."""

from __future__ import annotations

import importlib
import sys

import click

# verb -> (module, one-line help); the help stands here so that `planner --help` imports no verb.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("planner.cli.init", "Copy a shipped scenario to start from."),
    "check": ("planner.cli.check", "Validate scenarios; list what this version does not act on."),
    "run": ("planner.cli.run", "Simulate the fleet as given: latency limits, load, power, cost."),
    "catalog": ("planner.cli.catalog", "List, show and compare the facts: chips, racks, models, prices, sites."),
    "trace": ("planner.cli.trace", "Inspect, convert and sample request traces."),
    "schema": ("planner.cli.schema", "JSON Schema of scenarios, results and catalogue files."),
}


class LazyGroup(click.Group):
    """A group that knows its verbs by name and loads one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(VERBS[cmd_name][0])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def group() -> None:
    """Plan the capacity of fleets that serve large language models."""


def main() -> None:
    """Entry point of the command `planner`."""
    sys.exit(group())

"""`planner completion`: the script that lets a shell complete verbs and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from planner.cli import output

SCHEMA = "planner.completion/1"
SHELLS = ("bash", "zsh", "fish")

EPILOG = """\b
Examples:
  planner completion bash >> ~/.bashrc
  planner completion fish > ~/.config/fish/completions/planner.fish
"""


@click.command("completion", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(SHELLS))
@output.verb(SCHEMA)
def command(shell: str, to: output.Settings) -> None:
    """Print the script that makes SHELL complete planner's verbs and flags."""
    from planner.cli.main import COMPLETE, group

    made = get_completion_class(shell)
    assert made is not None
    template = made(group, {}, "planner", COMPLETE)
    # `source` of click asks bash for its version first; the script itself needs nothing of the machine.
    script = template.source_template % template.source_vars()
    output.reply(SCHEMA, {"shell": shell, "script": script}, script.rstrip("\n"), to)

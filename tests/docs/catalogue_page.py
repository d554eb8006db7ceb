"""`docs/reference/catalogue.md`: everything in the catalogue, by kind, as `planner catalog list` prints it."""

from __future__ import annotations

from click.testing import CliRunner

from planner.cli.main import group
from planner.facts import catalog

_HEAD = """# Catalogue

What is known of which chip, rack, model, place and price? Every value has a grade and a source, and where nobody has
said it a range: `planner catalog show KIND NAME` prints them, and what other sources say. `~` marks a placeholder that
no outside source states. Your own file beside a scenario (`rack: ./my-rack.yaml`) may stand in for any of them.

This page is made from `planner/facts/data/` by `make docs`.
"""


def page() -> str:
    """The page, as Markdown."""
    lines = [_HEAD]
    for kind in catalog.KINDS:
        if not catalog.load().names(kind):
            continue
        done = CliRunner().invoke(group, ["catalog", "list", kind], env={"COLUMNS": "120"})
        assert done.exit_code == 0, done.output
        text = "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())
        lines += [f"## {kind}", "", "```text", text, "```", ""]
    return "\n".join(lines)

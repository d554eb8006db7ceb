"""`docs/reference/cli.md`: the help of every verb, as it is printed."""

from __future__ import annotations

from collections.abc import Iterator

import click

from planner.cli.main import VERBS, group

_HEAD = """# Command line

Which verbs are there, and what does each take? This is the help that `planner VERB --help` prints.

stdout is the answer, stderr everything else; with `--json` stdout is exactly one object, on failure too. A command
ends with 0 when it is done, 1 for a fault in planner, 2 for bad input or usage, 3 when `--gate` found a limit missed, 4
when no fleet can do what is asked or nothing completed, 5 when the surroundings failed, 130 when it was interrupted.

This page is made from the code by `make docs`.
"""


def page() -> str:
    """The page, as Markdown."""
    lines = [_HEAD, "| verb | |", "|---|---|"]
    lines += [f"| [`planner {name}`](#planner-{name}) | {words} |" for name, (_, words) in VERBS.items()]
    root = click.Context(group, info_name="planner", max_content_width=100, terminal_width=100)
    for name in VERBS:
        command = group.get_command(root, name)
        assert command is not None
        for path, each in _all(command, (name,)):
            lines += ["", f"{'#' * (1 + len(path))} planner {' '.join(path)}", "", "```text", _help(each, path), "```"]
    return "\n".join([*lines, ""])


def _all(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _all(child, (*path, name))


def _help(command: click.Command, path: tuple[str, ...]) -> str:
    parent = None
    for name in ("planner", *path[:-1]):
        parent = click.Context(click.Group(name), info_name=name, parent=parent, help_option_names=["-h", "--help"])
    context = click.Context(
        command, info_name=path[-1], parent=parent, max_content_width=100, terminal_width=100, color=False
    )
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())

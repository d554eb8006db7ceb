"""Commands that people are shown, at the end of each verb's help, in the README and in pages: their files are there,
their flags known, their values read.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from planner.cli.main import VERBS, group
from planner.scenario import load_all
from planner.scenario.unsupported import verbs_for

ROOT = Path(__file__).resolve().parents[2]


def commands(command: click.Command, context: click.Context) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    inner = [command.get_command(context, name) for name in command.list_commands(context)]
    return [command, *(each for found in inner if found is not None for each in commands(found, context))]


def examples() -> list[str]:
    found = [
        line.strip()
        for each in commands(group, click.Context(group, **group.context_settings))
        for line in (each.epilog or "").splitlines()
    ]
    return [line for line in dict.fromkeys(found) if line.startswith("planner ")]


def test_each_verb_has_two() -> None:
    for each in commands(group, click.Context(group, **group.context_settings)):
        assert sum(line.strip().startswith("planner ") for line in (each.epilog or "").splitlines()) >= 2, each.name


def shown() -> list[str]:
    """Commands in code blocks of the README and of pages, those of a shell's own variables left away."""
    found = []
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.stem != "catalogue"]  # that one lists names
    for path in [ROOT / "README.md", *pages]:
        for block in re.findall(r"^```\w*\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            asked = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines  # the rest is output
            for line in asked:
                words = line.strip().partition("  #")[0].strip()
                if words.startswith("planner ") and "$" not in words:
                    found.append(words)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("line", examples())
def test_an_example_is_understood(line: str) -> None:
    understood(line)


@pytest.mark.parametrize("line", shown())
def test_a_command_in_a_page_is_understood(line: str) -> None:
    understood(line)


def understood(line: str) -> None:
    """Its verb and flags are known, and its scenarios are there and read with what it sets."""
    words = shlex.split(line.partition(" > ")[0].partition(" >> ")[0])[1:]
    context: click.Context = click.Context(group, **group.context_settings)
    command: click.Command = group
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    values = command.make_context(command.name, words, parent=context, resilient_parsing=False).params
    for file in (word for word in words if word.startswith("scenarios/")):
        for path in sorted(ROOT.glob(file)):
            names = values.get("names") or (None if values.get("is_all") else ("base",))
            for each in load_all(path, sets=values.get("sets") or (), names=names):
                verb = line.split()[1]
                assert verb not in {"run", "optimize", "headroom"} or verb in verbs_for(each)
        assert list(ROOT.glob(file)), file


def test_every_verb_is_looked_at() -> None:
    assert {line.split()[1] for line in examples()} == set(VERBS)

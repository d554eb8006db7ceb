"""`planner init`: copy a shipped scenario to start from."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

import click

from planner.cli import output
from planner.errors import Fault, RunError, ScenarioError

EPILOG = """\b
Examples:
  planner init
  planner init my-fleet --example mixed-fleet
"""


@click.command("init", epilog=EPILOG)
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@click.option("--example", metavar="NAME", help="The scenario to copy [one-rack]; `--example list` lists them.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@output.verb("planner.init/1")
def command(folder: Path, example: str | None, force: bool, *, to: output.Settings) -> None:
    """Copy a shipped scenario, and what it extends, into DIR (here when absent)."""
    from planner.scenario import shipped

    titles = {name: shipped.title(name) for name in shipped.names()}
    if example == "list":
        output.reply("planner.init/1", {"examples": titles, "wrote": [], "next": None}, _listed(titles), to)
        return
    name = shipped.resolve(example or shipped.DEFAULT)
    targets = {folder / f"{base}.yaml": shipped.text(base) for base in shipped.with_bases(name)}
    _refuse_overwriting(folder, targets, force)
    for path, text in targets.items():
        _write(path, text)
    first = next(iter(targets))
    step = f"planner check {shlex.quote(str(first))}"
    lines = [*(f"wrote {path}" for path in targets), "", f"next: {step}"]
    others = {other: title for other, title in titles.items() if other != name}
    result = {"examples": titles, "wrote": [str(path) for path in targets], "next": step}
    output.reply("planner.init/1", result, "\n".join([*lines, "", _listed(others)]), to)


def _listed(titles: dict[str, str]) -> str:
    width = max(len(name) for name in titles)
    rows = (f"  {name:<{width}}  {title}" for name, title in titles.items())
    return "\n".join(["examples (--example NAME):", *rows])


def _refuse_overwriting(folder: Path, targets: dict[Path, str], force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise ScenarioError(Fault("is a file where a folder is meant", "name a folder", file=str(folder)))
    faults = []
    for path, text in targets.items():
        if path.is_dir():
            faults.append(Fault("is a folder", "take it away", file=str(path)))
        elif path.exists() and not force and path.read_bytes() != text.encode():
            faults.append(Fault("is there already", "--force overwrites it", file=str(path)))
    if faults:
        raise ScenarioError(*faults)


def _write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise RunError(
            Fault(f"cannot be written: {error.strerror or error}", "name a folder that can be", file=str(path))
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)

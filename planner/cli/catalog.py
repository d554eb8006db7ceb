"""`planner catalog`: what the facts are, how each is known, and how two things differ."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from planner.cli import catalog_text as text
from planner.cli import output
from planner.errors import FactError, Fault, near
from planner.facts import catalog as facts
from planner.facts.headline import Headline

SCHEMA = "planner.catalog/1"
_LONG_LIST = 40
EPILOG = """\b
Examples:
  planner catalog list chips
  planner catalog show chips jalapeno
"""
LIST_EPILOG = """\b
Examples:
  planner catalog list
  planner catalog list racks --json
"""
SHOW_EPILOG = """\b
Examples:
  planner catalog show chips jalapeno
  planner catalog show models kimi-k2.5 --json
"""
DIFF_EPILOG = """\b
Examples:
  planner catalog diff jalapeno gb300
  planner catalog diff deepseek-r1 kimi-k2.5 --all
"""


@click.group("catalog", epilog=EPILOG)
@output.shared_options
@click.pass_context
def command(ctx: click.Context, /, **shared: object) -> None:
    """List, show and compare the facts: chips, racks, models, prices, sites."""
    ctx.obj = output.settings(**shared)


@command.command("list", epilog=LIST_EPILOG)
@click.argument("kind", required=False)
@output.verb(SCHEMA)
def list_(kind: str | None, *, to: output.Settings) -> None:
    """List the names of KIND with their main figures, or of every kind."""
    shelf = facts.load()
    if kind is None:
        every = {k: shelf.names(k) for k in facts.KINDS}
        rows = [(k, str(len(found)), _names(k, found)) for k, found in every.items() if found]
        words = text.table(("kind", "n", "names"), rows, left=(0, 2), wrap=2)
        output.reply(SCHEMA, {"kinds": {k: list(found) for k, found in every.items()}}, words, to)
        return
    kind = _kind(kind)
    entries = [text.Entry(n, shelf.title(kind, n), text.figures(kind, shelf, n)) for n in shelf.names(kind)]
    result = {"kind": kind, "entries": [text.entry_data(entry) for entry in entries]}
    output.reply(SCHEMA, result, text.overview(kind, entries), to)


@command.command(epilog=SHOW_EPILOG)
@click.argument("kind")
@click.argument("name")
@output.verb(SCHEMA)
def show(kind: str, name: str, *, to: output.Settings) -> None:
    """Show every fact of NAME: value, range, grade, sources, note, and what other sources say."""
    kind = _kind(kind)
    shelf = facts.load()
    thing = shelf.any(kind, name)
    found = facts.facts_of(thing)
    heads = {"name": name, "title": shelf.title(kind, getattr(thing, "name", name))} | text.plain_texts(thing)
    result: dict[str, Any] = {"kind": kind, **heads}
    result["facts"] = {path: text.as_data(fact) for path, fact in found.items()}
    lines = [f"{kind}/{heads['name']}   {heads['title']}"]
    lines += [f"{key}: {words}" for key, words in heads.items() if key not in {"name", "title"} and words]
    if isinstance(thing, Headline):
        result["targets"] = [asdict(target) for target in thing.targets]
        lines += ["", text.targets(thing.targets)]
    titles = {key: source.title for key, source in shelf.sources().items()}
    width = max((len(path) for path in found), default=0) + 1
    lines += ["", *(text.block(path, fact, titles, width=width) for path, fact in found.items())]
    if found:
        lines += ["", text.MARK]
    output.reply(SCHEMA, result, "\n".join(lines).rstrip(), to)


@command.command(epilog=DIFF_EPILOG)
@click.argument("left")
@click.argument("right")
@click.option("--all", "show_all", is_flag=True, help="Also list what is the same.")
@output.verb(SCHEMA)
def diff(left: str, right: str, show_all: bool, *, to: output.Settings) -> None:
    """Compare two things of one kind: values side by side, ratio (right over left), and grades."""
    shelf = facts.load()
    kind = _kind_of_both(left, right)
    pairs = text.pairs(*(facts.facts_of(shelf.any(kind, name)) for name in (left, right)), show_all=show_all)
    differences = [
        {"path": path, "left": text.as_data(one), "right": text.as_data(other), "ratio": text.ratio(one, other)}
        for path, one, other in pairs
    ]
    words = text.comparison(kind, left, right, pairs) if pairs else f"{left} and {right} do not differ"
    result = {"kind": kind, "left": left, "right": right, "differences": differences}
    output.reply(SCHEMA, result, words, to)


def _names(kind: str, names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= _LONG_LIST else f"planner catalog list {kind}"


def _kind(kind: str) -> str:
    """A kind by its name, plural or singular."""
    for known in facts.KINDS:
        if kind in {known, known.removesuffix("s")}:
            return known
    raise FactError(Fault(f"unknown kind of facts {kind!r}{near(kind, facts.KINDS)}"))


def _kind_of_both(left: str, right: str) -> str:
    """The kind that both names belong to, first of the list where several do."""
    shelf = facts.load()
    kinds = {name: [kind for kind in facts.KINDS if name in shelf.names(kind)] for name in (left, right)}
    every = [known for kind in facts.KINDS for known in shelf.names(kind)]
    missing = [Fault(f"no {name!r} in the catalogue{near(name, every)}") for name, found in kinds.items() if not found]
    if missing:
        raise FactError(*missing)
    both = [kind for kind in kinds[left] if kind in kinds[right]]
    if not both:
        of = ", ".join(f"{name!r} is among {' and '.join(found)}" for name, found in kinds.items())
        raise FactError(Fault(of, "compare two things of one kind"))
    return both[0]

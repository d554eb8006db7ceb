"""`planner compare`: results side by side, what differs beyond noise, and rules for pipelines."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from planner.cli import output

SCHEMA = "planner.compare/1"
EXIT_GATE = 3

EPILOG = """\b
Examples:
  planner compare runs/chat-and-coding-3f9a1c20 runs/chat-and-coding-77b0e1aa
  planner compare runs/mixed:base runs/mixed:nvidia_only --gate 'usd_per_mtok_out <= +2 %' --gate 'verdict == met'
"""


@click.command("compare", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("base")
@click.argument("others", nargs=-1, metavar="[OTHER]...")
@click.option("--gate", "gates", multiple=True, metavar="RULE", help="Exit 3 when a rule is broken; repeatable.")
@click.option("--figure", "figures", multiple=True, metavar="NAME", help="Only this figure; repeatable.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the comparison as a page (.html), too.")
@click.option("--all", "is_all", is_flag=True, help="Every figure, not the headline alone.")
@output.verb(SCHEMA)
def command(
    base: str,
    others: tuple[str, ...],
    gates: tuple[str, ...],
    figures: tuple[str, ...],
    out: Path | None,
    is_all: bool,
    to: output.Settings,
) -> None:
    """Compare the result BASE with OTHER results: folders of runs, or FOLDER:VARIANT for one of several variants.

    Each figure is better, worse or within noise, by its interval over the seeds that both share. Also says what the
    scenarios ask differently and which facts differ; figures on different bases are not subtracted. Without OTHER the
    variants of BASE are compared with its first. A RULE is such as 'usd_per_mtok_out <= +2 %'.
    """
    from planner.report.compare import compare
    from planner.report.compare_page import write
    from planner.report.compare_text import comparison

    found = compare(base, *others, gate=gates, figures=figures)
    text = comparison(found, has_all=is_all or bool(figures))
    if out is not None:
        text += f"\nwrote {write(found, out)}"
    output.reply(SCHEMA, found.to_json(), text, to)
    if found.n_broken:
        click.echo(f"gate: {found.n_broken} rules are broken", err=True)
        sys.exit(EXIT_GATE)

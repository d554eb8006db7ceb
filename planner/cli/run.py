"""`planner run`: simulate a fleet and say whether it holds its limits, how busy it is, what it draws and costs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from planner.cli import output
from planner.cli.asked import Asked, asks
from planner.cli.progress import ProgressLine
from planner.cli.run_options import HowToRun, how_to_run
from planner.errors import Notice, RunError

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.study.answer import Answer

SCHEMA = "planner.run/1"
EXIT_GATE = 3
EXIT_NOTHING = 4

EPILOG = """\b
Examples:
  planner run scenarios/02-mixed-fleet.yaml
  planner run scenarios/02-mixed-fleet.yaml --all --set run.seeds=1 --json
"""


@click.command("run", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@asks(several=True)
@click.option(
    "--keep",
    type=click.Choice(["requests", "timeline"]),
    multiple=True,
    help="Keep a row for each request, or a timeline of the replicas for Perfetto; repeatable.",
)
@click.option("--report/--no-report", "has_page", default=True, help="Write the page report.html, too [yes].")
@how_to_run
@output.verb(SCHEMA)
def command(
    keep: tuple[str, ...],
    has_page: bool,
    asked: Asked,
    how: HowToRun,
    to: output.Settings,
) -> None:
    """Simulate the fleet of SCENARIO (a file, or - for stdin) under its traffic.

    Says for each class whether its limits hold and by how much, for each pool how busy it is and at what power, and
    what a million tokens costs. Without -s or --all the base scenario is run.
    """
    from planner.report import text
    from planner.scenario.unsupported import set_aside
    from planner.study import answer

    scenarios = asked.load()
    line = ProgressLine(to)
    try:
        done = answer.answer(
            scenarios,
            out=how.out,
            executor=how.executor,
            keep_requests="requests" in keep,
            keep_timeline="timeline" in keep,
            is_resuming=how.is_resuming,
            is_forced=how.is_forced,
            progress=line.show,
        )
    finally:
        line.end()
    result = done.result
    shown = text.run_report(result, wall_s=None if done.is_reused else done.wall_s)
    if done.is_reused:
        shown += f"\nthe same question was answered before: read {done.folder}/ (--force simulates again)"
    else:
        shown += f"\nwrote {done.folder}/"
    page = page_beside(done) if has_page else []
    if has_page and not page:
        shown += "   report.html shows it"
    aside = [notice for each in scenarios for notice in set_aside(each, "run")]
    notices = dict.fromkeys([*result.notices, *aside, *page])
    output.reply(SCHEMA, result.to_json(), shown, to, warnings=notices, inputs=result.inputs)
    finish(result, gate=how.gate)


def page_beside(done: Answer) -> list[Notice]:
    """The page and the rows of its figures, in the result's folder; that it could not be written loses no answer."""
    from planner.report import write

    try:
        if not (done.is_reused and write.has_page(done.folder)):
            write.write_page(done.result, done.folder, frames_in=f"{done.folder}/{write.FRAMES}")
    except RunError as error:
        return [Notice("no_page", f"the page was not written: {error}")]
    return []


def finish(result: Result, *, gate: bool) -> None:
    """End with the exit status that the result asks for."""
    if result.n_completed == 0:
        why = "the fleet is too small, or run.length and run.drain are too short"
        if not any(tree["requests"]["offered"] for tree in result.variants.values()):
            why = "none arrived: raise the rate, or run.length"
        click.echo(f"error: no request completed: {why}", err=True)
        sys.exit(EXIT_NOTHING)
    if gate and result.n_missed:
        click.echo(f"gate: {result.n_missed} limits were missed", err=True)
        sys.exit(EXIT_GATE)

"""`planner sweep`: a scenario at every point of its axes, and the cheapest point that holds every limit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli import output
from planner.cli.asked import Asked, asks
from planner.cli.progress import ProgressLine
from planner.cli.run_options import HowToRun, how_to_run
from planner.errors import Notice, RunError

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.fleet.executor import Executor
    from planner.scenario import Scenario
    from planner.study.sweep_answer import SweepAnswer

SCHEMA = "planner.sweep/1"
EXIT_GATE = 3
EXIT_NOTHING = 4

EPILOG = """\b
Examples:
  planner sweep scenarios/09-how-many-racks.yaml
  planner sweep scenarios/09-how-many-racks.yaml --set run.seeds=3 --gate --json
"""


@click.command("sweep", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@asks(several=True)
@how_to_run
@output.verb(SCHEMA)
def command(
    asked: Asked,
    how: HowToRun,
    to: output.Settings,
) -> None:
    """Run SCENARIO (a file, or - for stdin) at every point of the axes of its `sweep`.

    An axis is the path of any value, as in --set, and the values that it takes; the number of racks is one. All points
    draw from the same seeds. Every point is kept as it is done, so that --resume goes on where a sweep was interrupted.
    Ends with the cheapest point that holds every limit, or with the one that comes nearest. A scenario that leaves its
    fleet to planner optimize is planned at every point.
    """
    from planner.report.sweep_text import sweep_report
    from planner.study import sweep_answer
    from planner.study.answer import RUNS, SURFACES
    from planner.study.run import run
    from planner.study.sweep import Done

    scenarios = asked.load()
    line = ProgressLine(to)

    def tell(done: Done) -> None:
        line.note(done.frac, f"{done.n_done} of {done.n_points} points done")

    try:
        with how.executor() as executor:
            done = sweep_answer.answer(
                scenarios,
                solver(scenarios[0], executor, note=line.say),
                solve_many=partial(run, executor=executor, surfaces=RUNS / SURFACES),
                out=how.out,
                is_forced=how.is_forced,
                is_resuming=how.is_resuming,
                progress=tell,
            )
    finally:
        line.end()
    found = done.sweep
    shown = sweep_report(found, title=scenarios[0].title, wall_s=None if done.is_reused else done.wall_s)
    if done.is_reused:
        shown += f"\nthe same question was answered before: read {done.folder}/ (--force simulates again)"
    else:
        shown += f"\nwrote {done.folder}/"
    drawn = _drawn(done)
    if drawn is None:
        shown += "   figures/sweep.svg shows it"
    best = found.cheapest or found.nearest
    if best is not None:
        shown += f"          that point: {done.folder_of(best.point)}"
    result = found.to_json() | {"folder": str(done.folder)}
    output.reply(SCHEMA, result, shown, to, warnings=[drawn] if drawn else [], inputs=done.inputs)
    if all(row.reason for row in found.rows):
        click.echo("error: no point can be simulated", err=True)
        sys.exit(EXIT_NOTHING)
    if how.gate and found.cheapest is None:
        click.echo("gate: no point holds every limit", err=True)
        sys.exit(EXIT_GATE)


def _drawn(done: SweepAnswer) -> Notice | None:
    """The figure beside the points, made where it is not there; that it could not be drawn loses no answer."""
    from planner.fleet.storage import is_address
    from planner.report import sweep_figure

    if is_address(done.folder):
        return Notice("no_figure", "no figure is drawn at an address: sweep into a folder for one")
    if (Path(done.folder) / "figures" / f"{sweep_figure.NAME}.svg").is_file() and done.is_reused:
        return None
    try:
        sweep_figure.save(done.sweep, Path(done.folder))
    except RunError as error:
        return Notice("no_figure", f"the figure was not drawn: {error}")
    return None


def solver(
    scenario: Scenario, executor: Executor, *, note: Callable[[str], None]
) -> Callable[[Scenario], Result] | None:
    """`planner optimize` for a scenario that leaves its fleet to it; None where the fleet is given."""
    if scenario.goal is None or not any(found.refused_by("run") for found in scenario.unsupported):
        return None
    from planner.optimize.plan import Effort, optimize
    from planner.study.answer import RUNS, SURFACES
    from planner.study.run import run

    return partial(
        optimize,
        simulate=lambda scenarios: run(scenarios, executor=executor),
        folder=RUNS / SURFACES,
        effort=Effort(has_fixed_fleets=False, has_reasons=False),
        note=note,
    )

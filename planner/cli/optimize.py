"""`planner optimize`: what to buy and where each class runs, proved by simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli import output
from planner.cli.asked import Asked, asks
from planner.cli.progress import ProgressLine
from planner.cli.run import finish, page_beside
from planner.cli.run_options import HowToRun, how_to_run

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.fleet.checkpoint import Checkpoint
    from planner.fleet.executor import Executor

SCHEMA = "planner.optimize/1"

EPILOG = """\b
Examples:
  planner optimize scenarios/12-growth.yaml
  planner optimize scenarios/03-buy-plan.yaml --set 'site.power_limit=1.2 MW' --json
"""


@click.command("optimize", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@asks()
@how_to_run
@output.verb(SCHEMA)
def command(asked: Asked, how: HowToRun, to: output.Settings) -> None:
    """Choose the racks that SCENARIO should buy (a file with a `goal`, or - for stdin).

    Pools with `count: {min, max}` are chosen from, period by period, at the least cost that holds every limit; the plan
    is simulated before it is shown. Exit 4: no fleet meets the scenario; the smallest changes that would do are named.
    """
    from planner.optimize.plan import NoPlan, optimize
    from planner.report.plan_text import plan_report
    from planner.study import answer
    from planner.study.run import run

    scenario = asked.load_one()
    line = ProgressLine(to)

    def make(executor: Executor | None, notes: Checkpoint) -> Result:
        return optimize(
            scenario,
            workers=how.workers,
            simulate=lambda scenarios: run(scenarios, workers=how.workers, executor=executor),
            folder=surfaces_beside(how.out),
            notes=notes,
            note=line.say,
        )

    try:
        done = answer.answer(
            [scenario],
            out=how.out,
            executor=how.executor,
            is_resuming=how.is_resuming,
            is_forced=how.is_forced,
            make=make,
            called="optimize",
        )
    except KeyboardInterrupt as stop:
        line.end()
        beside = "response surfaces so far are kept: the same command goes on from there"
        raise answer.Interrupted(str(stop) or beside) from None
    except NoPlan as error:
        line.end()
        output.fail(SCHEMA, error, to, result={"plan": None, "relaxations": error.relaxations})
    finally:
        line.end()
    result = done.result
    shown = plan_report(result)
    if done.is_reused:
        shown += f"\nthe same question was answered before: read {done.folder}/ (--force solves again)"
    else:
        shown += f"\nwrote {done.folder}/"
    page = page_beside(done)
    if not page:
        shown += "   report.html shows it"
    output.reply(SCHEMA, result.to_json(), shown, to, warnings=[*result.notices, *page], inputs=result.inputs)
    finish(result, gate=how.gate)


def surfaces_beside(out: str | None) -> Path | None:
    """Where response surfaces are kept: beside the results."""
    from planner.study.answer import RUNS

    if out is None:
        return RUNS / "surfaces"
    if "://" in out:
        return None
    return Path(out).parent / "surfaces"

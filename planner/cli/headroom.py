"""`planner headroom`: the load at which the first limit breaks, what breaks, and the same with a rack out."""

from __future__ import annotations

import sys

import click

from planner.cli import output
from planner.cli.asked import Asked, asks
from planner.cli.progress import ProgressLine

SCHEMA = "planner.headroom/1"
EXIT_GATE = 3

EPILOG = """\b
Examples:
  planner headroom scenarios/01-one-rack.yaml
  planner headroom scenarios/09-how-many-racks.yaml --set run.seeds=10 --no-n1 --json
"""


@click.command("headroom", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@asks()
@click.option("-j", "--workers", type=click.IntRange(1), help="Simulations side by side [processors].")
@click.option("--ray", metavar="new|auto|ADDRESS", help="Simulate on a Ray cluster, not on threads.")
@click.option("-o", "--out", metavar="DIR", help="Write the result of a run with the headroom in it, and its page.")
@click.option("--force", is_flag=True, help="Replace a result that is there.")
@click.option("--n1/--no-n1", default=True, help="Look at it with a rack of each pool out too [yes].")
@click.option("--gate", is_flag=True, help="Exit 3 when the scenario's own load does not hold.")
@output.verb(SCHEMA)
def command(
    asked: Asked,
    workers: int | None,
    ray: str | None,
    out: str | None,
    force: bool,
    n1: bool,
    gate: bool,
    to: output.Settings,
) -> None:
    """Search the multiple of SCENARIO's load at which the first of its limits breaks (a file, or - for stdin).

    The load is bisected on the simulator, under the scenario's seeds and at least five; the interval is over them. What
    fleet.spare and fleet.survive ask for has to hold too.
    """
    from planner.fleet.executors import opened
    from planner.report.headroom_text import headroom_report
    from planner.report.write import FRAMES, write_page
    from planner.scenario.unsupported import set_aside
    from planner.study.headroom import Looked, headroom, in_result
    from planner.study.run import inputs_digest, run
    from planner.traffic.load import said

    scenario = asked.load_one()
    line = ProgressLine(to)

    def tell(looked: Looked) -> None:
        line.say(f"{looked.what}: {looked.load:.4g} times the load, {looked.n_simulations} simulations done")

    try:
        with opened(workers=workers, ray=ray) as executor:
            found = headroom(scenario, with_n1=n1, executor=executor, progress=tell)
            whole = run(scenario, executor=executor) if out is not None else None
    finally:
        line.end()
    shown = headroom_report(
        found, title=scenario.title, rates=said(scenario.traffic), spare_frac=scenario.fleet.spare_frac or 0.0
    )
    if out is not None and whole is not None:
        whole = in_result(whole, scenario.name, found)
        whole.save(out, is_replacing=force)
        write_page(whole, out, frames_in=f"{out}/{FRAMES}")
        shown += f"\nwrote {out}/   {out}/report.html shows it"
    notices = [*scenario.notices, *set_aside(scenario, "headroom")]
    output.reply(SCHEMA, found.to_json(), shown, to, warnings=notices, inputs=inputs_digest([scenario]))
    if gate and found.edge.multiplier is not None and found.edge.multiplier < 1:
        click.echo(f"gate: the limits hold up to {found.edge.multiplier:.4g} times the load", err=True)
        sys.exit(EXIT_GATE)

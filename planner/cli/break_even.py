"""`planner break-even`: the price, or other value, at which two plans cost the same per token."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from planner.cli import output
from planner.cli.asked import Asked, asks
from planner.cli.progress import ProgressLine

SCHEMA = "planner.break-even/1"
EXIT_GATE = 3

EPILOG = """\b
Examples:
  planner break-even scenarios/02-mixed-fleet.yaml --vary fleet.pools.jalapeno.capex --against nvidia_only
  planner break-even scenarios/02-mixed-fleet.yaml --vary load --against nvidia_only --range 0.5..2 -o break-even
"""


@click.command("break-even", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@asks(variant="The first plan [base].", of="both plans")
@click.option("--vary", required=True, metavar="PATH", help="What is varied: as in --set, a fact, or load.")
@click.option("--against", required=True, metavar="VARIANT", help="The other plan: a variant of the file, or base.")
@click.option("--range", "within", metavar="LOW..HIGH", help="Where to look, such as '0.3..2 MUSD/rack' [the fact's].")
@click.option(
    "--figure", default="usd_per_mtok_out_whole", show_default=True, help="The cost of a token that is compared."
)
@click.option("--samples", type=click.IntRange(0, 10_000), help="Draws of the uncertain facts [run.samples, else 64].")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write figures/break-even.{parquet,svg,png} there.")
@click.option("-j", "--workers", type=click.IntRange(1), help="Simulations side by side [processors].")
@click.option("--ray", metavar="new|auto|ADDRESS", help="Simulate on a Ray cluster, not on threads.")
@click.option("--gate", is_flag=True, help="Exit 3 without a break-even at equal service.")
@output.verb(SCHEMA)
def command(
    asked: Asked,
    vary: str,
    against: str,
    within: str | None,
    figure: str,
    samples: int | None,
    out: Path | None,
    workers: int | None,
    ray: str | None,
    gate: bool,
    to: output.Settings,
) -> None:
    """The value of PATH at which SCENARIO (a file, or - for stdin) costs as much per token as its VARIANT.

    PATH is varied in each plan that has it: a rack's price, a chip-hour's, that of electricity; a fact of the catalogue
    (racks.jalapeno-rack.capex_usd); or `load`, the traffic of all classes as a multiple. The answer is for the whole
    fleet and each class, with an interval over the uncertain facts, and says whether both plans hold their limits.
    """
    from planner.fleet.executors import opened
    from planner.report import breakeven_figure, breakeven_text
    from planner.scenario import read_stdin
    from planner.study.breakeven import break_even

    line = ProgressLine(to)
    try:
        with opened(workers=workers, ray=ray) as executor:
            found = break_even(
                asked.source,
                vary=vary,
                against=against,
                base=asked.name,
                sets=asked.sets,
                within=within,
                figure=figure,
                samples=samples,
                stdin_text=read_stdin() if asked.source == "-" else None,
                executor=executor,
                progress=line.show,
            )
    finally:
        line.end()
    text = breakeven_text.report(found)
    if out is not None:
        paths = breakeven_figure.save(found, out)
        text += f"\nwrote {', '.join(str(path) for path in paths)}"
    output.reply(SCHEMA, found.to_json(), text, to, warnings=found.notices, inputs=found.inputs)
    if gate and not (found.is_equal_slo and found.crossings[0].values):
        click.echo("gate: no break-even at equal service", err=True)
        sys.exit(EXIT_GATE)

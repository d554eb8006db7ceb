"""`planner explain`: a figure of a result walked back to its formula, its inputs and its facts."""

from __future__ import annotations

import click

from planner.cli import output

SCHEMA = "planner.explain/1"

EPILOG = """\b
Examples:
  planner explain runs/chat-and-coding-3f9a1c20
  planner explain runs/chat-and-coding-3f9a1c20:nvidia_only usd_per_mtok_out --json
"""


@click.command("explain", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("result")
@click.argument("metric", required=False)
@output.verb(SCHEMA)
def command(result: str, metric: str | None, to: output.Settings) -> None:
    """Walk METRIC of RESULT (a folder, or FOLDER:VARIANT) back to its facts.

    Shows its formula, the figures that it is made of, and every fact behind it with grade, source and share of the
    figure's swing. Without METRIC: each headline figure, how much of its swing is assumed, and what moves it most.
    """
    from planner.report import explain_text
    from planner.report.compare_sides import open_side
    from planner.report.explain import explain, overview

    found = open_side(result)
    sides = found if isinstance(found, list) else [found]
    is_named = len(sides) > 1
    explained = [one for side in sides for one in (overview(side) if metric is None else explain(side, metric))]
    if metric is None:
        text = explain_text.overview(explained, is_named=is_named)
    else:
        text = explain_text.explained(explained, is_named=is_named)
    output.reply(SCHEMA, {"figures": [one.to_json() for one in explained]}, text, to, inputs=sides[0].result.inputs)

"""`planner report`: the page of a result, its figures as pictures and as rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli import output

if TYPE_CHECKING:
    from planner.aggregate.result import Result

SCHEMA = "planner.report/1"

EPILOG = """\b
Examples:
  planner report runs/chat-and-coding-3f9a1c20 --open
  planner report runs/chat-and-coding-3f9a1c20 --figures all --png pictures
"""


@click.command("report", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", metavar="RESULT", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Where the page is written [RESULT/report.html].")
@click.option("--open", "is_opening", is_flag=True, help="Show the page in the browser.")
@click.option("--png", type=click.Path(path_type=Path), metavar="DIR", help="Write each figure as a picture, too.")
@click.option("--figures", metavar="NAMES", help="Figures to show, with commas between them, or all [the six].")
@output.verb(SCHEMA)
def command(
    folder: Path, out: Path | None, is_opening: bool, png: Path | None, figures: str | None, to: output.Settings
) -> None:
    """Write the capacity review of RESULT: one HTML page that needs no network and no script.

    It holds the question and the answer, the fleet, the limits, what it costs, the figures, every fact behind them and
    how to do it again. The rows of each figure are written to RESULT/figures/.
    """
    from planner.aggregate.result import Result
    from planner.report import write

    names = None if figures is None else [name.strip() for name in figures.split(",") if name.strip()]
    if names == []:
        raise click.UsageError("--figures names no figure")
    result = Result.load(folder)
    page = out if out is not None else folder / write.PAGE
    frames_in = folder / write.FRAMES if out is None or os.access(folder, os.W_OK) else None
    rows = write.write_page(result, page, frames_in=frames_in, figures=names)
    pictures = write.write_pictures(result, png, figures=names) if png is not None else []
    lines = [f"wrote {page} ({page.stat().st_size / 1e6:.2f} MB)"]
    if rows:
        lines.append(f"wrote {frames_in}/ ({', '.join(rows)})")
    if pictures:
        lines.append(f"wrote {len(pictures)} pictures to {png}/")
    answer: dict[str, Any] = {
        "page": str(page),
        "bytes": page.stat().st_size,
        "verdicts": _verdicts(result),
        "figures": {name: str(path) for name, path in rows.items()},
        "pictures": [str(path) for path in pictures],
    }
    output.reply(SCHEMA, answer, "\n".join(lines), to, warnings=result.notices, inputs=result.inputs)
    if is_opening:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _verdicts(result: Result) -> dict[str, str | None]:
    """The verdict of each variant."""
    return {name: tree["verdict"] for name, tree in result.variants.items()}

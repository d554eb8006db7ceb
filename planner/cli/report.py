"""`planner report`: the page of a result, its figures as pictures and as rows."""

from __future__ import annotations

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
@click.argument("folder", metavar="RESULT")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Where the page is written [RESULT/report.html].")
@click.option("--open", "is_opening", is_flag=True, help="Show the page in the browser.")
@click.option("--png", type=click.Path(path_type=Path), metavar="DIR", help="Write each figure as a picture, too.")
@click.option("--figures", metavar="NAMES", help="Figures to show, with commas between them, or all [the six].")
@output.verb(SCHEMA)
def command(
    folder: str, out: Path | None, is_opening: bool, png: Path | None, figures: str | None, to: output.Settings
) -> None:
    """Write the capacity review of RESULT, a folder or an address: one HTML page that asks no network for anything.

    It holds the question and the answer, the fleet, the limits, what it costs, the figures, every fact behind them and
    how to do it again. The rows of each figure are written to RESULT/figures, unless -o puts the page elsewhere.
    """
    from planner.aggregate.result import Result
    from planner.report import write

    names = None if figures is None else [name.strip() for name in figures.split(",") if name.strip()]
    if names == []:
        raise click.UsageError("--figures names no figure")
    home = folder.rstrip("/") or "/"
    result = Result.load(home)
    if out is None:
        page = f"{home}/{write.PAGE}"
        size, rows = write.write_page(result, home, frames_in=f"{home}/{write.FRAMES}", figures=names)
    else:
        page = str(out)
        size, rows = write.write_page(result, out.parent, name=out.name, figures=names)
    pictures = write.write_pictures(result, png, figures=names) if png is not None else []
    lines = [f"wrote {page} ({size / 1e6:.2f} MB)"]
    if rows:
        lines.append(f"wrote {home}/{write.FRAMES}/ ({', '.join(rows)})")
    if pictures:
        lines.append(f"wrote {len(pictures)} pictures to {png}/")
    answer: dict[str, Any] = {
        "page": page,
        "bytes": size,
        "verdicts": _verdicts(result),
        "figures": rows,
        "pictures": [str(path) for path in pictures],
    }
    output.reply(SCHEMA, answer, "\n".join(lines), to, warnings=result.notices, inputs=result.inputs)
    if is_opening:
        import webbrowser

        webbrowser.open(page if "://" in page else Path(page).resolve().as_uri())


def _verdicts(result: Result) -> dict[str, str | None]:
    """The verdict of each variant."""
    return {name: tree["verdict"] for name, tree in result.variants.items()}

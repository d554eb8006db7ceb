"""`planner calibrate`: fit the model to measured points, and say how far off it is on what it has not seen."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from planner.cli import output

SCHEMA = "planner.calibrate/1"

EPILOG = """\b
Examples:
  planner calibrate points.csv
  planner calibrate points.csv --energy energy.csv -o calibration.yaml --engines engines --date 2026-11-30
"""


@click.command("calibrate", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("points", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("calibration.yaml"),
    help="File to write [calibration.yaml].",
)
@click.option("--energy", type=click.Path(path_type=Path), help="Energy points to fit the draw of chips to (CSV).")
@click.option("--engines", type=click.Path(path_type=Path), help="Folder for the fact file of each serving engine.")
@click.option("--date", help="Date to write into the file [today].")
@output.verb(SCHEMA)
def command(
    points: Path, out: Path, energy: Path | None, engines: Path | None, date: str | None, to: output.Settings
) -> None:
    """Fit coefficients and stack corrections to POINTS (CSV), and write them with bands and errors.

    The errors are of points that a fit left out: deployments in ten parts, one chip, one model at a time. The same file
    gives the same digits.
    """
    import yaml

    from planner.errors import RunError
    from planner.model.calibrate import calibrate
    from planner.model.engine_facts import engine_files

    line = _Line(to)
    try:
        today = datetime.now(tz=UTC).date().isoformat()
        made = calibrate(points, date=date or today, energy=energy, tick=line.show)
    finally:
        line.end()
    text = yaml.safe_dump(made.tree, sort_keys=False, allow_unicode=True, width=120)
    files = {out: text}
    if engines is not None:
        files |= {engines / f"{name}.yaml": facts for name, facts in engine_files(made.tree).items()}
    for path, content in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        except OSError as error:
            raise RunError(f"cannot write {path}: {error}; name a place that can be written") from None
    wrote = ", ".join(str(path) for path in files)
    output.reply(SCHEMA, {"file": str(out), **made.tree}, f"{report(made.tree)}\nwrote {wrote}", to)


def report(tree: dict[str, Any]) -> str:
    """Errors before and after, by what a fold left out."""
    data = tree["data"]
    lines = [
        f"{data['n_used']} of {data['n_rows']} points, {data['n_deployments']} deployments; left out: "
        + ", ".join(f"{count} {rule}" for rule, count in data["left_out"].items()),
        "",
        f"{'error on left-out points':28s} {'tpot median':>12s} {'mean':>8s} {'ttft median':>12s} {'mean':>8s}",
    ]
    by_kind = {(e["metric"], e["new"]): e for e in tree["errors"] if e["by"] == "all"}
    for name, suffix, kinds in (("before", "_before", ("deployment",)), ("new", "", ("deployment", "chip", "model"))):
        for kind in kinds:
            cells = [
                by_kind[metric, kind][f"{what}{suffix}"] for metric in ("tpot", "ttft") for what in ("median", "mean")
            ]
            title = "first values, all points" if suffix else f"{name} {kind}"
            lines.append(f"{title:28s} {cells[0]:12.1%} {cells[1]:8.1%} {cells[2]:12.1%} {cells[3]:8.1%}")
    inside = {(one["metric"], one["new"]): one["in_band_frac"] for one in tree["coverage"] if one["fold"] == "all"}
    shares = [
        f"{kind} {inside['tpot', kind]:.0%} / {inside['ttft', kind]:.0%}" for kind in ("deployment", "chip", "model")
    ]
    lines += ["", "inside an 80 % band made without the fold, tpot / ttft: " + ", ".join(shares)]
    return "\n".join(lines)


class _Line:
    """How many fits of how many are done, on one line of a terminal, or now and then elsewhere."""

    def __init__(self, to: output.Settings) -> None:
        self.is_terminal = sys.stderr.isatty()
        self.is_shown = not to.quiet and (self.is_terminal or not to.as_json)

    def show(self, what: str, done: int, n_fits: int) -> None:
        if not self.is_shown:
            return
        text = f"fitted {done} of {n_fits}: {what}"
        sys.stderr.write(f"\r\x1b[K{text}" if self.is_terminal else f"{text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self.is_shown and self.is_terminal:
            sys.stderr.write("\r\x1b[K")

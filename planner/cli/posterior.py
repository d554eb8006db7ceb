"""`planner posterior`: infer what is undisclosed of Jalapeño from its published figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from planner.cli import output

SCHEMA = "planner.posterior/1"

EPILOG = """\b
Examples:
  planner posterior
  planner posterior --seed 1 -o posterior.yaml
"""


@click.command("posterior", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the sampling.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the posterior here (YAML).")
@click.option("-j", "--workers", type=click.IntRange(1), help="Threads [the processors of this machine].")
@output.verb(SCHEMA)
def command(seed: int, out: Path | None, workers: int | None, to: output.Settings) -> None:
    """Infer Jalapeño's undisclosed values.

    Samples them in their ranges, weights the samples by the nine published figures beside their references, and keeps
    64 weighted members. Without --out, says what the shipped posterior knows and cannot tell apart. The same seed and
    calibration give the same bytes.
    """
    if out is None:
        from planner.model.posterior import shipped

        tree = dict(shipped().tree)
        output.reply(SCHEMA, tree, report(tree), to)
        return
    import os

    import yaml

    from planner.errors import RunError
    from planner.model.calibration import shipped as calibrated
    from planner.model.infer import document, infer

    n_threads = workers or os.cpu_count() or 1
    line = _Line(to)
    calibration = calibrated()
    try:
        found = infer(calibration, seed=seed, workers=n_threads, tick=line.show)
    finally:
        line.end()
    tree = document(found, calibration, seed=seed, workers=n_threads)
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {out}: {error}; name a place that can be written") from None
    output.reply(SCHEMA, tree, f"{report(tree)}\nwrote {out}", to)


def report(tree: dict[str, Any]) -> str:
    """What the posterior knows, and what it cannot tell apart."""
    sample = tree["sample"]
    lines = [
        f"{len(tree['members'])} members; {sample['n_points']} points sampled, effective size "
        f"{sample['effective_size']:.0f} (of the members {sample['members_effective_size']:.0f})",
        "",
        f"{'unknown':32s} {'low':>10s} {'median':>10s} {'high':>10s} {'best':>10s}   left of the prior's spread",
    ]
    best = dict(zip(tree["unknowns"], tree["members"][0]["values"], strict=True))
    for one in tree["known"]:
        numbers = " ".join(f"{value:10.4g}" for value in (one["low"], one["median"], one["high"], best[one["path"]]))
        lines.append(f"{one['path']:32s} {numbers}   {one['spread']:.0%}")
    lines += ["", "cannot be told apart (correlation):"]
    lines += [f"  {one['a']} and {one['b']}: {one['correlation']:+.2f}" for one in tree["correlated"][:10]]
    return "\n".join(lines)


class _Line:
    """How many points of how many are costed, on one line of a terminal, or now and then elsewhere."""

    def __init__(self, to: output.Settings) -> None:
        self.is_terminal = sys.stderr.isatty()
        self.is_shown = not to.quiet and (self.is_terminal or not to.as_json)

    def show(self, done: int, n_points: int) -> None:
        if not self.is_shown or (not self.is_terminal and done % 500):
            return
        text = f"costed {done} of {n_points} points"
        sys.stderr.write(f"\r\x1b[K{text}" if self.is_terminal else f"{text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self.is_shown and self.is_terminal:
            sys.stderr.write("\r\x1b[K")

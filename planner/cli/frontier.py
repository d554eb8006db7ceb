"""`planner frontier`: what a chip gives for its latency, its power and its price."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli import output

if TYPE_CHECKING:
    import polars as pl

    from planner.study.frontier import Frontier

SCHEMA = "planner.frontier/1"
MOST_LINES = 12

EPILOG = """\b
Examples:
  planner frontier kimi-k2.5 --chips jalapeno,gb300
  planner frontier deepseek-r1 --chips jalapeno,gb300,h200-sxm --isl 4096 --osl 1024 --out points.parquet
"""


@click.command("frontier", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model")
@click.option("--chips", required=True, help="Chips to compare, with commas between them.")
@click.option("--isl", type=click.FloatRange(1), default=8192, show_default=True, help="Longest prompt, in tokens.")
@click.option("--osl", type=click.FloatRange(2), default=1024, show_default=True, help="Longest output, in tokens.")
@click.option(
    "--range",
    "range_frac",
    type=click.FloatRange(0, 1),
    default=0.8,
    show_default=True,
    help="Shortest length over the longest; lengths are even between.",
)
@click.option(
    "--precision", type=click.Choice(["bf16", "fp8", "fp4"]), help="Of the weights [narrowest the chip runs]."
)
@click.option("--prefill-chip", help="Chip of the prompts' pools: only split deployments are shown.")
@click.option(
    "--pp",
    "most_stages",
    type=click.IntRange(1, 64),
    help="Most pipeline stages to try [1; up to 8 where the model fits in none].",
)
@click.option("--draft", type=click.IntRange(0, 64), help="Tokens drafted each step (speculative decoding).")
@click.option("--acceptance", type=click.FloatRange(0, 1), help="Chance that a drafted token is accepted.")
@click.option(
    "--draft-cost",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="What drafting a token takes, as a share of a step.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the points (Parquet).")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw the curves (.html, .png or .svg).")
@output.verb(SCHEMA)
def command(
    model: str,
    chips: str,
    isl: float,
    osl: float,
    range_frac: float,
    precision: str | None,
    prefill_chip: str | None,
    most_stages: int | None,
    draft: int | None,
    acceptance: float | None,
    draft_cost: float,
    out: Path | None,
    figure: Path | None,
    to: output.Settings,
) -> None:
    """Latency against throughput for MODEL on CHIPS, over every layout, load and split of roles.

    Points are steady states: closed loops as a benchmark runs them, and replicas kept full. NVIDIA's chips are shown
    under each measured stack and under all engines pooled, Jalapeño as inferred from its published figures.
    """
    from planner.errors import RunError
    from planner.model.sweep import Lengths
    from planner.study.frontier import frontier

    names = [name.strip() for name in chips.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--chips names no chip")
    lengths = Lengths(isl, osl, range_frac)
    if (draft is None) is not (acceptance is None):
        raise click.UsageError("--draft and --acceptance belong together: acceptance has to be known")
    speculation = None
    if draft is not None and acceptance is not None:
        speculation = {"draft_tokens": draft, "acceptance_frac": acceptance, "draft_cost_frac": draft_cost}
    found = frontier(
        model,
        names,
        lengths,
        precision=precision,
        prefill_chip=prefill_chip,
        most_stages=most_stages,
        speculation=speculation,
    )
    text = _text(found)
    if out is not None:
        try:
            found.points.write_parquet(out)
        except OSError as error:
            raise RunError(f"cannot write {out}: {error}; name a place that can be written") from None
        text += f"\nwrote {out}"
    if figure is not None:
        from planner.report.frontier_figure import save

        save(found, figure)
        text += f"\nwrote {figure}"
    result = {
        "model": found.model,
        "lengths": {"isl": isl, "osl": osl, "range": range_frac},
        "points": found.points.to_dicts() if to.as_json else [],
    }
    output.reply(SCHEMA, result, text, to, warnings=found.notices)


def _text(found: Frontier) -> str:
    """For each chip and stack its curve of closed loops, thinned to a few lines."""
    import polars as pl

    head = (
        f"{'tbt':>8s} {'ttft':>8s} {'e2e':>8s} {'tok/s':>7s} {'tok/s':>8s} {'mixed tok/s/kW':^27s} {'USD/':>7s}"
        "  layout\n"
        f"{'ms':>8s} {'s':>8s} {'s':>8s} {'user':>7s} {'chip':>8s} {'rated':>8s} {'rack it':>9s} {'facility':>8s} "
        f"{'Mtok':>7s}"
    )
    size = found.lengths
    lines = [
        f"{found.model}, prompts of {size.mean_input:,.0f} and outputs of {size.mean_output:,.0f} tokens in the mean"
    ]
    for chip in found.points["chip"].unique(maintain_order=True):
        of_chip = found.points.filter(pl.col("chip") == chip)
        for stack in of_chip["stack"].unique(maintain_order=True):
            part = of_chip.filter((pl.col("stack") == stack) & (pl.col("regime") == "closed_loop"))
            curve = part.filter(pl.col("pareto_of").list.contains("tok_s_chip")).sort("tbt_s")
            low, high = _spread(curve)
            title = {"measured": "best measured stack", "pooled": "all engines pooled", "inferred": "inferred"}[stack]
            grade = curve["grade"][0]
            precision = curve["precision"][0]
            lines += ["", f"{chip}: {title} ({precision}; {grade}; 80 % band of tbt {low:+.0%} .. {high:+.0%})", head]
            lines += [_line(row) for row in _thinned(curve).iter_rows(named=True)]
    return "\n".join(lines)


def _spread(curve: pl.DataFrame) -> tuple[float, float]:
    """Lowest and highest end of the band over a curve, as shares."""
    low = (curve["tbt_low_s"] / curve["tbt_s"]).to_list()
    high = (curve["tbt_high_s"] / curve["tbt_s"]).to_list()
    return min(low) - 1.0, max(high) - 1.0


def _thinned(curve: pl.DataFrame) -> pl.DataFrame:
    if curve.height <= MOST_LINES:
        return curve
    step = (curve.height - 1) / (MOST_LINES - 1)
    return curve[sorted({round(i * step) for i in range(MOST_LINES)})]


def _layout(row: dict[str, object], side: str) -> str:
    """`tp8 dp2 pp2`, degrees of 1 left out."""
    more = "".join(f" {name}{row[side + name]}" for name in ("dp", "pp") if row[side + name] != 1)
    return f"tp{row[side + 'tp']}{more}"


def _line(row: dict[str, object]) -> str:
    def cell(name: str, width: int, digits: int, scale: float = 1.0) -> str:
        value = row[name]
        return f"{value * scale:{width},.{digits}f}" if isinstance(value, int | float) else f"{'-':>{width}s}"

    layout = _layout(row, "")
    if row["mode"] == "disagg":
        chips = f"{row['prefill_chip']} " if row["prefill_chip"] != row["chip"] else ""
        prompts = _layout(row, "prefill_")
        layout = f"{row['decode_workers']} x {layout} + prompts {row['prefill_workers']} x {chips}{prompts}"
    return " ".join(
        [
            cell("tbt_s", 8, 2, 1e3),
            cell("ttft_s", 8, 3),
            cell("e2e_s", 8, 2),
            cell("tok_s_user", 7, 0),
            cell("tok_s_chip", 8, 0),
            cell("mixed_tok_s_kw_chip_rated", 8, 0),
            cell("mixed_tok_s_kw_rack_it", 9, 0),
            cell("mixed_tok_s_kw_facility", 8, 0),
            cell("usd_per_mtok", 7, 3),
            f" {layout}, {row['concurrency']} clients, {row['engine']}",
        ]
    )

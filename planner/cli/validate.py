"""`planner validate`: the model against what was published and measured, with its bands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli import output

if TYPE_CHECKING:
    from planner.errors import Notice

SCHEMA = "planner.validate/1"
METRICS = ("tpot", "ttft")

EPILOG = """\b
Examples:
  planner validate
  planner validate --points points.csv --simulate --out predictions.parquet --json
  planner validate --requests run.csv --meta run.meta.json --fit-first 100
"""


@click.command("validate", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--points", type=click.Path(path_type=Path), help="Serving points to predict (CSV).")
@click.option("--simulate", is_flag=True, help="Run points in closed loop through the simulator, too.")
@click.option("--sample", help="How many points to simulate, chosen by seed, or 'all' [200].")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the sample and of its lengths [1].")
@click.option("--energy", type=click.Path(path_type=Path), help="Energy points to predict (CSV).")
@click.option("--calibration", type=click.Path(path_type=Path), help="Another calibration file than the shipped one.")
@click.option("--requests", type=click.Path(path_type=Path), help="Request lifecycles to replay (CSV).")
@click.option("--meta", type=click.Path(path_type=Path), help="How the engine of --requests was set up (JSON).")
@click.option("--fit-first", type=click.IntRange(min=2), help="Fit the engine's figures to so many first requests.")
@click.option("--chip", help="The chip of --requests: a name of the catalogue or a file, where they do not say.")
@click.option(
    "--model", help="The model of --requests: a name, a model file or a config.json, where theirs is unknown."
)
@click.option("--figure", type=click.Path(path_type=Path), help="Draw measured and simulated requests (SVG).")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write a prediction for each row (Parquet).")
@output.verb(SCHEMA)
def command(
    points: Path | None,
    simulate: bool,
    sample: str | None,
    seed: int | None,
    energy: Path | None,
    requests: Path | None,
    meta: Path | None,
    fit_first: int | None,
    chip: str | None,
    model: str | None,
    figure: Path | None,
    calibration: Path | None,
    out: Path | None,
    to: output.Settings,
) -> None:
    """Predict measured points and say how far off the model is.

    Without a table, the published headline figures of both sides beside the model's, and the errors of the calibration
    on what each of its folds left out. With --simulate the clean points (a sample of them) are run as closed loops
    through the simulator as well, first wave included, and their errors shown beside the steady state's.
    """
    from planner.errors import RunError
    from planner.model import validate
    from planner.model.calibration import load, shipped
    from planner.model.energy import read_energy
    from planner.model.points import pooled_engines, read_points

    if sum(table is not None for table in (points, energy, requests)) > 1:
        raise click.UsageError("--points, --energy and --requests exclude each other: one table at a time")
    if points is None and (simulate or sample is not None or seed is not None):
        raise click.UsageError("--simulate, --sample and --seed belong to --points")
    if not simulate and (sample is not None or seed is not None):
        raise click.UsageError("--sample and --seed belong to --simulate")
    n_sample = _sample(sample)
    if requests is not None:
        from planner.cli.validate_requests import answer

        if meta is None:
            raise click.UsageError("--requests needs --meta: it says how the engine was set up")
        answer(
            SCHEMA,
            requests,
            meta,
            chip=chip,
            model=model,
            fit_first=fit_first,
            calibration=calibration,
            out=out,
            figure=figure,
            to=to,
        )
        return
    if any(told is not None for told in (meta, fit_first, chip, model, figure)):
        raise click.UsageError("--meta, --fit-first, --chip, --model and --figure belong to --requests")
    if out is not None and points is None and energy is None:
        raise click.UsageError("--out needs --points or --energy: there is no row to predict")
    used = load(calibration) if calibration is not None else shipped()
    if points is None and energy is None:
        from planner.cli.headline_text import headline_text
        from planner.model.headline import table as headline
        from planner.model.posterior import shipped as inferred

        result: dict[str, Any] = {
            "headline": headline(used, inferred()),
            "cross_validated": validate.cross_validated(used),
        }
        text = f"{headline_text(result['headline'])}\n\n{_folds(result['cross_validated'])}"
        output.reply(SCHEMA, result, text, to)
        return
    notices: tuple[Notice, ...] = ()
    if energy is not None:
        check = validate.check_energy(read_energy(energy), used)
        text = _energy(check.result)
    else:
        assert points is not None
        table = read_points(points)
        check, notices = validate.check_points(table, used), pooled_engines(table)
        text = _points(check.result)
        if simulate:
            from planner.cli.validate_simulated import simulated

            check, more = simulated(table, used, check, n=n_sample, seed=1 if seed is None else seed)
            text += more
    if out is not None:
        try:
            check.table.write_parquet(out)
        except OSError as error:
            raise RunError(f"cannot write {out}: {error}; name a place that can be written") from None
        text += f"\nwrote {out}"
    output.reply(SCHEMA, check.result, text, to, warnings=notices)


def _sample(text: str | None) -> int | None:
    """How many rows to simulate; None for all."""
    if text == "all":
        return None
    if text is None:
        return 200
    if not text.isdigit() or int(text) == 0:
        raise click.UsageError(f"--sample {text}: a number of points, or 'all'")
    return int(text)


def _folds(errors: list[dict[str, Any]]) -> str:
    lines = [
        f"{'left out':12s} {'metric':8s} {'n':>6s} {'median':>8s} {'mean':>8s}   before: {'median':>8s} {'mean':>8s}"
    ]
    for one in errors:
        if one["by"] == "all":
            lines.append(
                f"{one['new']:12s} {one['metric']:8s} {one['n']:6d} {one['median']:8.1%} {one['mean']:8.1%}"
                f"           {one['median_before']:8.1%} {one['mean_before']:8.1%}"
            )
    return "\n".join(lines)


def _points(result: dict[str, Any]) -> str:
    lines = [
        f"{result['rows']} rows: {result['predicted']} predicted, {result['infeasible']} with a reason why not",
        "",
        f"{'':32s} {'rows':>6s}   " + "   ".join(f"{m + ' median':>11s} {'mean':>8s} {'in band':>8s}" for m in METRICS),
    ]
    everything = {"by": "all", "value": "", "rows": result["rows"], "tpot": result["tpot"], "ttft": result["ttft"]}
    for one in (everything, *result["by"]):
        cells = "   ".join(
            f"{_share(one[m]['median_ape']):>11s} {_share(one[m]['mape']):>8s} {_share(one[m]['in_band_frac']):>8s}"
            for m in METRICS
        )
        lines.append(f"{one['by'] + ' ' + one['value']:32s} {one['rows']:6d}   {cells}")
    return "\n".join(lines)


def _energy(result: dict[str, Any]) -> str:
    lines = [
        f"{result['rows']} rows: {result['predicted']} predicted, {result['infeasible']} with a reason why not",
        "",
        f"{'':24s} {'rows':>6s} {'median':>8s} {'mean':>8s} {'in band':>8s}",
    ]
    for name in ("chip_w", "j_per_output_token", "itl_p50_s"):
        one = result[name]
        cells = " ".join(f"{_share(one[k]):>8s}" for k in ("median_ape", "mape", "in_band_frac"))
        lines.append(f"{name:24s} {one['n']:6d} {cells}")
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"

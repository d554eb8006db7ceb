"""`planner validate --requests`: a measured run beside its replay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.cli import output


def answer(
    schema: str,
    table: Path,
    meta: Path,
    *,
    chip: str | None,
    model: str | None,
    fit_first: int | None,
    calibration: Path | None,
    out: Path | None,
    figure: Path | None,
    to: output.Settings,
) -> None:
    """Replay, reply, and write what was asked for."""
    from planner.errors import RunError
    from planner.model.calibration import load, shipped
    from planner.model.lifecycles import read_lifecycles
    from planner.model.replay import prepare, replay
    from planner.model.replay_band import band
    from planner.model.replay_fit import fit_first as fit
    from planner.model.replay_result import per_request, result_of

    run = prepare(read_lifecycles(table, meta, chip=chip, model=model))
    fitted = None if fit_first is None else fit(run, fit_first)
    replayed = replay(run, fitted)
    used = load(calibration) if calibration is not None else shipped()
    result = result_of(run, replayed, fitted, fit_first, band(run, replayed, used) if fitted is None else None)
    text = _text(result)
    try:
        if out is not None:
            per_request(run, replayed).write_parquet(out)
            text += f"\nwrote {out}"
        if figure is not None:
            from planner.report.replay_figure import svg

            figure.write_text(svg(result), encoding="utf-8")
            text += f"\nwrote {figure}"
    except OSError as error:
        raise RunError(f"cannot write {error.filename}: {error.strerror}; name a place that can be written") from None
    output.reply(schema, result, text, to, warnings=run.notices)


def _text(result: Mapping[str, Any]) -> str:
    columns = ("mean", "p50", "p90", "p95", "p99")
    how = "unfitted" if result["fit_first"] is None else f"fitted to the first {result['fit_first']}"
    lines = [f"{result['requests']} requests on {result['chip']}, {how}", ""]
    if result["fitted"]:
        lines += [f"  {name:24s} {value:.4g}" for name, value in result["fitted"].items() if value] + [""]
    lines.append(f"{'':8s} {'measured mean':>14s} {'simulated':>10s}   error: " + " ".join(f"{c:>7s}" for c in columns))
    for metric, found in result["error_frac"].items():
        means = (_seconds(result[side][metric]) for side in ("measured_mean", "simulated_mean"))
        cells = " ".join("      -" if found[c] is None else f"{found[c]:+7.1%}" for c in columns)
        lines.append(f"{metric.removesuffix('_s'):8s} {next(means):>14s} {next(means):>10s}          {cells}")
    if result["band"] is not None:
        lines += ["", *_band(result)]
    counts = result["simulated_counts"]
    lines += ["", ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in counts.items())]
    return "\n".join(lines)


def _band(result: Mapping[str, Any]) -> list[str]:
    """The model's band of each mean, and whether the measured one is inside."""
    found = result["band"]
    low, high = found["factors"]["tpot"]
    new = ", ".join(found["new"])
    lines = [f"80 % band of the model (new: {new}; steps {low:.2f} to {high:.2f} times as long); measured mean:"]
    for metric, ends in found["seconds"].items():
        if ends["mean"] is not None:
            inside = found["is_inside"][metric]
            n_inside = sum(1 for value in inside.values() if value)
            where = "inside" if inside["mean"] else "OUTSIDE"
            span = f"{_seconds(ends['mean'][0])} to {_seconds(ends['mean'][1])}"
            rest = f"mean and quantiles inside: {n_inside} of {len(inside)}"
            lines.append(f"{metric.removesuffix('_s'):8s} {span:24s} {where}; {rest}")
    return lines


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1e3:.1f} ms" if value < 1.0 else f"{value:.2f} s"

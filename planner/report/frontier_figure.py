"""The figure of a frontier: three charts, a curve for each chip and stack, as a web page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import Fault, RunError

if TYPE_CHECKING:
    from planner.study.frontier import Frontier

__all__ = ["FORMATS", "save"]

FORMATS = (".html", ".png", ".svg")
_CHARTS = (
    ("chip_rated", "tok_s_user", "tok/s a user", "mixed_tok_s_kw_chip_rated", "mixed tok/s a kW of rated chips"),
    ("usd", "tok_s_user", "tok/s a user", "usd_per_mtok", "USD a million tokens"),
    ("e2e", "e2e_s", "end to end, s", "tok_s_chip", "output tok/s a chip"),
)


def save(found: Frontier, path: Path) -> None:
    """Writes the closed loops' curves to `path`; a page needs no network to be read.

    Raises:
        RunError: the ending is unknown, the libraries for figures are not installed, or the file cannot be written.
    """
    import polars as pl

    if path.suffix not in FORMATS:
        raise RunError(Fault(f"'{path.name}' does not end in {', '.join(FORMATS)}", "the ending says what is drawn"))
    try:
        import altair as alt
        import vl_convert  # noqa: F401
    except ImportError:
        way_out = "pip install 'jalapeno-fleet-planner[figure]'"
        raise RunError(Fault("the libraries for figures are not installed", way_out)) from None
    points = found.points.filter(pl.col("regime") == "closed_loop").with_columns(
        curve=pl.col("chip") + ", " + pl.col("stack")
    )
    charts = []
    for name, x, x_title, y, y_title in _CHARTS:
        rows = points.filter(pl.col("pareto_of").list.contains(name) & pl.col(y).is_not_null()).sort(x)
        charts.append(
            alt.Chart(alt.InlineData(values=rows.select(x, y, "chip", "stack", "curve", "mode", "tp", "dp").to_dicts()))
            .mark_line(point=True)
            .encode(
                x=alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(type="log")),
                y=alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(type="log")),
                color=alt.Color("chip:N"),
                strokeDash=alt.StrokeDash("stack:N"),
                detail="curve:N",
                tooltip=["curve:N", "mode:N", "tp:Q", "dp:Q", f"{x}:Q", f"{y}:Q"],
            )
            .properties(width=330, height=260)
        )
    whole = alt.hconcat(*charts).properties(title=found.model)
    try:
        if path.suffix == ".html":
            whole.save(str(path), inline=True)
        else:
            whole.save(str(path))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error}; name a place that can be written") from None

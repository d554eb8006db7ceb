"""A figure that stands by itself in a folder: its rows, the drawing, and a picture of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, RunError
from planner.report.figures import style

if TYPE_CHECKING:
    import polars as pl

__all__ = ["save_drawing"]


def save_drawing(rows: pl.DataFrame, draw: Callable[[], Mapping[str, Any]], folder: Path, name: str) -> list[Path]:
    """Write `name`.parquet, .svg and .png below `folder`/figures; the paths.

    Raises:
        RunError: the libraries for figures are not installed, or the disk refused.
    """
    try:
        import altair  # noqa: F401
        import vl_convert
    except ImportError:
        way_out = "pip install 'jalapeno-fleet-planner[figure]'"
        raise RunError(Fault("the libraries for figures are not installed", way_out)) from None
    drawing = draw()
    into = folder / "figures"
    try:
        into.mkdir(parents=True, exist_ok=True)
        paths = [into / f"{name}.{ending}" for ending in ("parquet", "svg", "png")]
        rows.write_parquet(paths[0], compression="zstd")
        paths[1].write_text(vl_convert.vega_to_svg(style.on_white(drawing)), encoding="utf-8")
        paths[2].write_bytes(style.png(drawing))
    except OSError as error:
        what = f"cannot write {into}: {error.strerror or error}"
        raise RunError(Fault(what, "choose another folder with -o, or make room")) from None
    return paths

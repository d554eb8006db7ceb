"""A result's page and figures on disk: `report.html` and `figures/<name>.parquet` in its folder, pictures where asked.

They are made from the result and add nothing to it, so the manifest does not list them and no digest covers them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import Fault, RunError
from planner.report.figures import registry, style
from planner.report.page import page

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["FRAMES", "PAGE", "write_page", "write_pictures"]

PAGE = "report.html"
FRAMES = "figures"


def write_page(
    result: Result, out: Path, *, frames_in: Path | None = None, figures: Sequence[str] | None = None
) -> dict[str, Path]:
    """Write the page to `out`, and the rows of each figure to `frames_in`; what was written, by name of the figure.

    Raises:
        ScenarioError: a figure is unknown, or no result can show it.
        RunError: a file cannot be written.
    """
    chosen = registry.select(figures)
    frames = registry.frames(result, chosen)
    html = page(result, figures=chosen, frames=frames)
    written: dict[str, Path] = {}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _replace(out, html.encode("utf-8"))
        if frames_in is not None:
            frames_in.mkdir(parents=True, exist_ok=True)
            for name, frame in frames.items():
                written[name] = frames_in / f"{name}.parquet"
                frame.write_parquet(written[name], compression="zstd")
    except OSError as error:
        raise RunError(_unwritten(out, error)) from None
    return written


def write_pictures(result: Result, folder: Path, *, figures: Sequence[str] | None = None) -> list[Path]:
    """Write each figure as a PNG on white, `<name>.png`, with the variant before it where there are several.

    Raises:
        ScenarioError: a figure is unknown, or no result can show it.
        RunError: a file cannot be written.
    """
    from planner.study.answer import slug

    chosen = registry.select(figures)
    frames = registry.frames(result, chosen)
    look = registry.look_of(result)
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for variant in result.variants:
            for figure in chosen:
                drawn = registry.drawn(figure, frames[figure.name], variant, look)
                if drawn.chart is None:
                    continue
                head = f"{slug(variant)}-" if len(result.variants) > 1 else ""
                path = folder / f"{head}{figure.name}.png"
                _replace(path, style.png(drawn.chart))
                written.append(path)
    except OSError as error:
        raise RunError(_unwritten(folder, error)) from None
    return written


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _unwritten(path: Path, error: OSError) -> Fault:
    return Fault(f"cannot write {path}: {error.strerror or error}", "choose another place")

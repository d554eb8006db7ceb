"""A result's page and figures on disk: `report.html` and `figures/<name>.parquet` in its folder, pictures where asked.

They are made from the result and add nothing to it, so the manifest does not list them and no digest covers them. A
folder is a path or any address that fsspec knows.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import Fault, RunError
from planner.fleet.storage import Folder
from planner.report.figures import registry, style
from planner.report.page import page

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["FRAMES", "PAGE", "has_page", "write_page", "write_pictures"]

PAGE = "report.html"
FRAMES = "figures"


def has_page(folder: Path | str) -> bool:
    """Whether a result's folder has its page already."""
    return PAGE in Folder.of(folder).names()


def write_page(
    result: Result,
    folder: Path | str,
    *,
    name: str = PAGE,
    frames_in: Path | str | None = None,
    figures: Sequence[str] | None = None,
) -> tuple[int, dict[str, str]]:
    """Write the page as `name` of `folder`, and the rows of each figure to `frames_in`; bytes of the page, and files.

    Raises:
        ScenarioError: a figure is unknown, or no result can show it.
        RunError: a file cannot be written.
    """
    chosen = registry.select(figures, result)
    frames = registry.frames(result, chosen)
    html = page(result, figures=chosen, frames=frames).encode("utf-8")
    _put(Folder.of(folder), name, html)
    written: dict[str, str] = {}
    if frames_in is not None:
        place = Folder.of(frames_in)
        for figure, frame in frames.items():
            content = io.BytesIO()
            frame.write_parquet(content, compression="zstd")
            _put(place, f"{figure}.parquet", content.getvalue())
            written[figure] = f"{place}/{figure}.parquet"
    return len(html), written


def write_pictures(result: Result, folder: Path, *, figures: Sequence[str] | None = None) -> list[Path]:
    """Write each figure as a PNG on white, `<name>.png`, with the variant before it where there are several.

    Raises:
        ScenarioError: a figure is unknown, or no result can show it.
        RunError: a file cannot be written.
    """
    from planner.study.answer import slug

    chosen = registry.select(figures, result)
    frames = registry.frames(result, chosen)
    look = registry.look_of(result)
    written = []
    for ix, variant in enumerate(result.variants):
        for figure in chosen:
            drawn = registry.drawn(figure, frames[figure.name], variant, look)
            if drawn.chart is None:
                continue
            head = f"{ix + 1}-{slug(variant)}-" if len(result.variants) > 1 else ""
            name = f"{head}{figure.name}.png"
            _put(Folder.of(folder), name, style.png(drawn.chart))
            written.append(folder / name)
    return written


def _put(folder: Folder, name: str, content: bytes) -> None:
    """Whole or not at all, and to be read by whom the user's mask lets."""
    if not folder.is_local:
        folder.write(name, content)
        return
    path = Path(folder.place) / name
    part = path.with_name(f".{name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(
            Fault(f"cannot write {path}: {error.strerror or error}", "choose another place with -o")
        ) from None

"""A question and its folder: answered once, found again, never half written."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.aggregate.store import is_result
from planner.errors import Fault, PlannerError, RunError
from planner.fleet.executor import Progress
from planner.study.run import inputs_digest, run

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.scenario import Scenario

RUNS = Path("runs")


@dataclass(frozen=True, slots=True)
class Answer:
    """A result, where it stands, and whether it was there before."""

    result: Result
    folder: Path
    is_reused: bool
    wall_s: float


def answer(
    scenarios: Sequence[Scenario],
    *,
    out: Path | None = None,
    workers: int | None = None,
    keep_requests: bool = False,
    keep_timeline: bool = False,
    is_forced: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Answer:
    """The answer to `scenarios`, from its folder if the same question was answered before.

    `out` names the folder; without it the folder is below `runs/`, named by title and the hash of everything that the
    answer depends on. A folder that holds something else is refused unless `is_forced`.

    Raises:
        RunError: the folder cannot be written, or holds something else.
        The errors of `run`.
    """
    start_s = time.monotonic()
    inputs = inputs_digest(scenarios, keep_requests=keep_requests, keep_timeline=keep_timeline)
    folder = out if out is not None else RUNS / f"{slug(scenarios[0].title)}-{inputs.removeprefix('sha256:')[:8]}"
    if folder.exists() and not is_forced:
        found = _found(folder)
        if found is not None and found.inputs == inputs:
            return Answer(found, folder, is_reused=True, wall_s=time.monotonic() - start_s)
        if any(folder.iterdir()) if folder.is_dir() else True:
            raise RunError(_in_the_way(folder, is_whole=found is not None))
    result = run(
        scenarios, workers=workers, keep_requests=keep_requests, keep_timeline=keep_timeline, progress=progress
    )
    wall_s = time.monotonic() - start_s
    try:
        result.save(folder, is_replacing=is_forced, log=f"simulated and summed up in {wall_s:.2f} s\n")
    except (OSError, RunError) as error:
        found = None if is_forced else _found(folder)
        if found is not None and found.inputs == inputs:  # another run answered it meanwhile
            return Answer(found, folder, is_reused=True, wall_s=wall_s)
        if isinstance(error, RunError):
            raise
        raise RunError(
            Fault(f"cannot write {folder}: {error.strerror or error}", "choose another folder with -o")
        ) from None
    return Answer(result, folder, is_reused=False, wall_s=wall_s)


def _found(folder: Path) -> Result | None:
    from planner.aggregate.result import Result

    try:
        return Result.load(folder)
    except (PlannerError, OSError):
        return None


def _in_the_way(folder: Path, *, is_whole: bool) -> Fault:
    """Why a folder is not written, and whether `--force` would help."""
    if is_whole:
        return Fault(f"{folder} holds the answer to another question", "choose another folder with -o, or use --force")
    if is_result(folder):
        return Fault(f"{folder} holds a result that is damaged", "--force simulates again and replaces it")
    return Fault(f"{folder} is there and is no result of planner run", "choose another folder with -o, or move it away")


def slug(title: str) -> str:
    """A title as part of a file name: ASCII letters, digits and dashes."""
    ascii_title = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_title).strip("-")[:48].strip("-") or "run"

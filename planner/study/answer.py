"""A question and its folder: answered once, found again, never half written; an interrupted run can be gone on with."""

from __future__ import annotations

import hashlib
import re
import time
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from planner.aggregate.store import is_result
from planner.errors import Fault, PlannerError, RunError
from planner.fleet.checkpoint import Checkpoint
from planner.fleet.executor import Executor, Progress
from planner.fleet.storage import Folder, is_address
from planner.study.run import inputs_digest, run

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.scenario import Scenario

RUNS = Path("runs")
SURFACES = "surfaces"
"""Where response surfaces are kept, beside the folders of results."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A result, where it stands, and whether it was there before."""

    result: Result
    folder: Path | str
    """A path, or an address such as s3://bucket/run."""
    is_reused: bool
    wall_s: float


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; it says what is kept and how to go on."""


def answer(
    scenarios: Sequence[Scenario],
    *,
    out: Path | str | None = None,
    workers: int | None = None,
    executor: Callable[[], AbstractContextManager[Executor]] | None = None,
    keep_requests: bool = False,
    keep_timeline: bool = False,
    is_resuming: bool = False,
    is_forced: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
    make: Callable[[Executor | None, Checkpoint], Result] | None = None,
    called: str = "run",
) -> Answer:
    """The answer to `scenarios`, from its folder if the same question was answered before.

    `out` names the folder, a path or an address; without it the folder is below `runs/`, named by title and the hash of
    everything that the answer depends on. A folder that holds something else is refused unless `is_forced`.
    `executor` opens what does the work, only once it is known that there is any. Finished parts are kept beside the
    folder until the result is whole; `is_resuming` goes on with those of an interrupted run. `make` finds the result in
    another way than by running the scenarios as they are, noting what took long in the checkpoint, and `called` is how:
    other verbs give other answers.

    Raises:
        RunError: the folder cannot be written, holds something else, or another driver is at work on it.
        Interrupted: Ctrl-C; finished parts are kept.
        The errors of `run`.
    """
    start_s = time.monotonic()
    inputs = inputs_digest(scenarios, keep_requests=keep_requests, keep_timeline=keep_timeline)
    if make is not None:
        inputs = "sha256:" + hashlib.sha256(f"{called} {inputs}".encode()).hexdigest()
    named = RUNS / f"{slug(scenarios[0].title)}-{inputs.removeprefix('sha256:')[:8]}" if out is None else out
    folder: Path | str = str(named) if is_address(named) else Path(named)

    def there() -> Answer | None:
        """The answer that is there; refuses to go on if something else is in the way."""
        if is_forced or not Folder.of(folder).exists():
            return None
        found = _found(folder)
        if found is not None and found.inputs == inputs:
            return Answer(found, folder, is_reused=True, wall_s=time.monotonic() - start_s)
        if Folder.of(folder).names() or (not is_address(folder) and not Path(folder).is_dir()):
            raise RunError(_in_the_way(folder, is_whole=found is not None))
        return None

    if (known := there()) is not None:
        return known
    checkpoint = Checkpoint(Folder.of(folder), inputs)
    checkpoint.begin(is_resuming=is_resuming, is_forced=is_forced)
    is_whole = False
    try:
        if (known := there()) is not None:  # another driver was about to be done with it
            is_whole = True
            return known
        with executor() if executor else nullcontext() as opened:
            result = (
                replace(make(opened, checkpoint), inputs=inputs)
                if make is not None
                else run(
                    scenarios,
                    workers=workers,
                    executor=opened,
                    keep_requests=keep_requests,
                    keep_timeline=keep_timeline,
                    kept=checkpoint,
                    surfaces=None if is_address(folder) else Path(folder).parent / SURFACES,
                    progress=progress,
                )
            )
        wall_s = time.monotonic() - start_s
        log = f"simulated and summed up in {wall_s:.2f} s\n"
        if checkpoint.n_damaged:
            log += f"{checkpoint.n_damaged} damaged parts of the interrupted run were done again\n"
        _save(result, folder, checkpoint, is_forced=is_forced, log=log)
        is_whole = True
    except KeyboardInterrupt:
        raise Interrupted(checkpoint.way_on()) from None
    finally:
        checkpoint.end(is_whole=is_whole)
    return Answer(result, folder, is_reused=False, wall_s=wall_s)


def _save(result: Result, folder: Path | str, checkpoint: Checkpoint, *, is_forced: bool, log: str) -> None:
    try:
        result.save(folder, is_replacing=is_forced, log=log)
    except RunError as error:
        raise RunError(*error.faults, hint=checkpoint.way_on()) from None
    except OSError as error:
        what = f"cannot write {folder}: {error.strerror or error}"
        fault = Fault(what, "choose another folder with -o, or make room")
        raise RunError(fault, hint=checkpoint.way_on()) from None


def _found(folder: Path | str) -> Result | None:
    from planner.aggregate.result import Result

    try:
        return Result.load(folder)
    except (PlannerError, OSError):
        return None


def _in_the_way(folder: Path | str, *, is_whole: bool) -> Fault:
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

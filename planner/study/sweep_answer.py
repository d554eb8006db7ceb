"""A sweep and its folder: each point's result as it is found, so that what was done is never done again.

```
sweep.json        what was found at every point; written last, so that a folder without it is unfinished
points.parquet    the table of points
points/0007/      the result of point 7, as `planner run` writes it: report and compare read it
begun.json        the question
```
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, PlannerError, RunError
from planner.fleet.storage import Folder, is_address
from planner.scenario.files import is_file, locate
from planner.study.answer import RUNS, slug
from planner.study.points import Point
from planner.study.run import file_digest, inputs_digest, run
from planner.study.sweep import Done, Solve, SolveMany, Sweep, axes_of, sweep

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.scenario import Scenario

SCHEMA = "planner.sweep/1"
FILE, BEGUN, POINTS = "sweep.json", "begun.json", "points"


@dataclass(frozen=True, slots=True)
class SweepAnswer:
    """A sweep, where it stands, and how much of it was there before."""

    sweep: Sweep
    folder: Path | str
    """A path, or an address such as s3://bucket/sweep."""
    inputs: str
    n_known: int
    """Points that were answered before."""
    is_reused: bool
    wall_s: float

    def folder_of(self, point: Point) -> str:
        """Where the result of a point stands."""
        return _place(self.folder, point)


def answer(
    scenarios: Sequence[Scenario],
    solve: Solve | None = None,
    *,
    solve_many: SolveMany = run,
    out: Path | str | None = None,
    is_forced: bool = False,
    is_resuming: bool = False,
    progress: Callable[[Done], None] = lambda _: None,
) -> SweepAnswer:
    """The sweep of `scenarios` (variants of one file), from its folder as far as it was answered before.

    `out` is a path or an address. `is_resuming` completes a folder of which some points are missing; without it such a
    folder is refused. `is_forced` begins anew.

    Raises:
        RunError: the folder cannot be written, is unfinished, or holds something else.
        The errors of `sweep`.
    """
    from planner.aggregate.result import Result

    start_s = time.monotonic()
    inputs = digest(scenarios)
    named = RUNS / f"{slug(scenarios[0].title)}-sweep-{inputs.removeprefix('sha256:')[:8]}" if out is None else out
    folder: Path | str = str(named) if is_address(named) else Path(named)
    root = Folder.of(folder)
    is_there = _check(root, inputs, is_forced=is_forced, is_resuming=is_resuming)
    found: list[int] = []

    def known(point: Point) -> Result | None:
        try:
            result = Result.load(_place(folder, point))
        except (PlannerError, OSError):
            return None
        found.append(point.ix)
        return result

    def keep(point: Point, result: Result) -> None:
        place = _place(folder, point)
        Folder.of(place).remove_all()  # damaged, or it would be known
        try:
            result.save(place)
        except OSError as error:
            what = f"cannot write {place}: {error.strerror or error}"
            raise RunError(Fault(what, "choose another folder with -o, or make room")) from None

    if not is_there:
        _write(root, BEGUN, {"schema": SCHEMA, "inputs": inputs})
    made = sweep(scenarios, solve, solve_many=solve_many, known=known, keep=keep, progress=progress)
    if not is_there:
        table = io.BytesIO()
        made.points.write_parquet(table, compression="zstd")
        root.write(f"{POINTS}.parquet", table.getvalue())
        _write(root, FILE, {"schema": SCHEMA, "inputs": inputs, "result": made.to_json()})
    return SweepAnswer(made, folder, inputs, len(found), is_there, time.monotonic() - start_s)


def digest(scenarios: Sequence[Scenario]) -> str:
    """A hash of everything that a sweep hangs on: the variants, the axes, and the files that their values name."""
    total = hashlib.sha256(inputs_digest(scenarios).encode())
    axes = axes_of(scenarios[0])
    total.update(json.dumps([[axis.path, *axis.values] for axis in axes]).encode())
    assert scenarios[0].sweep is not None
    for text in sorted(set(_texts(scenarios[0].sweep.axes))):
        if is_file(text):
            total.update(file_digest(locate(text, scenarios[0].base_dir)))
    return "sha256:" + total.hexdigest()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for child in value.values():
            yield from _texts(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _texts(child)


def _check(root: Folder, inputs: str, *, is_forced: bool, is_resuming: bool) -> bool:
    """Whether the sweep is there and whole. Raises `RunError` where something else is in the way."""
    if not root.exists() or (root.is_local and Path(root.place).is_dir() and not any(Path(root.place).iterdir())):
        return False
    begun = _read(root, BEGUN)
    if begun is None or begun.get("schema") != SCHEMA:
        what = f"{root} is there and is no sweep"
        raise RunError(Fault(what, "choose another folder with -o, or move it away"))
    if is_forced:
        root.remove_all()
        return False
    if begun.get("inputs") != inputs:
        what = f"{root} holds the sweep of another question"
        raise RunError(Fault(what, "choose another folder with -o, or use --force"))
    is_whole = _read(root, FILE) is not None
    if not is_whole and not is_resuming:
        what = f"{root} holds this sweep unfinished"
        raise RunError(Fault(what, "--resume completes it, --force begins anew"))
    return is_whole


def _read(root: Folder, name: str) -> dict[str, Any] | None:
    try:
        read = json.loads(root.read(name)) if name in root.names() else None
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def _write(root: Folder, name: str, body: dict[str, Any]) -> None:
    root.write(name, (json.dumps(body, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode())


def _place(folder: Path | str, point: Point) -> str:
    return f"{folder}/{POINTS}/{point.ix:05d}"

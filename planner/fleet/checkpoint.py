"""Finished parts of a run, kept beside its folder until the result is whole: `<folder>.parts/`.

Beside them are notes: smaller things that took long to find, by a key that says all they depend on.

`manifest.json` says which question they answer and which core made them; each part says so too, with its cells, its
seed and the digest of its content. A part that is torn, altered or of another question is taken away and done again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from planner.errors import Fault, RunError
from planner.fleet import parts
from planner.fleet.lock import Lock
from planner.fleet.storage import Folder

if TYPE_CHECKING:
    from planner.fleet.executor import Simulation

SCHEMA = "planner.parts/2"
MANIFEST = "manifest.json"
ENDING = ".parts"
_PART = ".part"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """A part that is there."""

    simulation: int
    cells: tuple[int, ...]
    name: str
    """Of its file."""
    read: Callable[[], bytes]
    """Its packed bytes."""


class Kept(Protocol):
    """Finished parts of a run."""

    @property
    def folder(self) -> Folder:
        """Where they are."""
        ...

    def have(self, simulations: Sequence[Simulation]) -> Sequence[Stored]:
        """Those of a list of work that are there and whole, no cell in two of them."""
        ...

    def keep(self, packed: bytes) -> None:
        """Put one more."""
        ...

    def way_on(self) -> str:
        """What is kept and how to go on; nothing where nothing is."""
        ...


def _note_name(key: str) -> str:
    return f"note-{hashlib.sha256(key.encode()).hexdigest()[:24]}{_PART}"


def put(folder: Folder, packed: bytes) -> None:
    """Put a part into the folder where its like are; putting it twice is the same as once."""
    about = parts.about(packed)
    name = f"{about['stage']}-{about['simulation']:06}-{min(about['cells']):06}-{len(about['cells'])}{_PART}"
    folder.write(name, packed)


class Checkpoint:
    """The parts of one question beside the folder of its result, from `begin` to `end`."""

    def __init__(self, folder: Folder, inputs: str) -> None:
        self.folder = folder.beside(ENDING)
        self.inputs = inputs
        self.n_damaged = 0
        self._parent = Path(folder.place).parent if folder.is_local else None
        self._has_parent = self._parent is None or self._parent.is_dir()
        self._lock = Lock(self.folder)

    def begin(self, *, is_resuming: bool, is_forced: bool) -> None:
        """Take the lock, and look at what an earlier run left.

        Raises:
            RunError: another driver is at work, the parts are of another question or version, or there are parts and
                neither to go on nor to begin anew was asked for.
        """
        self._lock.take()
        try:
            names = self._names()
            if names and is_forced:
                for name in names:
                    self.folder.remove(name)
                names = []
            if names:
                self._check_manifest()
                if not is_resuming:
                    what = f"{len(names)} finished parts of an interrupted run are in {self.folder}"
                    raise RunError(Fault(what, "--resume goes on with them, --force begins anew"))
            manifest = {"schema": SCHEMA, "inputs": self.inputs, "core": parts.made_by()}
            self.folder.write(MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        except BaseException:
            self.end()
            raise

    def end(self, *, is_whole: bool = False) -> None:
        """Release the lock. The parts go when the result is whole; a folder without parts goes in any case."""
        self._lock.fall_silent()
        with suppress(RunError):  # what went wrong before is what is told
            if is_whole or not self._names():
                self.folder.remove_all()
        with suppress(RunError):
            self._lock.release()
        if not self._has_parent and self._parent is not None:
            with suppress(OSError):  # it is not empty, then
                self._parent.rmdir()

    @property
    def n_kept(self) -> int:
        """How many parts are there."""
        return len(self._names())

    def have(self, simulations: Sequence[Simulation]) -> list[Stored]:
        """The parts of this list of work that are there and whole; others are taken away."""
        found: list[Stored] = []
        seen: set[tuple[int, int]] = set()
        stages = tuple({f"{simulation.stage}-" for simulation in simulations})
        for name in self._names():
            if not name.startswith(stages):
                continue
            try:
                about, _ = parts.opened(self.folder.read(name))
                stored = self._stored(name, about, simulations)
            except parts.Damaged as damage:
                _log.warning("%s/%s is done again: %s", self.folder, name, damage)
                self.n_damaged += 1
                self.folder.remove(name)
                continue
            cells = {(stored.simulation, cell) for cell in stored.cells}
            if cells & seen:
                self.folder.remove(name)
                continue
            seen |= cells
            found.append(stored)
        return found

    def keep(self, packed: bytes) -> None:
        """Put one more part. Raises `RunError` where that cannot be done, saying what is kept."""
        try:
            put(self.folder, packed)
        except RunError as error:
            raise RunError(*error.faults, hint=self.way_on()) from None

    def noted(self, key: str) -> Any:
        """What was noted under a key; None where nothing is, or it is damaged."""
        name = _note_name(key)
        try:
            found = json.loads(self.folder.read(name)) if name in self._names() else None
        except (ValueError, RunError):
            found = None
        if not isinstance(found, dict) or found.get("about") != self._about_note(key, found.get("tree")):
            return None
        return found["tree"]

    def note(self, key: str, tree: Any) -> None:
        """Keep what was found under a key: JSON, and not null. Raises `RunError`, saying what is kept."""
        text = json.dumps({"about": self._about_note(key, tree), "tree": tree}, sort_keys=True)
        try:
            self.folder.write(_note_name(key), text.encode())
        except RunError as error:
            raise RunError(*error.faults, hint=self.way_on()) from None

    def _about_note(self, key: str, tree: Any) -> dict[str, Any]:
        body = hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
        return {"inputs": self.inputs, "core": parts.made_by(), "key": key, "sha256": body}

    def way_on(self) -> str:
        """What is kept and how to go on; nothing where nothing is."""
        try:
            n = self.n_kept
        except RunError:
            return ""
        return f"{n} finished parts are kept in {self.folder}: the same command with --resume goes on" if n else ""

    def _names(self) -> list[str]:
        return [name for name in self.folder.names() if name.endswith(_PART) and not name.startswith(".")]

    def _stored(self, name: str, about: Mapping[str, Any], simulations: Sequence[Simulation]) -> Stored:
        simulation, cells = int(about["simulation"]), tuple(about["cells"])
        if about["inputs"] != self.inputs or about["core"] != parts.made_by():
            raise parts.Damaged("it is of another question or version")
        if simulation >= len(simulations) or about["stage"] != simulations[simulation].stage:
            raise parts.Damaged("the run has no such simulation")
        if not all(0 <= c < simulations[simulation].n_cells for c in cells):
            raise parts.Damaged("the run has no such cells")
        if about["seed"] != simulations[simulation].draw.seed:
            raise parts.Damaged("it is of another seed")
        return Stored(simulation, cells, name, partial(self.folder.read, name))

    def _check_manifest(self) -> None:
        begin_anew = "--force begins anew"
        try:
            manifest = json.loads(self.folder.read(MANIFEST))
            said, made_by, inputs = manifest["schema"], manifest["core"], manifest["inputs"]
        except (ValueError, KeyError, TypeError, RunError):
            raise RunError(Fault(f"{self.folder}/{MANIFEST} is damaged", begin_anew)) from None
        if said != SCHEMA or made_by != parts.made_by():
            versions = f"{said}, core {made_by}; this is {SCHEMA}, core {parts.made_by()}"
            what = f"the parts in {self.folder} are from another version ({versions})"
            raise RunError(Fault(what, f"go on with that version, or {begin_anew}"))
        if inputs != self.inputs:
            what = f"the parts in {self.folder} answer another question: the input was changed"
            raise RunError(Fault(what, f"change it back, choose another folder with -o, or {begin_anew}"))

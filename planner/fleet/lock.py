"""One driver at a time in a folder: a lock that its holder's end releases, however it ends.

On a disk of this machine the system holds the lock and lets go of it when the process ends, so a lock file that is left
over holds nobody up. At an address the file says who holds it, and its holder writes it anew every few seconds; it is
taken over where that process is seen to be gone, or, on another machine, where the file stays as it is for several such
times. No clock of the wall is read: a jump of it changes nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.errors import Fault, RunError
from planner.fleet.storage import Folder

NAME = "lock.json"
BEAT_S = 10.0
"""How often the holder of a lock at an address writes it anew."""
SILENT_S = 4 * BEAT_S
"""A lock at an address that stays as it is for so long is nobody's."""
LOOK_S = 1.0


class Lock:
    """The lock of a folder, from `take` to `release`."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._handle: int | None = None
        self._ends = threading.Event()
        self._beating: threading.Thread | None = None
        self._mine = b""

    def take(self) -> None:
        """Hold the lock. Raises `RunError` where another driver does, or the folder cannot be written."""
        if self.folder.is_local:
            self._take_local(Path(self.folder.place))
        else:
            self._take_remote()

    def fall_silent(self) -> None:
        """Write it no more: who takes the folder away would find it there again."""
        self._ends.set()
        if self._beating is not None:
            self._beating.join(BEAT_S)

    def release(self) -> None:
        """Let go of it; the file goes with it."""
        if not self.folder.is_local:
            self.fall_silent()
            if self._mine and self._is_mine():
                self.folder.remove(NAME)
        elif self._handle is not None:
            (Path(self.folder.place) / NAME).unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None

    def _take_local(self, path: Path) -> None:
        try:
            while self._handle is None:
                path.mkdir(parents=True, exist_ok=True)
                handle = os.open(path / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    said = os.read(handle, 4096)
                    os.close(handle)
                    raise RunError(self._held(said)) from None
                if _is_there(handle, path / NAME):
                    self._handle = handle
                else:  # its holder was about to take it away
                    os.close(handle)
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, _about_me().encode(), 0)
        except OSError as error:
            why = error.strerror or str(error)
            raise RunError(Fault(f"cannot write {path}: {why}", "choose another folder with -o")) from None

    def _take_remote(self) -> None:
        if NAME in self.folder.names():
            said = self.folder.read(NAME)
            if not _is_gone(said):
                self._watch(said)
        self._mine = _about_me().encode()
        self.folder.write(NAME, self._mine)
        if self.folder.read(NAME) != self._mine:
            raise RunError(self._held(self.folder.read(NAME)))
        self._ends.clear()
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self._beating.start()

    def _watch(self, said: bytes) -> None:
        """Return once the holder has been silent for long, or has let go. Raises `RunError` once it is seen to live."""
        if _is_here(said):
            raise RunError(self._held(said))
        end_s = time.monotonic() + SILENT_S
        while time.monotonic() < end_s:
            time.sleep(LOOK_S)
            if NAME not in self.folder.names():
                return
            if self.folder.read(NAME) != said:
                raise RunError(self._held(said))

    def _beat(self) -> None:
        """Write the lock anew until it is released, or was taken over."""
        n = 0
        while not self._ends.wait(BEAT_S):
            with suppress(RunError):  # a store that does not answer now may do so the next time
                if not self._is_mine():
                    return
                n += 1
                if not self._ends.is_set():
                    self.folder.write(NAME, json.dumps(json.loads(self._mine) | {"beat": n}).encode())

    def _is_mine(self) -> bool:
        if NAME not in self.folder.names():
            return False
        return bool(_told(self.folder.read(NAME)).get("token") == _told(self._mine)["token"])

    def _held(self, said: bytes) -> Fault:
        who = "another planner"
        pid, host = _told(said).get("pid"), _told(said).get("host")
        if isinstance(pid, int) and isinstance(host, str):
            who = f"another planner, process {pid} on {host[:80]},"
        way_out = "wait for it, or choose another folder with -o"
        if not self.folder.is_local:
            way_out += f"; if it is gone, remove {self.folder}/{NAME}"
        return Fault(f"{who} is at work on {self.folder.place.removesuffix('.parts')}", way_out)


def _is_there(handle: int, path: Path) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    mine = os.fstat(handle)
    return (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev)


def _about_me() -> str:
    me = {"pid": os.getpid(), "host": socket.gethostname(), "begun": _begun(os.getpid()), "token": secrets.token_hex(8)}
    return json.dumps(me)


def _told(said: bytes) -> dict[str, Any]:
    """What a lock file says of its holder; empty where it cannot be read."""
    try:
        about = json.loads(said)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _is_here(said: bytes) -> bool:
    """Whether the holder is a process of this machine."""
    return bool(_told(said).get("host") == socket.gethostname())


def _begun(pid: int) -> str | None:
    """When a process of this machine began, in ticks since the machine did; None where that is not to be known."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


def _is_gone(said: bytes) -> bool:
    """Whether the holder is a process of this machine that is no more."""
    about = _told(said)
    if not _is_here(said) or not isinstance(about.get("pid"), int) or "begun" not in about:
        return False
    pid, begun = about["pid"], about["begun"]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return begun is not None and _begun(pid) not in (None, begun)

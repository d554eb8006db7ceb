"""One driver at a time in a folder: a lock that its holder's end releases, however it ends.

On a disk of this machine the system holds the lock and lets go of it when the process ends, so a lock file that is left
over holds nobody up. At an address the file says who holds it; it is taken over where that process is seen to be gone.
No clock is read: a jump of it changes nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
from pathlib import Path

from planner.errors import Fault, RunError
from planner.fleet.storage import Folder

NAME = "lock.json"


class Lock:
    """The lock of a folder, from `take` to `release`."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._handle: int | None = None

    def take(self) -> None:
        """Hold the lock. Raises `RunError` where another driver does, or the folder cannot be written."""
        if self.folder.is_local:
            self._take_local(Path(self.folder.place))
        else:
            self._take_remote()

    def release(self) -> None:
        """Let go of it; the file goes with it."""
        if not self.folder.is_local:
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
                raise RunError(self._held(said))
        mine = _about_me().encode()
        self.folder.write(NAME, mine)
        if self.folder.read(NAME) != mine:
            raise RunError(self._held(self.folder.read(NAME)))

    def _held(self, said: bytes) -> Fault:
        who = "another planner"
        try:
            about = json.loads(said)
            who = f"another planner, process {int(about['pid'])} on {str(about['host'])[:80]},"
        except (ValueError, KeyError, TypeError):
            pass
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


def _begun(pid: int) -> str | None:
    """When a process of this machine began, in ticks since the machine did; None where that is not to be known."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


def _is_gone(said: bytes) -> bool:
    """Whether the holder is a process of this machine that is no more."""
    try:
        about = json.loads(said)
        pid, host, begun = int(about["pid"]), about["host"], about["begun"]
    except (ValueError, KeyError, TypeError):
        return False
    if host != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return begun is not None and _begun(pid) not in (None, begun)

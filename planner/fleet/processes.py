"""The processes below one, where the system tells (`/proc`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


def below(pid: int) -> list[int]:
    """All processes that a process started, and those that these started."""
    started: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            parent = int(path.read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()[1])
            started.setdefault(parent, []).append(int(path.parent.name))
    found = list(started.get(pid, ()))
    for each in found:  # it grows meanwhile
        found += started.get(each, ())
    return found


def end_below(pid: int, *, but: Collection[int] = ()) -> None:
    """End all of them at once, those of `but` apart."""
    for each in set(below(pid)) - set(but):
        with suppress(OSError):
            os.kill(each, signal.SIGKILL)

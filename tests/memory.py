"""The most memory that a piece of Python takes, in a process of its own: in that of the tests the most was long ago."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def peak_bytes(code: str, *arguments: str) -> int:
    """Peak memory of a process of its own; what `getrusage` tells begins at the peak of the process that started it."""
    tail = "\nprint(*(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-2]) * 1024  # VmHWM: 8752 kB

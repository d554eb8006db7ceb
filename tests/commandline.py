"""Running the real entry point, as people do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENTRY = [sys.executable, "-W", "error", "-m", "planner"]


def planner(*arguments: str, cwd: Path = ROOT, stdin: str = "") -> subprocess.CompletedProcess[str]:
    if arguments[:1] == ("run",) and "--report" not in arguments:
        arguments = (*arguments, "--no-report")  # the page takes a second: tests of it ask for it
    return subprocess.run(
        [*ENTRY, *arguments], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one JSON object on stdout."""
    made: dict[str, Any] = json.loads(done.stdout)
    return made

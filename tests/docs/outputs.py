"""Command output in pages: each ```console block is what its `$ planner ...` lines print today.

What differs from run to run is left out (how long it took), what differs from build to build is not compared (the hash
in a folder's name).
"""

from __future__ import annotations

import re
import shlex
import tempfile
from pathlib import Path

from tests.commandline import planner

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Pages with a block, the README not among them."""
    return [path for path in sorted(DOCS.rglob("*.md")) if BLOCK.search(path.read_text(encoding="utf-8"))]


def renewed(text: str) -> str:
    """The page with the output of today."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "scenarios").symlink_to(ROOT / "scenarios")
        return BLOCK.sub(lambda found: f"```console\n{_block(found[1], Path(folder))}```", text)


def _block(text: str, folder: Path) -> str:
    lines = []
    for command in re.findall(r"^\$ planner (.+)$", text, re.MULTILINE):
        words = shlex.split(command)
        page = ["--report"] if words[0] == "run" and "--no-report" not in words else []
        done = planner(*words, *page, cwd=folder)
        shown = done.stdout if done.returncode in {0, 3, 4} else done.stderr
        shown = re.sub(r"( +)(\S[^\n]*? simulated) in [\d.]+ \w+", r"\1\2", shown)  # how long it took is this machine's
        lines += [f"$ planner {command}", *(line.rstrip() for line in shown.rstrip().splitlines())]
    return "\n".join([*lines, ""])


def same(text: str) -> str:
    """What is compared of a page."""
    text = re.sub(r" (simulated|points) in [\d.]+ \w+", r" \1", text)
    text = re.sub(r"(runs/[a-z0-9-]+)-[0-9a-f]{8}", r"\1-", text)
    return re.sub(r"sha256:[0-9a-f]{8,}", "sha256:-", re.sub(r" {2,}", "  ", text))

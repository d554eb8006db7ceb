"""`planner doctor`: whether everything that planner needs is here, one line each, with the way out where it is not."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

import click

from planner.cli import output

SCHEMA = "planner.doctor/1"
EXIT_SURROUNDINGS = 5
LEAST_FREE_BYTES = 1e9
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "firefox")

EPILOG = """\b
Examples:
  planner doctor
  planner doctor --json
"""

State = Literal["ok", "warning", "fault"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: State
    found: str
    way_out: str = ""


@click.command("doctor", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@output.verb(SCHEMA)
def command(to: output.Settings) -> None:
    """Look at what planner needs here: versions, core, processors, memory, Ray, catalogue, folder of the runs, figures.

    Ends with status 5 when something is missing that planner cannot do without.
    """
    findings = list(look())
    width = max(len(one.what) for one in findings)
    words = {"ok": "ok", "warning": "note", "fault": "FAULT"}
    lines = [
        f"{one.what.ljust(width)}  {words[one.state]:5}  {one.found}{f'; {one.way_out}' if one.way_out else ''}"
        for one in findings
    ]
    n_faults = sum(one.state == "fault" for one in findings)
    lines.append(f"{n_faults} faults" if n_faults else "everything that planner needs is here")
    result = {"ok": not n_faults, "findings": [asdict(one) for one in findings]}
    output.reply(SCHEMA, result, "\n".join(lines), to)
    if n_faults:
        sys.exit(EXIT_SURROUNDINGS)


def look() -> Iterator[Finding]:
    """Everything, in the order in which it is shown; what raises is a fault of its own."""
    for what, check in _CHECKS.items():
        try:
            state, found, way_out = check()
        except Exception as error:  # whatever it is, the next checks go on
            state, found, way_out = "fault", f"{type(error).__name__}: {error}", "install planner again"
        yield Finding(what, state, found, way_out)


Seen = tuple[State, str, str]


def _planner() -> Seen:
    return "ok", f"{output.planner_version()} in {Path(__file__).resolve().parents[1]}", ""


def _python() -> Seen:
    at = f"{platform.python_version()} at {sys.executable}"
    return ("ok", at, "") if sys.version_info >= (3, 11) else ("fault", at, "planner needs Python 3.11 or later")


def _core() -> Seen:
    from planner.core import build_info

    info = build_info()
    said = f"{info['version']}, build {info['sources']}, {info['profile']}, {info['target']}"
    if info["profile"] != "release":
        return "warning", said, "a build without optimisation simulates several times slower: make build"
    return "ok", said, ""


def _packages() -> Seen:
    found, missing = [], []
    try:
        wanted = requires("jalapeno-fleet-planner") or ()
    except PackageNotFoundError:
        return "warning", "planner itself is not installed", "pip install . in its folder"
    for line in wanted:
        if "extra ==" in line:
            continue
        name = re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0]
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return "fault", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}"
    return "ok", ", ".join(found), ""


def _processors() -> Seen:
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return "ok", f"{n} (planner run -j takes as many)", ""


def _memory() -> Seen:
    try:
        page, total, free = (os.sysconf(name) for name in ("SC_PAGE_SIZE", "SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return "warning", "not known here", ""
    return "ok", f"{page * total / 1e9:.1f} GB, {page * free / 1e9:.1f} GB unused", ""


def _ray() -> Seen:
    try:
        found = version("ray")
    except PackageNotFoundError:
        return "warning", "not installed", "pip install ray, to spread runs over machines"
    address = os.environ.get("RAY_ADDRESS")
    return "ok", f"{found}, {f'RAY_ADDRESS={address}' if address else 'no address set'}", ""


def _catalogue() -> Seen:
    from planner.facts import catalog

    shelf = catalog.load()
    kinds = {kind: len(shelf.names(kind)) for kind in ("chips", "racks", "models", "sites", "sources")}
    dates = sorted(
        date
        for source in shelf.sources().values()
        for date in re.findall(r"\b20\d\d-\d\d-\d\d\b", f"{source.title} {source.where}")
    )
    counts = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    newest = f"newest dated source {dates[-1]}" if dates else "no dated source"
    return "ok", f"{counts}; {newest}", ""


def _runs() -> Seen:
    from planner.study.answer import RUNS

    folder = RUNS if RUNS.is_dir() else RUNS.parent
    where = RUNS.absolute()
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return "fault", f"{where} cannot be written: {error.strerror}", "go to another folder, or use -o"
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        return "warning", f"{where}, {free / 1e9:.2f} GB free", "results may not fit"
    return "ok", f"{where}, {free / 1e9:.1f} GB free", ""


def _figures() -> Seen:
    found = ", ".join(f"{name} {version(name)}" for name in ("altair", "vl-convert-python"))
    return "ok", found, ""


def _browser() -> Seen:
    at = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if at is None:
        return "warning", "none found", "open the report's page.html in any browser"
    return "ok", at, ""


_CHECKS: dict[str, Callable[[], Seen]] = {
    "planner": _planner,
    "python": _python,
    "core": _core,
    "packages": _packages,
    "processors": _processors,
    "memory": _memory,
    "ray": _ray,
    "catalogue": _catalogue,
    "runs": _runs,
    "figures": _figures,
    "browser": _browser,
}

"""What can go wrong, as data: a `Fault` says what, where and the way out; six kinds of error carry faults upwards.

The library raises these and never prints or exits; `exit_status` is what the command line ends with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar

_MAX_LISTED = 12


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, where it stands, and the way out.

    >>> str(Fault("unknown unit 'mss'", "did you mean ms, s?", path="slo.chat.ttft.p95", file="s.yaml", line=7, col=17))
    "s.yaml:7:17: slo.chat.ttft.p95: unknown unit 'mss'; did you mean ms, s?"
    """

    what: str
    way_out: str = ""
    path: str = ""
    file: str = ""
    line: int | None = None
    col: int | None = None

    def __str__(self) -> str:
        place = self.file
        for number in (self.line, self.col):
            if number is not None:
                place = f"{place}:{number}" if place else str(number)
        head = "".join(f"{part}: " for part in (place, self.path) if part)
        return f"{head}{self.what}; {self.way_out}" if self.way_out else f"{head}{self.what}"


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning as data: a stable `code` and a sentence. It travels in results; only the command line prints it."""

    code: str
    message: str


class PlannerError(Exception):
    """Any error that planner raises on purpose: one or more faults, and a hint that holds for all of them."""

    code: ClassVar[str] = "planner"
    exit_status: ClassVar[int] = 1

    def __init__(self, *faults: Fault | str, hint: str = "") -> None:
        self.faults: tuple[Fault, ...] = tuple(Fault(f) if isinstance(f, str) else f for f in faults)
        self.hint = hint
        super().__init__(*self.faults)

    def __str__(self) -> str:
        lines = [str(fault) for fault in self.faults]
        return "\n".join([*lines, self.hint] if self.hint else lines)


class ScenarioError(PlannerError):
    """The scenario, or the way it was asked for, is written wrongly."""

    code = "scenario"
    exit_status = 2


class FactError(PlannerError):
    """A fact of the catalogue or of a user's own file is wrong, or a name is not in the catalogue."""

    code = "fact"
    exit_status = 2


class TrafficError(PlannerError):
    """A trace or a traffic description cannot be used."""

    code = "traffic"
    exit_status = 2


class Infeasible(PlannerError):
    """All is written rightly, but no such fleet can be laid out or serve the traffic."""

    code = "infeasible"
    exit_status = 4


class CoreError(PlannerError):
    """A fault inside planner itself."""

    code = "core"
    exit_status = 1


class RunError(PlannerError):
    """The surroundings failed: disk, permissions, versions, the cluster."""

    code = "run"
    exit_status = 5


def near(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known ones, or all of them when they are few.

    >>> near("gb20", ["gb200", "h100-sxm"])
    '; did you mean gb200?'
    >>> near("zzz", ["gb200", "h100-sxm"])
    '; known: gb200, h100-sxm'
    """
    options = list(dict.fromkeys(known))
    if not options:
        return "; there are none"
    folded: dict[str, str] = {}
    for option in options:
        folded.setdefault(option.casefold(), option)
    wanted = name.casefold()
    close = get_close_matches(wanted, folded, n=3, cutoff=0.6)
    if not close and len(wanted) >= 3:
        close = [key for key in folded if wanted in key or (len(key) >= 3 and key in wanted)][:3]
    if close:
        return f"; did you mean {', '.join(folded[key] for key in close)}?"
    listed = ", ".join(options[:_MAX_LISTED])
    return f"; known: {listed}" if len(options) <= _MAX_LISTED else f"; known: {listed}, ... ({len(options)} in all)"

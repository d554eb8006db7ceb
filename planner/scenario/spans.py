"""Spans of the hours of a day or the months of a year, and the local time at which a run begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from planner.scenario.fields import Reader
from planner.scenario.section import Trouble, fault, shown, troubles

T = TypeVar("T")
_SPAN = re.compile(r"\s*(\d{1,2})\s*(?:-\s*(\d{1,2})\s*)?", re.ASCII)
_EXAMPLES = {"hours": "22-6 (from 22:00 to 06:00)", "months": "5-9 (May to September)"}


def spans(table: Mapping[str, T], n: int, noun: str, *, first: int) -> dict[str, T]:
    """The table, if its spans cover each of the `n` hours or months once; raises pydantic's error with every fault."""
    if not table:
        raise troubles([Trouble((), f"no {noun} are named", f"write spans such as {_EXAMPLES[noun]}")])
    found: list[Trouble] = []
    said: dict[int, str] = {}
    for text in table:
        ixs = covered(text, n, first=first)
        if ixs is None:
            found.append(Trouble((text,), f"{shown(text)} is no span of {noun}", f"such as {_EXAMPLES[noun]}"))
            continue
        twice = [ix + first for ix in ixs if ix in said]
        if twice:
            found.append(
                Trouble(
                    (text,), f"{noun[:-1]} {twice[0]} is in {shown(said[twice[0] - first])} too", "each is in one span"
                )
            )
        said |= dict.fromkeys(ixs, text)
    missing = [str(ix + first) for ix in range(n) if ix not in said]
    if missing and not found:
        found.append(Trouble((), f"{noun} {', '.join(missing)} are in no span", f"cover all {n} {noun}"))
    if found:
        raise troubles(found)
    return dict(table)


def covered(text: str, n: int, *, first: int) -> list[int] | None:
    """The hours (0-23, `22-6` ends before 6:00) or months (0-11, `5-9` holds September) of a span; None if it is none.

    >>> covered("22-2", 24, first=0)
    [22, 23, 0, 1]
    >>> covered("11-2", 12, first=1)
    [10, 11, 0, 1]
    """
    match = _SPAN.fullmatch(str(text))
    if match is None:
        return None
    begin = int(match[1]) - first
    if first:  # months: the last one counts
        last = begin if match[2] is None else int(match[2]) - first
        if not (0 <= begin < n and 0 <= last < n):
            return None
        return [(begin + k) % n for k in range((last - begin) % n + 1)]
    end = begin + 1 if match[2] is None else int(match[2])
    if not (0 <= begin < n and 0 <= end <= n) or begin == end:
        return None
    return [(begin + k) % n for k in range((end - begin) % n or n)]


def by_ix(table: Mapping[str, T], n: int, *, first: int) -> tuple[T, ...]:
    """The value of each hour or month of a table whose spans were checked."""
    found = {ix: value for text, value in table.items() for ix in covered(text, n, first=first) or ()}
    return tuple(found[ix] for ix in range(n))


@dataclass(frozen=True, slots=True)
class StartOf(Reader):
    """A local date, with or without an hour, as ISO text."""

    def read(self, value: Any) -> str:
        text = str(value).strip()
        try:
            if re.fullmatch(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d)?", text, re.ASCII):
                return datetime.fromisoformat(text).isoformat(timespec="minutes")
        except ValueError:
            pass
        raise fault(f"{shown(value)} is no date", "write a local time such as 2027-07-01 09:00")

    def json(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d)?$"}

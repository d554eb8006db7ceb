"""Columns that mark a row as failed or as answered from a cache: which words do, and which nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.errors import Notice

if TYPE_CHECKING:
    import polars as pl

TRUE = r"true|1|yes"
FAILED = (
    r"(fail|failed|failure|error|errored|exception|timeout|timed[ _-]?out|cancell?ed|abort|aborted|rejected|dropped"
    r"|killed|[45][0-9]{2})([^a-z0-9].*)?"
)
"""Words and HTTP statuses of requests that were not answered, whatever follows them."""
SERVED = r"ok|success|successful|succeeded|completed?|finished|done|served|stop|length|true|[123][0-9]{2}"
_NOTHING = r"|none|null|false"


@dataclass(frozen=True, slots=True)
class Flag:
    """A column that marks a row when the whole of its text, in lower case, matches `marks`; without it, any text does.

    Text that matches neither `marks` nor `clears`, where that is given, is a word nobody knows: the reader says so.
    """

    column: str
    marks: str = ""
    clears: str = ""

    @property
    def role(self) -> str:
        """The name of the flag's column in a frame of roles."""
        return f"flag {self.column}"


def marked(flags: Iterable[Flag]) -> pl.Expr | None:
    """Whether any of the flags marks the row; None without a flag."""
    import polars as pl

    marks = [_is(flag, flag.marks) if flag.marks else ~_is(flag, _NOTHING) for flag in flags]
    return pl.any_horizontal(marks) if marks else None


def unknown(frame: pl.DataFrame, flags: Iterable[Flag]) -> Iterator[Notice]:
    """A warning for each column with words that neither mark a row nor clear it."""
    for flag in flags:
        if flag.clears:
            odd = frame.filter(~_is(flag, f"{flag.marks}|{flag.clears}|{_NOTHING}"))[flag.role]
            if odd.len():
                words = ", ".join(repr(word[:40]) for word in odd.unique().sort().head(3))
                yield Notice("unknown_status", f"{odd.len():,} rows have {flag.column} {words}: taken as served")


def _is(flag: Flag, words: str) -> pl.Expr:
    import polars as pl

    text = pl.col(flag.role).str.to_lowercase().str.strip_chars().fill_null("")
    return text.str.contains(f"^({words})$")

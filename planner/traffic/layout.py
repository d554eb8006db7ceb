"""Where a format keeps what: names of columns or keys, and the unit of its clock. Readers are mostly such layouts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from planner.traffic.cells import Unit
from planner.traffic.flags import Flag


@dataclass(frozen=True, slots=True)
class Clock:
    """A column of arrivals and the unit in which it counts; the unit belongs to the format and is never guessed."""

    column: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Layout:
    """One format. Of alternative names the first that a file has is used."""

    name: str
    title: str
    """Who writes such files, for messages."""
    arrival: tuple[Clock, ...]
    input: tuple[str, ...]
    output: tuple[str, ...]
    cached: tuple[str, ...] = ()
    total: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    session: tuple[str, ...] = ()
    class_: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    failed: tuple[Flag, ...] = ()
    cache_hit: tuple[Flag, ...] = ()
    hash_ids: tuple[str, ...] = ()
    block_tokens: int | None = None
    """Tokens of one block of `hash_ids`, where the format fixes it."""
    block: tuple[str, ...] = ()
    """Where the format does not: the column that says so."""
    also: tuple[str, ...] = ()
    """Further columns that a file of this format always has, where the others would not tell it from another."""

    @property
    def clocks(self) -> tuple[str, ...]:
        """Names that the arrival may have."""
        return tuple(clock.column for clock in self.arrival)

    @property
    def nested(self) -> tuple[str, ...]:
        """Dotted names: a key of an object inside a column, or of the JSON that the column's text holds."""
        flags = (flag.column for flag in (*self.failed, *self.cache_hit))
        return tuple(name for name in (*self.cached, *self.class_, *self.model, *flags) if "." in name)

    def lacks(self, columns: Collection[str]) -> tuple[str, ...]:
        """The needed columns that are not among `columns`, each as its first name; empty if all are there."""
        folded = {c.casefold() for c in columns}
        needed = [self.clocks, self.input, self.output, *((name,) for name in self.also)]
        return tuple(names[0] for names in needed if not any(n.casefold() in folded for n in names))

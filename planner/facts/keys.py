"""How the tables of the schema are written: a key of a file, its attribute in memory, its kind and its rule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """One value of a group fact."""

    key: str
    attr: str
    kind: str
    may_be_null: bool = False
    is_needed: bool = True


@dataclass(frozen=True, slots=True)
class Key:
    """One fact of a file: its key there, its attribute in memory, its kind and what is right for it."""

    key: str
    attr: str
    kind: str
    doc: str
    is_needed: bool = False
    may_be_null: bool = False
    """A value that does not exist (no FP4 hardware) is right, and is not the same as undisclosed."""
    rule: str = "positive"
    """positive | not_negative | share (0..1) | at_least_one"""
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A nested mapping of facts that becomes an object of its own."""

    key: str
    attr: str
    keys: tuple[Key, ...]
    doc: str


def need(key: str, attr: str, kind: str, doc: str, rule: str = "positive") -> Key:
    """A key that must be there."""
    return Key(key, attr, kind, doc, is_needed=True, rule=rule)


def members_of(kind: str, *names: str) -> tuple[Member, ...]:
    """Members of one kind whose attributes are named as in the file."""
    return tuple(Member(name, name, kind) for name in names)

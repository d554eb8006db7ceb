"""The shape of a scenario file as its sections declare it: which keys a place may have, for paths and near names."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from planner.scenario.fields import LONG_FORM, FactOf, Quantity, Reader
from planner.scenario.section import Section


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value; a quantity may have the keys of its long form below it."""

    reader: Reader | None = None
    choices: tuple[str, ...] = ()

    @property
    def has_long_form(self) -> bool:
        return isinstance(self.reader, (FactOf, Quantity))


@dataclass(frozen=True, slots=True)
class Names:
    """A map with names that the user gives; each value has one shape."""

    each: Shape


@dataclass(frozen=True, slots=True)
class Items:
    """A list; each item has one shape."""

    each: Shape


@dataclass(frozen=True, slots=True)
class Fields:
    """A map with the keys of a section."""

    section: type[Section]

    @property
    def keys(self) -> dict[str, Shape]:
        return _fields(self.section)


Shape = Leaf | Names | Items | Fields


@cache
def _fields(section: type[Section]) -> dict[str, Shape]:
    """Key of the file -> shape; of two fields that read one key the structured one counts."""
    shapes: dict[str, Shape] = {}
    for name, field in section.model_fields.items():
        key = field.alias or name
        made = _shape(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)
        if key not in shapes or isinstance(shapes[key], Leaf):
            shapes[key] = made
    return shapes


def _shape(annotation: Any) -> Shape:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        reader = next((extra for extra in args[1:] if isinstance(extra, Reader)), None)
        return Leaf(reader) if reader else _shape(args[0])
    if origin in (Union, types.UnionType):
        return _shape(next(arg for arg in args if arg is not type(None)))
    if origin is dict:
        return Names(_shape(args[1]))
    if origin is tuple:
        return Items(_shape(args[0]))
    if origin is Literal:
        return Leaf(choices=tuple(str(arg) for arg in args))
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return Fields(annotation)
    return Leaf()


def below(shape: Shape, step: str | int) -> Shape | None:
    """The shape one step further down; None where no such step can be."""
    match shape:
        case Fields() if isinstance(step, str):
            return shape.keys.get(step)
        case Names() if isinstance(step, str):
            return shape.each
        case Items() if isinstance(step, int):
            return shape.each
        case Leaf() if shape.has_long_form and step in LONG_FORM:
            return Leaf()
    return None


def known(shape: Shape) -> tuple[str, ...]:
    """The keys that a place may have; none where names are free."""
    match shape:
        case Fields():
            return tuple(shape.keys)
        case Leaf() if shape.has_long_form:
            return LONG_FORM
    return ()


def facts(shape: Shape, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of quantities that stand in for facts, with `*` for free names and list items."""
    match shape:
        case Fields():
            for key, child in shape.keys.items():
                yield from facts(child, (*path, key))
        case Names() | Items():
            yield from facts(shape.each, (*path, "*"))
        case Leaf() if isinstance(shape.reader, FactOf):
            yield path

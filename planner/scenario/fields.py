"""The kinds of value a scenario holds, each reading the text of the file once.

Every plain YAML scalar arrives here as text. A reader returns the value in memory (SI, whole number, truth) or raises
with what is wrong and the way out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from planner import units
from planner.errors import near
from planner.facts.schema import GRADES, Alternative, Fact
from planner.scenario.section import Loc, Trouble, fault, idle, needs, shown, troubles

_MAX_NAME = 64


class Reader:
    """A kind of value: `read` makes it from the file's text, `json` describes it for editors."""

    def read(self, value: Any) -> Any:
        raise NotImplementedError

    def json(self) -> dict[str, Any]:
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return self.json()


@dataclass(frozen=True, slots=True)
class TextOf(Reader):
    """Text of at most `most` characters. Control characters are kept: who shows the text makes them harmless."""

    most: int = 2000
    noun: str = "text"

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise fault(f"{self.noun} is meant, not {shown(value)}", "write one word or one line")
        if not value.strip():
            raise fault(f"{self.noun} is empty", "write it, or take the key away")
        if len(value) > self.most:
            raise fault(f"{self.noun} of {len(value):,} characters", f"at most {self.most:,}")
        return value

    def json(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": self.most}


@dataclass(frozen=True, slots=True)
class NameOf(Reader):
    """The name of a class, pool, limit set, override or variant."""

    def read(self, value: Any) -> str:
        text = value if isinstance(value, str) else ""
        if not text or text != text.strip() or len(text) > _MAX_NAME or not text.isprintable():
            raise fault(
                f"{shown(value)} is no name",
                f"a name has 1 to {_MAX_NAME} visible characters and no space at its ends",
            )
        return text

    def json(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": _MAX_NAME}


@dataclass(frozen=True, slots=True)
class FlagOf(Reader):
    """`true` or `false`; nothing else, since `no` is also Norway."""

    def read(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if value in {"true", "True", "TRUE"}:
            return True
        if value in {"false", "False", "FALSE"}:
            return False
        raise fault(f"{shown(value)} is not true or false", "write true or false")

    def json(self) -> dict[str, Any]:
        return {"type": "boolean"}


_PLAIN = re.compile(r"[+-]?(\d[\d_]{0,39})?(\.\d{0,40})?([eE][+-]?\d{1,3})?", re.ASCII)


def _plain_number(value: Any, example: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise fault(f"a number is meant, not {shown(value)}", f"write a plain number such as {example}")
    text = str(value).strip()
    match = _PLAIN.fullmatch(text)
    if not match or not (match[1] or (match[2] and len(match[2]) > 1)):
        raise fault(f"{shown(text)} is not a number", f"write a plain number such as {example}")
    return Fraction(Decimal(text.replace("_", "")))


@dataclass(frozen=True, slots=True)
class Whole(Reader):
    """A whole number without a unit: counts, seeds, chips."""

    least: int = 1
    most: int = 1_000_000

    def read(self, value: Any) -> int:
        number = _plain_number(value, str(max(self.least, 1)))
        if number.denominator != 1:
            raise fault(f"{shown(value)} is not a whole number", f"write a count such as {max(self.least, 1)}")
        if not self.least <= number <= self.most:
            raise fault(f"{shown(value)} is out of range", f"from {self.least:,} to {self.most:,}")
        return int(number)

    def json(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of a number, in its unit in memory; `above` leaves its end out."""

    above: float | None = None
    least: float | None = None
    most: float | None = None

    def broken(self, value: float, kind: str) -> str:
        """What the range asks for, where `value` is outside it; else empty text."""
        if self.above is not None and value <= self.above:
            return f"above {units.format(self.above, kind)}"
        if self.least is not None and value < self.least:
            return f"at least {units.format(self.least, kind)}"
        if self.most is not None and value > self.most:
            return f"at most {units.format(self.most, kind)}"
        return ""


@dataclass(frozen=True, slots=True)
class Factor(Reader):
    """A plain number without a unit: scale, burstiness."""

    bounds: Bounds = Bounds(above=0.0, most=1e9)

    def read(self, value: Any) -> float:
        try:
            number = float(_plain_number(value, "2.5"))
        except OverflowError:
            raise fault(f"{shown(value)} is too large a number", "write one below 1e308") from None
        wanted = self.bounds.broken(number, "ratio")
        if wanted:
            raise fault(f"{shown(value)} is out of range", f"write a number {wanted}")
        return number

    def json(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "number"}
        if self.bounds.above is not None:
            schema["exclusiveMinimum"] = self.bounds.above
        if self.bounds.least is not None:
            schema["minimum"] = self.bounds.least
        if self.bounds.most is not None:
            schema["maximum"] = self.bounds.most
        return schema


_NUMBER_JSON = r"[+-]?[0-9][0-9_]*(\.[0-9]*)?([eE][+-]?[0-9]+)?"
LONG = "x-long-quantity"
"""Stands for the long form in a section's JSON Schema, until the whole schema has it as a definition."""
LONG_FORM = ("value", "low", "high", "default", "grade", "source", "note", "alternatives")
"""The keys of a quantity in its long form."""


@dataclass(frozen=True, slots=True)
class FactOf(Reader):
    """A quantity that stands in for a fact: text with a unit, or the long form with range and source."""

    kind: str
    bounds: Bounds = Bounds(least=0.0, most=1e18)

    def read(self, value: Any) -> Fact:
        if isinstance(value, Mapping):
            return _long(value, self)
        return self.given(self.number(value))

    def given(self, number: float | int, note: str = "") -> Fact:
        """A fact stated by the scenario; load adds its path."""
        return Fact.given(number, path="", note=note, kind=self.kind, unit=units.KINDS[self.kind].unit)

    def number(self, value: Any) -> float | int:
        """The quantity in the unit of its kind."""
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise fault(f"a quantity is meant, not {shown(value)}", f"such as {units.KINDS[self.kind].example}")
        try:
            number = units.number(str(value), self.kind)
        except units.UnitError as error:
            raise fault(error.what, error.way_out) from None
        wanted = self.bounds.broken(number, self.kind)
        if wanted:
            raise fault(f"{shown(value)} is out of range", f"write a quantity {wanted}")
        return number

    def json(self) -> dict[str, Any]:
        return _quantity_json(self.kind)


@dataclass(frozen=True, slots=True)
class Quantity(Reader):
    """A quantity that is asked for, not a fact: a limit, a length, a rate. The long form may say where it is from."""

    kind: str
    bounds: Bounds = Bounds(above=0.0, most=1e18)
    is_whole: bool = False
    bare_unit: str = ""
    """The unit of a plain number, for the few keys whose name says it (`chunk_tokens: 8192`)."""

    def read(self, value: Any) -> float | int:
        if self.bare_unit and isinstance(value, (str, int)) and _PLAIN.fullmatch(str(value).strip()):
            value = f"{value} {self.bare_unit}"
        fact = FactOf(self.kind, self.bounds)
        if isinstance(value, Mapping):
            number = _long(value, fact).used
            assert isinstance(number, (int, float))
        else:
            number = fact.number(value)
        if self.is_whole and number != int(number):
            raise fault(f"{shown(value)} is not whole", f"write a count such as {units.KINDS[self.kind].example}")
        return int(number) if self.is_whole else float(number)

    def json(self) -> dict[str, Any]:
        schema = _quantity_json(self.kind)
        return {"anyOf": [*schema["anyOf"], {"type": "integer"}]} if self.bare_unit else schema


def _trouble(loc: Loc, error: PydanticCustomError) -> Trouble:
    context = error.context or {}
    return Trouble(loc, str(context.get("what")), str(context.get("way_out")))


def _long(data: Mapping[str, Any], of: FactOf) -> Fact:
    """The fact that the long form of a quantity describes."""
    found = [
        Trouble((key,), f"unknown key {shown(key)}{near(str(key), LONG_FORM)}") for key in data if key not in LONG_FORM
    ]

    def number(loc: Loc, text: Any) -> float | int | None:
        if text is None:
            return None
        try:
            return of.number(text)
        except PydanticCustomError as error:
            found.append(_trouble(loc, error))
            return None

    value, low, high, default = (number((key,), data.get(key)) for key in ("value", "low", "high", "default"))
    grade = data.get("grade")
    if grade is not None and grade not in GRADES:
        found.append(Trouble(("grade",), f"unknown grade {shown(grade)}{near(str(grade), GRADES)}"))
    if grade == "undisclosed":
        found.extend(needs(data, ["default"], "an undisclosed value needs a default that stands in for it"))
        found.extend(idle(data, ["value"], "an undisclosed fact has no value: write default"))
    else:
        found.extend(needs(data, ["value"], "the long form of a quantity is {value, low, high, grade, source, note}"))
        found.extend(idle(data, ["default"], "default belongs to grade: undisclosed"))
    used = default if value is None else value
    if used is not None and not (used if low is None else low) <= used <= (used if high is None else high):
        found.append(Trouble((), "the value is outside its low..high", "low <= value <= high"))
    alternatives = _alternatives(data.get("alternatives", []), of, found)
    if found:
        raise troubles(found)
    assert used is not None
    given = of.given(used, str(data.get("note", "")))
    sources = data.get("source", [])
    sources = (sources,) if isinstance(sources, str) else tuple(str(s) for s in sources)
    return replace(
        given,
        value=value,
        default=default,
        low=low,
        high=high,
        grade=str(grade) if grade is not None else given.grade,
        source=sources or given.source,
        alternatives=alternatives,
    )


def _alternatives(rows: Any, of: FactOf, found: list[Trouble]) -> tuple[Alternative, ...]:
    if not isinstance(rows, (list, tuple)):
        found.append(Trouble(("alternatives",), "a list is meant", "write [{value, source, note}]"))
        return ()
    made = []
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping) or "value" not in row or set(row) - {"value", "source", "note"}:
            found.append(
                Trouble(
                    ("alternatives", i), "an alternative is {value, source, note}", "write those keys and no others"
                )
            )
            continue
        try:
            value = of.number(row["value"])
        except PydanticCustomError as error:
            found.append(_trouble(("alternatives", i, "value"), error))
            continue
        source = row.get("source", ())
        made.append(
            Alternative(
                value=value,
                source=(source,) if isinstance(source, str) else tuple(str(s) for s in source),
                note=str(row.get("note", "")),
            )
        )
    return tuple(made)


def _quantity_json(kind: str) -> dict[str, Any]:
    """The short form with one of the kind's units, a number where that is right, or the long form."""
    spec = units.KINDS[kind]
    names = "|".join(re.escape(unit) for unit in spec.units)
    pattern = rf"^\s*{_NUMBER_JSON}\s*({names}){'?' if spec.is_bare else ''}\s*$"
    forms: list[dict[str, Any]] = [{"type": "string", "pattern": pattern, "examples": [spec.example]}, {LONG: True}]
    return {"anyOf": [*forms, {"type": "number"}] if spec.is_bare else forms}


Text = Annotated[str, TextOf()]
Title = Annotated[str, TextOf(most=300, noun="a title")]
Name = Annotated[str, NameOf()]
Flag = Annotated[bool, FlagOf()]
Count = Annotated[int, Whole()]
Tokens = Annotated[int, Quantity("tokens", Bounds(least=1.0, most=1e9), is_whole=True)]
Seconds = Annotated[float, Quantity("time", Bounds(above=0.0, most=3.2e9))]
SecondsOrNone = Annotated[float, Quantity("time", Bounds(least=0.0, most=3.2e9))]
Share = Annotated[float, Quantity("frac", Bounds(least=0.0, most=1.0))]

"""`Section`, the base of a scenario's maps, and `Trouble`, one thing wrong inside one.

A section gathers the faults of its keys, values and laws, so that one report has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import InitErrorDetails, PydanticCustomError

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing wrong inside a section: where, relative to it, what, and the way out; load finds its line."""

    loc: Loc
    what: str
    way_out: str = ""


def troubles(found: Iterable[Trouble]) -> ValidationError:
    """The faults as pydantic's own error, so that they join those of other keys with their place kept."""
    return ValidationError.from_exception_data(
        "scenario",
        [
            InitErrorDetails(
                type=PydanticCustomError("scenario", "{what}", {"what": t.what, "way_out": t.way_out}),
                loc=t.loc,
                input=None,
            )
            for t in found
        ],
    )


class Section(BaseModel):
    """A map of the scenario: frozen, no unknown keys, all its faults reported together."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=False, arbitrary_types_allowed=True
    )

    @classmethod
    def expand(cls, data: Any) -> Any:
        """The long form of a short spelling (`300 tok` for a fixed length); anything else as it is."""
        return data

    @classmethod
    def rules(cls, data: Mapping[str, Any]) -> Iterator[Trouble]:
        """Faults that the keys alone show: what is missing, what has no effect beside what."""
        yield from ()

    def laws(self) -> Iterator[Trouble]:
        """Faults that the values show once each is right by itself."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        data = cls.expand(data)
        if not isinstance(data, Mapping):
            raise troubles([Trouble((), f"a map of keys is meant, not {shown(data)}", "write key: value lines")])
        found = list(cls.rules(data))
        lines: list[InitErrorDetails] = []
        made = None
        try:
            made = handler(data)
        except ValidationError as error:
            lines = _again(error)
            wrong = {line["loc"][0] for line in lines if line["loc"]}
            with suppress(ValidationError):  # the laws between the keys that are right
                made = handler({key: value for key, value in data.items() if key not in wrong})
        found.extend(made.laws() if made is not None else ())
        if found:
            lines.extend(_again(troubles(found)))
        if lines or made is None:
            raise ValidationError.from_exception_data("scenario", lines)
        return made


def _again(error: ValidationError) -> list[InitErrorDetails]:
    """The lines of a pydantic error, ready to be raised again."""
    again: list[InitErrorDetails] = []
    for line in error.errors(include_url=False):
        details = PydanticCustomError(line["type"], "{what}", {**line.get("ctx", {}), "what": line["msg"]})
        if line["type"] == "scenario":
            details = PydanticCustomError("scenario", "{what}", line["ctx"])
        again.append(InitErrorDetails(type=details, loc=line["loc"], input=line["input"]))
    return again


def needs(data: Mapping[str, Any], keys: Iterable[str], because: str) -> Iterator[Trouble]:
    """A fault for each key that is absent: `because` says what asks for it."""
    for key in keys:
        if key not in data:
            yield Trouble((), f"{key} is missing", because)


def idle(data: Mapping[str, Any], keys: Iterable[str], because: str) -> Iterator[Trouble]:
    """A fault for each key that stands there without effect: `because` says why."""
    for key in keys:
        if key in data:
            yield Trouble((key,), f"{key} has no effect here", because)


def shown(value: object) -> str:
    """A value of the file as messages quote it: short, without control characters."""
    if isinstance(value, Mapping):
        return "a map"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    text = "".join(c if c.isprintable() else " " for c in str(value)[:60])
    return f"'{text}'" if len(str(value)) <= 40 else f"'{text[:37]}...'"


def fault(what: str, way_out: str = "") -> PydanticCustomError:
    """The error of a single value, with the way out."""
    return PydanticCustomError("scenario", "{what}", {"what": what, "way_out": way_out})

"""One fact: a value with its range, grade, sources and what other sources say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from planner.errors import FactError, Fault

GRADES = ("measured", "vendor", "third-party", "estimate", "assumed", "undisclosed")
"""How a value is known, best first; an undisclosed fact has no value and a placeholder stands in."""

Scalar = float | int | str | bool | tuple[str, ...] | None
Group = dict[str, "Scalar | list[Scalar] | dict[str, Scalar]"]


@dataclass(frozen=True, slots=True)
class Alternative:
    """What another source says."""

    value: Scalar
    source: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value of the world in the unit of its kind (SI where it has a dimension), and how it is known."""

    value: Scalar | Group
    """None where it is not disclosed, or does not exist (no such hardware); a group of one source is a dict."""
    low: float | None = None
    high: float | None = None
    default: Scalar = None
    """The placeholder that stands in for an undisclosed value."""
    unit: str = ""
    """Unit in memory (`bytes_per_s`), or what is counted (`400G ports`)."""
    grade: str = "assumed"
    range_grade: str = ""
    """How the range and the placeholder of an undisclosed fact are known."""
    source: tuple[str, ...] = ()
    """Ids of `sources`."""
    note: str = ""
    alternatives: tuple[Alternative, ...] = ()
    path: str = ""
    """Where it lives: `chips.jalapeno.memory_bytes`."""
    kind: str = "text"
    """The kind of quantity (`units.KINDS`), or text, bool, date, texts, group."""
    replaces: str = field(default="", compare=False)
    """Grade of the catalogue fact that a scenario's value took the place of."""

    @property
    def used(self) -> Scalar | Group:
        """The value, or the placeholder of an undisclosed fact; None if there is neither."""
        return self.default if self.value is None else self.value

    @property
    def is_assumed(self) -> bool:
        """Nobody outside has said so: graded assumed or undisclosed."""
        return self.grade in {"assumed", "undisclosed"}

    @property
    def number(self) -> float:
        """The value in use as a number. Raises `FactError` if there is none."""
        used = self.used
        if isinstance(used, bool) or not isinstance(used, int | float):
            raise FactError(
                Fault("has no number to use", "give one in the scenario or in your own file", path=self.path)
            )
        return used

    @property
    def group(self) -> Group:
        """The members of a group fact."""
        if not isinstance(self.value, dict):
            raise FactError(Fault("is not a group of values", path=self.path))
        return self.value

    @classmethod
    def given(
        cls,
        value: Scalar,
        path: str,
        note: str = "",
        *,
        replaces: Fact | None = None,
        kind: str = "text",
        unit: str = "",
    ) -> Fact:
        """A value stated by a scenario without a source of its own, graded assumed; it remembers what it replaces."""
        if replaces is not None:
            kind, unit = replaces.kind, replaces.unit
        old = replaces.grade if replaces is not None else ""
        return cls(value, path=path, note=note, kind=kind, unit=unit, replaces=old)

    def times(self, factor: float, *, path: str, note: str) -> Fact:
        """The same fact about `factor` of the thing (a rack's memory from a tray's), range and placeholder included."""

        def grown(value: Scalar | Group) -> float | None:
            return value * factor if isinstance(value, int | float) and not isinstance(value, bool) else None

        return replace(
            self,
            value=grown(self.value),
            low=grown(self.low),
            high=grown(self.high),
            default=grown(self.default),
            alternatives=(),
            path=path,
            note=note,
        )

"""The sides of a comparison: variants of results, as they are named on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, ScenarioError, near

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["Side", "open_side", "shown", "sides_of"]


@dataclass(frozen=True, slots=True)
class Side:
    """One variant of a result."""

    label: str
    """As it was named: a folder, or FOLDER:VARIANT."""
    variant: str
    result: Result

    @property
    def tree(self) -> dict[str, Any]:
        """Its figures."""
        return self.result.variants[self.variant]


def open_side(text: str) -> Side | list[Side]:
    """The variant that `FOLDER` or `FOLDER:VARIANT` names, a folder or an address; all of several where it names none.

    Raises:
        ScenarioError: it is no result, or has no such variant. RunError: it is damaged, or of a later version.
    """
    from planner.aggregate.result import Result

    cuts = [ix for ix, char in enumerate(text) if char == ":"]
    cut = next((ix for ix in cuts if Path(text[:ix]).is_dir()), cuts[-1] if cuts else 0)  # a name may have colons
    folder, variant = text[:cut], text[cut + 1 :]
    if Path(text).exists() or not folder or variant.startswith("//"):  # `s3://bucket/run` names no variant
        result = Result.load(text)
        sides = [Side(f"{text}:{name}" if len(result.variants) > 1 else text, name, result) for name in result.variants]
        return sides if len(sides) > 1 else sides[0]
    result = Result.load(folder)
    if variant not in result.variants:
        raise ScenarioError(Fault(f"{folder} has no variant '{variant[:64]}'{near(variant[:64], result.variants)}"))
    return Side(text, variant, result)


def sides_of(of: Result | Side | str | Path, like: str | None = None) -> list[Side]:
    if isinstance(of, Side):
        return [of]
    if isinstance(of, str | Path):
        found = open_side(str(of))
        sides = found if isinstance(found, list) else [found]
    else:
        sides = [Side(name, name, of) for name in of.variants]
    if like is not None:
        sides = shown(sides)
    if like is not None and len(sides) > 1:
        sides = [side for side in sides if side.variant == like]
        if not sides:
            raise ScenarioError(
                Fault(f"'{of}' has several variants and none is named '{like}'", "write FOLDER:VARIANT")
            )
    return sides


def shown(sides: list[Side]) -> list[Side]:
    """Of the periods of a plan the one that is shown; other variants as they are."""
    plan = sides[0].result.plan
    if plan is None or len(sides) == 1:
        return sides
    return [side for side in sides if side.variant == plan["shown"]]

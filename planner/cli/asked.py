"""What is asked: the flags that name a scenario, its variants and values, once for every verb that takes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from planner.scenario import Scenario

F = TypeVar("F", bound=Callable[..., Any])

VARIANTS = click.option(
    "-s", "--scenario", "names", multiple=True, metavar="NAME", help="A variant of the file; repeatable."
)
ALL = click.option("--all", "is_all", is_flag=True, help="The base scenario and every variant.")


def one_variant(what: str = "A variant of the file [base].") -> Callable[[F], F]:
    """`-s NAME`, once."""
    return click.option("-s", "--scenario", "name", multiple=True, metavar="NAME", help=what, callback=_one)


def _one(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> str | None:
    if len(names) > 1:
        raise click.UsageError("one question at a time: name one variant with -s")
    return names[0] if names else None


def values(of: str = "the scenario") -> Callable[[F], F]:
    """`--set PATH=VALUE`."""
    return click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help=f"Set a value of {of}; repeatable.")


def seed(what: str = "First seed") -> Callable[[F], F]:
    """`--seed N`."""
    return click.option("--seed", type=click.IntRange(0, 2**63 - 1), help=f"{what}, in place of run.seed.")


@dataclass(frozen=True, slots=True)
class Asked:
    """A file, or - for stdin, and what is laid over it."""

    source: str
    names: tuple[str, ...]
    """Variants; the base scenario where there is none."""
    is_all: bool
    sets: tuple[str, ...]
    """Values, the seed among them."""

    @property
    def name(self) -> str | None:
        """The one variant that is meant, if it is not the base scenario."""
        return self.names[0] if self.names else None

    def load(self) -> list[Scenario]:
        """The variants that are meant, each with the values laid over it."""
        from planner.scenario import load_all

        return list(load_all(self.source, sets=self.sets, names=None if self.is_all else self.names or ("base",)))

    def load_one(self) -> Scenario:
        """The one scenario that is meant."""
        [scenario] = self.load()
        return scenario


def asks(
    *, several: bool = False, variant: str = "A variant of the file [base].", of: str = "the scenario"
) -> Callable[[F], F]:
    """Adds SCENARIO, `-s`, `--set` and `--seed` to a command, with `several` also `--all` and more than one `-s`; the
    command gets them as the keyword `asked`.
    """

    def wrap(function: F) -> F:
        @functools.wraps(function)
        def command(*args: Any, **kwargs: Any) -> Any:
            names = kwargs.pop("names", None)
            if names is None:
                name = kwargs.pop("name")
                names = (name,) if name else ()
            is_all, first_seed = kwargs.pop("is_all", False), kwargs.pop("seed")
            if is_all and names:
                what = "--all and -s exclude each other: --all takes the base scenario and every variant"
                raise click.UsageError(what)
            drawn = () if first_seed is None else (f"run.seed={first_seed}",)
            asked = Asked(kwargs.pop("scenario"), names, is_all, (*kwargs.pop("sets"), *drawn))
            return function(*args, asked=asked, **kwargs)

        options = [VARIANTS, ALL] if several else [one_variant(variant)]
        wrapped: Any = command
        for option in reversed([click.argument("scenario"), *options, values(of), seed()]):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return wrap
